"""The arguments of `rsmq-tui help`."""

from rsmq_tui.cli.command_parser import CommandParser, Commands, leaf

_NOTES = """\
In a terminal, a page that is longer than the screen is shown by $PAGER (default less). Otherwise the page is printed as
Markdown. `rsmq-tui COMMAND --help` describes the options of a command."""
_EXAMPLES = ("rsmq-tui help", "rsmq-tui help lists", "rsmq-tui help messages | grep undo")
_STATUSES = "exit status: 0 done, 2 a usage error, 70 a defect in rsmq-tui itself"


def add_help(commands: Commands) -> None:
    """Add the command; its topics are looked up when it is used."""
    words = "print a page about a topic, or list the topics"
    parser = leaf(commands, "help", words, (), _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: CommandParser) -> None:
    from rsmq_tui.docs import topics  # noqa: PLC0415 - it reads files, which only this command needs

    parser.add_argument("topic", nargs="?", metavar="TOPIC", choices=tuple(topics()), help="one of the listed topics")
