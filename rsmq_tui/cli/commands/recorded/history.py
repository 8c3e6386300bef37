"""`rsmq-tui history`: the history screen alone, without a server; and `rsmq-tui history compact`."""

from pathlib import Path
from typing import Any

import click

from rsmq_tui.cli.commands.recorded import analysis_of, change_logs, changes_option, require_packages
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.options import ANALYSIS_VARIABLE, appearance, config, json_option, zone_for
from rsmq_tui.cli.output import ProgressLine, fields_json, has_screen, print_words, wants_json
from rsmq_tui.cli.parsing import Command, Options, folder, option
from rsmq_tui.cli.servers import expected_of, keys_of, zones_of
from rsmq_tui.files import reason_of, state_folder
from rsmq_tui.history.names import HistoryError, explain
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor.text import count, plural, printable
from rsmq_tui.tui.history.loading import AnalysisLocation

_COMPACT = "join the small files of past days of a history"
_COMPACT_NOTES = """\
A recorder seals a file about every ten minutes. Compaction joins the files of one recorder and day, up to 250,000 rows
each, of samples and of inventories, so that listing and opening them takes less time, and inventories that repeat each
other take less space. The rows stay the same, and the pipeline does not compute them again. It may be stopped at any
time, and run while others record and read; today and yesterday are left alone.

`rsmq-tui pipeline run` does the same before it reads them, for days with ten small files or more."""


@click.command(
    "compact",
    cls=Command,
    help=_COMPACT,
    notes=_COMPACT_NOTES,
    statuses={0: "done", 2: "a usage error, or the history cannot be read or written"},
)
@option("--history DIR", "the history that `rsmq-tui record` wrote", folder, required=True)
@json_option
def _compact(options: Options) -> int:
    """Compact a history and return the exit status; raises ``UsageError``."""
    require_packages("history compact")
    from rsmq_tui.history.compaction import compact, past_days  # noqa: PLC0415 - its packages are there
    from rsmq_tui.history.reading import History  # noqa: PLC0415
    from rsmq_tui.history.schema import SCHEMAS  # noqa: PLC0415
    from rsmq_tui.history.store import open_store  # noqa: PLC0415

    days, before, after, line = 0, 0, 0, ProgressLine()
    try:
        # Raises an error with a sentence if it is not a history.
        History(options.history, state=state_folder())
        store, scratch = open_store(options.history, state_folder())
        recorded = {day for table in SCHEMAS for day in store.days(table)}
        for day, done in compact(store, past_days(recorded, now_ms()), scratch):
            days, before, after = days + 1, before + done.before, after + done.after
            if not wants_json(options):
                line.show(f"{day}: {plural(done.before, 'file')}, now {count(done.after)}")
    except (HistoryError, OSError) as error:
        raise UsageError(printable(explain(error, options.history))) from error
    finally:
        line.clear()
    if wants_json(options):
        fields_json(history=store.label, days=days, files_before=before, files=after)
    else:
        print_words(f"{store.label}: {plural(before, 'file')} of {plural(days, 'day')}, now {count(after)}")
    return 0


class _History(Command):
    """Opens the screen, or runs the command that the first argument names."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments."""
        if args[:1] == [_compact.name]:
            ctx: click.Context = _compact.make_context(f"{info_name} {_compact.name}", args[1:], parent, **extra)
            return ctx
        return super().make_context(info_name, args, parent, **extra)


@click.command(
    cls=_History,
    notes="OUT is an analysis that `rsmq-tui pipeline run --out OUT` wrote: a folder, or a URL that fsspec supports. "
    "The command contacts no server. With rsmq-tui --analysis OUT, the key H opens the same screen in the dashboard.",
    examples=("analysis", "s3://bucket/analysis --history s3://bucket/history"),
    statuses={0: "done", 2: "a usage error, or no terminal"},
    sections={"Commands": ((str(_compact.name), _COMPACT),)},
)
@click.argument("out", metavar="[OUT]", required=False, help=f"the analysis (env {ANALYSIS_VARIABLE})")
@option("--history DIR", "the history that Enter replays (default: the one that the analysis names)")
@changes_option
@config
@appearance
def command(options: Options) -> int:
    """Open the screen and return the exit status; raises ``UsageError`` if no analysis is given or found."""
    logs = change_logs(options)
    analysis = AnalysisLocation(_folder_of(options), options.history)
    if not has_screen():
        raise UsageError("the history screen needs a terminal; `rsmq-tui report` writes a file")
    from rsmq_tui.tui.app import RsmqApp  # noqa: PLC0415 - not needed without a terminal

    app = RsmqApp(
        (),
        analysis=analysis,
        expected=expected_of(options),
        ascii_only=options.ascii,
        theme=options.theme,
        change_logs=logs,
        zone=zone_for(options, zones_of(options).values()),
        keys=keys_of(options),
    )
    app.run()
    return app.return_code or 0


def refuse(options: Options) -> None:
    """Raise ``UsageError`` if no analysis is given, or it is no folder."""
    change_logs(options)
    _folder_of(options)


def _folder_of(options: Options) -> str:
    out = analysis_of(options.out, "rsmq-tui history OUT")
    try:
        # A remote analysis is opened on the screen, because that may take a while.
        is_fit = "://" in out or Path(out).is_dir()
    except OSError as error:
        raise UsageError(f"{printable(out)}: {reason_of(error)}") from error
    if not is_fit:
        creates = f"rsmq-tui pipeline run --history DIR --out {printable(out)} creates one"
        raise UsageError(f"{printable(out)} is not an analysis: {creates}")
    return out
