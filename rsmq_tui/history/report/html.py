"""A report as one HTML page: a first page with figures, timeline and the worst incidents, then charts, then tables.

All text is escaped here. The page runs no scripts and loads nothing. Its pictures are SVG: panels of lines over time, a
timeline of incidents, a heat map. Their colours are classes, which the style sheet ``report.css`` defines for light and
for dark. A verdict has a letter as well. Each picture has a title and a description for screen readers.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import count as counting
from typing import NamedTuple

from rsmq_tui.charts.series import ChartSpan, Run, Series, reduce_run, split_runs, tick_label, time_ticks, value_ticks
from rsmq_tui.history.analysis.incidents import covered_ms, severity
from rsmq_tui.history.analysis.values import DOWN, HeatMap, Incident, Line, Point, QueueRef, TimeRange, age_unit
from rsmq_tui.history.report import words
from rsmq_tui.history.report.facts import Report, Section, server_name, shown
from rsmq_tui.history.report.slo import Server
from rsmq_tui.history.report.tables import Overview, Table, changes, overviews, service_levels
from rsmq_tui.monitor.moments import WEEKDAYS, weekday_of
from rsmq_tui.monitor.text import clock, count, date_clock, duration, plural

WIDE, CARD = 960, 470
"""Widths of pictures: of the page, and of half of it."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 6, 22
# The axis of times has about one label for this many units.
_LABEL_WIDTH = 13
_STRIP = 13
_ROW, _HEAD = 19, 22
# Of a timeline: the names before the bars, the words behind them, and the width of a letter of a name.
_NAMES, _WORDS, _LETTER = 236, 124, 7.3
# Changes that are closer than this are drawn as one, whose title has the first of them.
_APART, _NAMED_MAX = 4, 5
# A bar that is at least this wide has its letter in it.
_LETTERED = 11


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line of a chart: its points, its name, and its CSS class; with ``area``, the area down to 0 is filled."""

    points: Sequence[Point]
    name: str
    style: str
    is_area: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines with an axis of values from zero, in units of ``divisor``; unknown values are gaps."""

    label: str
    drawn: Sequence[Drawn]
    height: int
    divisor: float = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of time with a verdict: the text that explains it, its CSS class, and its letter."""

    from_ms: int
    to_ms: int
    words: str
    style: str
    letter: str


class Moment(NamedTuple):
    """A moment at which something was changed, and the text that explains it."""

    at_ms: int
    words: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a timeline: its name, its marks, words behind them, and changes; a row without marks is a heading."""

    name: str
    marks: Sequence[Mark] = ()
    words: str = ""
    changes: Sequence[Moment] = ()


