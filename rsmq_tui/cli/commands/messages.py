"""`rsmq-tui messages`: read, change and export the messages of a queue."""

import codecs
import errno
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from rsmq_tui.cli.changes import Build, change_command, progress_words, unsearched_words
from rsmq_tui.cli.errors import EXIT_FAILED, UsageError
from rsmq_tui.cli.filters import BY_FILTER, filter_of, filter_option
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.options import complete_queues, json_option, queue_argument, with_read_only
from rsmq_tui.cli.output import (
    ProgressLine,
    TextColumn,
    TextTable,
    due_words,
    fields_json,
    print_body,
    print_json,
    print_words,
    say,
    wants_json,
    write_text,
)
from rsmq_tui.cli.parsing import (
    READ_STATUSES,
    Decorator,
    OneOf,
    Options,
    group,
    natural,
    option,
    positive,
    several,
    whole_seconds,
)
from rsmq_tui.cli.program import UNWRITABLE
from rsmq_tui.cli.queue_names import QueueArgument, queues_of, target_of
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.files import reason_of, whole_file
from rsmq_tui.monitor.filters.language import Filter, is_pattern, parse_filter
from rsmq_tui.monitor.filters.search import INCOMPLETE, GroupingError, MessageGroups, SearchProgress
from rsmq_tui.monitor.messages.decoding import Decoded, decode
from rsmq_tui.monitor.messages.peek import MessageRow, MessageView
from rsmq_tui.monitor.poller import ReadsLong
from rsmq_tui.monitor.text import SENTENCE_MAX, UNKNOWN, clock, count, duration, plural, printable, printable_name, size
from rsmq_tui.protocol import RawMessage, name_bytes
from rsmq_tui.protocol.kinds import LIST, RSMQ
from rsmq_tui.triage import actions
from rsmq_tui.triage.actions import Action
from rsmq_tui.triage.errors import EXPECTED, explain
from rsmq_tui.triage.export import Exported
from rsmq_tui.triage.jsonl import to_fields, write_named
from rsmq_tui.triage.scope import Everything, Matching, Named, ScanProgress, Scope

_WHICH = OneOf(required=True)


_filtered = several(
    filter_option(),
    option("--limit N", "at most N messages: those due first; of a list queue, those taken next", positive),
)
_scoped = several(
    filter_option(_WHICH),
    option("--id ID...", "messages with these ids", name="ids", many=True, one_of=_WHICH),
    option("--all", "every message of the queue", one_of=_WHICH),
    option(
        "--limit N",
        "at most N messages: those due first, for release among the hidden ones; of a list queue, those taken "
        "next, or with --filter any that match",
        positive,
    ),
    option(
        "--even-if-received",
        "include messages received or changed after they were counted; only those that have left the queue are skipped",
    ),
)
_to = several(
    option(
        "--to QUEUE",
        "the target queue: QUEUE, or list:KEY for a list queue; from a list queue, rsmq:QUEUE (or rsmq:NS/QUEUE) "
        "is an RSMQ queue",
        name="target",
        required=True,
        shell_complete=complete_queues,
    ),
    option("--create", "create the queue if it is missing, with the same attributes; a list needs no --create"),
)


command = group(with_read_only)


@contextmanager
def _reading(named: QueueArgument) -> Iterator[None]:
    """Turn errors of reading a queue into ``UsageError``."""
    try:
        yield
    except EXPECTED as error:
        # Errors of writing to stdout are not errors of the server.
        if isinstance(error, OSError) and error.errno in (errno.EPIPE, *UNWRITABLE):
            raise
        raise UsageError(f"{printable_name(named.queue)} on {named.place.server}: {explain(error)}") from error


