"""The commands and options of `rsmqctl`."""

import argparse
import os
from collections.abc import Callable
from contextlib import suppress

from rsmq_tui import __version__
from rsmq_tui.cli.command_parser import count, seconds
from rsmq_tui.cli.defaults import DEFAULT_URL
from rsmq_tui.cli.rsmqctl_parser import Parser

_LIST_COUNT = 100
_EXIT_STATUSES = """\
exit status: 0 done, or there was no message to print; 1 it failed or was refused, with the reason on stderr; 2 a usage
error; 70 a defect in rsmqctl itself; 130 interrupted; 141 the reader of the output has closed it"""
_NO_JOURNAL = "The change is not journaled, so rsmq-tui undo cannot revert it."
_BYTES = """\
A body that is not UTF-8 is printed with \ufffd in place of invalid bytes, and also unchanged as message_base64:
  rsmqctl message receive -n orders | jq -r .message_base64 | base64 -d
With --output text, each invalid byte is printed as \\xNN."""


def parser() -> Parser:
    """Return the parser of all commands."""
    top = Parser(
        prog="rsmqctl",
        description="Manage RSMQ queues and messages on Redis, Valkey and compatible servers.",
        epilog=_EXIT_STATUSES,
    )
    _settle(top, group=None, action=None)
    top.option("--version", action="version", version=f"rsmqctl {__version__}")
    queues = top.command("queue", "list, describe, create, change and delete queues")
    _settle(queues, group="queue")
    messages = top.command("message", "send, receive, peek at and delete messages")
    _settle(messages, group="message")
    _add_queue_commands(queues)
    _add_message_commands(messages)
    for leaf in (*queues.children, *messages.children):
        _settle(leaf)
    return top


def complete(options: argparse.Namespace) -> None:
    """Fill in what was not given, as the commands of `rsmq-tui` have it that name a server."""
    for name in ("redis_url", "profile", "config", "ns", "interval", "output", "verbose"):
        setattr(options, name, getattr(options, name, None))
    options.read_only = getattr(options, "read_only", _is_set(os.environ.get("RSMQ_TUI_READ_ONLY", "")))


def _add_queue_commands(queues: Parser) -> None:
    _leaf(queues, "list", "print the names of all queues", ["", "--output text"], name=False)
    _leaf(queues, "describe", "print the attributes and counts of a queue", ["-n orders"])
    create = _leaf(
        queues, "create", "create a queue", ["-n orders", "-n orders -t 120 -d 5 -m 2048"], notes="Prints nothing."
    )
    _attributes(create, ("30", "0", "65535"))
    change = _leaf(
        queues,
        "set",
        "change attributes of a queue and print all of them",
        ["-n orders -t 120"],
        notes=f"Only the given attributes change; they apply to later sends and receives.\n{_NO_JOURNAL}",
    )
    _attributes(change, None)
    _leaf(
        queues,
        "delete",
        "delete a queue and all its messages, at once",
        ["-n orders"],
        notes=f"It does not ask for confirmation, like the original rsmqctl.\n{_NO_JOURNAL}\n"
        "rsmq-tui queues delete previews the deletion and can be undone.",
    )


