"""A report as Markdown: sentences, tables and text charts, for wikis and pull requests."""

import re
from collections.abc import Sequence

from rsmq_tui.charts.drawing import sparklines
from rsmq_tui.charts.series import Series
from rsmq_tui.history.analysis.values import Line
from rsmq_tui.history.report import words
from rsmq_tui.history.report.facts import Report, Section
from rsmq_tui.history.report.tables import Overview, Table, changes, overviews, service_levels
from rsmq_tui.monitor.changes import AuditedChange
from rsmq_tui.monitor.text import count, plural

_WIDTH = 64
_SPECIAL = re.compile(r"[\\`*_\[\]|~>$^]|:(?=//)|(?<=www)\.|^[-+=](?=\s|$|-|=)|^[0-9]{1,9}(?=[.)])")
# Characters that sites turn into links to users and issues, even after a backslash.
_MENTION = re.compile(r"[@#](?=\w)|^#")
_NAMES = re.compile(f"{words.NAME}([^{words.END}]*){words.END}")
_RUNS = re.compile(r"`+")


def as_markdown(report: Report) -> str:
    """Return the report as Markdown that GitHub, GitLab and CommonMark render alike."""
    levels, changed = service_levels(report), changes(report)
    blocks = [
        f"# {escaped(words.title(report))}",
        escaped(words.subtitle(report)),
        _figures(report),
        words.before(report),
        "## The worst incidents",
        _bullets(words.worst(report)),
        *(_overview(changed) if changed else ()),
        "## Restarts" if report.restarts else "",
        _bullets(words.restarts(report)),
        "## Queues that were created again" if report.recreated else "",
        _bullets(words.recreated(report)),
        *(_overview(levels) if levels else ()),
        "## All queues together" if not report.is_chosen else "## The queues together",
        _chart(report, (("mean depth", report.depth), *_named(report.rates)), report.changes),
        words.fullest(report),
    ]
    for section in report.sections:
        blocks += _section(report, section)
    blocks.append(words.others(report))
    for one in overviews(report):
        blocks += _overview(one)
    blocks += ["## About this report", _bullets(words.about(report))]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _figures(report: Report) -> str:
    rows = [
        f"| **{escaped(one.value)}** | {escaped(one.label)} | {escaped(one.note)} | {escaped(one.before)} |"
        for one in words.figures(report)
    ]
    return "\n".join(["| Value | What | | Before |", "| --- | --- | --- | --- |", *rows])


def _overview(one: Overview) -> list[str]:
    return [f"## {one.title}", escaped(one.note), _table(one.table) or escaped(one.none), _bullets(one.after)]


def escaped(text: str) -> str:
    """Escape a text of one line, so that Markdown shows it literally."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;")
    shown = _SPECIAL.sub(_with_backslash, plain)
    return _MENTION.sub(lambda found: f"{found[0]}<!-- -->" if found[0] == "@" else "\\#<!-- -->", shown)


def _with_backslash(found: "re.Match[str]") -> str:
    # After a leading number, the sign behind it would start a list.
    return f"{found[0]}\\" if found[0].isdecimal() else f"\\{found[0]}"


def rich(sentence: str) -> str:
    """Return a sentence as Markdown, the names in it as code."""
    parts = _NAMES.split(sentence)
    return "".join(code(part) if number % 2 else escaped(part) for number, part in enumerate(parts))


def code(text: str, *, in_table: bool = False) -> str:
    """Return text as a code span: nothing in it is a link, a mention or HTML."""
    fence = "`" * (1 + max((len(run) for run in _RUNS.findall(text)), default=0))
    pad = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    # In tables, and only there, an escaped bar in code is unescaped: rows are split before code is parsed.
    shown = text.replace("|", "\\|") if in_table else text
    return f"{fence}{pad}{shown or ' '}{pad}{fence}"


def _section(report: Report, section: Section) -> list[str]:
    lines = (("mean depth", section.depth), ("oldest", section.age), *_named(section.rates))
    changed = report.changes_to(section.ref)
    return [f"## Queue {code(report.name(section.ref))}", _chart(report, lines, changed, section)]


def _named(rates: Sequence[Line]) -> list[tuple[str, Line]]:
    return [(f"{words.METRICS[line.metric]}/s", line) for line in rates]


def _chart(
    report: Report,
    lines: Sequence[tuple[str, Line]],
    changed: Sequence[AuditedChange],
    section: Section | None = None,
) -> str:
    """Draw each line as a row of text, each on its own scale, and below them the times of changes."""
    rows, span = [], report.span
    for name, line in lines:
        (drawn,) = sparklines(
            [Series(name, line.points)], width=_WIDTH, start_ms=span.from_ms, end_ms=max(span.to_ms, span.from_ms + 1)
        )
        rows.append(f"{name:<12} {drawn} most: {words.most(report, line, section)}")
    if changed:
        places = {(one.at_ms - span.from_ms) * _WIDTH // span.length_ms for one in changed}
        drawn = "".join("◆" if place in places else " " for place in range(_WIDTH))
        rows.append(f"{'changes':<12} {drawn} made with rsmq-tui: {count(len(changed))}")
    first, last = words.minute(span.from_ms), words.minute(span.to_ms)
    rows.append(f"{'UTC':<12} {first}{last:>{_WIDTH - len(first)}}")
    return "\n".join(["```text", *rows, "```"])


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    heads = " | ".join(escaped(title) or " " for title in table.titles)
    rules = " | ".join("---:" if at in table.right else "---" for at in range(len(table.titles)))
    rows = [
        " | ".join(code(value, in_table=True) if at in table.code else escaped(value) for at, value in enumerate(row))
        for row in table.rows
    ]
    more = [f"\n{plural(table.left_out, 'more row')} left out."] if table.left_out else []
    return "\n".join([f"| {heads} |", f"| {rules} |", *(f"| {row} |" for row in rows), *more])


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {rich(sentence)}" for sentence in sentences)
