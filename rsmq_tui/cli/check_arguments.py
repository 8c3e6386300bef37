"""The arguments of `rsmq-tui check`."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rsmq_tui.cli.command_parser import CommandParser, Commands, Parents, at_least, count

if TYPE_CHECKING:
    from rsmq_tui.monitor.limits import Limit

EXIT_UNKNOWN = 3
_DESCRIPTION = """\
Check queues once, as a plugin of a monitoring system (Nagios, Icinga, Naemon, Zabbix, Sensu ...): a line of summary
with performance data, then a line for each problem."""
_EPILOG = """\
limits: N alone is critical, WARN:CRIT both, WARN: only a warning; a span of time is 90s, 10m, 1h30m, 2d

always looked for, whatever the limits:
  critical  broken queues, whose keys disagree or have wrong types
  warning   list queues with leases past their deadline for a minute or longer, unless --max-expired counts them;
            poisoned queues (messages received 5 times or more, among the 100 around the first hidden one) unless
            --max-rc counts them; aged ones (the first ready message was sent more than 10m ago) unless --max-age does.
            A profile may say other numbers than 5 and 10m
  unknown   a server that cannot be read, a queue that is not there, a namespace without queues; with --lists it is
            enough that a queue is in one of the two, and that one of them has queues

--stalled compares with what earlier checks saw, which is kept in the user's state folder: the first check only starts
the clock, except for queues that were never received from, whose first message tells how long it has been waiting. Of a
list the next item tells: as long as it is the same, nothing is taken. An empty list is no key: name the lists that are
to be checked (--lists orders --lists mail), for a pattern only finds those that have items.

examples:
  rsmq-tui check
  rsmq-tui check --queue orders --queue 'mail-*' --max-depth 1000:5000 --max-age 10m
  rsmq-tui check --max-rc 5 --stalled 2m:10m --json
  rsmq-tui check --lists queue:orders --lists queue:mail --max-depth 1000:5000 --max-expired 0:10

exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (a usage error too), 130 interrupted; the worst counts, in the
order critical, unknown, warning"""


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
        help="only this queue, or those of this pattern (* ? [...]); may be repeated",
    )
    add("--max-depth", type=_limit(_number), metavar="N", help="more than N messages stored")
    add("--max-age", type=_limit(_span), metavar="T", help="the first ready message was sent longer than T ago")
    add("--max-rc", type=_limit(count), metavar="N", help="a message received N times or more; looks at all of them")
    add("--stalled", type=_limit(_span), metavar="T", help="messages ready, and none received for T or longer")
    add("--max-expired", type=_limit(_number), metavar="N", help="more than N leases of a list past their deadline")
    add(
        "--scan-limit",
        type=count,
        default=100_000,
        metavar="N",
        help="with --max-rc: look at no more than about N messages of a queue (default 100000)",
    )
    add(
        "--timeout",
        type=at_least(0.1),
        default=10.0,
        metavar="S",
        help="seconds that the whole check of a server may take (default 10)",
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
            raise argparse.ArgumentTypeError(f"{text!r} holds no number: write N, WARN:CRIT or WARN:")
        limit = Limit(read(warning) if warning else None, read(critical) if critical else None)
        if limit.warning is not None and limit.critical is not None and limit.warning > limit.critical:
            raise argparse.ArgumentTypeError(f"{text!r} would be critical before it is a warning: write WARN:CRIT")
        return limit

    return read_limit


def _number(text: str) -> int:
    return 0 if text == "0" else count(text)


def _span(text: str) -> int:
    from rsmq_tui.monitor.spans import read_span  # noqa: PLC0415

    found = read_span(text)
    if not isinstance(found, int) or found < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no span of time: write 90s, 10m, 1h30m or 2d")
    return found
