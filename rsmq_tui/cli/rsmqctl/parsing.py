"""Commands of `rsmqctl` and the options that all of them have."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from rsmq_tui import __version__
from rsmq_tui.cli.options import complete_queues, config, namespace, profile, read_only, redis_url
from rsmq_tui.cli.parsing import (
    Command,
    Decorator,
    Group,
    LazyCommand,
    Options,
    group,
    option,
    positive,
    several,
    whole_seconds,
)
from rsmq_tui.cli.program import load

if TYPE_CHECKING:
    from rsmq_tui.cli.rsmqctl.server import Server

NO_JOURNAL = "The change is not journaled, so rsmq-tui undo cannot revert it."
_STATUSES = {
    0: "done, or there was no message to print",
    1: "it failed or was refused, with the reason on stderr",
    2: "a usage error",
    130: "interrupted",
    141: "the reader of the output has closed it",
}
Run = Callable[["Server", Options], None]


class CtlCommand(Command):
    """A command whose options take any following word as their value, as in the original."""

    takes_options_only_as_options = False

    def __init__(self, *names: Any, **settings: Any) -> None:
        super().__init__(*names, statuses=_STATUSES, **settings)


class CtlGroup(CtlCommand, Group):
    """A command with subcommands; without arguments it prints its help, which is not an error."""

    command_class = CtlCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; raises ``click.UsageError``."""
        return super().parse_args(ctx, args if args or ctx.resilient_parsing else ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the original help."""
        return sorted(self.commands)


# They may come before or after the command.
common = several(
    redis_url,
    namespace,
    profile,
    config,
    read_only,
    option("--output FORMAT", "json for scripts, text for people", click.Choice(("json", "text"))),
    option("-v --verbose", "on an error, show where in the program it occurred"),
)
name = option("-n --name QUEUE", "the queue's name", required=True, shell_complete=complete_queues)


def count(words: str, default: str | None = None) -> Decorator:
    """Return the option of a number of messages."""
    return option("--count N", words, positive, default=default)


def seconds(text: str) -> int:
    """Read a number as the original does, negative ones too, or a duration such as 10m."""
    with suppress(ValueError):
        return int(text)
    return whole_seconds(text)


def server_command(
    commands: Group, name: str, *own: Decorator, examples: Sequence[str], notes: str = ""
) -> Callable[[Run], Run]:
    """Add a command that works on the server of its options; the decorated function may raise ``FailedError``."""

    def add(run: Run) -> Run:
        @commands.command(name, examples=examples, notes=notes)
        @several(*own, common)
        def command(options: Options) -> int:
            # Imported late: usage errors and the help do not need redis.
            status: int = load("rsmq_tui.cli.rsmqctl.server").run_on_server(run, options)
            return status

        return run

    return add


# By the name of its module: the description of a group, and its commands.
_COMMANDS = {
    "queue": (
        "list, describe, create, change and delete queues",
        {
            "list": "print the names of all queues",
            "describe": "print the attributes and counts of a queue",
            "create": "create a queue",
            "set": "change attributes of a queue and print all of them",
            "delete": "delete a queue and all its messages, at once",
        },
    ),
    "message": (
        "send, receive, peek at and delete messages",
        {
            "send": "send a message and print its id",
            "receive": "receive the next message, hide it for a while, and print it",
            "pop": "receive the next message, delete it, and print it",
            "delete": "delete a message",
            "visibility": "make a message visible in N seconds",
            "peek": "print the next message without receiving it",
            "list": "list the messages of a queue, hidden ones too, with the start of each body",
        },
    ),
}


command = group(
    common,
    click.version_option(__version__, message="%(prog)s %(version)s"),
    cls=CtlGroup,
    name="rsmqctl",
    help="manage RSMQ queues and messages on Redis, Valkey and compatible servers",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _group, (_words, _members) in _COMMANDS.items():
    _made = group(common, cls=CtlGroup, name=_group, help=_words)
    for _name, _does in _members.items():
        _made.add_command(LazyCommand(_name, _does, f"rsmq_tui.cli.rsmqctl.{_group}", member=_name))
    command.add_command(_made)
