"""The commands and options of `rsmqctl`."""

import argparse
import os
from collections.abc import Callable

from rsmq_tui import __version__
from rsmq_tui.cli.command_parser import count
from rsmq_tui.cli.defaults import DEFAULT_URL
from rsmq_tui.cli.rsmqctl_parser import Parser

_LIST_COUNT = 100
_EXIT_STATUSES = """\
exit status: 0 done, or there was no message to print; 1 it failed or was refused, with the reason on stderr; 2 a usage
error; 130 interrupted; 141 whoever read the output has gone"""
_NO_JOURNAL = "As every client's, the change is in no journal: rsmq-tui undo does not know of it."
_BYTES = """\
A body that is no UTF-8 is printed with \ufffd in place of what cannot be read, and once more, exact, as message_base64:
  rsmqctl message receive -n orders | jq -r .message_base64 | base64 -d
With --output text each such byte is \\xNN."""


def parser() -> Parser:
    """Return the parser of all commands."""
    top = Parser(
        prog="rsmqctl",
        description="Manage the queues and messages of RSMQ on Redis, Valkey and their kin.",
        epilog=_EXIT_STATUSES,
    )
    _settle(top, group=None, action=None)
    top.option("--version", action="version", version=f"rsmqctl {__version__}")
    queues = top.command("queue", "list, describe, make, change and remove queues")
    _settle(queues, group="queue")
    messages = top.command("message", "send, receive, look at and remove messages")
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
        queues, "create", "make a queue", ["-n orders", "-n orders -t 120 -d 5 -m 2048"], notes="Prints nothing."
    )
    _attributes(create, ("30", "0", "65535"))
    change = _leaf(
        queues,
        "set",
        "change attributes of a queue and print them all",
        ["-n orders -t 120"],
        notes=f"Only what is given changes, for later sends and receives.\n{_NO_JOURNAL}",
    )
    _attributes(change, None)
    _leaf(
        queues,
        "delete",
        "remove a queue and all its messages, at once",
        ["-n orders"],
        notes=f"It does not ask, as the original does not.\n{_NO_JOURNAL}\n"
        "rsmq-tui queues delete shows first what would go, and can bring it back.",
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
    send.option("--body-file", metavar="FILE", help="send what is in this file, as it is; - for standard input")
    send.option("-d", "--delay", type=int, metavar="S", help="seconds until it is visible (default: the queue's delay)")
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
        type=int,
        metavar="S",
        help="seconds for which it stays hidden (default: the queue's vt); with 0 it can be received again at once",
    )
    _count(receive, "receive up to so many, one JSON object a line (default 1)")
    pop = _leaf(
        messages,
        "pop",
        "receive the next message, remove it, and print it",
        ["-n orders", "-n orders --count 10"],
        notes=f"What could not be printed is gone all the same.\n{_NO_JOURNAL}\n\n{_BYTES}",
    )
    _count(pop, "receive and remove up to so many, one after the other, one JSON object a line (default 1)")
    _id(_leaf(messages, "delete", "remove a message", ["-n orders -i ID"], notes=_NO_JOURNAL))
    visibility = _leaf(
        messages,
        "visibility",
        "make a message visible so many seconds from now",
        ["-n orders -i ID -t 600", "-n orders -i ID -t 0"],
    )
    _id(visibility)
    visibility.option(
        "-t", "--visibility-timeout", type=int, metavar="S", required=True, help="seconds from now; 0: at once"
    )
    peek = _leaf(
        messages,
        "peek",
        "print the next message without receiving it",
        ["-n orders", "-n orders --count 10", "-n orders -i ID"],
        notes=f"Nothing changes: neither when it is visible nor how often it was received.\n\n{_BYTES}",
    )
    peek.option("-i", "--message-id", metavar="ID", help="this message, also where it is hidden")
    _count(peek, "the next so many, one JSON object a line (default 1)")
    listed = _leaf(
        messages,
        "list",
        "print what is in a queue, hidden or not, with the beginning of each body",
        ["-n orders", "-n orders --count 1000 --output text"],
        notes="Nothing changes. `rsmq-tui messages list` filters and groups.",
    )
    _count(listed, f"at most so many, in the order of delivery (default {_LIST_COUNT})", _LIST_COUNT)


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
        help="a server that the configuration names (see: rsmq-tui profiles)",
        **common,
    )
    add("--config", metavar="FILE", help="configuration file (env RSMQ_TUI_CONFIG)", **common)
    add("--read-only", action="store_true", help="refuse every change (env RSMQ_TUI_READ_ONLY=1)", **common)
    add("--output", choices=("json", "text"), help="JSON and nothing else, or words for people", **common)
    add("-v", "--verbose", action="store_true", help="on an error, show where in the program it came up", **common)
    into.set_defaults(parser=into, **defaults)


def _attributes(into: Parser, defaults: tuple[str, str, str] | None) -> None:
    vt, delay, maxsize = defaults or (None, None, None)
    options = (
        ("-t", "--visibility-timeout", vt, "S", "seconds for which a received message stays hidden"),
        ("-d", "--delay", delay, "S", "seconds until a sent message is visible"),
        ("-m", "--maxsize", maxsize, "N", "longest message, 1024 to 65536, or -1 for no limit"),
    )
    for short, long, default, unit, words in options:
        told = words if default is None else f"{words} (default {default})"
        into.option(short, long, type=int, default=default, metavar=unit, help=told)


def _id(into: Parser) -> None:
    into.option("-i", "--message-id", metavar="ID", required=True, help="the message's id")


def _count(into: Parser, words: str, default: int | None = None) -> None:
    into.option("--count", type=count, default=default, metavar="N", help=words)


def _is_set(text: str) -> bool:
    return text.strip().lower() not in ("", "0", "no", "false", "off")
