"""`rsmq-tui events`: what happened to queues and servers while a dashboard watched them."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial

import click

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import Interrupts, run_interruptibly
from rsmq_tui.cli.options import complete_queues, json_option, server, wide
from rsmq_tui.cli.output import TextColumn, TextTable, print_json, say, wants_json
from rsmq_tui.cli.parsing import Command, Options, option, positive, span
from rsmq_tui.cli.servers import profiles_of
from rsmq_tui.events.model import Event
from rsmq_tui.events.store import FILE_NAME, LIMIT, EventStore, EventStoreError
from rsmq_tui.files import reason_of, state_folder
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor.text import cells, date_clock, printable, printable_name
from rsmq_tui.protocol.kinds import is_among, kind_of

_SINCE_MAX_MS = 100_000 * 86_400_000
_EVERY_S = 0.5
_NONE_YET = "no events yet: a dashboard records them while it runs"
_QUEUE_MAX, _SERVER_MAX = 20, 20
# Terminals of this width have room for all columns.
_FULL_FROM = 110
_NOTES = f"""\
A running dashboard, or `rsmq-tui watch`, records events: verdicts that change, with their reasons; queues that were
created, deleted or emptied, and whose attributes changed; servers that were lost, came back, restarted, failed over,
evicted keys or got other settings for their memory; maintenance windows; and the changes made from this machine. The
last {LIMIT:,} are kept, of all servers; -r and --profile select servers, without contacting them.

A filter consists of words, as for / on the dashboard. Each must be part of the queue's name, the server or the text, or
the beginning of the kind or severity; !word excludes."""


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=("", "--since 2h --filter 'stalled !test'", "--queue 'orders*' --follow --json"),
    statuses={0: "done", 2: "a usage error, or the log cannot be read", 130: "interrupted"},
)
@option("--follow", "also print new events as a dashboard records them, until Ctrl+C")
@option("--since SPAN", "only the last 90s, 10m, 2h, 1d", span(1, _SINCE_MAX_MS))
@option("--queue PATTERN", "only these queues; may be repeated", multiple=True, shell_complete=complete_queues)
@option("--filter EXPR", "only events that match these words")
@option("--limit N", "at most the last N, before --follow", positive, default="100")
@wide
@json_option
@server
def command(options: Options) -> int:
    """Print the events; raises ``UsageError``."""
    return run_interruptibly(lambda interrupts: _print(options, interrupts))


async def _print(options: Options, _: Interrupts) -> int:
    path = state_folder() / FILE_NAME
    is_wanted = partial(_is_wanted, options, _servers(options))
    show, last_id = _printer(options), 0
    store: EventStore | None = None
    try:
        if path.exists():
            store = EventStore(path)
            last_id = store.newest_id()
            since_ms = None if options.since is None else now_ms() - options.since
            narrows = options.queue or options.filter or options.redis_url or options.profile
            stored = store.last(LIMIT if narrows else options.limit, since_ms=since_ms)
            found = [one.event for one in stored if one.id <= last_id and is_wanted(one.event)]
            show(found[-options.limit :])
            if not (found or options.follow):
                say("no such events" if narrows or since_ms is not None else _NONE_YET)
        elif not options.follow:
            say(_NONE_YET)
        if options.follow:
            say(f"following {path}; Ctrl+C ends it")
        while options.follow:
            await asyncio.sleep(_EVERY_S)
            if store is not None and not store.is_in_place:
                store.close()
                store, last_id = None, 0
            if store is None and path.exists():
                store = EventStore(path)
            while store is not None and (news := store.after(last_id)):
                last_id = news[-1].id
                show(one.event for one in news if is_wanted(one.event))
    except (EventStoreError, OSError) as error:
        # One of the system that names no file is of the output.
        if isinstance(error, OSError) and error.filename is None:
            raise
        is_told = isinstance(error, EventStoreError)
        raise UsageError(str(error) if is_told else f"{path} cannot be read: {reason_of(error)}") from error
    finally:
        if store is not None:
            store.close()
    return 0


def _servers(options: Options) -> Set[str]:
    """Return the servers that the options name; empty for all, whatever is the default elsewhere."""
    is_named = options.redis_url is not None or options.profile
    return frozenset(profile.address.label for profile in profiles_of(options)) if is_named else frozenset()


def _is_wanted(options: Options, servers: Set[str], event: Event) -> bool:
    if servers and event.server not in servers:
        return False
    if options.queue and not _is_among(event, options.queue):
        return False
    return not options.filter or event.matches(options.filter)


def _is_among(event: Event, queues: Sequence[str]) -> bool:
    return event.queue is not None and is_among(event.queue, kind_of(event.ns), queues, ns=event.ns)


def _printer(options: Options) -> Callable[[Iterable[Event]], None]:
    """Return a function that prints events: as JSON lines, or as a table."""
    table: _EventTable | None = None

    def show(events: Iterable[Event]) -> None:
        nonlocal table
        found = list(events)
        if wants_json(options):
            for event in found:
                print_json(event.as_json())
        elif found:
            servers = {event.server for event in found}
            if table is None or not servers <= table.servers:
                # An event of another server: begin a new table, which names the server in each line.
                table = _EventTable(found, servers | (table.servers if table else set()), wide=options.wide)
            for event in found:
                table.print(event)
        sys.stdout.flush()

    return show


class _EventTable:
    """Prints events in columns; the last one gets the remaining width.

    A server is named if there are several. Severity and kind are left out on a narrow terminal.
    """

    def __init__(self, events: Iterable[Event], servers: set[str], *, wide: bool) -> None:
        self.servers = servers
        self._wide = wide
        self._is_full = wide or shutil.get_terminal_size().columns >= _FULL_FROM
        columns = [TextColumn("TIME UTC", 19 if self._is_full else 14)]
        if self._is_full:
            columns += [TextColumn("SEVERITY", 8), TextColumn("KIND", 10)]
        if self._names_server:
            columns.append(TextColumn("SERVER", self._width(servers, _SERVER_MAX)))
        columns += [
            TextColumn("QUEUE", self._width(["QUEUE", *map(_queue, events)], _QUEUE_MAX)),
            TextColumn("WHAT", 0),
        ]
        self._table = TextTable(*columns, wide=wide)

    def print(self, event: Event) -> None:
        """Print one event as one line."""
        when = date_clock(event.at_ms)
        values = [when, event.severity, event.kind] if self._is_full else [when.partition("-")[2]]
        if self._names_server:
            server = printable(event.server)
            # Servers often differ only in their ports, so the end is kept.
            values.append(server if self._wide or len(server) <= _SERVER_MAX else f"…{server[1 - _SERVER_MAX :]}")
        self._table.print(*values, _queue(event), event.text)

    @property
    def _names_server(self) -> bool:
        return self._wide or len(self.servers) > 1

    def _width(self, texts: Iterable[str], most: int) -> int:
        width = max(cells(printable(text)) for text in texts)
        return width if self._wide else min(width, most)


def _queue(event: Event) -> str:
    return "" if event.queue is None else printable_name(str(event.as_json()["queue"]))
