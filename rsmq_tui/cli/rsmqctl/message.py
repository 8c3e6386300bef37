"""`rsmqctl message`: send, receive, pop, delete, visibility, peek and list."""

import base64
import codecs
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import click

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import Interrupts, run_interruptibly
from rsmq_tui.cli.output import (
    TextColumn,
    TextTable,
    due_words,
    fields_json,
    print_body,
    print_json,
    print_words,
    text_of,
)
from rsmq_tui.cli.parsing import Options, option
from rsmq_tui.cli.rsmqctl.parsing import NO_JOURNAL, CtlGroup, count, name, seconds, server_command
from rsmq_tui.cli.rsmqctl.server import FailedError, Server, print_none, refused, shown
from rsmq_tui.cli.servers import reader_of
from rsmq_tui.monitor.messages.peek import MessageRow, MessageView, PeekError, read_message, read_page
from rsmq_tui.monitor.text import UNKNOWN, clock, size
from rsmq_tui.monitor.text import count as count_words
from rsmq_tui.protocol import SERVER_ERRORS, Message, PageRequest, Part, Rsmq, RsmqError, RsmqReader

_PAGE = 100
# Up to this limit a float represents every integer exactly.
_EXACT_MAX = 2**53


_BYTES = """\
A body that is not UTF-8 is printed with \ufffd in place of invalid bytes, and also unchanged as message_base64. With
--output text, each invalid byte is printed as \\xNN."""
_EXACT_BYTES = "-n orders | jq -r .message_base64 | base64 -d"


command = CtlGroup()


_id = option("-i --message-id ID", "the message's id", required=True)


@server_command(
    command,
    "peek",
    name,
    option("-i --message-id ID", "this message, even if it is hidden"),
    count("the next N messages, one JSON object per line (default 1)"),
    examples=("-n orders", "-n orders --count 10", "-n orders -i ID"),
    notes=f"Nothing changes, neither the visibility nor the receive count.\n\n{_BYTES}",
)
def _peek_command(server: Server, options: Options) -> None:
    """Print the next messages, or the one with the given id, in full; raises ``FailedError``."""
    look = _peek if options.message_id is None else _peek_one
    if not _run(look(server, options)):
        server.refuse_missing(options.name)
        if options.message_id is not None:
            raise FailedError(f"No such message on queue {shown(options.name)}: {shown(options.message_id)}")
        print_none(options)


@server_command(
    command,
    "list",
    name,
    count("at most N messages, in the order of delivery", "100"),
    examples=("-n orders", "-n orders --count 1000 --output text"),
    notes="Nothing changes. `rsmq-tui messages list` filters and groups.",
)
def _list_command(server: Server, options: Options) -> None:
    """Print the messages of a queue, one per line; raises ``FailedError``."""
    if not _run(_list(server, options)):
        server.refuse_missing(options.name)
        print_none(options)


def _run(look: Coroutine[Any, Any, int]) -> int:
    """Read messages, and return how many were found; raises KeyboardInterrupt."""
    found = 0

    async def command(_: Interrupts) -> int:
        nonlocal found
        found = await look
        return 0

    if run_interruptibly(command):
        raise KeyboardInterrupt
    return found


@asynccontextmanager
async def _reader(server: Server, queue: str) -> AsyncIterator[RsmqReader]:
    reader = reader_of(server.profile)
    try:
        yield reader
    except PeekError as error:
        cause = error.__cause__
        if isinstance(cause, RsmqError):
            raise refused(f"Failed to read queue: {shown(queue)}", queue, cause) from cause
        raise (
            server.failed(cause) if isinstance(cause, SERVER_ERRORS) else FailedError(f"rsmqctl: {error}")
        ) from cause
    finally:
        await reader.aclose()


async def _pages(
    server: Server, reader: RsmqReader, queue: str, part: Part
) -> AsyncIterator[tuple[int, int, tuple[MessageRow, ...]]]:
    """Yield the rows page by page, each with the time and the depth at which it was read."""
    request = PageRequest(queue, part, count=_PAGE)
    while True:
        with server.awaited():
            page = await read_page(reader, request)
        if page.rows:
            yield page.at_ms, page.depth, page.rows
        if page.is_last or not page.rows:
            return
        request = PageRequest(queue, part, "after", page.rows[-1].anchor, _PAGE)


async def _peek(server: Server, options: Options) -> int:
    wanted, printed = options.count or 1, 0
    async with _reader(server, options.name) as reader:
        async for _, _, rows in _pages(server, reader, options.name, "ready"):
            for row in rows:
                # Receiving skips messages without a body.
                view = None if row.preview is None else await read_message(reader, options.name, row.id)
                if view is None or view.row is None:
                    continue
                _print_view(options, view, view.row)
                printed += 1
                if printed == wanted:
                    return printed
    return printed


