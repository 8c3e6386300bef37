"""Parsers of commands that have commands: filled when they are used, with examples and exit statuses in their help."""

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any

EXIT_STATUSES = """\
exit status: 0 done (what changed meanwhile is skipped, and counted), 1 some failed or it was stopped, 2 refused, a
usage error, or the server cannot be reached, 3 only a preview: nothing was changed, 130 interrupted"""
_FILTERS = """\
filters: terms that must all hold, ! before one inverts it
  state:ready|inflight|delayed|poison  rc>=5  age>10m  due<30s  size>1k  id:prefix
  (of lists: state:ready|processing|inflight|expired|unleased)
  body:"text"  body~regex  json.customer.id=42  word"""
_SECONDS_MAX = 9_999_999
# What begins with a dash and a digit is a value, such as --from -2h: no option of ours looks like that.
_VALUE = re.compile(r"-\d\S*")

Commands = Any  # argparse has no public name for what add_subparsers returns
Parents = Sequence[argparse.ArgumentParser]


class CommandParser(argparse.ArgumentParser):
    """A parser of a command that gets its own commands when it is used: making them all costs a start-up dearly.

    ``rest`` names a list that takes every further argument, also behind options, where argparse would refuse it.
    """

    fill: Callable[[], None] | None = None
    rest: str | None = None
    _negative_number_matcher: re.Pattern[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = _VALUE

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, with everything there."""
        fill, self.fill = self.fill, None
        if fill is not None:
            fill()
        options, left = super().parse_known_args(args, namespace)
        if self.rest is not None:
            plain = left.index("--") if "--" in left else len(left)
            if not any(argument.startswith("-") for argument in left[:plain]):
                getattr(options, self.rest).extend(left[:plain] + left[plain + 1 :])
                left = []
        return options, left


class Group:
    """A command that has commands; ``fill`` adds them when it is used. Only `journal` goes without one of them."""

    def __init__(
        self, commands: Commands, common: Parents, name: str, words: str, fill: "Callable[[Group], None]"
    ) -> None:
        self._name, self._common = name, common
        self.parser = leaf(commands, name, words, common, ())
        self.parser.fill = lambda: self._begin(fill)

    def _begin(self, fill: "Callable[[Group], None]") -> None:
        self._commands = self.parser.add_subparsers(dest="action", metavar="COMMAND", required=self._name != "journal")
        fill(self)

    def add(
        self,
        name: str,
        words: str,
        *parents: argparse.ArgumentParser,
        examples: Sequence[str],
        queue: bool = True,
        filters: bool = False,
    ) -> CommandParser:
        """Add a command, on a queue where ``queue`` says so; ``filters`` explains these in its help."""
        before = [_queue()] if queue else []
        lines = tuple(f"rsmq-tui {self._name} {name} {example}".rstrip() for example in examples)
        return leaf(self._commands, name, words, [*self._common, *before, *parents], lines, filters)


def leaf(
    commands: Commands,
    name: str,
    words: str,
    parents: Parents,
    examples: Sequence[str],
    filters: bool = False,
    *,
    notes: str = "",
    statuses: str = EXIT_STATUSES,
) -> CommandParser:
    """Add a command with its help; ``notes`` stand before the examples, and ``statuses`` last."""
    told = ["\n".join(["examples:", *(f"  {example}" for example in examples)])] if examples else []
    parts = [*([notes] if notes else []), *told, *([_FILTERS] if filters else []), statuses]
    parser: CommandParser = commands.add_parser(
        name,
        help=words,
        description=words[0].upper() + words[1:] + ".",
        epilog="\n\n".join(parts),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
        # What removes messages is spelled out.
        allow_abbrev=False,
    )
    return parser


def _queue() -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("queue", metavar="QUEUE")
    return parent


def count(text: str) -> int:
    """Read a number of things, 1 or more."""
    return _whole(text, 1, 10**12)


def seconds(text: str) -> int:
    """Read a number of seconds, 0 or more."""
    return _whole(text, 0, _SECONDS_MAX)


def at_least(least: float) -> Callable[[str], float]:
    """Return what reads a number of seconds, so many or more, fractions too."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not least <= value <= 1e6:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, {least:g} or more")
        return value

    return read


def span(least_ms: int, most_ms: int) -> Callable[[str], int]:
    """Return what reads a time span in ms: 500ms, 5s, 10m, 1h, 2d."""

    def read(text: str) -> int:
        from rsmq_tui.monitor.spans import read_span  # noqa: PLC0415 - what it comes with delays the first paint

        span_ms = read_span(text)
        if isinstance(span_ms, str):
            raise argparse.ArgumentTypeError(f"{text!r}: {span_ms}")
        if not least_ms <= span_ms <= most_ms:
            raise argparse.ArgumentTypeError(f"{text!r} is not between {_said(least_ms)} and {_said(most_ms)}")
        return span_ms

    return read


def _said(span_ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "d"), (1_000, "s")):
        if span_ms % unit_ms == 0:
            return f"{span_ms // unit_ms}{unit}"
    return f"{span_ms}ms"


def _whole(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 15 and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}")
    return int(text)
