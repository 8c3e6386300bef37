"""`rsmq-tui known`: the queues whose trouble somebody has acknowledged."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from rsmq_tui.cli.errors import UsageError, refusing
from rsmq_tui.cli.options import json_option, queue_argument, reading
from rsmq_tui.cli.output import TextColumn, TextTable, print_json, say, wants_json
from rsmq_tui.cli.parsing import Group, Options, option
from rsmq_tui.cli.queue_names import queue_of
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.events.known import FILE_NAME, NOTE_MAX, UNTIL_OK, Known, KnownError, KnownStore, local_minute, read_until
from rsmq_tui.events.model import Event
from rsmq_tui.events.store import FILE_NAME as EVENTS_NAME
from rsmq_tui.events.store import EventStore, EventStoreError
from rsmq_tui.files import state_folder
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor.text import cells, printable
from rsmq_tui.protocol.kinds import Reference, kind_of

_NOTES = """\
Until a given time, or until the queue is ok, no alerts are sent for it, and the dashboard sorts it after the other
queues in trouble. Nothing is changed in Redis. The dashboards (key N) and `rsmq-tui watch` of a user share the list.

The command does not connect to the server: a name is not checked. What is acknowledged until it is ok ends as soon as
a dashboard or `watch` finds the queue ok."""


_STATUSES = {0: "done", 2: "a usage error, or the list cannot be read or written"}


@click.command(cls=Group, invoke_without_command=True, notes=_NOTES, statuses=_STATUSES)
@json_option
def command(options: Options) -> int:
    """Print them; raises ``UsageError``."""
    return _list(options)


@command.command(
    "list",
    help="print the acknowledged queues (the default command)",
    examples=("", "--json"),
    statuses=_STATUSES,
)
@option("--all", "also those that have ended, with their notes")
@json_option
def _list_command(options: Options) -> int:
    return _list(options)


@command.command(
    "add",
    help="acknowledge the trouble of a queue",
    examples=("orders --note 'consumer is being deployed' --until 2h", "list:mail --until 06:00"),
    statuses=_STATUSES,
)
@queue_argument
@option("--note TEXT", f"why alerts are not needed, at most {NOTE_MAX} characters", default="")
@option("--until T", "06:00 (the next time, local), 2031-05-19 09:00, 2h, or until it is ok", default=UNTIL_OK)
@reading
def _add_command(options: Options) -> int:
    at_ms = now_ms()
    if len(options.note) > NOTE_MAX:
        raise UsageError(f"--note has more than {NOTE_MAX} characters")
    try:
        until_ms = read_until(options.until, at_ms)
    except ValueError as error:
        raise UsageError(f"--until {error}") from error
    server_name, ns, queue = _queue(options)
    if "*" in queue:
        raise UsageError(f"{queue} is a pattern: name one queue; `ignore` in a profile takes patterns")
    known = Known(server_name, ns, queue, options.note, at_ms, until_ms)
    with _opened() as store:
        store.put(known)
    _record(known.event(at_ms))
    say(f"{_words(server_name, ns, queue)}: its trouble is acknowledged {known.until}")
    return 0


@command.command(
    "remove",
    help="end the acknowledgement of a queue; its note is kept",
    examples=("orders",),
    statuses=_STATUSES,
)
@queue_argument
@reading
def _remove_command(options: Options) -> int:
    server_name, ns, queue = _queue(options)
    at_ms = now_ms()
    for known in _read():
        if (known.server, known.ns, known.queue) == (server_name, ns, queue) and known.is_active:
            with _opened() as store:
                store.end(known, at_ms)
            _record(known.event(at_ms, "somebody ended it"))
            say(f"{_words(server_name, ns, queue)}: its trouble is no longer acknowledged")
            return 0
    raise UsageError(f"{_words(server_name, ns, queue)}: its trouble is not acknowledged")


def _queue(options: Options) -> tuple[str, str, str]:
    """Return the server, the namespace and the name of the queue; raises ``UsageError``."""
    named = queue_of(options.queue, options, profile_of(options))
    if not named.queue:
        raise UsageError("the name of the queue is empty")
    return named.place.server, named.place.ns, named.queue


def _words(server_name: str, ns: str, queue: str) -> str:
    """Name the queue with its namespace: a profile may have several, and no server is asked which of them has it."""
    within = f", ns {printable(ns)}" if kind_of(ns).has_namespaces else ""
    return f"{printable(queue)} on {server_name}{within}"


@contextmanager
def _opened() -> Iterator[KnownStore]:
    with refusing(KnownError), closing(KnownStore(state_folder() / FILE_NAME)) as store:
        yield store


def _read() -> list[Known]:
    """Return all that were ever acknowledged; reading alone creates no file."""
    if not (state_folder() / FILE_NAME).exists():
        return []
    with _opened() as store:
        return store.all()


def _record(event: Event) -> None:
    """Record an event; if the log cannot be written, the acknowledgement still applies."""
    try:
        with closing(EventStore(state_folder() / EVENTS_NAME)) as store:
            store.write([event])
    except EventStoreError as error:
        say(str(error))


def _list(options: Options) -> int:
    shown = _read()
    times_ms = [at_ms for known in shown for at_ms in (known.since_ms, known.until_ms) if at_ms is not None]
    # Names of zones differ in length, and one that is cut may be another: +05 and +0545.
    width = max((cells(local_minute(at_ms, zone=True)) for at_ms in times_ms), default=0)
    columns = (
        TextColumn("SINCE", width),
        TextColumn("UNTIL", width),
        TextColumn("SERVER", 24, drop=1),
        TextColumn("QUEUE", 20),
        TextColumn("NOTE", 0),
    )
    table = TextTable(*columns)
    for known in shown:
        if not (known.is_active or getattr(options, "all", False)):
            continue
        kind = kind_of(known.ns)
        queue = known.queue if kind.has_namespaces else Reference(kind, known.ns, known.queue).text
        if wants_json(options):
            print_json({**known._asdict(), "queue": queue})
            continue
        until = UNTIL_OK.removeprefix("until ") if known.until_ms is None else local_minute(known.until_ms, zone=True)
        end = until if known.is_active else "ended"
        table.print(local_minute(known.since_ms, zone=True), end, known.server, queue, known.note)
    if not any(known.is_active for known in shown) and not wants_json(options):
        say("no trouble is acknowledged now; rsmq-tui known add acknowledges that of a queue")
    return 0
