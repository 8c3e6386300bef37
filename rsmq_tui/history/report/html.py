"""A report as one HTML page: a first page with figures, timeline and the worst incidents, then charts, then tables.

All text is escaped here. The page runs no scripts and loads nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from rsmq_tui.history.analysis.incidents import severity
from rsmq_tui.history.analysis.values import DOWN, HeatMap, Incident, Line, QueueRef, TimeRange
from rsmq_tui.history.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.history.report import words
from rsmq_tui.history.report.facts import Report, Section, server_name, shown, trouble_ms, worst_first
from rsmq_tui.history.report.pictures import CARD, Drawn, Mark, Panel, Pictures, Row
from rsmq_tui.history.report.slo import Server, covered_ms
from rsmq_tui.history.report.tables import Overview, Table, overviews, service_levels
from rsmq_tui.monitor.text import clock, count, duration, plural

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_AGE_UNITS = (
    (2 * DAY_MS, DAY_MS, "days"),
    (2 * HOUR_MS, HOUR_MS, "hours"),
    (10 * MINUTE_MS, MINUTE_MS, "min"),
    (0, 1_000, "s"),
)
_RATE_STYLES = {"arrivals_s": "s1", "deletes_s": "s2", "receives_s": "s5"}
# The number of rows that fit on the first page.
_ROWS_DRAWN = 24
# A name that is longer may be broken, after these characters only.
_BREAK_FROM = 32
# Cells with more characters may have several lines.
_LONG = 26
_MOMENT = re.compile(r"(?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}$")
_DATES = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}")
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
        levels = service_levels(report)
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
        order = sorted(queues, key=lambda ref: (*_badness(report, queues[ref]), ref))
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
        description = (
            f"{plural(len(report.incidents), 'incident')} of {plural(len(order), 'queue')}; a table below lists them."
        )
        picture = self._pictures.timeline(rows, report.span, "Incidents over time", description)
        return self._section("timeline", "Timeline", _figure(picture, legend + more))

    def _row(self, ref: QueueRef, incidents: Sequence[Incident]) -> Row:
        letters = Counter(words.letter(one.worst) for one in sorted(incidents, key=lambda one: severity(one.worst)))
        letter_words = " ".join(_times(number, letter) for letter, number in letters.items())
        lasted = duration(trouble_ms(incidents, self._report.span))
        return Row(shown(ref.queue), self._marks(incidents), f"{lasted} · {letter_words}")

    def _marks(self, incidents: Iterable[Incident]) -> list[Mark]:
        return [_mark(one.worst, (one.start_ms, one.end_ms), self._report.span) for one in incidents]

    def _outages(self, server: Server) -> list[Mark]:
        return [_mark(DOWN, span, self._report.span) for span in self._report.outages.get(server, ())]

    def _together(self) -> str:
        report = self._report
        outages = [mark for server in report.outages for mark in self._outages(server)]
        panels = [_depth_panel(report.depth, 150), *_rate_panels(report.rates, 110)]
        sentences = [words.line_words(report.depth, "Messages stored"), *map(_rate_words, report.rates)]
        title = "The queues together" if report.is_chosen else "All queues together"
        picture = self._pictures.panels(panels, report.span, title, " ".join(sentences), marks=outages)
        return self._section(
            "together",
            title,
            _figure(picture, f"{_legend(_rate_names(report.rates))} {words.fullest(report)}") + self._heat(),
        )

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
        sentences = [words.line_words(section.depth, "Depth"), *map(_rate_words, section.rates)]
        if section.age.peak is not None:
            sentences.insert(1, words.line_words(section.age, "Age of the oldest ready message"))
        picture = self._pictures.panels(panels, report.span, name, " ".join(sentences), marks=marks, width=CARD)
        letters = Counter(one.worst for one in sorted(section.incidents, key=lambda one: severity(one.worst)))
        trouble = ", ".join(_times(times, words.verdict_words(verdict)) for verdict, times in letters.items())
        lasted = f": {duration(trouble_ms(section.incidents, report.span))}" if trouble else "no trouble"
        return (
            f'<section class="card" id="queue-{number}" aria-labelledby="queue-{number}-h"><h3 id="queue-{number}-h">'
            f'{_name(name)}</h3><p class="note">{escape(trouble + lasted)}</p>{picture}</section>'
        )

    def _overview(self, one: Overview) -> str:
        note = f'<p class="note">{escape(one.note)}</p>' if one.note else ""
        return self._section(one.name, one.title, note + _table(one.table, one.none) + _list(one.after))

    def _section(self, id: str, title: str, body: str) -> str:
        return f'<section id="{id}" aria-labelledby="{id}-h"><h2 id="{id}-h">{escape(title)}</h2>\n{body}</section>'


def _badness(report: Report, incidents: Sequence[Incident]) -> tuple[int, int]:
    worst = worst_first(report, incidents)[0]
    return severity(worst.worst), -trouble_ms(incidents, report.span)


def _mark(verdict: str, at: tuple[int, int], span: TimeRange) -> Mark:
    from_ms, to_ms = max(at[0], span.from_ms), min(max(at), span.to_ms)
    label = f"{words.verdict_words(verdict)} {words.moment(from_ms)}, {duration(max(0, to_ms - from_ms))}"
    return Mark(from_ms, to_ms, label, f"v-{words.kind(verdict)}", words.letter(verdict))


def _times(number: int, what: str) -> str:
    return what if number == 1 else f"{number} × {what}"


def _day(heat: HeatMap, day: int) -> str:
    if heat.is_week:
        return _WEEKDAYS[day]
    return f"{_WEEKDAYS[(day // DAY_MS + 3) % 7]} {clock(day, date=True)[:10]}"


def _depth_panel(line: Line, height: int, extra: Sequence[Drawn] = ()) -> Panel:
    # The area is below the other lines, and the line above them.
    area, mean = (Drawn(line.points, "mean depth", "s1", is_area=is_area) for is_area in (True, False))
    return Panel("messages stored", [area, *extra, mean], height)


def _age_panels(age: Line) -> list[Panel]:
    if age.peak is None:
        return []
    divisor, unit = next((by, unit) for least, by, unit in _AGE_UNITS if age.peak[1] >= least)
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
