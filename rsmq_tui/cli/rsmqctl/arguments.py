"""The commands and options of `rsmqctl`, and its parser."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from rsmq_tui import __version__
from rsmq_tui.cli.parsing import DEFAULT_URL, HelpfulParser, count, seconds

# Stands for a value of "--", which argparse would drop; no argument of a process can hold a NUL.
_TWO_DASHES = "\0--"


class Parser(HelpfulParser):
    """Takes whatever follows an option that wants a value for that value, also where it begins with a dash.

    ``-m -1``, ``-m --help`` and ``-m=a`` send ``-1``, ``--help`` and ``=a``: argparse alone would refuse the first two
    and send ``a``. Options must be added with ``option``. Long names are not to be shortened. ``children`` are the
    parsers of its commands.
    """

    def __init__(self, **settings: Any) -> None:
        self._long: dict[str, str] = {}
        self._flags: set[str] = {"-h"}
        self._commands: Any = None
        self.children: list[Parser] = []
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)

    def option(self, *names: str, within: Any = None, **settings: Any) -> None:
        """Add an option, to a group of the help where one is given with ``within``; its long name comes last."""
        if settings.get("action", "append") != "append":
            self._flags.update(names)
        else:
            self._long.update(dict.fromkeys(names, names[-1]))
        (within or self).add_argument(*names, **settings)

    def command(self, name: str, words: str, *, examples: Sequence[str] = (), notes: str = "") -> "Parser":
        """Add a command of this one, with its help: a description, ``notes``, and how it is called, line by line."""
        if self._commands is None:
            self._commands = self.add_subparsers(metavar="COMMAND", parser_class=Parser)
        shown = "\n".join(["examples:", *(f"  {self.prog} {name} {example}".rstrip() for example in examples)])
        description = f"{words[0].upper()}{words[1:]}."
        parser: Parser = self._commands.add_parser(
            name,
            help=words,
            description=f"{description}\n\n{notes}" if notes else description,
            epilog=f"{shown}\n\n{self.epilog}" if examples else self.epilog,
        )
        self.children.append(parser)
        return parser

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, with each option and its value in one argument."""
        options, left = super().parse_known_args(self._joined(sys.argv[1:] if args is None else args), namespace)
        for name, value in vars(options).items():
            if value == _TWO_DASHES:
                setattr(options, name, "--")
        return options, left

    def error(self, message: str) -> NoReturn:
        """End with a usage error, exit status 2, without repeating what may hold a password."""
        # Only needed here, and it brings redis along.
        from rsmq_tui.monitor.text import printable  # noqa: PLC0415

        told = printable(re.sub(r"\S*(?:://|@)\S*", "(a URL)", message), 400)
        self.exit(2, f"{self.prog}: {told.rstrip('.')}; `{self.prog} --help` lists the commands and options\n")

    def _joined(self, given: Sequence[str]) -> list[str]:
        rest = iter(given)
        joined: list[str] = []
        for argument in rest:
            name, equals, value = argument.partition("=")
            if argument in self._long:
                joined += self._with_value(argument, next(rest, None))
            elif equals and name.startswith("--") and name in self._long:
                joined += self._with_value(name, value)
            elif argument.startswith("-") and not argument.startswith("--") and len(argument) > 2:
                joined += self._cluster(argument, rest)
            else:
                joined.append(argument)
                # What follows a command is that command's.
                if argument == "--" or (self._commands is not None and not argument.startswith("-")):
                    break
        return [*joined, *rest]

    def _cluster(self, argument: str, rest: Any) -> list[str]:
        """Take short options that share a dash apart: flags, and at most one with a value."""
        flags: list[str] = []
        for position, letter in enumerate(argument[1:], 2):
            name = f"-{letter}"
            if name in self._long:
                return flags + self._with_value(name, argument[position:] or next(rest, None))
            if name not in self._flags:
                break
            flags.append(name)
        else:
            return flags
        return [argument]

    def _with_value(self, name: str, value: str | None) -> list[str]:
        if value is None:
            return [name]
        return [f"{self._long[name]}={_TWO_DASHES if value == '--' else value}"]


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
