"""`rsmq-tui messages`: read, change and export the messages of a queue."""

import argparse
import codecs
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rsmq_tui.cli.changes import (
    EXIT_FAILED,
    QueueArgument,
    list_engine_of,
    make_change,
    queue_of,
    seeing_words,
    target_of,
    unsearched_words,
)
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.output import (
    Column,
    ProgressLine,
    Table,
    cells,
    fields_json,
    print_json,
    print_words,
    say,
    text_of,
    wants_json,
)
from rsmq_tui.cli.servers import list_reader_of, profile_of, reader_of
from rsmq_tui.monitor.filters.language import Filter, FilterError, parse_filter
from rsmq_tui.monitor.filters.search import INCOMPLETE, GroupingError, Groups, Progress, search
from rsmq_tui.monitor.list_poller import read_list_item, search_lists
from rsmq_tui.monitor.list_tracker import age_path
from rsmq_tui.monitor.peek import MessageRow, MessageState, MessageView, PeekError, read_message
from rsmq_tui.monitor.text import UNKNOWN, clock, count, duration, plural, printable, size
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import SERVER_ERRORS, QueueReader, RawMessage, failure_of, name_bytes
from rsmq_tui.triage.actions import (
    Ack,
    Action,
    Copy,
    Delete,
    Hide,
    Import,
    Move,
    Pop,
    Push,
    Redrive,
    Release,
    Requeue,
    Send,
    Trim,
)
from rsmq_tui.triage.errors import EXPECTED, explain
from rsmq_tui.triage.export import Exporting, whole_file
from rsmq_tui.triage.jsonl import to_fields
from rsmq_tui.triage.rsmq.export import Export
from rsmq_tui.triage.rsmq.preview import search_due_first
from rsmq_tui.triage.scope import Everything, Matching, Named, Scope, Seeing


class Look(Protocol):
    """A look into one queue; ``queue`` is its name and ``label`` its server's. Every method raises ``PeekError``."""

    queue: str
    label: str

    def search(self, wanted: Filter, limit: int | None) -> AsyncGenerator[Progress, None]:
        """Yield what matches; with a limit, those that a consumer would get first."""
        ...

    async def read(self, id: str) -> MessageView:
        """Read one message whole."""
        ...

    async def refuse_missing(self) -> None:
        """Raise ``UsageError`` where there is no such queue; to be asked when no message was found in it."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@asynccontextmanager
async def look_of(options: argparse.Namespace) -> AsyncIterator[Look]:
    """Give a look into the options' queue; what it cannot read becomes a ``UsageError``."""
    queue, is_list, profile = queue_of(options, profile_of(options))
    look: Look = ListLook(profile, queue) if is_list else RsmqLook(reader_of(profile), queue)
    try:
        yield look
    except PeekError as error:
        raise UsageError(f"{look.queue} on {look.label}: {error}") from error
    finally:
        await look.aclose()


class RsmqLook:
    """A look into a queue of RSMQ."""

    def __init__(self, reader: QueueReader, queue: str) -> None:
        self.queue, self.label = queue, reader.label
        self.reader = reader

    def search(self, wanted: Filter, limit: int | None) -> AsyncGenerator[Progress, None]:
        """Yield what matches: in no order, but with a limit those that are due first."""
        if limit is None:
            return search(self.reader, self.queue, wanted)
        return search_due_first(self.reader, self.queue, wanted, limit)

    async def read(self, id: str) -> MessageView:
        """Read one message whole."""
        return await read_message(self.reader, self.queue, id)

    async def refuse_missing(self) -> None:
        """Raise ``UsageError`` where no queue has that name."""
        try:
            index = await self.reader.rows.index()
        except SERVER_ERRORS as error:
            raise PeekError(f"{failure_of(error).sentence}: {failure_of(error).hint}") from error
        if self.queue not in index.names:
            hint = f"; a Redis List is written list:{self.queue}" if ":" in self.queue else ""
            raise UsageError(
                f"{self.queue} on {self.label}: no such queue in namespace {self.reader.ns}; "
                f"rsmq-tui queues list shows the existing queues{hint}"
            )

    async def aclose(self) -> None:
        """Close the connections."""
        await self.reader.aclose()