async def _peek_one(server: Server, options: Options) -> int:
    async with _reader(server, options.name) as reader:
        with server.awaited():
            view = await read_message(reader, options.name, options.message_id)
    if view.row is None:
        return 0
    _print_view(options, view, view.row)
    return 1


async def _list(server: Server, options: Options) -> int:
    printed = depth = 0
    table = _table() if options.output == "text" else None
    async with _reader(server, options.name) as reader:
        async for at_ms, depth, rows in _pages(server, reader, options.name, "all"):  # noqa: B007
            for row in rows[: options.count - printed]:
                _print_row(table, row, at_ms)
                printed += 1
            sys.stdout.flush()
            if printed == options.count:
                break
    if printed < depth:
        note = f"rsmqctl: {count_words(printed)} of {count_words(depth)} messages; --count N prints more"
        print(note, file=sys.stderr)
    return printed


def _print_view(options: Options, view: MessageView, row: MessageRow) -> None:
    more = _fields(row) | ({"too_long": True} if view.body is None and view.size else {})
    state = f"{row.state.value}, {due_words(row, view.at_ms)}"
    _print_message(options, row, view.body, state, more)
    sys.stdout.flush()
    if view.body is None:
        why = f"its body of {size(view.size)} is too long to be printed" if view.size else "it has no body"
        print(f"rsmqctl: {shown(row.id)}: {why}", file=sys.stderr)


