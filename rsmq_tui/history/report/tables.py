"""The tables of a report: titles and rows of printable text, not escaped, for both formats and the command line."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from rsmq_tui.history.report import words
from rsmq_tui.history.report.facts import Report, server_name, worst_first
from rsmq_tui.history.report.slo import ServiceLevel
from rsmq_tui.monitor.text import UNKNOWN, compact, count, duration, plural, printable, rate, seconds, size

_INCIDENTS, _LEVELS, _QUEUES, _CHANGES, _OTHERS = 100, 30, 100, 100, 30


@dataclass(frozen=True, slots=True)
class Table:
    """Titles, rows, and which columns hold names (in ``code``) and numbers (to the right)."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: frozenset[int] = frozenset()
    right: frozenset[int] = frozenset()
    left_out: int = 0


class Overview(NamedTuple):
    """A table with its section: its name, its title, a note before it, the text if it is empty, and notes after it."""

    name: str
    title: str
    note: str
    table: Table
    none: str
    after: Sequence[str] = ()


def slo_table(levels: Iterable[ServiceLevel], name: Callable[[ServiceLevel], str], most: int = _LEVELS) -> Table:
    """Return how well objectives were met, the most used budget first."""
    rows = [
        (
            name(level), level.objective.target,
            f"{level.objective.percent:g} % of {duration(level.objective.window_ms).removesuffix(' 0h')}",
            words.percent(level.window.attained), words.budget_words(level), *words.burn_words(level),
            words.percent(level.week.attained), words.percent(level.before.attained),
        )
        for level in levels
    ]  # fmt: skip
    titles = (
        *("Of", "Target", "Objective", "Attained", "Budget left"),
        *("Burn 1h", "Burn 6h", "Burn 3d", "Last 7d", "7d before"),
    )
    return _table(titles, rows, most, code={0}, right=range(3, 10))


def overviews(report: Report) -> tuple[Overview, ...]:
    """Return the tables after the charts, with the service levels first."""
    no_poison = (
        "No message was received too often in this time range, according to the recorded inventories."
        if report.has_inventories
        else "Unknown: no inventories of messages were recorded in this time range (rsmq-tui record --messages 5m)."
    )
    no_advice = "No advice: advice needs inventories of messages (rsmq-tui record --messages 5m)."
    no_forecast = "No forecast was made in this time range that reaches a limit."
    no_anomaly = "There were no unusual hours; finding them needs some weeks of history."
    from_all = (
        "From the whole history: receives by their counters, holding times by inventories." if report.advice else ""
    )
    return (
        Overview("incidents", "Incidents", "", _incidents_table(report), "No queue was in trouble in this time range."),
        Overview("queues", "Queues", "", _queues_table(report), "The analysis contains no queues."),
        Overview("poison", "Poison messages", words.poisoned(report), _poison_table(report), no_poison),
        Overview("advice", "Visibility timeouts", from_all, _advice_table(report), no_advice),
        Overview("forecasts", "Forecasts", "", _forecasts_table(report), no_forecast),
        Overview("unusual", "Unusual hours", "", _anomalies_table(report), no_anomaly),
    )


def service_levels(report: Report) -> Overview | None:
    """Return the service levels up to the end of the range; None if there are no objectives."""
    if not report.levels:
        return None
    missed = sum(not level.is_met for level in report.levels)
    # Levels that used nothing of their budget add no information.
    used = [level for level in report.levels if level.budget_left is not None and level.budget_left < 1]

    def name(level: ServiceLevel) -> str:
        return server_name(level.subject) if level.queue is None else report.name(level.queue)

    rest = len(report.levels) - len(used)
    missed_words = f"{count(missed)} of {plural(len(report.levels), 'objective')} missed"
    note = (
        f"{missed_words if missed else 'All objectives are met'}, and {count(rest)} used none of their budget. "
        "Each ends with the range, and counts its own window before that. Budget left is of the time that may be bad; "
        "burn is how many times faster than allowed it was used, with ! if somebody should be called."
    )
    return Overview("slo", "Service levels", note, slo_table(used, name), "", words.uses(report))


def changes(report: Report) -> Overview | None:
    """Return the changes that were made with this program in the range; None if there were none."""
    if not report.changes:
        return None
    rows = [
        (
            words.when(report, one.at_ms), report.name(report.queue_of(one)) if one.queue else UNKNOWN,
            words.done_words(report, one), printable(one.who, 60), one.undone_words(partial(words.when, report)),
            words.incident_words(report, one),
        )
        for one in report.changes
    ]  # fmt: skip
    table = _table(("When", "Queue", "What was done", "By", "Undone", "Incident"), rows, _CHANGES, code={1})
    return Overview("changes", "Changes made with rsmq-tui", "", table, "", words.counted(report))


