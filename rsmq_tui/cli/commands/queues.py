"""`rsmq-tui queues`: lists, creates, changes, purges and deletes queues."""

from collections.abc import Sequence

from rsmq_tui.cli.changes import QueueArgument, change_command
from rsmq_tui.cli.commands.snapshot import poll_all, queue_as_json
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.options import guarded, json_option
from rsmq_tui.cli.output import Column, Table, print_json, say, wants_json
from rsmq_tui.cli.parsing import Decorator, Options, group, option, several, whole_seconds
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.monitor import QueueState, Snapshot
from rsmq_tui.monitor.text import count, duration, seconds
from rsmq_tui.triage.actions import Action, CreateQueue, DeleteQueue, Purge, PurgeList, SetAttributes


def _attributes(vt: str | None = None, delay: str | None = None, maxsize: str | None = None) -> Decorator:
    return several(
        option("--vt T", "how long a received message stays hidden: 30, 10m", whole_seconds, default=vt),
        option("--delay T", "how long until a new message becomes visible: 30, 10m", whole_seconds, default=delay),
        option("--maxsize N", "longest body, 1024 to 65536, or -1 for no limit", int, default=maxsize),
    )


command = group(guarded)


@command.command("list", help="print all queues, worst first; as JSON, by name", examples=("",))
@json_option
@guarded
def _list_command(options: Options) -> int:
    return run_interruptibly(lambda _: _list(options))


@change_command(
    command,
    "create",
    "create a queue",
    _attributes("30", "0", "65536"),
    examples=("orders --vt 60 --maxsize -1 --yes",),
)
def _create(options: Options, named: QueueArgument) -> Action:
    _refuse_list(named, "create")
    return CreateQueue(queue=named.queue, vt=options.vt, delay=options.delay, maxsize=options.maxsize)


@change_command(
    command,
    "set",
    "change a queue's attributes",
    _attributes(),
    examples=("orders --vt 120 --yes",),
)
def _set(options: Options, named: QueueArgument) -> Action:
    _refuse_list(named, "set")
    return SetAttributes(queue=named.queue, vt=options.vt, delay=options.delay, maxsize=options.maxsize)


@change_command(command, "delete", "delete a queue and its messages", examples=("orders-test", "orders-test --yes"))
def _delete(_: Options, named: QueueArgument) -> Action:
    return DeleteQueue(queue=named.queue)


@change_command(
    command,
    "purge",
    "delete all messages of a queue",
    option("--processing", "of a list queue: also the processing list"),
    examples=("orders-test --yes", "list:queue:orders --processing --yes"),
)
def _purge(options: Options, named: QueueArgument) -> Action:
    if not options.processing:
        return Purge(queue=named.queue)
    if not named.kind.has_leases:
        raise UsageError("--processing is for list queues: write list:KEY")
    return PurgeList(queue=named.queue, processing=True)


def _refuse_list(named: QueueArgument, name: str) -> None:
    if name not in named.kind.actions:
        raise UsageError(f"{name} is for RSMQ queues: a list exists only while it holds items")


async def _list(options: Options) -> int:
    snapshots = await poll_all(profile_of(options))
    for snapshot in snapshots:
        failure = snapshot.link.failure
        if failure is not None:
            raise UsageError(f"cannot read {snapshot.server}: {failure.sentence}; {failure.hint}")
    if wants_json(options):
        for snapshot in snapshots:
            for queue in snapshot.queues:
                print_json(queue_as_json(queue, snapshot.at_ms))
    else:
        _print(snapshots)
    return 0


def _print(snapshots: Sequence[Snapshot]) -> None:
    table = Table(
        Column("VERDICT", 8),
        Column("READY", 11, right=True),
        Column("HIDDEN", 11, right=True),
        Column("DEPTH", 11, right=True),
        Column("WAITING", 7, right=True),
        Column("VT", 7, right=True),
        Column("DELAY", 7, right=True),
        Column("QUEUE", 0),
    )
    queues = [(queue, snapshot.at_ms) for snapshot in snapshots for queue in snapshot.queues]
    for queue, at_ms in sorted(queues, key=lambda pair: _trouble(pair[0])):
        counts = count(queue.ready), count(queue.hidden), count(queue.depth)
        waiting = duration(queue.ready_for_ms(at_ms))
        table.print(queue.verdict, *counts, waiting, seconds(queue.vt_s), seconds(queue.delay_s), queue.name)
    if not queues:
        first = snapshots[0]
        say(f"no queues in namespace {first.ns} on {first.server}; rsmq-tui queues create creates one")
    for note in (note for snapshot in snapshots for note in snapshot.notes):
        say(note)


def _trouble(queue: QueueState) -> tuple[int, int]:
    oldest_ms = queue.ready_since_ms
    return queue.verdict.rank, 1 << 62 if oldest_ms is None else oldest_ms
