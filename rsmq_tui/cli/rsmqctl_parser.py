"""A parser that takes arguments as the original `rsmqctl` does, and says what is wrong with them in one sentence."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from rsmq_tui.cli.command_parser import HelpfulParser

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
        from rsmq_tui.monitor.wording import printable  # noqa: PLC0415

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