class _Queues:
    """Reads one queue after another, and counts the matches; ``is_several`` if they match a pattern.

    Of several queues, one that cannot be read is reported, and the others are read.
    """

    def __init__(self, options: Options, queues: Sequence[QueueArgument], limit: int | None) -> None:
        self.is_several = is_pattern(options.queue)
        self.matched = self.depth = self.found_in = 0
        self.status = 0
        self._queues = queues
        self._limit = limit

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def id_length(self) -> int:
        """The usual length of the longest ids."""
        return max((named.kind.id_length for named in self._queues), default=0)

    @property
    def limit(self) -> int | None:
        """How many more messages may be found."""
        return None if self._limit is None else self._limit - self.matched

    async def each(self, read: Callable[[QueueArgument], Awaitable[tuple[int, int]]]) -> None:
        """Call ``read`` with each queue, until the limit is reached; it returns how many matched, of how many."""
        for named in self._queues:
            if self.limit == 0:
                return
            try:
                with _reading(named):
                    matched, depth = await read(named)
            except UsageError as error:
                if not self.is_several:
                    raise
                say(str(error))
                self.status = EXIT_FAILED
                continue
            self.matched, self.depth = self.matched + matched, self.depth + depth
            self.found_in += matched > 0


_GROUPS = 50
_INSTEAD = OneOf()


@command.command(
    "list",
    help="print the messages that match, as they are found",
    examples=(
        "orders",
        "orders --filter 'state:ready age>10m' --limit 20",
        "orders --group-by json.type",
        "orders --filter 'rc>=5' --json | jq .body",
        "'*' --filter json.customer.id=4711",
        "'orders-*' --filter state:poison --count",
    ),
    sections=BY_FILTER,
    statuses=READ_STATUSES | {1: "one of several queues could not be read"},
)
@queue_argument
@_filtered
@option("--group-by BY", "count the messages instead: by shape, or by a JSON field such as json.type", one_of=_INSTEAD)
@option("--count", "print only how many messages match in each queue", one_of=_INSTEAD)
@json_option
@with_read_only
def _list_command(options: Options) -> int:
    return run_interruptibly(lambda _: _list(options))


@command.command(
    "get",
    help="print whole messages, by id or filter",
    examples=(
        "orders hoco5b5x55Dc9r4FfmKqsaDQEYVAbYLN",
        "orders --filter 'rc>=5' --limit 1",
        "orders ID --raw > body.bin",
        "orders ID --decode",
    ),
    sections=BY_FILTER,
    statuses=READ_STATUSES | {1: "a message was not found, or one of several queues could not be read"},
)
@queue_argument
@click.argument("ids", nargs=-1, metavar="[ID]...")
@option(
    "--id ID...", "messages with these ids, as for changes; or name them after the queue", name="more_ids", many=True
)
@_filtered
@option("--raw", "print only the bodies, byte for byte")
@option("--decode", "decode bodies, and name the layers: gzip, zlib, zstd, MessagePack, base64, JSON in strings")
@json_option
@with_read_only
def _get_command(options: Options) -> int:
    options.ids += options.more_ids
    if options.raw and sys.stdout.isatty():
        raise UsageError("--raw prints bodies unchanged, escape sequences included: redirect it to a file, > FILE")
    return run_interruptibly(lambda _: _get(options))