class ListLook:
    """A look into a list queue; an empty one is no key, and so never missing."""

    def __init__(self, profile: Profile, key: str) -> None:
        self._reader = list_reader_of(profile)
        self._age = None if profile.list_age is None else age_path(profile.list_age)
        self.queue, self.label = key, self._reader.label

    def search(self, wanted: Filter, limit: int | None) -> AsyncGenerator[Progress, None]:
        """Yield what matches."""
        return search_lists(self._reader, self.queue, wanted, limit=limit, age=self._age)

    async def read(self, id: str) -> MessageView:
        """Read one item whole."""
        return await read_list_item(self._reader, self.queue, id, age=self._age)

    async def refuse_missing(self) -> None:
        """Say that nothing is there, which is no error."""
        say(f"{printable(self.queue)} is empty now: Redis deletes a list with its last item")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._reader.aclose()


_AROUND_CHARS = 60


def filter_of(text: str | None, poison_rc: int) -> Filter:
    """Read a filter; None is every message. Raises ``UsageError`` with the place marked in a line of its own.

    ``poison_rc`` is the profile's: ``state:poison`` means the same here as on its screens.
    """
    try:
        return parse_filter(text or "", poison_rc)
    except FilterError as error:
        raise UsageError(f"{printable(error.message)}\n{_marked(error)}") from error


def _marked(error: FilterError) -> str:
    first = max(0, error.start - _AROUND_CHARS)
    last = min(len(error.text), error.start + _AROUND_CHARS)
    before = ("…" if first else "") + printable(error.text[first : error.start])
    wrong = printable(error.text[error.start : min(error.end, last)])
    after = printable(error.text[min(error.end, last) : last]) + ("…" if last < len(error.text) else "")
    return f"  {before}{wrong}{after}\n  {' ' * cells(before)}{'^' * max(1, cells(wrong))}"


_GROUPS = 50


def list_messages(options: argparse.Namespace) -> int:
    """Print what matches as it is found, or count it by groups; raises ``UsageError``."""
    return run_interruptibly(lambda _: _list(options))


def get_messages(options: argparse.Namespace) -> int:
    """Print messages whole; an id that is not there is exit status 1; raises ``UsageError``."""
    if options.raw and sys.stdout.isatty():
        raise UsageError("--raw prints bodies unchanged, escape sequences included: redirect it to a file, > FILE")
    return run_interruptibly(lambda _: _get(options))


async def _list(options: argparse.Namespace) -> int:
    wanted = filter_of(options.filter, profile_of(options).thresholds.poison_rc)
    groups = _groups_of(options.group_by)
    limit = options.limit if groups is None else None
    line = ProgressLine()
    printed = _as_json if wants_json(options) else _as_table()
    progress = None
    async with look_of(options) as look:
        async with aclosing(look.search(wanted, limit)) as found:
            async for progress in found:
                if groups is not None:
                    await groups.add_all(progress.messages, progress.at_ms)
                elif progress.messages:
                    line.clear()
                    printed(progress)
                    sys.stdout.flush()
                line.show(seeing_words(Seeing(progress.scanned, progress.depth, progress.matched)))
        line.clear()
        if progress is None or not progress.scanned:
            await look.refuse_missing()
    if groups is not None and progress is not None:
        _print_groups(options, groups, progress.at_ms)
    if progress is not None and progress.not_searched:
        say(unsearched_words(progress.not_searched))
    if progress is not None and progress.begun_anew:
        say(INCOMPLETE)
    if progress is not None and not wants_json(options):
        sys.stdout.flush()
        say(f"{plural(progress.matched, 'message')} of {progress.depth:,} in {look.queue}")
    return 0


