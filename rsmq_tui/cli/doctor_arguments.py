"""The arguments of `rsmq-tui doctor`."""

import argparse

from rsmq_tui.cli.command_parser import CommandParser, Commands, Parents, at_least

_DESCRIPTION = """\
Look at everything that the dashboard needs, and say what keeps it from working: configuration, connection, server,
permissions, speed, namespaces, lists, terminal and folders. Nothing is changed anywhere, and no password is printed."""
_EPILOG = """\
examples:
  rsmq-tui doctor
  rsmq-tui doctor -r redis://host:6379/0 --ns jobs
  rsmq-tui doctor --lists 'queue:*'
  rsmq-tui doctor --json

exit status: 0 the dashboard will work (there may be warnings), 1 it will not, 2 a usage error, 130 interrupted"""


def add_doctor(commands: Commands, parents: Parents) -> None:
    """Add the command; its arguments are added when it is used."""
    parser: CommandParser = commands.add_parser(
        "doctor",
        help="say what keeps the dashboard from working, if anything does",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
        allow_abbrev=False,
    )
    parser.fill = lambda: _fill(parser)


def _fill(parser: CommandParser) -> None:
    parser.add_argument(
        "--timeout",
        type=at_least(0.1),
        default=5.0,
        metavar="S",
        help="seconds that each step of the connection may take (default 5)",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as one line of JSON")