async def _list(options: Options) -> int:
    wanted = filter_of(options)
    groups = _groups_of(options.group_by)
    line = ProgressLine()
    counts = TextTable(
        TextColumn("MATCHES", 12, right=True), TextColumn("DEPTH", 12, right=True), TextColumn("QUEUE", 0)
    )
    async with queues_of(options.queue, options, profile_of(options), line) as found:
        queues = _Queues(options, found, None if groups is not None or options.count else options.limit)
        printed = _as_json(is_named=queues.is_several) if wants_json(options) else _as_table(queues)
        at_ms = 0

        async def read(named: QueueArgument) -> tuple[int, int]:
            nonlocal at_ms
            progress = None
            async with aclosing(_search(named, wanted, queues, line)) as parts:
                async for progress in parts:
                    if groups is not None:
                        await groups.add_all(progress.messages, progress.at_ms)
                    elif progress.messages and not options.count:
                        printed(named, progress)
                        sys.stdout.flush()
            if progress is None:
                return 0, 0
            at_ms = max(at_ms, progress.at_ms)
            if options.count:
                if progress.matched or progress.not_searched or not queues.is_several:
                    _print_count(options, counts, named, progress)
            elif not wants_json(options) and (progress.matched or not queues.is_several):
                sys.stdout.flush()
                say(f"{plural(progress.matched, 'message')} of {progress.depth:,} in {printable(named.reference)}")
            return progress.matched, progress.depth

        await queues.each(read)
    if groups is not None:
        _print_groups(options, groups, at_ms)
    # JSON of no message is an empty output, which could be taken for a command that did nothing.
    if queues.is_several and not (queues.matched and wants_json(options)):
        sys.stdout.flush()
        where = f"in {queues.found_in:,} of {plural(len(queues), 'queue')}"
        say(f"{plural(queues.matched, 'message')} of {queues.depth:,} {where}")
    return queues.status


async def _search(
    named: QueueArgument, wanted: Filter, queues: _Queues, line: ProgressLine
) -> AsyncGenerator[SearchProgress, None]:
    """Yield the parts of a search of one queue; show the progress, and print what could not be read."""
    (queue, place), progress = named, None
    async with aclosing(place.source.search(queue, wanted, queues.limit)) as parts:
        async for progress in parts:
            yield progress
            words = progress_words(ScanProgress(progress.scanned, progress.depth, progress.matched))
            line.show(f"{printable(queue, 60)}: {words}" if queues.is_several else words)
    if (progress is None or not progress.scanned) and not queues.is_several:
        await place.refuse_missing(queue)
    if progress is not None and progress.not_searched:
        say(unsearched_words(progress.not_searched, named.reference if queues.is_several else None))
    if progress is not None and progress.restarts:
        say(INCOMPLETE)


def _print_count(options: Options, table: TextTable, named: QueueArgument, progress: SearchProgress) -> None:
    if wants_json(options):
        fields_json(
            queue=named.reference,
            matched=progress.matched,
            depth=progress.depth,
            not_searched=progress.not_searched,
        )
    else:
        table.print(f"{progress.matched:,}", f"{progress.depth:,}", named.reference)


def _groups_of(by: str | None) -> MessageGroups | None:
    try:
        return None if by is None else MessageGroups(by)
    except GroupingError as error:
        raise UsageError(f"--group-by {by}: {error}") from error


_Printed = Callable[[QueueArgument, SearchProgress], None]


def _as_json(*, is_named: bool) -> _Printed:
    def printed(named: QueueArgument, progress: SearchProgress) -> None:
        queue = {"queue": named.reference} if is_named else {}
        for message, row in zip(progress.messages, progress.rows, strict=True):
            print_json(queue | _fields(message, row, progress.at_ms))

    return printed


def _fields(message: RawMessage, row: MessageRow, at_ms: int) -> dict[str, Any]:
    fields = to_fields(message, at_ms) | {"state": row.state.value, "size": message.size}
    return fields | {"too_long": True} if message.body is None and message.size else fields


def _as_table(queues: _Queues) -> _Printed:
    name = [TextColumn("QUEUE", 16)] if queues.is_several else []
    table = TextTable(
        *name,
        TextColumn("ID", queues.id_length),
        TextColumn("STATE", 9),
        TextColumn("DUE", 11, right=True, drop=2),
        TextColumn("AGE", 7, right=True, drop=4),
        TextColumn("RC", 4, right=True, drop=1),
        TextColumn("SIZE", 9, right=True, drop=3),
        TextColumn("BODY", 0),
    )

    def printed(named: QueueArgument, progress: SearchProgress) -> None:
        for row in progress.rows:
            age = UNKNOWN if row.sent_ms is None else duration(max(0, progress.at_ms - row.sent_ms))
            values = row.id, row.state, due_words(row, progress.at_ms), age, count(row.rc), size(row.size), _body(row)
            table.print(*([named.reference] if queues.is_several else []), *values)

    return printed


