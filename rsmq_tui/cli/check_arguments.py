"""The arguments of `rsmq-tui check`."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rsmq_tui.cli.command_parser import CommandParser, Commands, Parents, at_least, count, span

if TYPE_CHECKING:
    from rsmq_tui.monitor.limits import Limit

EXIT_UNKNOWN = 3
_DESCRIPTION = """\
Check queues once, as a plugin of a monitoring system (Nagios, Icinga, Naemon, Zabbix, Sensu ...). Prints a summary line
with performance data, then one line per problem."""
_EPILOG = """\
limits: N is critical, WARN:CRIT sets both, WARN: is only a warning; a duration is 90s, 10m, 1h30m, 2d

always checked, whatever the limits:
  critical  broken queues, whose keys disagree or have wrong types, or whose first message has no body
  warning   list queues with leases past their deadline for a minute or longer, unless --max-expired counts them;
            poisoned queues (messages received 5 times or more, among the 100 around the first hidden one) unless
            --max-rc counts them; aged queues (the first ready message became due more than 10m ago) unless --max-age
            is given. A profile can set other thresholds than 5 and 10m
  unknown   a server that cannot be read, a queue that does not exist, a namespace without queues; with --lists it is
            enough if the namespace or the lists contain the queue, or any queue

--stalled compares with earlier checks, which are kept in the user's state folder. The first check only starts the
clock, except for queues that were never received from: there, the age of the first message is used. A list is stalled
while its next item stays the same. An empty list does not exist in Redis: name the lists to check (--lists orders
--lists mail), because a pattern finds only lists that have items.

examples:
  rsmq-tui check
  rsmq-tui check --queue orders --queue 'mail-*' --max-depth 1000:5000 --max-age 10m
  rsmq-tui check --max-rc 5 --stalled 2m:10m --json
  rsmq-tui check --lists queue:orders --lists queue:mail --max-depth 1000:5000 --max-expired 0:10

exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (a usage error too), 70 a defect in rsmq-tui
itself, 130 interrupted; the worst status
wins, in the order critical, unknown, warning"""


_SPAN_MAX_MS = 100_000 * 86_400_000


def add_check(commands: Commands, parents: Parents) -> None:
    """Add the command; its arguments are added when it is used."""
    parser: CommandParser = commands.add_parser(
        "check",
        help="check queues once, as a plugin of a monitoring system",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
        allow_abbrev=False,
    )
    parser.fill = lambda: _fill(parser)
    # To a monitoring system 2, argparse's usual status, is a critical problem of the queues.
    vars(parser)["error"] = partial(_refuse, parser)
    vars(parser)["parse_known_args"] = partial(_parse_all, parser)


def _fill(parser: CommandParser) -> None:
    add = parser.add_argument
    add(
        "--queue",
        dest="queues",
        action="append",
        default=[],
        metavar="Q",
        help="only this queue, or the queues that match this pattern (* ? [...]); may be repeated",
    )
    add("--max-depth", type=_limit(_number), metavar="N", help="more than N messages stored")
    add(
        "--max-age",
        type=_limit(span(0, _SPAN_MAX_MS)),
        metavar="T",
        help="the first ready message became due longer than T ago",
    )
    add("--max-rc", type=_limit(count), metavar="N", help="a message received N times or more; checks all messages")
    add(
        "--stalled",
        type=_limit(span(0, _SPAN_MAX_MS)),
        metavar="T",
        help="messages ready, but none received for T or longer",
    )
    add("--max-expired", type=_limit(_number), metavar="N", help="more than N leases of a list past their deadline")
    add(
        "--scan-limit",
        type=count,
        default=100_000,
        metavar="N",
        help="with --max-rc: check at most about N messages per queue (default 100000)",
    )
    add(
        "--timeout",
        type=at_least(0.1),
        default=10.0,
        metavar="S",
        help="time limit for the whole check of a server, in seconds (default 10)",
    )
    add("--json", action="store_true", help="print the result as one line of JSON")


def _refuse(parser: CommandParser, message: str) -> None:
    # A monitoring system shows the first line of the output.
    print(f"RSMQ UNKNOWN - {plain(message)}", flush=True)
    parser.print_usage(sys.stderr)
    parser.exit(EXIT_UNKNOWN)


def plain(text: str) -> str:
    """Return a text as a monitoring system can take it: behind a bar it would look for performance data."""
    from rsmq_tui.monitor.wording import printable  # noqa: PLC0415

    return printable(text).replace("|", "\\x7c")


def _parse_all(parser: CommandParser, args: Any = None, namespace: Any = None) -> Any:
    # What is left over would else be refused by the parser of all commands, with its own exit status.
    options, left = CommandParser.parse_known_args(parser, args, namespace)
    if left:
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    return options, left


def _limit(read: Callable[[str], int]) -> "Callable[[str], Limit]":
    """Return what reads WARN:CRIT of such numbers."""

    def read_limit(text: str) -> "Limit":
        from rsmq_tui.monitor.limits import Limit  # noqa: PLC0415

        before, colon, after = text.partition(":")
        warning, critical = (before, after) if colon else ("", before)
        if not (warning or critical):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number: write N, WARN:CRIT or WARN:")
        limit = Limit(read(warning) if warning else None, read(critical) if critical else None)
        if limit.warning is not None and limit.critical is not None and limit.warning > limit.critical:
            raise argparse.ArgumentTypeError(f"{text!r} has a critical limit below the warning limit: write WARN:CRIT")
        return limit

    return read_limit


def _number(text: str) -> int:
    return 0 if text == "0" else count(text)
