"""`rsmq-tui report`: writes a post-mortem of a time range. The file appears whole or not at all."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rsmq_tui.cli.commands.recorded import (
    analysis_option,
    change_logs,
    changes_option,
    chosen_queues,
    objectives_of,
    open_analysis,
    span_of,
)
from rsmq_tui.cli.errors import EXIT_FAILED, UsageError, refusing
from rsmq_tui.cli.options import config
from rsmq_tui.cli.output import say
from rsmq_tui.cli.parsing import Command, Options, option
from rsmq_tui.files import reason_of, whole_file
from rsmq_tui.monitor.changes import read_changes
from rsmq_tui.monitor.moments import DAY_MS, MomentError, read_end, read_moment
from rsmq_tui.monitor.text import plural, printable, size

if TYPE_CHECKING:
    from rsmq_tui.history.analysis.values import TimeRange

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
@analysis_option
@option("--from T", "start of the range", name="from_text")
@option("--to T", "end of the range", name="to_text")
@option("--queue QUEUE", "only this queue; may be repeated", name="queues", multiple=True)
@option("--title TEXT", "title of the report")
@changes_option
@config
def command(options: Options) -> int:
    """Write the file and return the exit status; raises ``UsageError``."""
    path = Path(options.out)
    kind = path.suffix.lower()
    if kind not in (*_HTML, *_MARKDOWN):
        raise UsageError(f"{printable(options.out, 100)} must end in .html or .md")
    analysis = open_analysis(options, "a report")
    from rsmq_tui.history.report.facts import gather  # noqa: PLC0415 - its packages are there

    span = _span(options, span_of(analysis))
    queues = chosen_queues(options.queues, analysis)
    servers = {facts.ref.server for facts in analysis.queues()}
    audited = read_changes(change_logs(options), lambda change: change.server in servers)
    report = gather(analysis, span, queues, title=options.title, objectives=objectives_of(options), audited=audited)
    if kind in _HTML:
        from rsmq_tui.history.report.html import as_html  # noqa: PLC0415

        text = as_html(report)
    else:
        from rsmq_tui.history.report.markdown import as_markdown  # noqa: PLC0415

        text = as_markdown(report)
    try:
        with whole_file(path, force=True, is_private=False) as write:
            write(text)
    except OSError as error:
        raise UsageError(f"{printable(options.out, 200)} cannot be written: {reason_of(error)}") from error
    said = f"{plural(len(report.heads), 'incident')} of {plural(len(report.queues), 'queue')}"
    said += f", {plural(len(report.changes), 'change')}" if report.changes else ""
    say(f"{options.out}: {said}, {size(path.stat().st_size)}")
    for problem in (*analysis.problems, *audited.problems):
        say(problem)
    return EXIT_FAILED if analysis.left_out else 0


def _span(options: Options, whole: "TimeRange") -> "TimeRange":
    from rsmq_tui.history.analysis.values import TimeRange  # noqa: PLC0415

    with refusing(MomentError):
        to_ms = whole.to_ms
        if options.from_text is None:
            to_ms = to_ms if options.to_text is None else read_moment(options.to_text, whole.to_ms)
            from_ms = max(min(whole.from_ms, to_ms - 1), to_ms - DAY_MS)
        else:
            from_ms = read_moment(options.from_text, whole.to_ms)
            to_ms = to_ms if options.to_text is None else read_end(options.to_text, from_ms, whole.to_ms)
    if to_ms == from_ms or (to_ms < from_ms and options.to_text is not None):
        raise UsageError("the range ends before it begins: --from must be earlier than --to")
    if not whole.holds(from_ms, to_ms):
        from rsmq_tui.history.report.words import range_words  # noqa: PLC0415

        raise UsageError(f"no data for that time: the analysis covers {range_words(whole)}")
    return TimeRange(from_ms, to_ms)
