"""The arguments of `rsmq-tui history`."""

import argparse

from rsmq_tui.cli.command_parser import Commands, Parents, leaf

ANALYSIS_VARIABLE = "RSMQ_TUI_ANALYSIS"
_STATUSES = "exit status: 0 done, 2 a usage error, or no terminal, 70 a defect in rsmq-tui itself"
_NOTES = """\
OUT is an analysis that `rsmq-tui pipeline run --out OUT` wrote: a folder, or a URL that fsspec supports. The command
contacts no server. With rsmq-tui --analysis OUT, the key H opens the same screen in the dashboard."""
_EXAMPLES = (
    "rsmq-tui history analysis",
    "rsmq-tui history s3://bucket/analysis --history s3://bucket/history",
)


def add_history(commands: Commands, screen: Parents) -> None:
    """Add the command."""
    words = "show the history: charts, episodes, a heat map and forecasts from recorded data"
    parser = leaf(commands, "history", words, screen, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="OUT", nargs="?", help=f"the analysis (env {ANALYSIS_VARIABLE})")
    parser.add_argument(
        "--history", metavar="DIR", help="the history that Enter replays (default: the one that the analysis names)"
    )
