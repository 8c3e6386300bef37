"""The arguments of `rsmq-tui record`."""

import argparse
import re

from rsmq_tui.cli.command_parser import Commands, Parents, leaf, span

_DAY_MS = 86_400_000
_STATUSES = """\
exit status: 0 the time of --for is over; 1 the same, but something could not be written; 2 a usage error, or a folder
that cannot be a history; 130 ended by Ctrl+C, 143 by SIGTERM or SIGHUP: what was polled is written first. A server that
cannot be reached ends nothing: the outage is recorded."""
_NOTES = """\
DIR is a folder, or a URL that fsspec knows (s3://bucket/queues with the package s3fs). Several recorders may write to
the same. It holds Parquet files by UTC day; what the columns mean is in DIR/_schema.json.

List queues (--lists) are recorded beside those of RSMQ, as namespace (lists), kind "list". What nothing counts is null:
arrivals, deletes and receives of a list are not known. --messages leaves lists out: their items have no ids, so that
one inventory could not be compared with the next."""
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
    words = "write the state of all queues down, poll by poll, as Parquet files"
    parser = leaf(commands, "record", words, common, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", required=True, type=_out, help="where to: a folder or a URL")
    parser.add_argument(
        "--every", metavar="SPAN", type=span(100, _DAY_MS), default=5_000, help="time between polls (default 5s)"
    )
    parser.add_argument(
        "--for", metavar="SPAN", type=span(100, 10_000 * _DAY_MS), dest="for_ms", help="end after this time: 1h"
    )
    parser.add_argument(
        "--messages",
        metavar="SPAN",
        type=span(1_000, 10_000 * _DAY_MS),
        help="also write down every message of RSMQ queues this often, without its body: 5m",
    )
    parser.add_argument(
        "--bodies", action="store_true", help="with --messages: the bodies too, for whoever can read the files"
    )
    parser.add_argument(
        "--keep", metavar="SPAN", type=span(_DAY_MS, 100_000 * _DAY_MS), help="delete days older than this: 90d"
    )
    parser.add_argument(
        "--max-size", metavar="SIZE", type=_size, help="delete the oldest days when the files take more: 20G"
    )


def _out(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("it is no folder: name one, such as --out history")
    return text


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = round(float(found[1]) * _SIZES[found[2].upper()]) if found else 0
    if not 1 << 20 <= size <= 1 << 60:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of 1M or more: 500M, 20G, 1.5T")
    return size
