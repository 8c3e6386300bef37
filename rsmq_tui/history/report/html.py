"""A report as one HTML page, with its style sheet and its SVG pictures: lines, a timeline of episodes, a heat map.

Colours are classes, which the style sheet defines for light and for dark. Each picture has a title and a description
for screen readers. All text is escaped here.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import count as counting

from rsmq_tui.charts import Series
from rsmq_tui.charts.series import Run, Span, reduce_run, split_runs, tick_label, time_ticks, value_ticks
from rsmq_tui.history.analysis.values import Episode, HeatMap, Line, Point, TimeRange
from rsmq_tui.history.report import tables, words
from rsmq_tui.history.report.tables import Table
from rsmq_tui.history.report.words import Report, Section
from rsmq_tui.monitor.text import clock, count, duration, plural

STYLE = """
:root { --bg: #fff; --ink: #1a2230; --quiet: #5a6675; --rule: #d5dbe3; --panel: #f5f7fa;
  --s1: #1f6fc0; --s2: #2c7d55; --s3: #a85b00; --s4: #7b8794;
  --broken: #b3123c; --stalled: #b8401c; --leaking: #9c4a00; --growing: #95610a; --poisoned: #7a2fb5; --aged: #6f6400;
  --other: #5a6675; }
@media (prefers-color-scheme: dark) { :root { --bg: #10151c; --ink: #e3e9f0; --quiet: #9aa7b6; --rule: #303b48;
  --panel: #171e27; --s1: #6cb6ff; --s2: #7fbf9e; --s3: #ffb454; --s4: #8b96a5;
  --broken: #ff6f8b; --stalled: #ff8a6c; --leaking: #ff9a6c; --growing: #ffb454; --poisoned: #d58cff; --aged: #e6d05a;
  --other: #9aa7b6; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem; border-bottom: 1px solid var(--rule);
  overflow-wrap: anywhere; }
header p, figcaption { color: var(--quiet); }
p, li { overflow-wrap: anywhere; max-width: 48rem; }
.lead { font-size: 1.1rem; }
li { margin: .35rem 0; }
code { font: .92em ui-monospace, monospace; overflow-wrap: anywhere; unicode-bidi: isolate; }
figure { margin: .8rem 0; }
figcaption { font-size: .85rem; }
svg { display: block; width: 100%; height: auto; background: var(--panel); border: 1px solid var(--rule);
  border-radius: 4px; }
svg text { font: 11px system-ui, sans-serif; fill: var(--quiet); }
svg .tick { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .name { fill: var(--ink); font-family: ui-monospace, monospace; }
svg .grid { stroke: var(--rule); fill: none; }
svg .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
svg .area { stroke: none; opacity: .14; }
svg .shade { opacity: .13; }
.s1 { stroke: var(--s1); fill: var(--s1); } .s2 { stroke: var(--s2); fill: var(--s2); }
.s3 { stroke: var(--s3); fill: var(--s3); } .s4 { stroke: var(--s4); fill: var(--s4); stroke-dasharray: 4 3; }
svg .line.s2 { stroke-width: 2.2; stroke-dasharray: 7 2; }
.v-broken, .v-down { fill: var(--broken); } .v-stalled { fill: var(--stalled); } .v-growing { fill: var(--growing); }
.v-leaking { fill: var(--leaking); } .v-poisoned { fill: var(--poisoned); }
.v-aged { fill: var(--aged); } .v-other { fill: var(--other); }
.heat { fill: var(--s1); } .h0 { opacity: .12; } .h1 { opacity: .3; } .h2 { opacity: .5; } .h3 { opacity: .75; }
.h4 { opacity: 1; }
.key { margin-right: .9rem; white-space: nowrap; }
.sample { display: inline-block; width: .9rem; height: .6rem; margin-right: .35rem; border-radius: 2px; }
.sample.s1, .sample.heat { background: var(--s1); } .sample.s2 { background: var(--s2); }
.sample.s3 { background: var(--s3); } .sample.s4 { background: var(--s4); }
.sample.v-broken, .sample.v-down { background: var(--broken); } .sample.v-stalled { background: var(--stalled); }
.sample.v-growing { background: var(--growing); } .sample.v-poisoned { background: var(--poisoned); }
.sample.v-aged { background: var(--aged); } .sample.v-leaking { background: var(--leaking); }
.wide { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .88rem; min-width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--rule); }
thead th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 400; }
td, tbody th { white-space: nowrap; }
td:last-child, td code, th code { white-space: normal; }
td code, th code { display: inline-block; min-width: 8ch; max-width: 20rem; }
td:last-child { min-width: 9rem; }
.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media print {
  :root { --bg: #fff; --ink: #000; --quiet: #444; --rule: #bbb; --panel: #fff; --s1: #1f6fc0; --s2: #2c7d55;
    --s3: #a85b00; --s4: #7b8794; --broken: #b3123c; --stalled: #b8401c; --growing: #95610a; --poisoned: #7a2fb5;
    --leaking: #9c4a00; --aged: #6f6400; --other: #5a6675; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  svg, .heat, .bar, .shade, .area, .sample { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  figure, tr, li { break-inside: avoid; }
  h2 { break-after: avoid; }
  .wide { overflow: visible; }
  table { font-size: 8pt; }
  td, tbody th, td code, th code { white-space: normal; min-width: 0; }
  th, td { overflow-wrap: anywhere; }
}
"""


WIDTH = 760
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 22, 10, 22
_COLUMNS = 350
_AXIS_CELLS = 60
_ROW = 20
_NAME_WIDTH = 180
_NAME_MAX = 28
LEVELS = 5


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line of a chart: its points, its name, and its CSS class; with ``area``, the area down to 0 is filled."""

    points: Sequence[Point]
    name: str
    style: str
    is_area: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of time to shade behind the lines, or to draw as a bar: its text, and its CSS class."""

    from_ms: int
    to_ms: int
    words: str
    style: str


class Pictures:
    """Draws the pictures of one page, with ids that are unique in the page."""

    def __init__(self) -> None:
        self._numbers = counting(1)

    def lines(
        self, drawn: Sequence[Drawn], span: TimeRange, title: str, words: str, *, marks: Sequence[Mark] = (),
        divisor: float = 1.0, height: int = 180,
    ) -> str:  # fmt: skip
        """Draw lines over time, with an axis from zero; unknown values are gaps."""
        axis = Span(span.from_ms, max(span.to_ms, span.from_ms + 1))
        resolution_ms = axis.length_ms / _COLUMNS
        runs = [(each, split_runs(Series("", each.points), axis, resolution_ms)) for each in drawn]
        highest = max((value for _, each in runs for run in each for value in run.values), default=0.0) / divisor
        ticks = value_ticks(highest, 4)
        frame = _Frame(axis, height, ticks[-1] * divisor)
        parts = [_shade(mark, frame) for mark in marks]
        for tick in ticks:
            y = frame.y(tick * divisor)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
            parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{_text(tick_label(tick))}</text>')
        parts += _times(frame)
        for each, known in runs:
            if each.is_area:
                parts += [f'<path class="area {each.style}" d="{_area(run, frame)}"/>' for run in known]
            else:
                path = "".join(_path(run, frame) for run in known)
                parts.append(f'<path class="line {each.style}" d="{path}"><title>{_text(each.name)}</title></path>')
        if not any(known for _, known in runs):
            parts.append(f'<text class="tick" x="{WIDTH // 2}" y="{height // 2}">no data for this time</text>')
        return self._picture(parts, height, title, words)

    def timeline(self, rows: Sequence[tuple[str, Sequence[Mark]]], span: TimeRange, title: str, words: str) -> str:
        """Draw a row of bars for each name."""
        axis = Span(span.from_ms, max(span.to_ms, span.from_ms + 1))
        height = _TOP + _ROW * len(rows) + _BOTTOM
        frame = _Frame(axis, height, 1.0, left=_NAME_WIDTH)
        parts = _times(frame)
        for row, (name, marks) in enumerate(rows):
            y = _TOP + row * _ROW
            short = name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"
            parts.append(f'<text class="name" x="4" y="{y + 14}">{_text(short)}</text>')
            parts.append(f'<path class="grid" d="M{_NAME_WIDTH} {y + _ROW}H{WIDTH - _RIGHT}"/>')
            for mark in marks:
                left, right = frame.x(mark.from_ms), frame.x(mark.to_ms)
                width = max(3.0, right - left)
                parts.append(
                    f'<rect class="bar {mark.style}" x="{min(left, WIDTH - _RIGHT - width):.1f}" y="{y + 3}" '
                    f'width="{width:.1f}" height="{_ROW - 6}" rx="2"><title>{_text(mark.words)}</title></rect>'
                )
        return self._picture(parts, height, title, words)

    def heat(self, heat: HeatMap, labels: Sequence[str], title: str, words: str) -> str:
        """Draw days down and hours across; ``labels`` names the rows."""
        cell, row_height = (WIDTH - 96 - _RIGHT) / 24, 16
        height = _TOP + 14 + row_height * len(heat.rows)
        levels = heat.levels(LEVELS)
        parts = [
            f'<text class="tick" x="{96 + (hour + 0.5) * cell:.1f}" y="{_TOP + 6}">{hour:02d}</text>'
            for hour in range(0, 24, 2)
        ]
        for row, ((_, values), label) in enumerate(zip(heat.rows, labels, strict=True)):
            y = _TOP + 14 + row * row_height
            parts.append(f'<text class="tick end" x="88" y="{y + 12}">{_text(label)}</text>')
            for hour, value in enumerate(values):
                if value is None:
                    continue
                level = bisect_right(levels, value) - 1
                parts.append(
                    f'<rect class="heat h{level}" x="{96 + hour * cell:.1f}" y="{y}" width="{cell - 1:.1f}" '
                    f'height="{row_height - 1}"><title>{_text(f"{label} {hour:02d}:00: {value:,.0f}")}</title></rect>'
                )
        return self._picture(parts, height, title, words)

    def _picture(self, parts: Sequence[str], height: int, title: str, words: str) -> str:
        number = next(self._numbers)
        return (
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t{number} d{number}">'
            f'<title id="t{number}">{_text(title)}</title><desc id="d{number}">{_text(words)}</desc>'
            f"{''.join(parts)}</svg>"
        )


class _Frame:
    """Converts times and values to coordinates of a picture."""

    def __init__(self, span: Span, height: int, top: float, *, left: int = _LEFT) -> None:
        self.span, self.height, self.top, self.left = span, height, top, left

    def x(self, at_ms: float) -> float:
        share = (at_ms - self.span.start_ms) / self.span.length_ms
        return self.left + min(1.0, max(0.0, share)) * (WIDTH - _RIGHT - self.left)

    def y(self, value: float) -> float:
        share = min(1.0, max(0.0, value / self.top)) if self.top else 0.0
        return self.height - _BOTTOM - share * (self.height - _BOTTOM - _TOP)


def _times(frame: _Frame) -> list[str]:
    base = frame.height - _BOTTOM
    parts = []
    for at_ms, label in time_ticks(frame.span.start_ms, frame.span.end_ms, _AXIS_CELLS):
        x = frame.x(at_ms)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{base + 4}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 16}">{_text(label)}</text>')
    return parts


def _shade(mark: Mark, frame: _Frame) -> str:
    left, right = frame.x(mark.from_ms), frame.x(mark.to_ms)
    return (
        f'<rect class="shade {mark.style}" x="{left:.1f}" y="{_TOP}" width="{max(1.0, right - left):.1f}" '
        f'height="{frame.height - _BOTTOM - _TOP}"><title>{_text(mark.words)}</title></rect>'
    )


def _dots(run: Run, frame: _Frame) -> list[tuple[float, float]]:
    step = frame.span.length_ms / _COLUMNS
    reduced = reduce_run(run, frame.span, _COLUMNS)
    return [(frame.x(frame.span.start_ms + (column + 0.5) * step), frame.y(value)) for column, value in reduced]


def _path(run: Run, frame: _Frame) -> str:
    (x, y), *rest = _dots(run, frame)
    # A single point is a dot, which round line ends make visible.
    return f"M{x:.1f} {y:.1f}" + ("".join(f"L{x:.1f} {y:.1f}" for x, y in rest) or "h0.1")


def _area(run: Run, frame: _Frame) -> str:
    dots = _dots(run, frame)
    base = frame.height - _BOTTOM
    return f"M{dots[0][0]:.1f} {base}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in dots) + f"V{base}Z"


def _text(text: str) -> str:
    return escape(text, quote=True)


_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_AGE_UNITS = (
    (172_800_000, 86_400_000.0, "days"),
    (7_200_000, 3_600_000.0, "hours"),
    (600_000, 60_000.0, "min"),
    (0, 1_000.0, "s"),
)
_RATE_STYLES = {"arrivals_s": "s1", "deletes_s": "s2", "receives_s": "s3"}
_ROWS_DRAWN = 40
_KNOWN = frozenset(("down", "broken", "stalled", "leaking", "growing", "poisoned", "aged"))
# Even if some text were not escaped, a browser would run and load nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def as_html(report: Report) -> str:
    """Return the report as a whole HTML document."""
    return _Page(report).text()


class _Page:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._pictures = Pictures()

    def text(self) -> str:
        report = self._report
        heading = _text(words.title(report))
        parts = [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            '<meta name="color-scheme" content="light dark"/>',
            f"<title>{heading}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<header><h1>{heading}</h1><p>{self._counts()}</p></header>",
            self._section("summary", "Summary", self._summary()),
            self._section("timeline", "Timeline", self._timeline()),
            self._section("together", self._together_title(), self._together()),
            *(self._queue(number, section) for number, section in enumerate(report.sections, 1)),
            self._others(),
            *(
                self._section(name, title, self._note(name) + self._table(table(report), none))
                for name, title, table, none in tables.OVERVIEWS
            ),
            self._section("about", "About this report", _list(words.about(report))),
            "</main>\n</body>\n</html>\n",
        ]
        return "\n".join(filter(None, parts))

    def _counts(self) -> str:
        report = self._report
        counts = f"{plural(len(report.queues), 'queue')}, {plural(len(report.episodes), 'episode')}"
        return f"{_text(words.range_words(report.span))} · {counts}" if report.title else counts

    def _summary(self) -> str:
        first, *others = words.summary(self._report)
        return f'<p class="lead">{_rich(first)}</p>{_list(others)}'

    def _timeline(self) -> str:
        report = self._report
        if not report.episodes:
            return "<p>No queue was in trouble in this time range.</p>"
        rows: dict[str, list[Mark]] = {}
        for episode in report.episodes:
            rows.setdefault(report.subject(episode), []).append(self._mark(episode))
        drawn = list(rows.items())[:_ROWS_DRAWN]
        title = "Episodes over time"
        told = f"{plural(len(report.episodes), 'episode')} of {plural(len(rows), 'queue')}; the table below lists each."
        kinds = sorted({_kind(episode.verdict) for episode in report.episodes})
        legend = _legend([(kind, words.verdict_words(kind)) for kind in kinds if kind != "other"])
        picture = self._pictures.timeline(drawn, report.span, title, told)
        return _figure(picture, legend) + self._table(tables.episodes(report), "")

    def _together_title(self) -> str:
        return "The queues together" if self._report.is_chosen else "All queues together"

    def _together(self) -> str:
        report = self._report
        span, outages = report.span, [self._mark(one) for one in report.episodes if one.ref is None]
        depth = self._pictures.lines(
            [Drawn(report.depth.points, "depth", "s1", is_area=True), Drawn(report.depth.points, "depth", "s1")],
            span, "Messages stored", words.line_words(report.depth, "Messages stored"), marks=outages,
        )  # fmt: skip
        rates = self._rates(report.rates, outages)
        together = "together" if report.is_chosen else "all queues together"
        return _figure(depth, f"Messages stored, {together}") + rates + self._heat()

    def _heat(self) -> str:
        heat = self._report.heat
        if heat.peak is None:
            return ""
        labels = [
            _WEEKDAYS[day] if heat.is_week else f"{clock(day, date=True)[:10]} {_WEEKDAYS[(day // 86_400_000 + 3) % 7]}"
            for day, _ in heat.rows
        ]
        what = "by hour of the week" if heat.is_week else "by day and hour"
        told = f"Hourly mean of the messages stored, {what}; at most {count(heat.peak)}."
        steps = [(f"heat h{level}", f"from {count(least)}") for level, least in enumerate(heat.levels(LEVELS))]
        return _figure(
            self._pictures.heat(heat, labels, f"Messages stored {what}", told), _legend(steps) + " blank: no data"
        )

    def _queue(self, number: int, section: Section) -> str:
        report, name = self._report, self._report.name(section.facts.ref)
        marks = [self._mark(one) for one in report.episodes if one.ref in (section.facts.ref, None)]
        lines = [Drawn(section.depth.points, "depth", "s1", is_area=True)]
        legend = [("s1", "mean")]
        if not section.p95.is_empty:
            lines.append(Drawn(section.p95.points, "95th percentile", "s3"))
            legend.append(("s3", "95th percentile"))
        if section.usual.points:
            lines.append(Drawn([(at, middle) for at, _, middle, _ in section.usual.points], "usual", "s4"))
            legend.append(("s4", "usual at that hour of the week"))
        lines.append(Drawn(section.depth.points, "depth", "s1"))
        depth = self._pictures.lines(
            lines, report.span, f"Depth of {name}", words.line_words(section.depth, "Depth"), marks=marks
        )
        told = "".join(f"<p>{_rich(words.episode_sentence(report, one))}</p>" for one in section.episodes[:10])
        body = [
            told or "<p>This queue had no problems in this time range.</p>",
            _figure(depth, f"Messages stored. {_legend(legend)}"),
            self._age(section.age, marks),
            self._rates(section.rates, marks),
            self._table(tables.facts_of(section), ""),
        ]
        return self._section(f"queue-{number}", f"Queue <code>{_text(name)}</code>", "".join(body), is_html=True)

    def _age(self, age: Line, marks: Sequence[Mark]) -> str:
        if age.peak is None:
            return ""
        highest = age.peak[1]
        divisor, unit = next((by, unit) for least, by, unit in _AGE_UNITS if highest >= least)
        title = "Age of the oldest ready message"
        picture = self._pictures.lines(
            [Drawn(age.points, title, "s3")], self._report.span, title, words.line_words(age, title), marks=marks,
            divisor=divisor, height=130,
        )  # fmt: skip
        return _figure(picture, f"{title}, {unit}; at most {_text(duration(highest))}")

    def _rates(self, rates: Sequence[Line], marks: Sequence[Mark]) -> str:
        known = [line for line in rates if not line.is_empty]
        if not known:
            return ""
        told = " ".join(words.line_words(line, words.METRICS[line.metric].capitalize()) for line in known)
        lines = [Drawn(line.points, words.METRICS[line.metric], _RATE_STYLES[line.metric]) for line in known]
        picture = self._pictures.lines(lines, self._report.span, "Messages a second", told, marks=marks, height=130)
        legend = _legend([(line.style, line.name) for line in lines])
        return _figure(picture, f"Messages a second. {legend}")

    def _note(self, name: str) -> str:
        note = words.forecast_note(self._report) if name == "forecasts" else ""
        return f"<p>{_text(note)}</p>" if note else ""

    def _others(self) -> str:
        others = self._report.others
        return f"<p>{plural(others, 'more queue')} in trouble; see the tables.</p>" if others else ""

    def _mark(self, episode: Episode) -> Mark:
        return Mark(
            episode.start_ms,
            max(episode.end_ms, episode.start_ms),
            f"{words.verdict_words(episode.verdict)} {words.moment(episode.start_ms)}, {duration(episode.length_ms)}",
            f"v-{_kind(episode.verdict)}",
        )

    def _section(self, id: str, title: str, body: str, *, is_html: bool = False) -> str:
        shown = title if is_html else _text(title)
        return f'<section id="{id}" aria-labelledby="{id}-h"><h2 id="{id}-h">{shown}</h2>\n{body}</section>'

    def _table(self, table: Table, none: str) -> str:
        if not table.rows:
            return f"<p>{_text(none)}</p>" if none else ""
        heads = "".join(
            f'<th scope="col"{_right(table, at)}>{_text(title)}</th>' for at, title in enumerate(table.titles)
        )
        rows = "\n".join(
            f"<tr>{''.join(_cell(table, at, value) for at, value in enumerate(row))}</tr>" for row in table.rows
        )
        more = f"<p>{plural(table.left_out, 'more row')} left out.</p>" if table.left_out else ""
        return (
            f'<div class="wide" tabindex="0" role="region" aria-label="table"><table><thead><tr>{heads}</tr></thead>'
            f"<tbody>\n{rows}\n</tbody></table></div>{more}"
        )


def _kind(verdict: str) -> str:
    return verdict if verdict in _KNOWN else "other"


def _cell(table: Table, at: int, value: str) -> str:
    shown = f"<code>{_text(value)}</code>" if at in table.code else _text(value)
    return f'<th scope="row">{shown}</th>' if at == 0 else f"<td{_right(table, at)}>{shown}</td>"


def _right(table: Table, at: int) -> str:
    return ' class="right"' if at in table.right else ""


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return the legend; classes are ours, names are untrusted text."""
    return " ".join(
        f'<span class="key"><i class="sample {_sample(style)}"></i>{_text(name)}</span>' for style, name in entries
    )


def _sample(style: str) -> str:
    return f"v-{style}" if style in _KNOWN else style


def _list(sentences: Sequence[str]) -> str:
    items = "\n".join(f"<li>{_rich(sentence)}</li>" for sentence in sentences)
    return f"<ul>\n{items}\n</ul>" if sentences else ""


def _rich(sentence: str) -> str:
    """Return a sentence as HTML, with the names in it as code."""
    return _text(sentence).replace(words.NAME, "<code>").replace(words.END, "</code>")