def _body(row: MessageRow) -> str:
    if row.preview is None:
        return UNKNOWN
    if not row.preview and row.size:
        return f"{size(row.size)}: get ID --raw reads it"
    # A preview may end within a character.
    return codecs.utf_8_decode(row.preview, "surrogateescape", False)[0]


def _print_groups(options: Options, groups: MessageGroups, at_ms: int) -> None:
    found = groups.top(options.limit or _GROUPS)
    if wants_json(options):
        for group in found:
            fields_json(group=group.label, count=group.count, bytes=group.bytes, oldest_age_ms=group.age_ms(at_ms))
        return
    table = TextTable(
        TextColumn("MESSAGES", 12, right=True),
        TextColumn("SHARE", 6, right=True),
        TextColumn("BYTES", 10, right=True),
        TextColumn("OLDEST", 8, right=True),
        TextColumn(groups.by, 0),
    )
    for group in found:
        share = f"{group.count / groups.total:.1%}"
        table.print(f"{group.count:,}", share, size(group.bytes), duration(group.age_ms(at_ms)), group.label)


async def _get(options: Options) -> int:
    if bool(options.ids) == (options.filter is not None):
        raise UsageError("get takes either ids or --filter")
    if options.limit is not None and options.filter is None:
        raise UsageError("--limit needs --filter")
    if options.ids and is_pattern(options.queue):
        raise UsageError("ids are of one queue: with a pattern of queues, use --filter")
    wanted = filter_of(options)
    line = ProgressLine()
    async with queues_of(options.queue, options, profile_of(options), line) as found:
        queues = _Queues(options, found, options.limit)

        async def read(named: QueueArgument) -> tuple[int, int]:
            ids = options.ids or await _matching(named, wanted, queues, line)
            for id in ids:
                view = await _view(options, named, id)
                if view.row is None and id == ids[0]:
                    # The queue may not exist either.
                    await named.place.refuse_missing(named.queue)
                if not _print_message(options, named, id, view, is_named=queues.is_several):
                    queues.status = EXIT_FAILED
            return len(ids), 0

        await queues.each(read)
    return queues.status


async def _view(options: Options, named: QueueArgument, id: str) -> MessageView:
    queue, place = named
    view = await place.source.read(queue, id)
    if options.raw and view.body is None and view.size and isinstance(place.source, ReadsLong):
        return await place.source.read_long(queue, view, lambda _: None)
    return view


def _print_message(options: Options, named: QueueArgument, id: str, view: MessageView, *, is_named: bool) -> bool:
    """Print one whole message; False if it is not there, or its body is too long."""
    queue, place = named
    if view.row is None:
        which = printable(id, SENTENCE_MAX)
        say(f"{printable_name(queue)} on {place.server}: no {place.kind.noun} {which}; it may have been deleted")
        return False
    is_whole = view.body is not None or not view.size
    if not is_whole:
        say(f"{id}: its body of {size(view.size)} is too long to be read; get ID --raw reads it")
    decoded = decode(view.body) if options.decode and view.body is not None else Decoded(view.body or b"")
    if decoded.problem:
        say(f"{id}: {decoded.problem}")
    if options.raw:
        ProgressLine.make_room()
        sys.stdout.buffer.write(decoded.data)
    elif wants_json(options):
        label = {"queue": named.reference} if is_named else {}
        shown = view if view.body is None else replace(view, body=decoded.data)
        layers = {"decoded": decoded.layers} if options.decode else {}
        print_json(label | _fields(_raw_of(shown, view.row), view.row, view.at_ms) | layers)
    else:
        if is_named:
            print_words(f"queue  {named.reference}")
        _print_whole(view, view.row, decoded)
    sys.stdout.flush()
    return is_whole


