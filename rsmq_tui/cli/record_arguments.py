"""The arguments of `rsmq-tui record`."""

import argparse
import re

from rsmq_tui.cli.command_parser import Commands, Parents, leaf, span

_DAY_MS = 86_400_000
_STATUSES = """\
exit status: 0 the time of --for is over; 1 the same, but something could not be written; 2 a usage error, or a folder
that cannot be a history; 70 a defect in rsmq-tui
itself; 130 ended by Ctrl+C, 143 by SIGTERM or SIGHUP: all polls are written first. An unreachable
server does not end the recording: the outage is recorded."""
_NOTES = """\
DIR is a folder, or a URL that fsspec supports (s3://bucket/queues with the package s3fs). Several recorders may write
to the same DIR. It contains Parquet files by UTC day; DIR/_schema.json describes the columns.

List queues (--lists) are recorded beside RSMQ queues, with namespace (lists) and kind "list". Values that lists do not
count are null: arrivals, deletes and receives. --messages skips lists: their items have no ids, so inventories of them
cannot be compared."""
_EXAMPLES = (
    "rsmq-tui record --out history",
    "rsmq-tui --profile eu,us record --out /var/lib/rsmq --every 5s --messages 5m --keep 90d --max-size 20G",
    "rsmq-tui record --out incident --every 1s --for 1h",
    "rsmq-tui record --out history --lists 'queue:*' --lists mail",
)
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([KMGT]?)i?B?", re.IGNORECASE)
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_record(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "record the state of all queues at every poll, as Parquet files"
    parser = leaf(commands, "record", words, common, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", required=True, type=_out, help="the destination: a folder or a URL")
    parser.add_argument(
        "--every", metavar="SPAN", type=span(100, _DAY_MS), default=5_000, help="time between polls (default 5s)"
    )
    parser.add_argument(
        "--for", metavar="SPAN", type=span(100, 10_000 * _DAY_MS), dest="for_ms", help="stop after this time: 1h"
    )
    parser.add_argument(
        "--messages",
        metavar="SPAN",
        type=span(1_000, 10_000 * _DAY_MS),
        help="also record every message of RSMQ queues at this interval, without its body: 5m",
    )
    parser.add_argument(
        "--bodies",
        action="store_true",
        help="with --messages: record the bodies too; anyone who can read the files can read the bodies",
    )
    parser.add_argument(
        "--keep", metavar="SPAN", type=span(_DAY_MS, 100_000 * _DAY_MS), help="delete days older than this: 90d"
    )
    parser.add_argument(
        "--max-size", metavar="SIZE", type=_size, help="delete the oldest days when the files take more than this: 20G"
    )


def _out(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("must not be empty: name a folder, such as --out history")
    return text


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = round(float(found[1]) * _SIZES[found[2].upper()]) if found else 0
    if not 1 << 20 <= size <= 1 << 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of at least 1M, such as 500M, 20G or 1.5T")
    return size
