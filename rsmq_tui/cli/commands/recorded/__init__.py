"""The commands of `rsmq-tui` that write and read recordings. Each is imported when it is called.

history   `rsmq-tui history`: the history screen alone, without a server; `history compact`
pipeline  `rsmq-tui pipeline`: analyse a history with Spark, or generate one
record    `rsmq-tui record`: record every poll until it is stopped
replay    `rsmq-tui replay`: the dashboard on a history
report    `rsmq-tui report`: a report of a time range, as HTML or Markdown
slo       `rsmq-tui slo`: whether service level objectives were met
sql       `rsmq-tui sql`: query an analysis and its history with SQL
"""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rsmq_tui.cli.errors import UsageError, refusing
from rsmq_tui.cli.options import ANALYSIS_VARIABLE
from rsmq_tui.cli.parsing import Options, option
from rsmq_tui.cli.servers import config_of
from rsmq_tui.files import AUDIT_LOG, reason_of, regular_file, state_folder
from rsmq_tui.history.names import HistoryError
from rsmq_tui.monitor.text import and_more, printable

if TYPE_CHECKING:
    from rsmq_tui.history.analysis.reading import Analysis
    from rsmq_tui.history.analysis.values import QueueRef, TimeRange
    from rsmq_tui.history.recorder import Recorder
    from rsmq_tui.history.report.slo import Objectives

_NAMED_MAX = 10

analysis_option = option("--analysis OUT", f"the tables that `rsmq-tui pipeline` wrote (env {ANALYSIS_VARIABLE})")


changes_option = option(
    "--changes FILE",
    "an audit log whose changes are shown, instead of that in your state folder; may be repeated",
    click.Path(),
    multiple=True,
)


def change_logs(options: Options) -> tuple[Path, ...]:
    """Return the audit logs of the options; raises ``UsageError`` for one that is given and no file."""
    logs = tuple(Path(given) for given in options.changes)
    for log in logs:
        try:
            regular_file(log)
        except (OSError, ValueError) as error:
            raise UsageError(f"--changes: {printable(str(log), 200)} cannot be read: {reason_of(error)}") from error
    return logs or (state_folder() / AUDIT_LOG,)


def require_packages(what: str, extra: str = "history", *more: str) -> None:
    """Raise ``UsageError`` if a package of an extra is missing: one that reads and writes a history, or ``more``.

    None of them is imported.
    """
    if any(find_spec(name) is None for name in ("pyarrow", "fsspec", *more)):
        raise UsageError(f"{what} needs the packages of the extra `{extra}`: pip install 'rsmq-tui[{extra}]'")


def started_recorder(out: str, keep_ms: int | None = None, max_bytes: int | None = None) -> "Recorder":
    """Return a recorder that has started; raises ``UsageError`` if its packages are missing or it cannot start."""
    require_packages("recording")
    # Arrow reads it when it is loaded. Its own allocator keeps 10 to 100 MB of what sealing a segment takes, even when
    # it is asked to release them; that of the system gives them back.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from rsmq_tui.history.recorder import Recorder  # noqa: PLC0415
    from rsmq_tui.history.writer import RecordingSettings  # noqa: PLC0415

    with refusing(HistoryError):
        recorder = Recorder(out, RecordingSettings(keep_ms=keep_ms, max_bytes=max_bytes))
        recorder.start()
    return recorder


def analysis_of(given: str | None, named: str = "--analysis OUT") -> str:
    """Return the analysis that is given as ``named``, or by the environment; raises ``UsageError`` if none is."""
    out = given or os.environ.get(ANALYSIS_VARIABLE, "")
    if not out or "\0" in out:
        raise UsageError(
            f"no analysis given: {named} names one, or {ANALYSIS_VARIABLE}; "
            "`rsmq-tui pipeline run --history DIR --out OUT` creates one"
        )
    return out


def open_analysis(options: Options, what: str) -> "Analysis":
    """Open the analysis of the options, which ``what`` needs; raises ``UsageError``."""
    out = analysis_of(options.analysis)
    require_packages(what)
    from rsmq_tui.history.analysis.reading import Analysis  # noqa: PLC0415 - its packages are there

    with refusing(HistoryError):
        return Analysis(out)


def span_of(analysis: "Analysis") -> "TimeRange":
    """Return the time that an analysis covers; raises ``UsageError`` if there is nothing in it."""
    whole = analysis.span()
    if whole is None and analysis.left_out:
        raise UsageError(printable(analysis.left_out[0]))
    if whole is None:
        raise UsageError(f"{printable(analysis.label)} is empty: record a history, then run the pipeline")
    return whole


def chosen_queues(names: Sequence[str], analysis: "Analysis") -> "list[QueueRef] | None":
    """Return the queues of these names, None for all if there are no names; raises ``UsageError``."""
    if not names:
        return None
    refs = [facts.ref for facts in analysis.queues()]
    known = sorted({ref.queue for ref in refs})
    for name in names:
        if name not in known:
            some = and_more((printable(one, 40) for one in known[:_NAMED_MAX]), len(known))
            raise UsageError(f"the analysis has no queue {printable(name, 60)}; it has {some}")
    return [ref for ref in refs if ref.queue in names]


def objectives_of(options: Options) -> "Objectives":
    """Return a function from a profile to its objectives: those of [defaults] for a name that is not in the file."""
    found = config_of(options)
    return lambda profile: () if found is None else found.profiles.get(profile, found.watched).slo
