"""A report as one HTML page: self-contained, without scripts, legible by light, by dark, on paper and by ear."""

from collections.abc import Sequence
from html import escape

from rsmq_tui.history.analysis.values import Episode, Line
from rsmq_tui.history.report import tables, words
from rsmq_tui.history.report.facts import Report, Section
from rsmq_tui.history.report.style import STYLE
from rsmq_tui.history.report.svg import Drawn, Mark, Pictures, levels_of
from rsmq_tui.history.report.tables import Table
from rsmq_tui.monitor.wording import clock, count, duration, plural

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
# Even if something slipped through, a browser would run and load nothing.
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
        title = _text(words.title(report))
        parts = [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            '<meta name="color-scheme" content="light dark"/>',
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<header><h1>{title}</h1><p>{self._counts()}</p></header>",
            self._section("summary", "Summary", self._summary()),
            self._section("timeline", "Timeline", self._timeline()),
            self._section("together", self._together_title(), self._together()),
            *(self._queue(number, section) for number, section in enumerate(report.sections, 1)),
            self._others(),
            self._section("queues", "Queues", self._table(tables.queues(report), "")),
            self._section("poison", "Poison messages", self._table(tables.poison(report), _NO_POISON)),
            self._section("advice", "Visibility timeouts", self._table(tables.advice(report), _NO_ADVICE)),
            self._section("forecasts", "Forecasts", self._forecasts()),
            self._section("unusual", "Unusual hours", self._table(tables.anomalies(report), _NO_ANOMALY)),
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
        steps = [(f"heat h{level}", f"from {count(least)}") for level, least in enumerate(levels_of(heat))]
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
        depth = self._pictures.lines(lines, report.span, f"Depth of {name}", tables.described(section), marks=marks)
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

    def _forecasts(self) -> str:
        note = words.forecast_note(self._report)
        told = f"<p>{_text(note)}</p>" if note else ""
        return told + self._table(tables.forecasts(self._report), _NO_FORECAST)

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


_NO_POISON = "No message was received too often in this time range, according to the recorded inventories."
_NO_ADVICE = "No advice: advice needs inventories of messages (rsmq-tui record --messages 5m)."
_NO_FORECAST = "No forecast: a forecast needs at least one day of history."
_NO_ANOMALY = "There were no unusual hours; finding them needs some weeks of history."


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
    """Return samples of colours with what they stand for; classes are ours, words may be anybody's."""
    return " ".join(
        f'<span class="key"><i class="sample {_sample(style)}"></i>{_text(name)}</span>' for style, name in entries
    )


def _sample(style: str) -> str:
    return f"v-{style}" if style in _KNOWN else style


def _list(sentences: Sequence[str]) -> str:
    items = "\n".join(f"<li>{_rich(sentence)}</li>" for sentence in sentences)
    return f"<ul>\n{items}\n</ul>" if sentences else ""


def _rich(sentence: str) -> str:
    """Return a sentence with the names in it set apart."""
    return _text(sentence).replace(words.NAME, "<code>").replace(words.END, "</code>")


def _text(text: str) -> str:
    return escape(text, quote=True)