def _groups_of(by: str | None) -> Groups | None:
    try:
        return None if by is None else Groups(by)
    except GroupingError as error:
        raise UsageError(f"--group-by {by}: {error}") from error


def _as_json(progress: Progress) -> None:
    for message, row in zip(progress.messages, progress.rows, strict=True):
        print_json(_fields(message, row, progress.at_ms))


def _fields(message: RawMessage, row: MessageRow, at_ms: int) -> dict[str, Any]:
    fields = to_fields(message, at_ms) | {"state": row.state.value, "size": message.size}
    return fields | {"too_long": True} if message.body is None and message.size else fields


def _as_table() -> Any:
    table = Table(
        Column("ID", 32),
        Column("STATE", 9),
        Column("DUE", 11, right=True),
        Column("AGE", 7, right=True),
        Column("RC", 4, right=True),
        Column("SIZE", 9, right=True),
        Column("BODY", 0),
    )

    def printed(progress: Progress) -> None:
        for row in progress.rows:
            age = UNKNOWN if row.sent_ms is None else duration(max(0, progress.at_ms - row.sent_ms))
            # A preview may end within a character.
            body = UNKNOWN if row.preview is None else codecs.utf_8_decode(row.preview, "surrogateescape", False)[0]
            values = row.id, row.state, _due(row, progress.at_ms), age, count(row.rc), size(row.size), body
            table.print(*values)

    return printed


def _due(row: MessageRow, at_ms: int) -> str:
    if row.due_ms is None and row.is_item:
        return "now" if row.state is MessageState.READY else UNKNOWN
    if row.due_ms is None:
        return "never"
    wait_ms = row.due_ms - at_ms
    return f"in {duration(wait_ms)}" if wait_ms > 0 else f"{duration(-wait_ms)} ago"


def _print_groups(options: argparse.Namespace, groups: Groups, at_ms: int) -> None:
    found = groups.top(options.limit or _GROUPS)
    if wants_json(options):
        for group in found:
            fields_json(group=group.label, count=group.count, bytes=group.bytes, oldest_age_ms=group.age_ms(at_ms))
        return
    table = Table(
        Column("MESSAGES", 12, right=True),
        Column("SHARE", 6, right=True),
        Column("BYTES", 10, right=True),
        Column("OLDEST", 8, right=True),
        Column(groups.by, 0),
    )
    for group in found:
        share = f"{group.count / groups.total:.1%}"
        table.print(f"{group.count:,}", share, size(group.bytes), duration(group.age_ms(at_ms)), group.label)


async def _get(options: argparse.Namespace) -> int:
    if bool(options.ids) == (options.filter is not None):
        raise UsageError("get takes either ids or --filter")
    if options.limit is not None and options.filter is None:
        raise UsageError("--limit needs --filter")
    wanted = filter_of(options.filter, profile_of(options).thresholds.poison_rc)
    status = 0
    async with look_of(options) as look:
        ids = options.ids or await _matching(look, wanted, options.limit)
        for id in ids:
            view = await look.read(id)
            if view.row is None:
                say(f"{look.queue} on {look.label}: no message {printable(id)}; it may have been deleted")
                status = EXIT_FAILED
                continue
            if view.body is None and view.size:
                say(f"{id}: its body of {size(view.size)} is too long to be read")
                status = EXIT_FAILED
            if options.raw:
                sys.stdout.buffer.write(view.body or b"")
            elif wants_json(options):
                print_json(_fields(_raw_of(view, view.row), view.row, view.at_ms))
            else:
                _print_whole(view, view.row)
            sys.stdout.flush()
    return status


