"""Argument parsers, readers of values such as 10m, and defaults."""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

EXIT_STATUSES = """\
exit status: 0 done (messages changed since are skipped and counted), 1 some failed or it was stopped, 2 refused, a
usage error, or the server cannot be reached, 3 only a preview: nothing was changed, 70 a defect in rsmq-tui itself,
130 interrupted"""
_FILTERS = """\
filters: all terms must match; ! before a term inverts it
  state:ready|inflight|delayed|poison  rc>=5  age>10m  due<30s  size>1k  id:prefix
  (of lists: state:ready|processing|inflight|expired|unleased)
  body:"text"  body~regex  json.customer.id=42  word"""
# The longest time between polls, or for one answer.
_SECONDS_MAX = 1_000_000
# What begins with a dash and a digit is a value, such as --from -2h: no option of ours looks like that.
_VALUE = re.compile(r"-\d\S*")

T = TypeVar("T", int, float)

Commands = Any  # argparse has no public name for what add_subparsers returns
Parents = Sequence[argparse.ArgumentParser]


class HelpfulParser(argparse.ArgumentParser):
    """A parser whose usage errors name the command or the option that was probably meant."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an option that is unknown is refused by its command, which knows what it may have meant."""
        options, left = super().parse_known_args(args, namespace)
        unknown = next((given for given in left if given.startswith("-") and given not in ("-", "--")), None)
        if unknown is not None and "--" not in left[: left.index(unknown)]:
            given = unknown.partition("=")[0]
            self.error(f"unknown option {_shown(given)}.{did_you_mean(given, self._option_string_actions)}")
        return options, left

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if not action.option_strings and action.choices is not None and value not in action.choices:
            what = "command" if isinstance(action, argparse._SubParsersAction) else action.dest
            meant = did_you_mean(value, action.choices) or f" {what.capitalize()}s: {', '.join(action.choices)}."
            raise argparse.ArgumentError(None, f"unknown {what} {_shown(value)}.{meant}")
        super()._check_value(action, value)


def _shown(given: str) -> str:
    # Only needed here; and a URL, which may hold a password, is not repeated.
    from rsmq_tui.monitor.text import printable  # noqa: PLC0415

    return "(a URL)" if "://" in given else f'"{printable(given, 60)}"'


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return " Did you mean x?", or nothing where no known word is close to the given one."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    close = get_close_matches(given.lower(), known, n=1, cutoff=0.7)
    return f" Did you mean {close[0]}?" if close else ""


class CommandParser(HelpfulParser):
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
    """Read a duration in whole seconds, 0 to 9,999,999: 600, 10m, 1h30m."""
    from rsmq_tui.monitor.text import read_whole_seconds  # noqa: PLC0415 - what it comes with delays the first paint

    return _duration(text, read_whole_seconds)


def at_least(least: float) -> Callable[[str], float]:
    """Return what reads a duration in seconds, so many or more, with fractions: 0.5, 500ms, 10m."""

    def read(text: str) -> float:
        from rsmq_tui.monitor.text import read_seconds  # noqa: PLC0415 - as above

        value_s = _duration(text, read_seconds)
        if not least <= value_s <= _SECONDS_MAX:
            raise argparse.ArgumentTypeError(f"{text!r} is not between {least:g}s and {_SECONDS_MAX:,}s")
        return value_s

    return read


def span(least_ms: int, most_ms: int) -> Callable[[str], int]:
    """Return what reads a duration in ms that has a unit: 500ms, 5s, 10m, 1h, 2d."""

    def read(text: str) -> int:
        from rsmq_tui.monitor.text import read_span  # noqa: PLC0415 - as above

        span_ms = _duration(text, read_span)
        if not least_ms <= span_ms <= most_ms:
            raise argparse.ArgumentTypeError(f"{text!r} is not between {_said(least_ms)} and {_said(most_ms)}")
        return span_ms

    return read


def _duration(text: str, read: Callable[[str], T | str]) -> T:
    """Return what ``read`` makes of a text; its sentence becomes a usage error."""
    found = read(text)
    if isinstance(found, str):
        raise argparse.ArgumentTypeError(f"{text!r}: {found}")
    return found


def _said(span_ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "d"), (1_000, "s")):
        if span_ms % unit_ms == 0:
            return f"{span_ms // unit_ms}{unit}"
    return f"{span_ms}ms"


def _whole(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 15 and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}")
    return int(text)


DEFAULT_URL = "redis://localhost:6379"
