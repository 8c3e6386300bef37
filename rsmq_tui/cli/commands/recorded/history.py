"""`rsmq-tui history`: the history screen alone, without a server."""

import os
import sys
from pathlib import Path

import click

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.options import ANALYSIS_VARIABLE, config, look, zone_for
from rsmq_tui.cli.parsing import Command, Options, option
from rsmq_tui.cli.servers import expected_of
from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.history.loading import Past


@click.command(
    cls=Command,
    notes="OUT is an analysis that `rsmq-tui pipeline run --out OUT` wrote: a folder, or a URL that fsspec supports. "
    "The command contacts no server. With rsmq-tui --analysis OUT, the key H opens the same screen in the dashboard.",
    examples=("analysis", "s3://bucket/analysis --history s3://bucket/history"),
    statuses={0: "done", 2: "a usage error, or no terminal"},
)
@click.argument("out", metavar="[OUT]", required=False, help=f"the analysis (env {ANALYSIS_VARIABLE})")
@option("--history DIR", "the history that Enter replays (default: the one that the analysis names)")
@config
@look
def command(options: Options) -> int:
    """Open the screen and return the exit status; raises ``UsageError`` where no analysis is named, or none there."""
    out = analysis_of(options.out)
    # What is elsewhere is asked for on the screen: that may take a while.
    if "://" not in out and not Path(out).is_dir():
        raise UsageError(
            f"{printable(out)} is not a directory: `rsmq-tui pipeline run --history DIR --out OUT` creates one"
        )
    past = Past(out, options.history)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("rsmq-tui: the history screen needs a terminal; `rsmq-tui report` writes a file", file=sys.stderr)
        return 2
    from rsmq_tui.tui.app import RsmqApp  # noqa: PLC0415 - whoever has no terminal needs it not

    app = RsmqApp(
        (),
        past=past,
        expected=expected_of(options),
        ascii_only=options.ascii,
        theme=options.theme,
        zone=zone_for(options),
    )
    app.run()
    return app.return_code or 0


def analysis_of(given: str | None) -> str:
    """Return the analysis that is meant; raises ``UsageError`` where none is."""
    out = given or os.environ.get(ANALYSIS_VARIABLE, "")
    if not out or "\0" in out:
        raise UsageError(
            f"no analysis given: name one, or set {ANALYSIS_VARIABLE}; "
            "`rsmq-tui pipeline run --history DIR --out OUT` creates one"
        )
    return out
