"""`rsmq-tui queues`: lists, creates, changes, purges and deletes queues; `rsmq-tui who`: the clients of a queue."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from rsmq_tui.cli.changes import change_command
from rsmq_tui.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PREVIEW, UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.options import json_option, queue_argument, reading, with_read_only
from rsmq_tui.cli.output import (
    ProgressLine,
    TextColumn,
    TextTable,
    fields_json,
    is_terminal,
    print_json,
    print_table,
    print_words,
    queue_as_json,
    say,
    wants_json,
)
from rsmq_tui.cli.parsing import (
    POLL_STATUSES,
    Command,
    Decorator,
    Options,
    at_least,
    group,
    option,
    several,
    whole_seconds,
)
from rsmq_tui.cli.places import poll_all, say_notes, say_nothing_found, waiting
from rsmq_tui.cli.queue_names import QueueArgument, queue_of
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.monitor import PeekError, Snapshot
from rsmq_tui.monitor.poller import KnowsClients, KnowsWaiters, Waiters
from rsmq_tui.monitor.text import count, duration, printable_name, printable_ns, seconds
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.protocol.server.clients import COST, SECONDS_MAX, QueueClients
from rsmq_tui.triage.actions import Action, CreateQueue, DeleteQueue, Purge, PurgeList, SetAttributes, reference


def _attributes(vt: str | None = None, delay: str | None = None, maxsize: str | None = None) -> Decorator:
    return several(
        option("--vt T", "how long a received message stays hidden: 30, 10m", whole_seconds, default=vt),
        option("--delay T", "how long until a new message becomes visible: 30, 10m", whole_seconds, default=delay),
        option("--maxsize N", "longest body, 1024 to 65536, or -1 for no limit", int, default=maxsize),
    )


command = group(with_read_only)


@command.command("list", help="print all queues, worst first; as JSON, by name", examples=("",), statuses=POLL_STATUSES)
@json_option
@with_read_only
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
    profile = profile_of(options)
    snapshots = await poll_all(profile)
    for snapshot in snapshots:
        failure = snapshot.connection.failure
        if failure is not None:
            raise UsageError(f"cannot read {snapshot.server}: {failure.words}")
    if wants_json(options):
        for snapshot in snapshots:
            for queue in snapshot.queues:
                print_json({"ns": snapshot.ns, **queue_as_json(queue, snapshot.at_ms, profile)})
    else:
        _print(snapshots)
    sys.stdout.flush()
    status = say_notes(snapshots)
    say_nothing_found(snapshots)
    return status


def _print(snapshots: Sequence[Snapshot]) -> None:
    namespaces = {snapshot.ns for snapshot in snapshots if kind_of(snapshot.ns).has_namespaces}
    titles = ("VERDICT", "READY", "HIDDEN", "DEPTH", "WAITING", "VT", "DELAY")
    rows = []
    queues = [(queue, snapshot) for snapshot in snapshots for queue in snapshot.queues]
    for queue, snapshot in sorted(queues, key=lambda pair: pair[0].trouble()):
        counts = count(queue.ready), count(queue.hidden), count(queue.depth)
        times = duration(queue.waiting_ms(snapshot.at_ms)), seconds(queue.vt_s), seconds(queue.delay_s)
        name = printable_name(queue.name)
        names = (printable_ns(snapshot.ns), name) if len(namespaces) > 1 else (name,)
        rows.append((queue.verdict.value, *counts, *times, *names))
    place = ("NAMESPACE",) if len(namespaces) > 1 else ()
    print_table((*titles, *place, "QUEUE"), rows, right=range(1, len(titles)))


_WHO_NOTES = f"""\
It watches the commands of all clients for a moment, and counts what each does to the queue: receives, deletes, sends,
and attempts to receive, with or without success. {COST} So it needs --yes, or a yes at the prompt.

