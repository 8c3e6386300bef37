"""The arguments of `rsmq-tui report`."""

import argparse

from rsmq_tui.cli.command_parser import Commands, leaf
from rsmq_tui.cli.history_arguments import ANALYSIS_VARIABLE

_STATUSES = """\
exit status: 0 the file is written; 1 the same, but files of the analysis could not be read: it says which; 2 a usage
error, no such analysis, or the file cannot be written"""
_NOTES = """\
T is 21:50, 2031-05-17 21:50, 2031-05-17, -10m (before the end of the analysis), or seconds since
1970, all in UTC; a time without a date is the last such time, and after --from the first behind it. Without --from it
is the last day. The HTML is one file that needs no network: mail it, print it, put it into a wiki."""
_EXAMPLES = (
    "rsmq-tui report --analysis analysis --out night.html --from '2031-05-17 21:50' --to 23:30",
    "rsmq-tui report --analysis analysis --out orders.md --from -2h --queue orders --title 'Orders stood still'",
)


def add_report(commands: Commands) -> None:
    """Add the command."""
    words = "write a post-mortem of a range of time, as HTML or Markdown"
    parser = leaf(commands, "report", words, [], _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", required=True, help="where to: a name that ends in .html or .md")
    parser.add_argument(
        "--analysis", metavar="OUT", help=f"what `rsmq-tui pipeline` made of a history (env {ANALYSIS_VARIABLE})"
    )
    parser.add_argument("--from", metavar="T", dest="from_text", help="where it begins")
    parser.add_argument("--to", metavar="T", dest="to_text", help="where it ends")
    parser.add_argument(
        "--queue", metavar="QUEUE", action="append", default=[], help="tell of this queue only; may be given again"
    )
    parser.add_argument("--title", metavar="TEXT", help="what stands at the top")