class Pictures:
    """Draws the pictures of one page, with ids that are unique in the page."""

    def __init__(self) -> None:
        self._numbers = counting(1)

    def panels(
        self, panels: Sequence[Panel], span: TimeRange, title: str, words: str, *,
        marks: Sequence[Mark] = (), changes: Sequence[Moment] = (), width: int = WIDE,
    ) -> str:  # fmt: skip
        """Draw panels of lines below each other, on one axis of times, with the marks above and behind them.

        Changes are lines across all panels.
        """
        axis = _axis(span)
        top = _TOP + (_STRIP if marks else 0)
        height = top + sum(panel.height for panel in panels) + _BOTTOM
        whole = _Frame(axis, top, height - _BOTTOM, 1.0, right=width - _RIGHT)
        parts = [_shade(mark, whole) for mark in marks]
        parts += [_bar(mark, whole, _TOP - 3, _STRIP - 2) for mark in marks]
        parts += _time_labels(whole)
        for panel in panels:
            parts += _panel(panel, axis, top, width)
            top += panel.height
        parts += [
            f'<path class="change" d="M{x:.1f} {whole.top}V{whole.base}"><title>{escape(words)}</title></path>'
            for x, words in _spread(changes, whole)
        ]
        return self._picture(parts, width, height, title, words)

    def timeline(self, rows: Sequence[Row], span: TimeRange, title: str, words: str) -> str:
        """Draw a row of bars for each name; a long name has a line of its own."""
        axis = _axis(span)
        height = _TOP + sum(_height(row) for row in rows) + _BOTTOM
        frame = _Frame(axis, _TOP, height - _BOTTOM, 1.0, left=_NAMES, right=WIDE - _WORDS)
        parts = _time_labels(frame)
        y = _TOP
        for row in rows:
            bottom = y + _height(row)
            parts.append(_row_name(row, y if _is_long(row) else bottom - _ROW))
            if row.marks:
                parts.append(f'<path class="grid" d="M4 {bottom}H{WIDE - 4}"/>')
                parts += [_bar(mark, frame, bottom - _ROW + 3, _ROW - 6) for mark in row.marks]
                parts += [
                    f'<path class="diamond" d="M{x:.1f} {bottom - _ROW}l5 9.5l-5 9.5l-5 -9.5z">'
                    f"<title>{escape(words)}</title></path>"
                    for x, words in _spread(row.changes, frame)
                ]
                parts.append(f'<text x="{WIDE - _WORDS + 10}" y="{bottom - 5}">{escape(row.words)}</text>')
            y = bottom
        return self._picture(parts, WIDE, height, title, words)

    def heat(self, heat: HeatMap, labels: Sequence[str], title: str, words: str) -> str:
        """Draw days down and hours across; ``labels`` names the rows."""
        left, row_height = 112, 17
        cell = (WIDE - left - _RIGHT) / 24
        height = _TOP + 14 + row_height * len(heat.rows)
        levels = heat.levels
        parts = [
            f'<text class="tick" x="{left + (hour + 0.5) * cell:.1f}" y="{_TOP + 6}">{hour:02d}</text>'
            for hour in range(24)
        ]
        for row, ((_, values), label) in enumerate(zip(heat.rows, labels, strict=True)):
            y = _TOP + 14 + row * row_height
            parts.append(f'<text class="tick end" x="{left - 8}" y="{y + 12}">{escape(label)}</text>')
            for hour, value in enumerate(values):
                if value is None:
                    continue
                level = bisect_right(levels, value) - 1
                parts.append(
                    f'<rect class="heat h{level}" x="{left + hour * cell:.1f}" y="{y}" width="{cell - 1:.1f}" '
                    f'height="{row_height - 1}"><title>{escape(f"{label} {hour:02d}:00: {value:,.0f}")}</title></rect>'
                )
        return self._picture(parts, WIDE, height, title, words)

    def _picture(self, parts: Iterable[str], width: int, height: int, title: str, words: str) -> str:
        number = next(self._numbers)
        return (
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="t{number} d{number}">'
            f'<title id="t{number}">{escape(title)}</title><desc id="d{number}">{escape(words)}</desc>'
            f"{''.join(parts)}</svg>"
        )


class _Frame:
    """Converts times and values to coordinates between ``top`` and ``base``, where ``highest`` is at the top."""

    def __init__(self, span: ChartSpan, top: int, base: int, highest: float, *, left: int = _LEFT, right: int) -> None:
        self.span, self.top, self.base, self.left, self.right = span, top, base, left, right
        self._highest = highest

    @property
    def columns(self) -> int:
        return (self.right - self.left) // 2

    def x(self, at_ms: float) -> float:
        share = (at_ms - self.span.start_ms) / self.span.length_ms
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)

    def y(self, value: float) -> float:
        share = min(1.0, max(0.0, value / self._highest)) if self._highest else 0.0
        return self.base - share * (self.base - self.top)


def _axis(span: TimeRange) -> ChartSpan:
    return ChartSpan(span.from_ms, max(span.to_ms, span.from_ms + 1))


def _panel(panel: Panel, axis: ChartSpan, top: int, width: int) -> list[str]:
    """Draw one panel, with its label above its lines."""
    inside, base = top + 17, top + panel.height - 3
    columns = (width - _RIGHT - _LEFT) // 2
    runs = [(each, split_runs(Series("", each.points), axis, axis.length_ms / columns)) for each in panel.drawn]
    highest = max((value for _, each in runs for run in each for value in run.values), default=0.0) / panel.divisor
    ticks = value_ticks(highest, 4 if panel.height > 90 else 2)
    frame = _Frame(axis, inside, base, ticks[-1] * panel.divisor, right=width - _RIGHT)
    parts = [f'<text class="label" x="{_LEFT}" y="{top + 11}">{escape(panel.label)}</text>']
    for tick in ticks:
        y = frame.y(tick * panel.divisor)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{width - _RIGHT}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 5}" y="{y + 4:.1f}">{escape(tick_label(tick))}</text>')
    for each, known in runs:
        if each.is_area:
            parts += [f'<path class="area {each.style}" d="{_area(run, frame)}"/>' for run in known]
        else:
            path = "".join(_path(run, frame) for run in known)
            parts.append(f'<path class="line {each.style}" d="{path}"><title>{escape(each.name)}</title></path>')
    if not any(known for _, known in runs):
        parts.append(f'<text class="tick" x="{width // 2}" y="{(inside + base) // 2 + 4}">no data for this time</text>')
    return parts


