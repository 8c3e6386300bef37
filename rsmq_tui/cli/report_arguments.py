"""The arguments of `rsmq-tui report`."""

import argparse

from rsmq_tui.cli.command_parser import Commands, leaf
from rsmq_tui.cli.history_arguments import ANALYSIS_VARIABLE

_STATUSES = """\
exit status: 0 the file is written; 1 the same, but some files of the analysis could not be read and are named; 2 a
usage error, no such analysis, or the file cannot be written; 70 a defect in rsmq-tui itself"""
_NOTES = """\
T is 21:50, 2031-05-17 21:50, 2031-05-17, -10m (before the end of the analysis), or seconds since 1970, all in UTC; a
time without a date is the last such time, or for --to the first one after --from. Without --from, the report covers the
last day. The HTML is a single file that needs no network: mail it, print it, or add it to a wiki."""
_EXAMPLES = (
    "rsmq-tui report --analysis analysis --out night.html --from '2031-05-17 21:50' --to 23:30",
    "rsmq-tui report --analysis analysis --out orders.md --from -2h --queue orders --title 'Orders stood still'",
)


def add_report(commands: Commands) -> None:
    """Add the command."""
    words = "write a post-mortem of a time range, as HTML or Markdown"
    parser = leaf(commands, "report", words, [], _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", required=True, help="the file to write; its name ends in .html or .md")
    parser.add_argument(
        "--analysis", metavar="OUT", help=f"the tables that `rsmq-tui pipeline` wrote (env {ANALYSIS_VARIABLE})"
    )
    parser.add_argument("--from", metavar="T", dest="from_text", help="start of the range")
    parser.add_argument("--to", metavar="T", dest="to_text", help="end of the range")
    parser.add_argument(
        "--queue", metavar="QUEUE", action="append", default=[], help="only this queue; may be repeated"
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the report")