async def _matching(look: Look, wanted: Filter, limit: int | None) -> list[str]:
    """Return the ids of what matches; says so where nothing does."""
    line, ids, progress = ProgressLine(), list[str](), None
    async with aclosing(look.search(wanted, limit)) as found:
        async for progress in found:
            ids += [row.id for row in progress.rows]
            line.show(seeing_words(Seeing(progress.scanned, progress.depth, progress.matched)))
    line.clear()
    if progress is None or not progress.scanned:
        await look.refuse_missing()
    elif not ids:
        say(f"no message of {look.queue} matches")
    if progress is not None and progress.not_searched:
        say(unsearched_words(progress.not_searched))
    if progress is not None and progress.begun_anew:
        say(INCOMPLETE)
    return ids


def _raw_of(view: MessageView, row: MessageRow) -> RawMessage:
    rc = b"%d" % row.rc if row.rc else None
    fr = None if row.fr_ms is None else b"%d" % row.fr_ms
    return RawMessage(name_bytes(row.id), row.score.encode(), rc, fr, view.size, view.body)


def _print_whole(view: MessageView, row: MessageRow) -> None:
    age = (
        UNKNOWN
        if row.sent_ms is None
        else f"{clock(row.sent_ms, date=True)} ({duration(view.at_ms - row.sent_ms)} ago)"
    )
    first = f", first {clock(row.fr_ms, date=True)}" if row.fr_ms is not None else ""
    print_words(f"id     {row.id}")
    print_words(f"state  {row.state}, due {_due(row, view.at_ms)}")
    print_words(f"sent   {age}")
    print_words(f"rc     {count(row.rc)}{first}")
    print_words(f"size   {size(view.size) if view.body is not None or view.size else 'no body'}")
    print()
    for line in text_of(view.body or b"").split("\n"):
        print_words(line)
    print()


def export_messages(options: argparse.Namespace) -> int:
    """Write what matches as lines of JSON and return the exit status; raises ``UsageError``."""
    wanted = filter_of(options.filter, profile_of(options).thresholds.poison_rc)
    return run_interruptibly(lambda _: _export(options, wanted))


async def _export(options: argparse.Namespace, wanted: Filter) -> int:
    line = ProgressLine()
    try:
        async with _exporting(options, wanted) as (look, exporting):
            with _output(options.output, force=options.force) as write:
                export = exporting(write)
                seen = 0
                async for seeing in export:
                    seen = max(seen, seeing.depth)
                    line.show(f"{seeing_words(seeing)}, {export.written:,} written; Ctrl+C cancels")
                if not seen and not export.written:
                    await look.refuse_missing()
    finally:
        line.clear()
    if export.unsearched:
        say(unsearched_words(export.unsearched))
    if export.cut:
        say(f"{plural(export.cut, 'message')} left out: the body is too long to be read")
    if export.gone:
        say(f"{plural(export.gone, 'message')} left out: deleted during the export")
    if export.is_incomplete:
        say(INCOMPLETE)
    if options.output != "-":
        say(f"{plural(export.written, 'message')} of {look.queue} in {options.output}")
    return EXIT_FAILED if export.cut else 0


@asynccontextmanager
async def _exporting(
    options: argparse.Namespace, wanted: Filter
) -> AsyncIterator[tuple[Look, Callable[[Callable[[str], object]], Exporting]]]:
    """Give a look into the queue, and what exports to a function that writes."""
    async with look_of(options) as look:
        if isinstance(look, RsmqLook):
            reader = look.reader
            yield look, lambda write: Export(reader, look.queue, wanted, write, options.limit)
            return
        engine = list_engine_of(profile_of(options))
        try:
            yield look, lambda write: engine.export(look.queue, Matching(wanted, options.limit), write)
        except EXPECTED as error:
            raise UsageError(f"{look.queue} on {look.label}: {explain(error)}") from error
        finally:
            await engine.aclose()


@contextmanager
def _output(name: str, *, force: bool) -> Iterator[Callable[[str], object]]:
    if name == "-":
        yield sys.stdout.write
        return
    try:
        with whole_file(Path(name), force=force) as write:
            yield write
    except BrokenPipeError:
        raise
    except FileExistsError as error:
        raise UsageError(f"{printable(name)} already exists: --force overwrites it") from error
    except OSError as error:
        raise UsageError(f"{printable(name)}: {error.strerror}") from error


