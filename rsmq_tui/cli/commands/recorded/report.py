"""`rsmq-tui report`: writes a post-mortem of a time range. The file appears whole or not at all."""

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rsmq_tui.cli.commands.recorded import require_packages
from rsmq_tui.cli.commands.recorded.history import analysis_of
from rsmq_tui.cli.errors import EXIT_FAILED, UsageError
from rsmq_tui.cli.options import ANALYSIS_VARIABLE, config
from rsmq_tui.cli.output import say
from rsmq_tui.cli.parsing import Command, Options, option
from rsmq_tui.cli.servers import config_of
from rsmq_tui.history.moments import DAY_MS, MomentError, read_end, read_moment
from rsmq_tui.history.names import HistoryError
from rsmq_tui.monitor.text import plural, printable, size

if TYPE_CHECKING:
    from rsmq_tui.history.analysis.reading import Analysis
    from rsmq_tui.history.analysis.values import QueueRef, TimeRange
    from rsmq_tui.history.report.slo import Objectives

_NAMED_MAX = 10
_HTML, _MARKDOWN = (".html", ".htm"), (".md", ".markdown")


_NOTES = """\
T is 21:50, 2031-05-17 21:50, 2031-05-17, -10m (before the end of the analysis), or seconds since 1970, all in UTC; a
time without a date is the last such time, or for --to the first one after --from. Without --from, the report covers the
last day. The HTML is a single file that needs no network: mail it, print it, or add it to a wiki."""


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=(
        "--analysis analysis --out night.html --from '2031-05-17 21:50' --to 23:30",
        "--analysis analysis --out orders.md --from -2h --queue orders --title 'Orders stood still'",
    ),
    statuses={
        0: "the file is written",
        1: "the same, but some files of the analysis could not be read and are named",
        2: "a usage error, no such analysis, or the file cannot be written",
    },
)
@option("--out FILE", "the file to write; its name ends in .html or .md", click.Path(), required=True)
@option("--analysis OUT", f"the tables that `rsmq-tui pipeline` wrote (env {ANALYSIS_VARIABLE})")
@option("--from T", "start of the range", name="from_text")
@option("--to T", "end of the range", name="to_text")
@option("--queue QUEUE", "only this queue; may be repeated", name="queues", multiple=True)
@option("--title TEXT", "title of the report")
@config
def command(options: Options) -> int:
    """Write the file and return the exit status; raises ``UsageError``."""
    path = Path(options.out)
    kind = path.suffix.lower()
    if kind not in (*_HTML, *_MARKDOWN):
        raise UsageError(f"{printable(options.out, 100)} must end in .html or .md")
    analysis = opened(analysis_of(options.analysis), "a report")
    from rsmq_tui.history.report.facts import gather  # noqa: PLC0415 - its packages are there

    span = _span(options, whole_of(analysis))
    queues = chosen_queues(options.queues, analysis)
    report = gather(analysis, span, queues, title=options.title, objectives=objectives_of(options))
    if kind in _HTML:
        from rsmq_tui.history.report.html import as_html  # noqa: PLC0415

        text = as_html(report)
    else:
        from rsmq_tui.history.report.markdown import as_markdown  # noqa: PLC0415

        text = as_markdown(report)
    # A name may hold what no file can.
    written = text.encode("utf-8", "replace")
    _write(path, written)
    said = f"{plural(len(report.heads), 'incident')} of {plural(len(report.queues), 'queue')}"
    say(f"{options.out}: {said}, {size(len(written))}")
    for problem in analysis.problems:
        say(problem)
    return EXIT_FAILED if analysis.left_out else 0


def opened(out: str, what: str) -> "Analysis":
    """Open an analysis, for ``what`` needs it; raises ``UsageError``."""
    require_packages(what)
    from rsmq_tui.history.analysis.reading import Analysis  # noqa: PLC0415 - its packages are there

    try:
        return Analysis(out)
    except HistoryError as error:
        raise UsageError(printable(str(error))) from error


def whole_of(analysis: "Analysis") -> "TimeRange":
    """Return the time that an analysis covers; raises ``UsageError`` if there is nothing in it."""
    whole = analysis.span()
    if whole is None and analysis.left_out:
        raise UsageError(printable(analysis.left_out[0]))
    if whole is None:
        raise UsageError(f"{printable(analysis.label)} is empty: record a history, then run the pipeline")
    return whole


def _span(options: Options, whole: "TimeRange") -> "TimeRange":
    from rsmq_tui.history.analysis.values import TimeRange  # noqa: PLC0415

    try:
        to_ms = whole.to_ms
        if options.from_text is None:
            to_ms = to_ms if options.to_text is None else read_moment(options.to_text, whole.to_ms)
            from_ms = max(min(whole.from_ms, to_ms - 1), to_ms - DAY_MS)
        else:
            from_ms = read_moment(options.from_text, whole.to_ms)
            to_ms = to_ms if options.to_text is None else read_end(options.to_text, from_ms, whole.to_ms)
    except MomentError as error:
        raise UsageError(printable(str(error))) from error
    if to_ms == from_ms or (to_ms < from_ms and options.to_text is not None):
        raise UsageError("the range ends before it begins: --from must be earlier than --to")
    if not whole.holds(from_ms, to_ms):
        from rsmq_tui.history.report.words import range_words  # noqa: PLC0415

        raise UsageError(f"no data for that time: the analysis covers {range_words(whole)}")
    return TimeRange(from_ms, to_ms)


def chosen_queues(names: Sequence[str], analysis: "Analysis") -> "list[QueueRef] | None":
    """Return the queues of these names, None for all if there are no names; raises ``UsageError``."""
    if not names:
        return None
    refs = [facts.ref for facts in analysis.queues()]
    known = sorted({ref.queue for ref in refs})
    for name in names:
        if name not in known:
            some = ", ".join(printable(one, 40) for one in known[:_NAMED_MAX])
            more = f" and {len(known) - _NAMED_MAX} more" if len(known) > _NAMED_MAX else ""
            raise UsageError(f"the analysis has no queue {printable(name, 60)}; it has {some}{more}")
    return [ref for ref in refs if ref.queue in names]


def objectives_of(options: Options) -> "Objectives":
    """Return what finds the objectives of a profile: those of [defaults] for a name that is not in the file."""
    found = config_of(options)
    return lambda profile: () if found is None else found.profiles.get(profile, found.watched).slo


def _write(path: Path, text: bytes) -> None:
    """Write a file beside, and rename it; raises ``UsageError``."""
    try:
        fd, beside = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            # As any other new file; what mkstemp makes is for its owner alone.
            mask = os.umask(0)
            os.umask(mask)
            Path(beside).chmod(0o666 & ~mask)
            Path(beside).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(beside).unlink()
            raise
    except OSError as error:
        raise UsageError(f"{printable(str(path), 200)} cannot be written: {error.strerror or error}") from error
