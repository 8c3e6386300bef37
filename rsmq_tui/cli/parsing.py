"""Commands on click, and the values that their options take."""

import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import Any, TypeVar

import click

from rsmq_tui.cli.errors import EXIT_DEFECT
from rsmq_tui.cli.program import load

DEFAULT_URL = "redis://localhost:6379"
CHANGE_STATUSES = {
    0: "done; messages that changed since the preview are skipped and counted",
    1: "some messages failed or were not found, or an error stopped the change",
    2: "refused, a usage error, or the server cannot be reached",
    3: "only a preview: nothing was changed",
    130: "interrupted",
}
# Of a command that only reads.
READ_STATUSES = {0: "done", 2: "a usage error, or the server cannot be read", 130: "interrupted"}
# Those of a command that prints all queues.
POLL_STATUSES = READ_STATUSES | {1: "queues are missing, which could not be read"}
_WIDTH_MAX = 120
# The longest time between polls, or for one answer.
_SECONDS_MAX = 1_000_000
# A word that begins with a dash and a digit is a value, as in --from -2h: no option has such a name.
_VALUE = re.compile(r"-\d")

T = TypeVar("T", int, float)

Decorator = Callable[[Any], Any]
Section = str | Sequence[tuple[str, str]]


class Options(SimpleNamespace):
    """The options of a command: an attribute for each of its own options and those of its groups."""

    # rsmqctl has no options for them.
    lists: Sequence[str] = ()
    interval: float | None = None


def options_of(ctx: click.Context) -> Options:
    """Return the options of a command; an option after the command overrides the same one before it."""
    contexts = [ctx]
    while contexts[-1].parent is not None:
        contexts.append(contexts[-1].parent)
    merged: dict[str, Any] = {}
    for each in reversed(contexts):
        for name, value in each.params.items():
            if name not in merged or each.get_parameter_source(name) is click.ParameterSource.COMMANDLINE:
                merged[name] = value
    return Options(**merged)


def several(*decorators: Decorator) -> Decorator:
    """Return a decorator that adds the options of all of these, in this order."""

    def decorate(command: Any) -> Any:
        for each in reversed(decorators):
            command = each(command)
        return command

    return decorate


class OneOf:
    """Options of which at most one may be given, or exactly one if ``required``."""

    def __init__(self, *, required: bool = False) -> None:
        self.required = required


class Option(click.Option):
    """An option. ``many`` takes all values up to the next option; ``one_of`` are those that exclude each other."""

    def __init__(self, *names: Any, many: bool = False, one_of: OneOf | None = None, **settings: Any) -> None:
        settings.setdefault("multiple", many)
        super().__init__(*names, **settings)
        self.many = many
        self.one_of = one_of


def option(spec: str, words: str, read: Any = None, name: str | None = None, **settings: Any) -> Decorator:
    """Return a decorator that adds an option to a command.

    ``spec`` is how the help shows it: its names, and its value if it takes one, as in ``-o --output FILE``. ``words``
    describe it, and ``read`` converts a text to its value. ``name`` is its attribute in ``Options``, if that is not its
    long name; ``settings`` are those of ``Option``, in which a default is a text.
    """
    names = [part for part in spec.split() if part.startswith("-")]
    metavar = spec.rsplit(maxsplit=1)[-1]
    settings |= (
        {"is_flag": True}
        if metavar in names
        else {"metavar": metavar, "type": read, "show_default": bool(settings.get("default"))}
    )
    return click.option(*names, *([name] if name else []), cls=Option, help=words, **settings)


