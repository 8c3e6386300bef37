"""The arguments of `rsmq-tui doctor`."""

import argparse

from rsmq_tui.cli.command_parser import CommandParser, Commands, Parents, at_least

_DESCRIPTION = """\
Check everything that the dashboard needs, and report what prevents it from working: configuration, connection, server,
permissions, speed, namespaces, lists, terminal and folders. The command changes nothing and prints no password."""
_EPILOG = """\
examples:
  rsmq-tui doctor
  rsmq-tui doctor -r redis://host:6379/0 --ns jobs
  rsmq-tui doctor --lists 'queue:*'
  rsmq-tui doctor --json

exit status: 0 the dashboard will work (there may be warnings), 1 it will not, 2 a usage error, 70 a defect in
rsmq-tui itself, 130 interrupted"""


def add_doctor(commands: Commands, parents: Parents) -> None:
    """Add the command; its arguments are added when it is used."""
    parser: CommandParser = commands.add_parser(
        "doctor",
        help="check everything that the dashboard needs, and report problems",
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
        help="time limit for each step of the connection, in seconds (default 5)",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as one line of JSON")