def _add_message_commands(messages: Parser) -> None:
    send = _leaf(
        messages,
        "send",
        "send a message and print its id",
        [
            '-n orders -m "Hello, World"',
            "-n orders --body-file order.json -d 60",
            "-n orders --body-file - < order.json",
        ],
    )
    send.option("-m", "--message", metavar="TEXT", help="the body")
    send.option("--body-file", metavar="FILE", help="send the content of this file, unchanged; - for standard input")
    send.option(
        "-d",
        "--delay",
        type=_seconds,
        metavar="S",
        help="seconds until it is visible, or 10m (default: the queue's delay)",
    )
    receive = _leaf(
        messages,
        "receive",
        "receive the next message, hide it for a while, and print it",
        ["-n orders", "-n orders -t 120", "-n orders --count 10"],
        notes=_BYTES,
    )
    receive.option(
        "-t",
        "--visibility-timeout",
        type=_seconds,
        metavar="S",
        help="seconds, or 10m, for which it stays hidden (default: the queue's vt); 0: received again at once",
    )
    _count(receive, "receive up to N messages, one JSON object per line (default 1)")
    pop = _leaf(
        messages,
        "pop",
        "receive the next message, delete it, and print it",
        ["-n orders", "-n orders --count 10"],
        notes=f"A message is deleted even if it cannot be printed.\n{_NO_JOURNAL}\n\n{_BYTES}",
    )
    _count(pop, "receive and delete up to N messages, one JSON object per line (default 1)")
    _id(_leaf(messages, "delete", "delete a message", ["-n orders -i ID"], notes=_NO_JOURNAL))
    visibility = _leaf(
        messages,
        "visibility",
        "make a message visible in N seconds",
        ["-n orders -i ID -t 600", "-n orders -i ID -t 0"],
    )
    _id(visibility)
    visibility.option(
        "-t",
        "--visibility-timeout",
        type=_seconds,
        metavar="S",
        required=True,
        help="seconds from now, or 10m; 0: immediately",
    )
    peek = _leaf(
        messages,
        "peek",
        "print the next message without receiving it",
        ["-n orders", "-n orders --count 10", "-n orders -i ID"],
        notes=f"Nothing changes, neither the visibility nor the receive count.\n\n{_BYTES}",
    )
    peek.option("-i", "--message-id", metavar="ID", help="this message, even if it is hidden")
    _count(peek, "the next N messages, one JSON object per line (default 1)")
    listed = _leaf(
        messages,
        "list",
        "list the messages of a queue, hidden ones too, with the start of each body",
        ["-n orders", "-n orders --count 1000 --output text"],
        notes="Nothing changes. `rsmq-tui messages list` filters and groups.",
    )
    _count(listed, f"at most N messages, in the order of delivery (default {_LIST_COUNT})", _LIST_COUNT)


def _leaf(
    commands: Parser, action: str, words: str, examples: list[str], *, name: bool = True, notes: str = ""
) -> Parser:
    leaf = commands.command(action, words, examples=examples, notes=notes)
    if name:
        leaf.option("-n", "--name", metavar="QUEUE", required=True, help="the queue's name")
    leaf.set_defaults(action=action)
    return leaf


def _settle(into: Parser, **defaults: str | None) -> None:
    """Add what every command takes, so that it may stand before or behind the command."""
    within = into.add_argument_group("server and output")
    add: Callable[..., None] = into.option
    common = {"within": within, "default": argparse.SUPPRESS}
    add(
        "-r",
        "--redis-url",
        metavar="URL",
        help="redis://, rediss:// or unix:// URL (env REDIS_URL; without either the configuration's default profile, "
        f"or {DEFAULT_URL})",
        **common,
    )
    add("--ns", help="namespace, the prefix of all keys (env RSMQ_NS, default the profile's, or rsmq)", **common)
    add(
        "--profile",
        metavar="NAME",
        action="append",
        help="a server from the configuration file (see: rsmq-tui profiles)",
        **common,
    )
    add("--config", metavar="FILE", help="configuration file (env RSMQ_TUI_CONFIG)", **common)
    add("--read-only", action="store_true", help="refuse every change (env RSMQ_TUI_READ_ONLY=1)", **common)
    add("--output", choices=("json", "text"), help="output format: json for scripts, text for people", **common)
    add("-v", "--verbose", action="store_true", help="on an error, show where in the program it occurred", **common)
    into.set_defaults(parser=into, **defaults)


def _attributes(into: Parser, defaults: tuple[str, str, str] | None) -> None:
    vt, delay, maxsize = defaults or (None, None, None)
    options = (
        ("-t", "--visibility-timeout", vt, "S", "seconds, or 10m, for which a received message stays hidden"),
        ("-d", "--delay", delay, "S", "seconds, or 10m, until a sent message is visible"),
        ("-m", "--maxsize", maxsize, "N", "longest message, 1024 to 65536, or -1 for no limit"),
    )
    for short, long, default, unit, words in options:
        told = words if default is None else f"{words} (default {default})"
        into.option(short, long, type=_seconds if unit == "S" else int, default=default, metavar=unit, help=told)


def _seconds(text: str) -> int:
    """Read a number as the original does, negative ones too, or a duration such as 10m."""
    with suppress(ValueError):
        return int(text)
    return seconds(text)


def _id(into: Parser) -> None:
    into.option("-i", "--message-id", metavar="ID", required=True, help="the message's id")


def _count(into: Parser, words: str, default: int | None = None) -> None:
    into.option("--count", type=count, default=default, metavar="N", help=words)


def _is_set(text: str) -> bool:
    return text.strip().lower() not in ("", "0", "no", "false", "off")