class Command(click.Command):
    """A command that is called with its options as one object, and returns its exit status.

    ``help`` is what it does, without a capital or a full stop. The help shows ``notes`` after it, and after the options
    ``examples`` of arguments, and ``sections`` by their titles: lines as they are, or pairs of terms and meanings.
    """

    # A word that begins with a dash is an option, not the value of one; the original rsmqctl takes it as the value.
    takes_options_only_as_options = True

    def __init__(
        self,
        *names: Any,
        notes: str = "",
        examples: Sequence[str] = (),
        sections: Mapping[str, Section] | None = None,
        statuses: Mapping[int, str] | None = None,
        **settings: Any,
    ) -> None:
        words = settings.pop("help", None)
        super().__init__(*names, **settings)
        self.notes = notes
        self.statuses = CHANGE_STATUSES if statuses is None else {2: "a usage error", **statuses}
        self.examples = examples
        self.sections = sections or {}
        if words is not None:
            self.describe(words)

    def describe(self, words: str) -> None:
        """Set the description of the command, for its own help and for the list of commands."""
        self.short_help = words
        sentence = f"{words[0].upper()}{words[1:]}."
        self.help = f"{sentence}\n\n{self.notes}" if self.notes else sentence

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; raises ``click.UsageError``."""
        if self.takes_options_only_as_options:
            args = self._arranged(ctx, args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            self._refuse_several(ctx)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command."""
        if self.callback is None:
            raise RuntimeError("a command without a function")
        return self.callback(options_of(ctx))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections and the exit statuses."""
        program = ctx.find_root().info_name
        statuses = {**self.statuses, EXIT_DEFECT: f"a defect in {program} itself"}
        rows = [(str(status), meaning) for status, meaning in sorted(statuses.items())]
        examples = "\n".join(f"{ctx.command_path} {example}" for example in self.examples)
        before: dict[str, Section] = {"Examples": examples} if examples else {}
        for title, content in {**before, **self.sections, "Exit status": rows}.items():
            with formatter.section(title):
                if isinstance(content, str):
                    formatter.write("".join(f"  {line}".rstrip() + "\n" for line in content.splitlines()))
                else:
                    formatter.write_dl(content)

    def _arranged(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        """Return the options, each with one value, and the arguments after them; raises ``click.UsageError``.

        click itself would take an option as the value of the one before it, and -5 as an option.
        """
        takers = {
            name: each
            for each in self.params
            if isinstance(each, click.Option) and not each.is_flag
            for name in each.opts
        }
        options: list[str] = []
        arguments: list[str] = []
        left = deque(args)
        while left:
            given = left.popleft()
            if given == "--" or not _is_option(given):
                arguments += [] if given == "--" else [given]
                if given == "--" or not ctx.allow_interspersed_args:
                    arguments += left
                    break
                continue
            options.append(given)
            if given not in takers:
                continue
            if left and not _is_option(left[0]):
                options.append(left.popleft())
            elif not ctx.resilient_parsing:
                raise click.BadOptionUsage(given, f"Option {given!r} requires an argument.", ctx)
            while getattr(takers[given], "many", False) and left and not _is_option(left[0]):
                options += [given, left.popleft()]
        return [*options, "--", *arguments] if arguments else options

    def _refuse_several(self, ctx: click.Context) -> None:
        groups: dict[OneOf, list[tuple[str, bool]]] = {}
        for each in self.params:
            if isinstance(each, Option) and each.one_of is not None:
                is_given = ctx.get_parameter_source(each.name) is click.ParameterSource.COMMANDLINE
                groups.setdefault(each.one_of, []).append((each.opts[0], is_given))
        for one_of, members in groups.items():
            given = [name for name, is_given in members if is_given]
            if len(given) > 1:
                ctx.fail(f"{' and '.join(given)} cannot be combined.")
            if one_of.required and not given:
                ctx.fail(f"One of {', '.join(name for name, _ in members)} is required.")


def _is_option(text: str) -> bool:
    return text.startswith("-") and text != "-" and " " not in text.partition("=")[0] and not _VALUE.match(text)


class Group(Command, click.Group):
    """A command with subcommands; its own function is called without a subcommand, if that is allowed."""

    command_class = Command

    def __init__(self, *names: Any, callback: Callable[[Options], int] | None = None, **settings: Any) -> None:
        super().__init__(*names, callback=self._called, **settings)
        self._without_command = callback

    def _called(self, **_: Any) -> int | None:
        ctx = click.get_current_context()
        if self._without_command is None or ctx.invoked_subcommand is not None:
            return None
        return self._without_command(options_of(ctx))

    def invoke(self, ctx: click.Context) -> Any:
        """Call the given subcommand, or the group's own function without one."""
        return click.Group.invoke(self, ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in sections."""
        commands = [self.commands[name] for name in self.list_commands(ctx)]
        for title, of_section in groupby(commands, lambda each: getattr(each, "section", "Commands")):
            with formatter.section(title):
                formatter.write_dl([(each.name or "", each.get_short_help_str(_WIDTH_MAX)) for each in of_section])


def group(*options: Decorator, cls: type[Group] = Group, **settings: Any) -> Group:
    """Return a command with these options that only has subcommands."""

    def nothing(_: Options) -> int:
        raise NotImplementedError

    return click.command(cls=cls, **settings)(several(*options)(nothing))


class LazyCommand(click.Command):
    """A command that is imported when it is called.

    ``path`` is ``module:name``, or only the module for the name ``command``; with ``member``, it is that subcommand of
    the group.
    """

    def __init__(self, name: str, words: str, path: str, section: str = "Commands", member: str | None = None) -> None:
        super().__init__(name, short_help=words)
        self._path = path
        self._member = member
        self.section = section

    def loaded(self) -> Command:
        """Import and return the command."""
        module, _, attribute = self._path.partition(":")
        command = getattr(load(module), attribute or "command")
        found: Command = command if self._member is None else command.commands[self._member]
        found.describe(self.short_help or "")
        return found

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Import the command, and parse its arguments."""
        return self.loaded().make_context(info_name, args, parent, **extra)


def is_set(name: str) -> bool:
    """Return whether an environment variable is set to yes."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "no", "false", "off")


def whole(least: int, most: int, what: str = "whole number") -> Callable[[str], int]:
    """Return a parser of a number in decimal digits."""

    def read(text: str) -> int:
        from rsmq_tui.monitor.text import read_whole  # noqa: PLC0415 - what it comes with delays the first paint

        found = read_whole(text, least, most)
        if found is None:
            raise ValueError(f"{text!r} is not a {what} from {least:,} to {most:,}")
        return found

    return read


positive = whole(1, 10**12)
natural = whole(0, 10**12)


def whole_seconds(text: str) -> int:
    """Read a duration in whole seconds, 0 to 9,999,999: 600, 10m, 1h30m."""
    from rsmq_tui.monitor.text import read_whole_seconds  # noqa: PLC0415 - as above

    return _duration(text, read_whole_seconds)


def at_least(least: float, most: float = _SECONDS_MAX) -> Callable[[str], float]:
    """Return a parser of a duration in seconds, from ``least`` to ``most``, with fractions: 0.5, 500ms, 10m."""

    def read(text: str) -> float:
        from rsmq_tui.monitor.text import read_seconds  # noqa: PLC0415 - as above

        value_s = _duration(text, read_seconds)
        if not least <= value_s <= most:
            raise ValueError(f"{text!r} is not between {least:g}s and {most:,.12g}s")
        return value_s

    return read


def span(least_ms: int, most_ms: int) -> Callable[[str], int]:
    """Return a parser of a duration with a unit, in ms: 500ms, 5s, 10m, 1h, 2d."""

    def read(text: str) -> int:
        from rsmq_tui.monitor.text import read_span  # noqa: PLC0415 - as above

        span_ms = _duration(text, read_span)
        if not least_ms <= span_ms <= most_ms:
            raise ValueError(f"{text!r} is not between {_span_words(least_ms)} and {_span_words(most_ms)}")
        return span_ms

    return read


def _duration(text: str, read: Callable[[str], T | str]) -> T:
    """Return the result of ``read`` for a text; a sentence from it becomes a usage error."""
    found = read(text)
    if isinstance(found, str):
        raise ValueError(f"{text!r}: {found}")
    return found


def _span_words(span_ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "d"), (1_000, "s")):
        if span_ms % unit_ms == 0:
            return f"{span_ms // unit_ms}{unit}"
    return f"{span_ms}ms"


def folder(text: str) -> str:
    """Read the name of a folder or its URL."""
    if not text or "\0" in text:
        raise ValueError("must not be empty: name a folder")
    return text