def _incidents_table(report: Report) -> Table:
    """Return the worst incidents, the earliest first."""
    kept = worst_first(report, report.incidents)[:_INCIDENTS]
    kept.sort(key=lambda one: (one.start_ms, one.place, one.queue or ""))
    rows = [
        (
            words.when(report, one.start_ms) if one.start_ms >= report.span.from_ms else "before the range",
            report.subject(one), ", ".join(words.verdict_words(verdict) for verdict in one.verdicts),
            f"{duration(report.lasted_ms(one))}{words.bounds_words(report.down_ms(one))}"
            f"{'' if one.ended == 'over' else ' or more'}",
            words.recovered_words(report, one),
            *(
                (count(one.peak_depth), words.affected(one), printable(one.cause, words.CAUSE_MAX))
                if report.is_whole(one)
                else (UNKNOWN, UNKNOWN, "it reaches beyond the range")
            ),
        )
        for one in kept
    ]  # fmt: skip
    titles = ("Began", "What", "Verdicts", "In trouble", "OK again", "Peak depth", "Affected", "Why")
    table = _table(titles, rows, _INCIDENTS, code={1}, right={3, 5, 6})
    return Table(table.titles, table.rows, table.code, table.right, len(report.incidents) - len(kept))


def _queues_table(report: Report) -> Table:
    """Return the queues, those longest in trouble first, then the deepest."""
    order = sorted(report.queues, key=lambda row: (-row.trouble_ms, -(row.depth_max or 0), row.ref))
    rows = [
        (
            report.name(row.ref), count(row.incidents), duration(row.trouble_ms) if row.trouble_ms else "none",
            count(row.depth_mean), count(row.depth_max), duration(row.age_max_ms), f"{rate(row.arrivals_s)}",
            f"{rate(row.deletes_s)}", compact(row.late),
        )
        for row in order
    ]  # fmt: skip
    return _table(
        ("Queue", "Incidents", "In trouble", "Mean depth", "Most", "Oldest", "Arrivals/s", "Deletes/s", "Late"),
        rows, _QUEUES, code={0}, right=range(1, 9),
    )  # fmt: skip


def _poison_table(report: Report) -> Table:
    there = {True: "still there", False: "gone", None: UNKNOWN}
    rows = [
        (
            report.name(one.ref), printable(one.id, 80), f"{count(one.rc)} times", words.when(report, one.last_seen_ms),
            words.when(report, one.sent_ms), size(one.size), there[one.is_there],
        )
        for one in report.poison
    ]  # fmt: skip
    titles = ("Queue", "Message", "Received, when last seen", "Last seen", "Sent", "Size", "Now")
    return _table(titles, rows, _OTHERS, code={0, 1}, right={2, 5})


def _advice_table(report: Report) -> Table:
    rows = [
        (
            report.name(one.ref), seconds(one.vt_s), seconds(one.advised_vt_s), count(one.receives),
            count(one.redeliveries), UNKNOWN if one.redelivered is None else f"{100 * one.redelivered:.1f} %",
            printable(one.told, words.CAUSE_MAX),
        )
        for one in report.advice
    ]  # fmt: skip
    titles = ("Queue", "vt", "Advised", "Receives", "Redeliveries", "Share", "Advice")
    return _table(titles, rows, _OTHERS, code={0}, right={1, 2, 3, 4, 5})


def _forecasts_table(report: Report) -> Table:
    rows = [
        (
            report.name(one.ref), words.METRICS.get(one.metric, printable(one.metric, 40)),
            words.when(report, one.at_ms, words.minute), words.metric_value(one.metric, one.value),
            words.metric_value(one.metric, one.limit), words.when(report, one.reaches_ms, words.minute),
            printable(one.told, words.CAUSE_MAX),
        )
        for one in report.forecasts
        if one.reaches_ms is not None
    ]  # fmt: skip
    return _table(
        ("Queue", "What", "As of", "Was", "Limit", "Reaches it", "Forecast"), rows, _OTHERS, code={0}, right={3, 4}
    )


def _anomalies_table(report: Report) -> Table:
    rows = [
        (
            words.when(report, one.bucket_ms, words.minute), report.name(one.ref),
            words.METRICS.get(one.metric, printable(one.metric, 40)),
            words.metric_value(one.metric, one.value), words.metric_value(one.metric, one.median), f"{one.score:+,.1f}",
        )
        for one in report.anomalies
    ]  # fmt: skip
    return _table(
        ("Hour", "Queue", "What", "Was", "Usual at that hour", "Score"), rows, _OTHERS, code={1}, right={3, 4, 5}
    )


def _table(
    titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], most: int, *, code: Iterable[int] = (),
    right: Iterable[int] = (),
) -> Table:  # fmt: skip
    return Table(titles, tuple(rows[:most]), frozenset(code), frozenset(right), max(0, len(rows) - most))