async def _matching(named: QueueArgument, wanted: Filter, queues: _Queues, line: ProgressLine) -> list[str]:
    """Return the ids of the matches; prints a sentence if nothing in a single queue matches."""
    ids, progress = list[str](), None
    async with aclosing(_search(named, wanted, queues, line)) as parts:
        async for progress in parts:
            ids += [row.id for row in progress.rows]
    if progress is not None and progress.scanned and not ids and not queues.is_several:
        say(f"no message of {named.queue} matches")
    return ids


def _raw_of(view: MessageView, row: MessageRow) -> RawMessage:
    rc = b"%d" % row.rc if row.rc else None
    fr = None if row.fr_ms is None else b"%d" % row.fr_ms
    return RawMessage(name_bytes(row.id), row.score.encode(), rc, fr, view.size, view.body)


def _print_whole(view: MessageView, row: MessageRow, decoded: Decoded) -> None:
    age = (
        UNKNOWN
        if row.sent_ms is None
        else f"{clock(row.sent_ms, date=True, zone=True)} ({duration(view.at_ms - row.sent_ms)} ago)"
    )
    first = f", first {clock(row.fr_ms, date=True, zone=True)}" if row.fr_ms is not None else ""
    print_words(f"id     {row.id}")
    print_words(f"state  {row.state}, due {due_words(row, view.at_ms)}")
    print_words(f"sent   {age}")
    print_words(f"rc     {count(row.rc)}{first}")
    print_words(f"size   {size(view.size) if view.body is not None or view.size else 'no body'}")
    if decoded.layers:
        print_words(f"from   {', '.join(decoded.layers)}")
    print_body(decoded.data)


@command.command(
    "export",
    help="write messages as JSON lines, which import reads",
    examples=(
        "orders -o orders.jsonl",
        "orders --filter state:poison | jq .id",
    ),
    sections=BY_FILTER,
    statuses=READ_STATUSES
    | {
        1: "a body is too long to be read, or one of several queues could not be read",
        2: "a usage error, the server cannot be read, or the file cannot be written",
    },
)
@queue_argument
@_filtered
@option("-o --output FILE", "a new file, written completely or not at all", click.Path(), default="-")
@option("--force", "overwrite FILE")
@with_read_only
def _export_command(options: Options) -> int:
    wanted = filter_of(options)
    return run_interruptibly(lambda _: _export(options, wanted))


async def _export(options: Options, wanted: Filter) -> int:
    line = ProgressLine()
    total = Exported(ScanProgress(0, 0, 0), 0, 0, 0, 0)
    async with queues_of(options.queue, options, profile_of(options), line) as found:
        queues = _Queues(options, found, options.limit)
        with _output(options.output, force=options.force) as write:

            async def read(named: QueueArgument) -> tuple[int, int]:
                nonlocal total
                queue, place = named
                each = partial(write_named, write, named.reference) if queues.is_several else write
                async with aclosing(place.backend()) as backend:
                    export = backend.export(queue, Matching(wanted, queues.limit), each)
                    progress, seen = ScanProgress(0, 0, 0), 0
                    async for progress in export:
                        seen = max(seen, progress.depth)
                        line.show(f"{progress_words(progress)}, {export.written:,} written; Ctrl+C stops")
                    if not seen and not export.written and not queues.is_several:
                        await place.refuse_missing(queue)
                total = total.and_then(export.exported(progress))
                return export.written, progress.depth

            await queues.each(read)
    if total.unsearched:
        say(unsearched_words(total.unsearched))
    if total.cut:
        say(f"{plural(total.cut, 'message')} left out: the body is too long to be read")
    if total.gone:
        say(f"{plural(total.gone, 'message')} left out: deleted during the export")
    if total.is_incomplete:
        say(INCOMPLETE)
    if options.output != "-":
        whose = plural(queues.found_in, "queue") if queues.is_several else found[0].queue
        say(f"{plural(total.written, 'message')} of {whose} in {options.output}")
    return EXIT_FAILED if total.cut else queues.status


