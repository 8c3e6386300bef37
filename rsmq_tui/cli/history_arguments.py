"""The arguments of `rsmq-tui history`."""

import argparse

from rsmq_tui.cli.command_parser import Commands, Parents, leaf

ANALYSIS_VARIABLE = "RSMQ_TUI_ANALYSIS"
_STATUSES = "exit status: 0 done, 2 a usage error, or no terminal"
_NOTES = """\
OUT is what `rsmq-tui pipeline run --out OUT` made of a history: a folder, or a URL that fsspec knows. No server is
asked for anything. rsmq-tui --analysis OUT has the same screen beside the live ones, on the key H."""
_EXAMPLES = (
    "rsmq-tui history analysis",
    "rsmq-tui history s3://bucket/analysis --history s3://bucket/history",
)


def add_history(commands: Commands, screen: Parents) -> None:
    """Add the command."""
    words = "look into the past: charts, episodes, a heat map and forecasts of a recorded history"
    parser = leaf(commands, "history", words, screen, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="OUT", nargs="?", help=f"the analysis (env {ANALYSIS_VARIABLE})")
    parser.add_argument(
        "--history", metavar="DIR", help="the history that enter replays, instead of the one that the analysis names"
    )