def _time_labels(frame: _Frame) -> list[str]:
    parts = []
    cells = (frame.right - frame.left) // _LABEL_WIDTH
    for at_ms, label in time_ticks(frame.span.start_ms, frame.span.end_ms, cells):
        x = frame.x(at_ms)
        # The label of the end of the range would leave the picture.
        middle = min(x, frame.right + _RIGHT - len(label) * _LETTER / 2)
        parts.append(f'<path class="grid" d="M{x:.1f} {frame.top}V{frame.base + 4}"/>')
        parts.append(f'<text class="tick" x="{middle:.1f}" y="{frame.base + 16}">{escape(label)}</text>')
    return parts


def _shade(mark: Mark, frame: _Frame) -> str:
    left, right = frame.x(mark.from_ms), frame.x(mark.to_ms)
    return (
        f'<rect class="shade {mark.style}" x="{left:.1f}" y="{frame.top}" width="{max(1.0, right - left):.1f}" '
        f'height="{frame.base - frame.top}"/>'
    )


def _bar(mark: Mark, frame: _Frame, y: int, height: int) -> str:
    """Draw a bar that is wide enough to be seen, with its letter if there is room."""
    left, right = frame.x(mark.from_ms), frame.x(mark.to_ms)
    width = max(3.0, right - left)
    left = min(left, frame.right - width)
    bar = (
        f'<rect class="bar {mark.style}" x="{left:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="1.5">'
        f"<title>{escape(mark.words)}</title></rect>"
    )
    if width < _LETTERED:
        return bar
    x = left + width / 2
    return f'{bar}<text class="letter on-{mark.style}" x="{x:.1f}" y="{y + height - 2}">{mark.letter}</text>'


def _spread(changes: Iterable[Moment], frame: _Frame) -> list[tuple[float, str]]:
    """Return where changes, in the order of time, are drawn, and their words; those close to each other are one."""
    places: list[tuple[float, list[str]]] = []
    for change in changes:
        x = frame.x(change.at_ms)
        if not places or x - places[-1][0] >= _APART:
            places.append((x, []))
        places[-1][1].append(change.words)
    return [(x, "\n".join(_first(each))) for x, each in places]


def _first(changes: Sequence[str]) -> list[str]:
    more = len(changes) - _NAMED_MAX
    return [*changes[:_NAMED_MAX], *([plural(more, "more change")] if more > 0 else [])]


def _is_long(row: Row) -> bool:
    return len(row.name) * _LETTER > _NAMES - 8


def _height(row: Row) -> int:
    if not row.marks:
        return _HEAD
    return 2 * _ROW - 4 if _is_long(row) else _ROW


def _row_name(row: Row, y: int) -> str:
    """Draw a name; one that is longer than the page is drawn in narrower letters, never cut."""
    if not row.marks:
        return f'<text class="heading" x="4" y="{y + _ROW - 4}">{escape(row.name)}</text>'
    most = WIDE - 8 if _is_long(row) else _NAMES - 8
    squeezed = f' textLength="{most}" lengthAdjust="spacingAndGlyphs"' if len(row.name) * _LETTER > most else ""
    return f'<text class="name" x="4" y="{y + 14}"{squeezed}>{escape(row.name)}</text>'


def _dots(run: Run, frame: _Frame) -> list[tuple[float, float]]:
    step = frame.span.length_ms / frame.columns
    reduced = reduce_run(run, frame.span, frame.columns)
    return [(frame.x(frame.span.start_ms + (column + 0.5) * step), frame.y(value)) for column, value in reduced]


def _path(run: Run, frame: _Frame) -> str:
    (x, y), *rest = _dots(run, frame)
    # A single point is a dot, which round line ends make visible.
    return f"M{x:.1f} {y:.1f}" + ("".join(f"L{x:.1f} {y:.1f}" for x, y in rest) or "h0.1")


def _area(run: Run, frame: _Frame) -> str:
    dots = _dots(run, frame)
    return f"M{dots[0][0]:.1f} {frame.base}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in dots) + f"V{frame.base}Z"