@contextmanager
def _output(name: str, *, force: bool) -> Iterator[Callable[[str], object]]:
    if name == "-":
        yield write_text
        return
    try:
        with whole_file(Path(name), force=force) as write:
            yield write
    except BrokenPipeError:
        raise
    except FileExistsError as error:
        raise UsageError(f"{printable(name)} already exists: --force overwrites it") from error
    except OSError as error:
        raise UsageError(f"{printable(name)}: {reason_of(error)}") from error


def _scope(options: Options, named: QueueArgument) -> Scope:
    if is_pattern(options.queue) and (options.ids or options.limit is not None):
        raise UsageError("--id and --limit are for one queue, not for a pattern of queues")
    if options.even_if_received and not named.kind.counts_receives:
        raise UsageError("--even-if-received is for queues of RSMQ: a list counts no receives")
    if options.ids:
        if options.limit is not None:
            raise UsageError("--limit needs --filter or --all, and cannot be combined with --id")
        return Named(tuple(dict.fromkeys(options.ids)), options.even_if_received)
    if options.filter is None:
        is_limited = options.limit is not None or options.even_if_received
        return Matching(parse_filter(""), options.limit, options.even_if_received) if is_limited else Everything()
    wanted = filter_of(options)
    if wanted.is_empty:
        raise UsageError("the filter is empty and would match every message; use --all to select all messages")
    return Matching(wanted, options.limit, options.even_if_received)


def _change(
    name: str, words: str, *own: Decorator, examples: Sequence[str], is_scoped: bool = True
) -> Callable[[Build], Build]:
    """Add a command that changes messages; if it is scoped, those that its options select."""
    if is_scoped:
        return change_command(
            command, name, words, *own, _scoped, examples=examples, sections=BY_FILTER, scope_of=_scope
        )
    return change_command(command, name, words, *own, examples=examples)


def _change_by(action: type[Action], words: str, *own: Decorator, examples: Sequence[str]) -> None:
    """Add the command of an action whose fields are its options; one for list queues refuses other queues."""
    names = [field.name for field in fields(action) if field.name != "queue"]

    def build(options: Options, named: QueueArgument) -> Action:
        if action.name in LIST.actions - RSMQ.actions and action.name not in named.kind.actions:
            raise UsageError(f"{action.name} is for list queues: write list:KEY, or name the lists with --lists")
        values = {name: getattr(options, name) for name in names}
        if values.get("target"):
            values["target"] = target_of(values["target"], named)
        return action(queue=named.queue, **values)

    _change(action.name, words, *own, is_scoped=action.is_scoped, examples=examples)(build)


@_change(
    "send",
    "send new messages",
    click.argument("bodies", nargs=-1, metavar="[BODY]...", help="each is one message"),
    option(
        "--file PATH",
        "send the content of this file, unchanged (- for standard input); may be repeated",
        click.Path(),
        name="files",
        multiple=True,
    ),
    option("--lines PATH", "send each line that is not empty as a message", click.Path()),
    option("--front", "to a list queue: add them at the end that consumers take from"),
    option("--delay T", "visible after this time: 60, 10m (default: the queue's delay)", whole_seconds),
    examples=(
        "orders '{\"id\": 1}' --yes",
        "orders --file body.bin --delay 60 --yes",
        "orders --lines many.txt --yes",
    ),
    is_scoped=False,
)
def _send(options: Options, named: QueueArgument) -> Action:
    if not options.front:
        return actions.Send(queue=named.queue, bodies=_bodies(options), delay_s=options.delay)
    if named.kind is not LIST:
        raise UsageError("--front is for list queues: RSMQ delivers the message that is due first")
    return actions.Push(queue=named.queue, bodies=_bodies(options), delay_s=options.delay, first=True)


