"""The arguments of `rsmq-tui pipeline generate`."""

import argparse
from datetime import UTC, datetime

from rsmq_tui.cli.command_parser import Commands, Parents, leaf, span

_DAY_MS = 86_400_000
_QUEUES_MAX = 100_000
_STATUSES = """\
exit status: 0 done, or everything existed already; 2 a usage error, a folder that cannot be written or that contains
another history; 70 a defect in rsmq-tui
itself; 130 ended by Ctrl+C: the same command continues from there"""
_NOTES = """\
It writes what `rsmq-tui record` would have written: quiet queues, queues with a daily and weekly rhythm, bursts,
stalls, growth, old messages, poison messages, dead letters, a queue that is recreated every few days, some list queues
(without arrivals and deletes, which lists do not count), outages of the server, and gaps in the recording. The same
options give the same files; a later --until, or more --days, adds to the existing files. It uses all cores, and neither
a server nor Spark.

The defaults are for trying out: 2.4 million rows in some seconds. 30 days of 1,000 queues every 5 s are 518 million
rows and take some minutes per processor core; 25 to 30 MB per day."""
_EXAMPLES = (
    "rsmq-tui pipeline generate --out history",
    "rsmq-tui pipeline generate --out history --days 30 --queues 1000 --every 5s --messages 1h",
    "rsmq-tui pipeline run --history history --out analysis",
)


def add_generate(commands: Commands, parents: Parents) -> None:
    """Add the command."""
    words = "generate a synthetic history of any size, for trying out or for benchmarks"
    parser = leaf(commands, "generate", words, parents, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.add_argument("--out", metavar="DIR", required=True, type=_out, help="the destination: a folder or a URL")
    parser.add_argument("--days", metavar="N", type=_days, default=7 * _DAY_MS, help="number of days (default 7)")
    parser.add_argument("--queues", metavar="N", type=_queues, default=40, help="number of RSMQ queues (default 40)")
    parser.add_argument(
        "--list-queues", metavar="N", type=_lists, default=3, help="number of additional list queues (default 3)"
    )
    parser.add_argument(
        "--every", metavar="SPAN", type=span(100, 600_000), default=10_000, help="time between polls (default 10s)"
    )
    parser.add_argument(
        "--messages",
        metavar="SPAN",
        type=span(60_000, 30 * _DAY_MS),
        help="also write inventories of all messages at this interval: 1h",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        type=_time,
        help=(
            "end of the history: 2031-05-17 or 2031-05-17T12:00, UTC; rounded down to ten minutes (default: "
            "the last midnight)"
        ),
    )
    parser.add_argument("--seed", metavar="N", type=_seed, default=1, help="seed of the random numbers (default 1)")


def _out(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("must not be empty: name a folder, such as --out history")
    return text


def _days(text: str) -> int:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0.01 <= days <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 0.01 to 10,000")
    return round(days * _DAY_MS)


def _queues(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _QUEUES_MAX and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of queues from 1 to {_QUEUES_MAX:,}")
    return int(text)


def _lists(text: str) -> int:
    return 0 if text == "0" else _queues(text)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _time(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or not 2000 <= found.year <= 2200:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2031-05-17 or 2031-05-17T12:00")
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
