"""`rsmqctl message`: send, receive, pop, delete, visibility, and what only looks: peek and list."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.output import fields_json, print_words
from rsmq_tui.cli.rsmqctl_looking import list_messages, peek
from rsmq_tui.cli.rsmqctl_output import print_message, print_none
from rsmq_tui.cli.rsmqctl_server import FailedError, Server, refused, shown
from rsmq_tui.protocol import Message, RsmqError

# So many are received in one call: whoever interrupts the command leaves no more than these hidden and not printed.
_AT_ONCE = 100

Command = Callable[[Server, argparse.Namespace], None]


def run(server: Server, options: argparse.Namespace) -> None:
    """Run one of the commands; raises ``FailedError`` and ``UsageError``."""
    commands: dict[str, Command] = {
        "send": _send,
        "receive": _receive,
        "pop": _pop,
        "delete": _delete,
        "visibility": _visibility,
        "peek": peek,
        "list": list_messages,
    }
    commands[options.action](server, options)


def _send(server: Server, options: argparse.Namespace) -> None:
    body = _body(options)
    with server.calls(changing="message send") as rsmq:
        try:
            id = rsmq.send_message(options.name, body, delay=options.delay)
        except RsmqError as error:
            raise _failed(server, options, "Failed to send message", error) from error
    if options.output == "json":
        fields_json(id=id)
    else:
        print(id)


def _body(options: argparse.Namespace) -> str | bytes:
    if (options.message is None) == (options.body_file is None):
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
    # A text is measured against maxsize as the canonical client measures it; what is none, in bytes.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _receive(server: Server, options: argparse.Namespace) -> None:
    _print_all(options, _received(server, options))


def _received(server: Server, options: argparse.Namespace) -> Iterator[list[Message]]:
    wanted = options.count or 1
    seen: set[str] = set()
    while len(seen) < wanted:
        with server.calls(changing="message receive") as rsmq:
            try:
                count = min(wanted - len(seen), _AT_ONCE)
                messages = rsmq.receive_messages(options.name, count, vt=options.visibility_timeout)
            except RsmqError as error:
                raise _failed(server, options, "Failed to receive a message", error) from error
        fresh = [message for message in messages if message.id not in seen]
        yield fresh
        seen.update(message.id for message in fresh)
        # With a visibility timeout of 0 the first ones come round again.
        if len(fresh) < count:
            return


def _pop(server: Server, options: argparse.Namespace) -> None:
    _print_all(options, _popped(server, options))


def _popped(server: Server, options: argparse.Namespace) -> Iterator[list[Message]]:
    # One by one: what was removed is printed before the next is.
    for _ in range(options.count or 1):
        with server.calls(changing="message pop") as rsmq:
            try:
                message = rsmq.pop_message(options.name)
            except RsmqError as error:
                raise _failed(server, options, "Failed to pop a message", error) from error
        if message is None:
            return
        yield [message]


def _print_all(options: argparse.Namespace, batches: Iterator[list[Message]]) -> None:
    printed = 0
    for batch in batches:
        for message in batch:
            print_message(options, message)
        sys.stdout.flush()
        printed += len(batch)
    if not printed:
        print_none(options)


def _delete(server: Server, options: argparse.Namespace) -> None:
    beginning = f"Failed to delete message ID: {shown(options.message_id)}"
    with server.calls(changing="message delete") as rsmq:
        try:
            deleted = rsmq.delete_message(options.name, options.message_id)
        except RsmqError as error:
            raise _failed_on_id(server, options, beginning, error) from error
    if not deleted:
        server.refuse_missing(options.name)
        raise FailedError(beginning)


def _visibility(server: Server, options: argparse.Namespace) -> None:
    id, vt = options.message_id, options.visibility_timeout
    beginning = f"Failed to change visibility timeout for message ID: {shown(id)}"
    with server.calls(changing="message visibility") as rsmq:
        try:
            changed = rsmq.change_message_visibility(options.name, id, vt)
        except RsmqError as error:
            raise _failed_on_id(server, options, beginning, error) from error
    if not changed:
        raise FailedError(beginning)
    if options.output == "json":
        fields_json(id=id, vt=vt)
    else:
        print_words(f"Message ID: {id} visibility timeout set to {vt}s")


def _failed_on_id(server: Server, options: argparse.Namespace, beginning: str, error: RsmqError) -> FailedError:
    if error.code in ("invalidFormat", "missingParameter"):
        # The original says first that the queue is not there.
        server.refuse_missing(options.name)
        if "qname" not in str(error):
            return FailedError(beginning)
    return _failed(server, options, beginning, error)


def _failed(server: Server, options: argparse.Namespace, beginning: str, error: RsmqError) -> FailedError:
    if error.code == "queueNotFound":
        return server.missing(options.name)
    return refused(beginning, options.name, error)