_RATE_STYLES = {"arrivals_s": "s1", "deletes_s": "s2", "receives_s": "s5"}
# The number of rows that fit on the first page.
_ROWS_DRAWN = 24
# A name that is longer may be broken, after these characters only.
_BREAK_FROM = 32
# Cells with more characters may have several lines.
_LONG = 26
_MOMENT = re.compile(r"(?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(?::[0-9]{2})?$")
_DATES = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(?::[0-9]{2})?")
_BREAKS = re.compile(r"([-_.:/·]+)(?=.)")
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
        heading = escape(words.title(report))
        style = files("rsmq_tui.history.report").joinpath("report.css").read_text("utf-8")
        levels, changed = service_levels(report), changes(report)
        parts = [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            '<meta name="color-scheme" content="light dark"/>',
            f"<title>{heading}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>",
            f"<header><h1>{heading}</h1><p>{escape(words.subtitle(report))}</p></header>",
            self._figures(),
            self._timeline(),
            self._section("worst", "The worst incidents", _list(words.worst(report))) if report.heads else "",
            self._overview(changed) if changed else "",
            self._section("restarts", "Restarts", _list(words.restarts(report))) if report.restarts else "",
            self._section("recreated", "Queues that were created again", _list(words.recreated(report)))
            if report.recreated
            else "",
            self._together(),
            self._queues(),
            self._overview(levels) if levels else "",
            *(self._overview(one) for one in overviews(report)),
            self._section("about", "About this report", _list(words.about(report))),
            "</main>\n</body>\n</html>\n",
        ]
        return "\n".join(filter(None, parts))

    def _figures(self) -> str:
        tiles = []
        for one in words.figures(self._report):
            lines = [("what", one.label), ("value", one.value), ("note", one.note)]
            lines += [("note", f"before: {one.before}")] if one.before else []
            paragraphs = "".join(f'<p class="{style}">{escape(line)}</p>' for style, line in lines)
            tiles.append(f'<div class="figure">{paragraphs}</div>')
        before = words.before(self._report)
        note = f'<p class="note">{escape(before)}</p>' if before else ""
        return f'<section id="figures" aria-label="Figures"><div class="figures">{"".join(tiles)}</div>{note}</section>'

    def _timeline(self) -> str:
        report = self._report
        if not report.incidents:
            return self._section("timeline", "Timeline", _list(words.worst(report)))
        queues: dict[QueueRef, list[Incident]] = {}
        for incident in report.incidents:
            if incident.ref is not None:
                queues.setdefault(incident.ref, []).append(incident)
        order = sorted(queues, key=lambda ref: (*report.rank(queues[ref]), ref))
        kept = order[:_ROWS_DRAWN]
        rows: list[Row] = []
        servers = list(dict.fromkeys(Server(*ref[:2]) for ref in (*report.outages, *kept)))
        for server in servers:
            marks = self._outages(server)
            of_server = [ref for ref in kept if Server(*ref[:2]) == server]
            if not (marks or of_server):
                continue
            if len(servers) > 1:
                rows.append(Row(server_name(server)))
            if marks:
                lasted = duration(covered_ms(report.outages[server], report.span))
                rows.append(Row("the server", marks, f"{lasted} · {_times(len(marks), words.letter(DOWN))}"))
            rows += [self._row(ref, queues[ref]) for ref in of_server]
        left = len(order) - len(kept)
        more = f" {plural(left, 'more queue')} in the table of incidents." if left else ""
        seen = {mark.style for row in rows for mark in row.marks}
        legend = " ".join(
            f'<span class="key"><i class="sample v-{verdict} on-v-{verdict}">{letter}</i>{verdict}</span>'
            for verdict, letter in (*words.LETTERS.items(), (words.OTHER, words.letter(words.OTHER)))
            if f"v-{verdict}" in seen
        )
        legend += _DIAMOND_KEY if any(row.changes for row in rows) else ""
        description = (
            f"{plural(len(report.incidents), 'incident')} of {plural(len(order), 'queue')}; a table below lists them."
        )
        picture = self._pictures.timeline(rows, report.span, "Incidents over time", description)
        return self._section("timeline", "Timeline", _figure(picture, legend + more))

    def _row(self, ref: QueueRef, incidents: Sequence[Incident]) -> Row:
        letters = Counter(words.letter(one.worst) for one in sorted(incidents, key=lambda one: severity(one.worst)))
        letter_words = " ".join(_times(number, letter) for letter, number in letters.items())
        lasted = duration(self._report.trouble_ms(incidents))
        return Row(shown(ref.queue), self._marks(incidents), f"{lasted} · {letter_words}", self._changes(ref))

    def _changes(self, ref: QueueRef | None = None) -> list[Moment]:
        """Return the changes of a queue, or of all."""
        report = self._report
        found = report.changes if ref is None else report.changes_to(ref)
        return [Moment(one.at_ms, f"{date_clock(one.at_ms)} {words.done_words(report, one)}") for one in found]

    def _marks(self, incidents: Iterable[Incident]) -> list[Mark]:
        report = self._report
        return [_mark(one.worst, each, report.span) for one in incidents for each in report.times_in_trouble(one)]

    def _outages(self, server: Server) -> list[Mark]:
        return [_mark(DOWN, span, self._report.span) for span in self._report.outages.get(server, ())]

    def _together(self) -> str:
        report = self._report
        outages = [mark for server in report.outages for mark in self._outages(server)]
        panels = [_depth_panel(report.depth, 150), *_rate_panels(report.rates, 110)]
        sentences = [words.line_words(report.depth, "Mean of the messages stored"), *map(_rate_words, report.rates)]
        title = "The queues together" if report.is_chosen else "All queues together"
        changed = self._changes()
        picture = self._pictures.panels(panels, report.span, title, " ".join(sentences), marks=outages, changes=changed)
        legend = _legend(_rate_names(report.rates)) + (_LINE_KEY if changed else "")
        return self._section("together", title, _figure(picture, f"{legend} {words.fullest(report)}") + self._heat())

    def _heat(self) -> str:
        heat = self._report.heat
        if heat is None or heat.peak is None:
            return ""
        what = "by hour of the week" if heat.is_week else "by day and hour"
        description = f"Hourly mean of the messages stored, {what}; at most {count(heat.peak)}."
        steps = [(f"heat h{level}", f"from {count(least)}") for level, least in enumerate(heat.levels)]
        picture = self._pictures.heat(
            heat, [_day(heat, day) for day, _ in heat.rows], f"Messages stored {what}", description
        )
        return _figure(picture, f"Messages stored, {what}, UTC: {_legend(steps)} blank: no data")

    def _queues(self) -> str:
        report = self._report
        if not report.sections:
            return ""
        cards = "".join(self._card(number, section) for number, section in enumerate(report.sections, 1))
        legend = _legend([("s1", "mean depth"), ("s3", "95th percentile"), ("s4", "usual at that hour of the week")])
        legend += _LINE_KEY if any(report.changes_to(section.ref) for section in report.sections) else ""
        others = f"<p>{escape(words.others(report))}</p>" if report.others else ""
        title = "The queues" if report.is_chosen else "Queues in trouble, the worst first"
        return self._section("cards", title, f'<p class="note">{legend}</p><div class="cards">{cards}</div>{others}')

    def _card(self, number: int, section: Section) -> str:
        report, name = self._report, self._report.name(section.ref)
        marks = [*self._outages(Server(*section.ref[:2])), *self._marks(section.incidents)]
        extra = []
        if not section.p95.is_empty:
            extra.append(Drawn(section.p95.points, "95th percentile", "s3"))
        if section.usual.points:
            extra.append(Drawn([(at, middle) for at, _, middle, _ in section.usual.points], "usual", "s4"))
        panels = [_depth_panel(section.depth, 92, extra), *_age_panels(section.age), *_rate_panels(section.rates, 70)]
        sentences = [words.line_words(section.depth, "Mean depth"), *map(_rate_words, section.rates)]
        if section.age.peak is not None:
            sentences.insert(1, words.line_words(section.age, "Age of the oldest ready message"))
        changed = self._changes(section.ref)
        picture = self._pictures.panels(
            panels, report.span, name, " ".join(sentences), marks=marks, changes=changed, width=CARD
        )
        letters = Counter(one.worst for one in sorted(section.incidents, key=lambda one: severity(one.worst)))
        trouble = ", ".join(_times(times, words.verdict_words(verdict)) for verdict, times in letters.items())
        lasted = f": {duration(report.trouble_ms(section.incidents))}" if trouble else "no trouble"
        lasted += f" · depth up to {words.most(report, section.depth, section)}"
        return (
            f'<section class="card" id="queue-{number}" aria-labelledby="queue-{number}-h"><h3 id="queue-{number}-h">'
            f'{_name(name)}</h3><p class="note">{escape(trouble + lasted)}</p>{picture}</section>'
        )

    def _overview(self, one: Overview) -> str:
        note = f'<p class="note">{escape(one.note)}</p>' if one.note else ""
        return self._section(one.name, one.title, note + _table(one.table, one.none) + _list(one.after))

    def _section(self, id: str, title: str, body: str) -> str:
        return f'<section id="{id}" aria-labelledby="{id}-h"><h2 id="{id}-h">{escape(title)}</h2>\n{body}</section>'