def _print_message(
    options: Options,
    message: Message | MessageRow,
    body: bytes | None,
    state_words: str = "",
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print a message in full; as JSON with ``more`` fields, for people with ``state_words``."""
    if options.output != "text":
        own = {"id": message.id, **_body_fields("message", body), "rc": message.rc, "ts": message.fr_ms}
        fields = own | dict(more or {})
        # Fields that the original does not have come last.
        print_json(dict(sorted(fields.items(), key=lambda field: field[0].endswith("_base64"))))
        return
    first = "" if message.fr_ms is None else f", first received {clock(message.fr_ms, date=True, zone=True)}"
    print_words(f"id    {message.id}")
    print_words(f"rc    {message.rc}{first}")
    print_words(f"sent  {clock(message.sent_ms, date=True, zone=True)}")
    if state_words:
        print_words(f"state {state_words}")
    print_body(body or b"")


def _body_fields(name: str, body: bytes | None, *, whole: bool = True) -> dict[str, Any]:
    """Return a body as text, and also in base64 if it is not UTF-8; unless ``whole``, it may end within a character."""
    if body is None:
        return {name: None}
    try:
        return {name: codecs.utf_8_decode(body, "strict", whole)[0]}
    except UnicodeDecodeError:
        return {name: body.decode("utf-8", "replace"), f"{name}_base64": base64.b64encode(body).decode()}


def _fields(row: MessageRow) -> dict[str, Any]:
    due = row.due_ms
    exact = due is not None and abs(due) < _EXACT_MAX and due == int(due)
    return {
        "state": row.state.value,
        "due_ms": int(due) if exact and due is not None else due,
        "sent_ms": row.sent_ms,
        "size": row.size,
    }


def _table() -> TextTable:
    return TextTable(
        TextColumn("ID", 32),
        TextColumn("STATE", 9),
        TextColumn("DUE", 11, right=True),
        TextColumn("RC", 4, right=True),
        TextColumn("SIZE", 9, right=True, drop=1),
        TextColumn("BODY", 0),
    )


def _print_row(table: TextTable | None, row: MessageRow, at_ms: int) -> None:
    if table is None:
        fields = {"id": row.id, "rc": row.rc, "ts": row.fr_ms, **_fields(row)}
        whole = len(row.preview or b"") == row.size
        print_json(fields | _body_fields("preview", row.preview, whole=whole))
        return
    body = UNKNOWN if row.preview is None else text_of(row.preview)
    table.print(row.id, row.state.value, due_words(row, at_ms), count_words(row.rc), size(row.size), body)


# The number of messages received in one call: an interrupt leaves at most these hidden and not printed.
_AT_ONCE = 100


@server_command(
    command,
    "send",
    name,
    option("-m --message TEXT", "the body"),
    option("--body-file FILE", "send the content of this file, unchanged; - for standard input", click.Path()),
    option("-d --delay S", "seconds until it is visible, or 10m (default: the queue's delay)", seconds),
    examples=(
        '-n orders -m "Hello, World"',
        "-n orders --body-file order.json -d 60",
        "-n orders --body-file - < order.json",
    ),
)
def _send(server: Server, options: Options) -> None:
    body = _body(options)
    with server.calls("Failed to send message", options.name, changing="message send") as rsmq:
        id = rsmq.send_message(options.name, body, delay=options.delay)
    if options.output == "json":
        fields_json(id=id)
    else:
        print(id)


def _body(options: Options) -> str | bytes:
    if options.message is None and options.body_file is None:
        ctx = click.get_current_context()
        raise click.MissingParameter(ctx=ctx, param=next(each for each in ctx.command.params if each.name == "message"))
    if options.message is not None and options.body_file is not None:
        raise UsageError("message send takes a body: give either -m TEXT or --body-file FILE")
    if options.message is not None:
        raw = os.fsencode(options.message)
    else:
        try:
            raw = sys.stdin.buffer.read() if options.body_file == "-" else Path(options.body_file).read_bytes()
        except (OSError, ValueError) as error:
            raise FailedError(f"rsmqctl: {shown(options.body_file)}: {getattr(error, 'strerror', error)}") from error
        except AttributeError:
            raise FailedError("rsmqctl: standard input is closed: there is no body to send") from None
    # The length of a text is compared with maxsize as the canonical client does; other bodies count in bytes.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


@server_command(
    command,
    "receive",
    name,
    option(
        "-t --visibility-timeout S",
        "seconds, or 10m, for which it stays hidden (default: the queue's vt); 0: received again at once",
        seconds,
    ),
    count("receive up to N messages, one JSON object per line (default 1)"),
    examples=("-n orders", "-n orders -t 120", "-n orders --count 10", _EXACT_BYTES),
    notes=_BYTES,
)
def _receive(server: Server, options: Options) -> None:
    _print_all(options, _received(server, options))


def _received(server: Server, options: Options) -> Iterator[list[Message]]:
    wanted = options.count or 1
    seen: set[str] = set()
    while len(seen) < wanted:
        with server.calls("Failed to receive a message", options.name, changing="message receive") as rsmq:
            most = min(wanted - len(seen), _AT_ONCE)
            messages = rsmq.receive_messages(options.name, most, vt=options.visibility_timeout)
        fresh = [message for message in messages if message.id not in seen]
        yield fresh
        seen.update(message.id for message in fresh)
        # With a visibility timeout of 0, the first messages are received again.
        if len(fresh) < most:
            return


@server_command(
    command,
    "pop",
    name,
    count("receive and delete up to N messages, one JSON object per line (default 1)"),
    examples=("-n orders", "-n orders --count 10", _EXACT_BYTES),
    notes=f"A message is deleted even if it cannot be printed. {NO_JOURNAL}\n\n{_BYTES}",
)
def _pop(server: Server, options: Options) -> None:
    _print_all(options, _popped(server, options))


def _popped(server: Server, options: Options) -> Iterator[list[Message]]:
    # One at a time, so that each removed message is printed before the next is removed.
    for _ in range(options.count or 1):
        with server.calls("Failed to pop a message", options.name, changing="message pop") as rsmq:
            message = rsmq.pop_message(options.name)
        if message is None:
            return
        yield [message]


def _print_all(options: Options, batches: Iterator[list[Message]]) -> None:
    printed = 0
    for batch in batches:
        for message in batch:
            _print_message(options, message, message.body)
        sys.stdout.flush()
        printed += len(batch)
    if not printed:
        print_none(options)


@server_command(command, "delete", name, _id, examples=("-n orders -i ID",), notes=NO_JOURNAL)
def _delete(server: Server, options: Options) -> None:
    beginning = f"Failed to delete message ID: {shown(options.message_id)}"
    with _calls_on_id(server, options, beginning, "message delete") as rsmq:
        deleted = rsmq.delete_message(options.name, options.message_id)
    if not deleted:
        server.refuse_missing(options.name)
        raise FailedError(beginning)


@server_command(
    command,
    "visibility",
    name,
    _id,
    option("-t --visibility-timeout S", "seconds from now, or 10m; 0: immediately", seconds, required=True),
    examples=("-n orders -i ID -t 600", "-n orders -i ID -t 0"),
)
def _visibility(server: Server, options: Options) -> None:
    id, vt = options.message_id, options.visibility_timeout
    beginning = f"Failed to change visibility timeout for message ID: {shown(id)}"
    with _calls_on_id(server, options, beginning, "message visibility") as rsmq:
        changed = rsmq.change_message_visibility(options.name, id, vt)
    if not changed:
        raise FailedError(beginning)
    if options.output == "json":
        fields_json(id=id, vt=vt)
    else:
        print_words(f"Message ID: {id} visibility timeout set to {vt}s")


@contextmanager
def _calls_on_id(server: Server, options: Options, beginning: str, changing: str) -> Iterator[Rsmq]:
    with server.calls(beginning, options.name, changing=changing) as rsmq:
        try:
            yield rsmq
        except RsmqError as error:
            if error.code in ("invalidFormat", "missingParameter"):
                # The original first reports a missing queue.
                server.refuse_missing(options.name)
                if error.item != "qname":
                    raise FailedError(beginning) from error
            raise