_change_by(actions.Delete, "delete messages", examples=("orders --filter 'json.type=test'", "orders --id ID ID --yes"))
_change_by(
    actions.Hide,
    "hide messages for some time, whatever their state; of a list, extend the leases of items in processing",
    option("--for --seconds T", "for how long from now: 600, 10m, 1h", whole_seconds, name="seconds", required=True),
    examples=("orders --filter 'rc>=5' --for 1h --yes",),
)
_change_by(actions.Release, "make messages visible now", examples=("orders --filter state:delayed --yes",))
_change_by(
    actions.Move,
    "move messages to another queue as they are: body, rc, fr and sent time",
    _to,
    examples=("orders --filter state:poison --to orders-dlq --create --yes",),
)
_change_by(
    actions.Copy,
    "put copies that were never received into a queue",
    _to,
    examples=("orders --all --limit 100 --to orders-test --yes",),
)
_change_by(
    actions.Redrive,
    "send dead letters back to their original queues, or to another queue",
    option(
        "--to QUEUE",
        "send all of them to this queue (default: the source according to the journal or the queue's name)",
        name="target",
        shell_complete=complete_queues,
    ),
    option("--origin PATH", "a field of the JSON body that names the queue: meta.queue"),
    examples=("orders-dlq --all --yes", "dead --all --origin meta.queue --yes"),
)
_change_by(
    actions.Pop,
    "remove the items of a list queue that consumers would take next; the journal keeps them",
    option("--count N", "number of items", positive, default="1"),
    examples=("list:queue:orders", "list:queue:orders --count 100 --yes"),
)
_change_by(
    actions.Trim,
    "keep only the newest N items of a list queue",
    option("--keep N", "number of items to keep", natural, required=True),
    option("--oldest", "keep the items that consumers would take next", name="keep_oldest"),
    examples=("list:queue:orders --keep 1000 --yes",),
)
_change_by(
    actions.Requeue,
    "put items of a list queue that are in processing back into the queue, without their leases",
    option("--back", "to the end that consumers take from last, instead of next", name="to_back"),
    examples=("list:queue:orders --filter state:expired --yes", "list:queue:orders --all --back --yes"),
)
_change_by(
    actions.Ack,
    "remove items of a list queue that are in processing, with their leases",
    examples=("list:queue:orders --filter 'json.id=42' --yes",),
)


@_change(
    "import",
    "import exported messages with all their fields",
    click.argument("file", metavar="FILE", type=click.Path(), help="a file written by export"),
    examples=("orders orders.jsonl --yes",),
    is_scoped=False,
)
def _import(options: Options, named: QueueArgument) -> Action:
    return actions.Import(queue=named.queue, path=_file(options.file))


def _bodies(options: Options) -> tuple[bytes, ...]:
    given = [options.bodies, options.files, options.lines]
    if sum(map(bool, given)) != 1:
        raise UsageError("send needs exactly one of: bodies, --file or --lines")
    if options.bodies == ("-",):
        return (_content("-"),)
    if options.bodies:
        return tuple(map(os.fsencode, options.bodies))
    if options.files:
        return tuple(map(_content, options.files))
    return tuple(line for line in _content(options.lines).split(b"\n") if line)


def _content(name: str) -> bytes:
    if name == "-" and sys.stdin is None:
        raise UsageError("standard input is closed: there is no body to send")
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{printable(name)}: {reason_of(error)}") from error


def _file(name: str) -> Path:
    path = Path(name)
    try:
        # It is read twice: to count, and to make the change.
        is_fit, is_there = path.is_file(), path.exists()
    except OSError as error:
        # A name that is too long, or a folder of another user.
        raise UsageError(f"{printable(name)}: {reason_of(error)}") from error
    if not is_fit:
        why = "not a regular file" if is_there else "no such file"
        raise UsageError(f"{printable(name)}: {why}; import reads files written by `rsmq-tui messages export`")
    return path