_DIAMOND_KEY, _LINE_KEY = (
    f' <span class="key"><i class="sample change">{sign}</i>change made with rsmq-tui</span>' for sign in "◆┊"
)


def _mark(verdict: str, at: tuple[int, int], span: TimeRange) -> Mark:
    from_ms, to_ms = max(at[0], span.from_ms), min(max(at), span.to_ms)
    label = f"{words.verdict_words(verdict)} {date_clock(from_ms)}, {duration(max(0, to_ms - from_ms))}"
    return Mark(from_ms, to_ms, label, f"v-{words.kind(verdict)}", words.letter(verdict))


def _times(number: int, what: str) -> str:
    return what if number == 1 else f"{number} × {what}"


def _day(heat: HeatMap, day: int) -> str:
    if heat.is_week:
        return WEEKDAYS[day]
    return f"{WEEKDAYS[weekday_of(day)]} {clock(day, date=True)[:10]}"


def _depth_panel(line: Line, height: int, extra: Sequence[Drawn] = ()) -> Panel:
    # The area is below the other lines, and the line above them.
    area, mean = (Drawn(line.points, "mean depth", "s1", is_area=is_area) for is_area in (True, False))
    return Panel("messages stored", [area, *extra, mean], height)


def _age_panels(age: Line) -> list[Panel]:
    if age.peak is None:
        return []
    divisor, unit = age_unit(age.peak[1])
    title = "Age of the oldest ready message"
    return [Panel(f"oldest ready, {unit}", [Drawn(age.points, title, "s3")], 58, divisor)]