Without that, or if the server refuses MONITOR, it lists all clients of the database by name, library and last
command: a guess. MONITOR shows no replies: each receive from a list and each delete counts, whatever it found."""


@click.command(
    cls=Command,
    notes=_WHO_NOTES,
    examples=("orders", "orders --yes --json", "list:queue:mail --for 0.5 --yes"),
    statuses={
        0: "watched", 1: "the server refuses MONITOR: only a guess", 2: "a usage error, or the server cannot be read",
        3: "not watched, without --yes: only a guess", 130: "interrupted",
    },
)  # fmt: skip
@queue_argument
@option(
    "--for --seconds T",
    f"how long to watch, {SECONDS_MAX:g} at most: 0.5, 500ms",
    at_least(0.1, SECONDS_MAX),
    name="seconds",
    default=f"{SECONDS_MAX:g}",
)
@option("--yes", "watch the commands of all clients, without a prompt")
@json_option
@reading
def who(options: Options) -> int:
    """Print who works on a queue; raises ``UsageError``."""
    named = queue_of(options.queue, options, profile_of(options))
    is_agreed: bool = options.yes
    if not is_agreed and is_terminal(sys.stdin) and sys.stdout.isatty():
        say(COST)
        try:
            is_agreed = click.confirm("Watch?", err=True)
        except click.Abort:
            return EXIT_INTERRUPTED
    return run_interruptibly(lambda _: _who(options, named, options.seconds if is_agreed else None))


async def _who(options: Options, named: QueueArgument, watched_s: float | None) -> int:
    place, queue = named.place, named.queue
    try:
        source = place.source
        # The clients are watched in silence, so this asks for all else.
        async with waiting(ProgressLine(), [place.server]):
            try:
                await place.refuse_missing(queue)
            except UsageError as error:
                # Consumers can wait for a list that does not exist yet.
                if not place.kind.can_block:
                    raise
                say(str(error))
            if not isinstance(source, KnowsClients):
                raise UsageError(f"it is not known who works on {place.kind.label or named.queue}")
            waiters = await source.blocked(queue) if isinstance(source, KnowsWaiters) else None
        found = await source.clients(queue, seconds=watched_s)
    except PeekError as error:
        raise UsageError(f"{place.server}: {error}") from error
    finally:
        await place.aclose()
    if wants_json(options):
        fields_json(queue=reference(queue, place.ns), server=place.server, ns=place.ns, **_who_fields(found, waiters))
    else:
        _print_clients(found, waiters)
    if watched_s is None:
        say("not watched: --yes watches the commands of all clients")
        return EXIT_PREVIEW
    return EXIT_FAILED if found.ended is None else 0


def _who_fields(found: QueueClients, waiters: Waiters | None) -> dict[str, Any]:
    is_watched = found.ended is not None
    groups = None if found.groups is None else [group._asdict() for group in found.groups]
    return {
        "watched": is_watched,
        "refused": found.refused,
        "ended": found.ended,
        "span_ms": found.span_ms,
        "commands": found.commands,
        "from_ms": None if found.from_us is None else found.from_us // 1000,
        "to_ms": None if found.to_us is None else found.to_us // 1000,
        "clients": [asdict(client) for client in found.activities] if is_watched else None,
        "groups": groups,
        **({} if waiters is None else {"blocked": waiters._asdict()}),
    }


def _print_clients(found: QueueClients, waiters: Waiters | None) -> None:
    print_words(f"{found.sentence[:1].upper()}{found.sentence[1:]}.")
    if waiters is not None:
        here = (
            "unknown how many of them on this one" if waiters.here is None else f"{waiters.here:,} of them on this one"
        )
        print_words(f"Blocked on lists of this server: {waiters.anywhere:,}; {here}.")
    if found.ended is not None:
        table = TextTable(
            *(TextColumn(title, 8, right=True) for title in ("RECEIVES", "DELETES", "SENDS")),
            TextColumn("CALLS", 8, right=True, drop=1), TextColumn("ADDRESS", 21), TextColumn("LIBRARY", 20, drop=2),
            TextColumn("NAME", 0),
        )  # fmt: skip
        for client in found.activities:
            numbers = map(count, (client.receives, client.deletes, client.sends, client.calls))
            table.print(*numbers, client.address, client.library, client.name)
        if not found.activities:
            say("no client used this queue meanwhile")
        return
    groups = TextTable(
        TextColumn("CLIENTS", 8, right=True), TextColumn("IDLE", 7, right=True, drop=1), TextColumn("NAME", 24),
        TextColumn("LIBRARY", 20, drop=2), TextColumn("LAST COMMAND", 0),
    )  # fmt: skip
    for group_ in found.groups or ():
        idle = duration(group_.idle_s * 1000)
        groups.print(count(group_.clients), idle, group_.name, group_.library, group_.command)