_READS = {"list": list_messages, "get": get_messages, "export": export_messages}
_OF_LISTS = ("pop", "trim", "requeue", "ack")


def run(options: argparse.Namespace) -> int:
    """Run one of the commands and return its exit status; raises ``UsageError``."""
    read = _READS.get(options.action)
    if read is not None:
        return read(options)
    named = queue_of(options, profile_of(options))
    queue, is_list, profile = named
    if options.action in _OF_LISTS and not is_list:
        raise UsageError(f"{options.action} is for list queues: write list:KEY, or name the lists with --lists")
    make = partial(make_change, profile=profile, is_list=is_list)
    match options.action:
        case "send" if options.front:
            if not is_list:
                raise UsageError("--front is for list queues: RSMQ delivers the message that is due first")
            return make(options, Push(queue=queue, bodies=_bodies(options), delay_s=options.delay, first=True))
        case "send":
            return make(options, Send(queue=queue, bodies=_bodies(options), delay_s=options.delay))
        case "import":
            return make(options, Import(queue=queue, path=_file(options.file)))
        case "pop":
            return make(options, Pop(queue=queue, count=options.count))
        case "trim":
            return make(options, Trim(queue=queue, keep=options.keep, keep_oldest=options.oldest))
    if is_list and options.even_if_received:
        raise UsageError("--even-if-received is for queues of RSMQ: a list counts no receives")
    return make(options, _action(options, named), _scope(options))


def _action(options: argparse.Namespace, named: QueueArgument) -> Action:
    queue = named.queue
    match options.action:
        case "requeue":
            return Requeue(queue=queue, to_back=options.back)
        case "ack":
            return Ack(queue=queue)
        case "delete":
            return Delete(queue=queue)
        case "hide":
            return Hide(queue=queue, seconds=options.seconds)
        case "release":
            return Release(queue=queue)
        case "move":
            return Move(queue=queue, target=target_of(options.to, named), create=options.create)
        case "copy":
            return Copy(queue=queue, target=target_of(options.to, named), create=options.create)
    to = options.to and target_of(options.to, named)
    return Redrive(queue=queue, target=to, origin=options.origin)


def _scope(options: argparse.Namespace) -> Scope:
    if options.ids is not None:
        if options.limit is not None:
            raise UsageError("--limit needs --filter or --all, and cannot be combined with --id")
        return Named(tuple(dict.fromkeys(options.ids)), options.even_if_received)
    if options.filter is None:
        return Everything() if options.limit is None else Matching(parse_filter(""), options.limit)
    wanted = filter_of(options.filter, profile_of(options).thresholds.poison_rc)
    if wanted.is_empty:
        raise UsageError("the filter is empty and would match every message; use --all to select all messages")
    return Matching(wanted, options.limit, options.even_if_received)


def _bodies(options: argparse.Namespace) -> tuple[bytes, ...]:
    given = [options.bodies, options.files, options.lines]
    if sum(map(bool, given)) != 1:
        raise UsageError("send needs exactly one of: bodies, --file or --lines")
    if options.bodies == ["-"]:
        return (_content("-"),)
    if options.bodies:
        return tuple(map(os.fsencode, options.bodies))
    if options.files:
        return tuple(map(_content, options.files))
    return tuple(line for line in _content(options.lines).split(b"\n") if line)


def _content(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{printable(name)}: {error.strerror}") from error


def _file(name: str) -> Path:
    path = Path(name)
    # It is read twice: before the change, to count, and for it.
    if not path.is_file():
        why = "not a regular file" if path.exists() else "no such file"
        raise UsageError(f"{printable(name)}: {why}; import reads files written by `rsmq-tui messages export`")
    return path
