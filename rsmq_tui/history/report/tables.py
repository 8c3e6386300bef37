"""The tables of a report: titles and rows of printable text, not escaped, for both formats."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rsmq_tui.history.report.words import (
    METRICS,
    Report,
    Section,
    metric_value,
    moment,
    recovered_words,
    verdict_words,
)
from rsmq_tui.monitor.text import UNKNOWN, compact, count, duration, printable, seconds, size

ROWS_MAX = 200
_TOLD_MAX = 300


@dataclass(frozen=True, slots=True)
class Table:
    """Titles, rows, and which columns hold names (in ``code``) and numbers (to the right)."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: frozenset[int] = frozenset()
    right: frozenset[int] = frozenset()
    left_out: int = 0


def episodes(report: Report) -> Table:
    """Every episode, the earliest first."""
    return _table(
        ("Began", "What", "Verdict", "Lasted", "OK again", "Peak", "Oldest", "Affected", "Why"),
        [
            (
                moment(one.start_ms), report.subject(one), verdict_words(one.verdict),
                duration(one.length_ms) if one.ended == "over" else f"more than {duration(one.length_ms)}",
                recovered_words(one), count(one.peak_depth), duration(one.peak_age_ms), count(one.affected),
                printable(one.cause, _TOLD_MAX),
            )
            for one in report.episodes
        ],
        code={1}, right={3, 5, 6, 7},
    )  # fmt: skip


def queues(report: Report) -> Table:
    """All queues, with a summary of their episodes."""
    rows = []
    for facts in report.queues:
        own = [one for one in report.episodes if one.ref == facts.ref]
        trouble = duration(sum(one.within(report.span) for one in own)) if own else "none"
        name, last = report.name(facts.ref), moment(facts.last_ms)
        rows.append((name, count(len(own)), trouble, count(facts.peak_depth), count(facts.last_depth), last))
    return _table(
        ("Queue", "Episodes", "In trouble", "Greatest depth ever", "Last depth", "Last seen"),
        rows, code={0}, right={1, 2, 3, 4},
    )  # fmt: skip


def facts_of(section: Section) -> Table:
    """The minimum, mean and maximum of the lines of a queue."""
    lines = [("Depth", section.depth), ("Oldest ready", section.age)]
    lines += [(METRICS[one.metric].capitalize(), one) for one in section.rates]
    rows: list[tuple[str, ...]] = []
    for name, line in lines:
        known = [value for _, value in line.points if value is not None]
        if known:
            peak = line.peak
            mean = sum(known) / len(known)
            values = (min(known), mean, max(known), known[-1])
            told = tuple(metric_value(line.metric, value) for value in values)
            rows.append((name, *told, moment(None if peak is None else peak[0])))
        else:
            rows.append((name, *[UNKNOWN] * 5))
    return _table(("", "Least", "Mean", "Most", "At the end", "Most at"), rows, right={1, 2, 3, 4})


def poison(report: Report) -> Table:
    """The messages that were received too often."""
    words = {True: "still there", False: "gone", None: UNKNOWN}
    return _table(
        ("Queue", "Message", "Received", "Sent", "First seen", "Last seen", "Size", "Now"),
        [
            (
                report.name(one.ref), printable(one.id, 80), f"{count(one.rc)} times", moment(one.sent_ms),
                moment(one.first_seen_ms), moment(one.last_seen_ms), size(one.size), words[one.is_there],
            )
            for one in report.poison
        ],
        code={0, 1}, right={2, 6},
    )  # fmt: skip


def advice(report: Report) -> Table:
    """The advice on visibility timeouts."""
    return _table(
        ("Queue", "vt", "Advised", "Visible again", "99 % deleted within", "Received", "Advice"),
        [
            (
                report.name(one.ref), seconds(one.vt_s), seconds(one.advised_vt_s),
                UNKNOWN if one.expired_share is None else f"{100 * one.expired_share:.1f} %",
                duration(one.holding_ms_p99), compact(one.received), printable(one.told, _TOLD_MAX),
            )
            for one in report.advice
        ],
        code={0}, right={1, 2, 3, 4, 5},
    )  # fmt: skip


def forecasts(report: Report) -> Table:
    """The forecasts."""
    return _table(
        ("Queue", "What", "As of", "Was", "Limit", "Reaches it", "Forecast"),
        [
            (
                report.name(one.ref), METRICS.get(one.metric, printable(one.metric, 40)), moment(one.at_ms),
                metric_value(one.metric, one.value), metric_value(one.metric, one.limit),
                "never" if one.reaches_ms is None else moment(one.reaches_ms), printable(one.told, _TOLD_MAX),
            )
            for one in report.forecasts
        ],
        code={0}, right={3, 4},
    )  # fmt: skip


def anomalies(report: Report) -> Table:
    """The unusual hours."""
    return _table(
        ("Hour", "Queue", "What", "Was", "Usual at that hour", "Score"),
        [
            (
                moment(one.bucket_ms), report.name(one.ref), METRICS.get(one.metric, printable(one.metric, 40)),
                metric_value(one.metric, one.value), metric_value(one.metric, one.median), f"{one.score:+,.1f}",
            )
            for one in report.anomalies
        ],
        code={1}, right={3, 4, 5},
    )  # fmt: skip


OVERVIEWS: tuple[tuple[str, str, Callable[[Report], Table], str], ...] = (
    ("queues", "Queues", queues, ""),
    (
        "poison",
        "Poison messages",
        poison,
        "No message was received too often in this time range, according to the recorded inventories.",
    ),
    (
        "advice",
        "Visibility timeouts",
        advice,
        "No advice: advice needs inventories of messages (rsmq-tui record --messages 5m).",
    ),
    ("forecasts", "Forecasts", forecasts, "No forecast: a forecast needs at least one day of history."),
    ("unusual", "Unusual hours", anomalies, "There were no unusual hours; finding them needs some weeks of history."),
)
"""The tables after the sections of queues: name, title, table, and the text if it is empty."""


def _table(
    titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, code: Iterable[int] = (), right: Iterable[int] = ()
) -> Table:
    left_out = max(0, len(rows) - ROWS_MAX)
    return Table(titles, tuple(rows[:ROWS_MAX]), frozenset(code), frozenset(right), left_out)