def _rate_panels(rates: Sequence[Line], height: int) -> list[Panel]:
    drawn = [
        Drawn(line.points, words.METRICS[line.metric], _RATE_STYLES[line.metric]) for line in rates if not line.is_empty
    ]
    return [Panel("messages a second", drawn, height)] if drawn else []


def _rate_words(line: Line) -> str:
    return words.line_words(line, words.METRICS[line.metric].capitalize())


def _rate_names(rates: Sequence[Line]) -> list[tuple[str, str]]:
    return [(_RATE_STYLES[line.metric], words.METRICS[line.metric]) for line in rates if not line.is_empty]


def _table(table: Table, none: str) -> str:
    if not table.rows:
        return f"<p>{escape(none)}</p>" if none else ""
    heads = "".join(
        f'<th scope="col"{_classes(right=at in table.right)}>{escape(title)}</th>'
        for at, title in enumerate(table.titles)
    )
    rows = "\n".join(
        f"<tr>{''.join(_cell(table, at, value) for at, value in enumerate(row))}</tr>" for row in table.rows
    )
    more = f"<p>{plural(table.left_out, 'more row')} left out.</p>" if table.left_out else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="table"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>{more}"
    )


def _cell(table: Table, at: int, value: str) -> str:
    cell = _name(value) if at in table.code else escape(value)
    classes = _classes(
        right=at in table.right,
        when=_MOMENT.match(value) is not None,
        long=len(value) > _LONG and at not in table.code,
    )
    return f'<th scope="row"{classes}>{cell}</th>' if at == 0 else f"<td{classes}>{cell}</td>"


def _classes(**holds: bool) -> str:
    names = " ".join(name for name, is_so in holds.items() if is_so)
    return f' class="{names}"' if names else ""


def _name(name: str) -> str:
    """Return a name as code; a long one may be broken after its separators, and nowhere else."""
    if len(name) < _BREAK_FROM:
        return f"<code>{escape(name)}</code>"
    # Separators are in no entity, so they are replaced in the escaped text.
    return f"<code>{_BREAKS.sub(lambda found: f'{found[1]}<wbr/>', escape(name))}</code>"


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return the legend; classes are ours, names are untrusted text."""
    return " ".join(f'<span class="key"><i class="sample {style}"></i>{escape(name)}</span>' for style, name in entries)


def _list(sentences: Sequence[str]) -> str:
    items = "\n".join(f"<li>{_rich(sentence)}</li>" for sentence in sentences)
    return f"<ul>\n{items}\n</ul>" if sentences else ""


def _rich(sentence: str) -> str:
    """Return a sentence as HTML, with the names in it as code."""
    markup = escape(sentence).replace(words.NAME, "<code>").replace(words.END, "</code>")
    return _DATES.sub(lambda found: f'<span class="when">{found[0]}</span>', markup)
