"""Queues that were deleted and created again in the range of a report."""

from pathlib import Path
from typing import Any

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import QUEUES, SERVER_RUNS, VERDICT_RUNS
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.report.facts import gather
from rsmq_tui.history.report.html import as_html
from rsmq_tui.history.report.markdown import as_markdown
from rsmq_tui.history.report.restarts import Recreated
from rsmq_tui.history.report.words import END, NAME, recreated
from rsmq_tui.monitor.moments import HOUR_MS, MINUTE_MS
from tests.history.analysis.made import Made, named
from tests.history.analysis.queues import EMAILS, INVOICES, ORDERS, START_MS
from tests.history.report.test_restarts import answered, polls, run

SPAN = TimeRange(START_MS, START_MS + 4 * HOUR_MS)
AGAIN_MS = START_MS + HOUR_MS + 12 * MINUTE_MS


def made(out: Path, *runs: dict[str, Any]) -> Made:
    made = Made(out)
    for ref in (ORDERS, EMAILS, INVOICES):
        known = {"kind": "rsmq", "first_ms": START_MS, "last_ms": SPAN.to_ms, "samples": 10}
        made.add(QUEUES, {**named(ref), **known, "peak_depth": 1, "last_depth": 0})
    made.add(VERDICT_RUNS, polls(START_MS, SPAN.to_ms), *runs)
    return made


def first(ref: QueueRef, first_ms: int, last_ms: int, depth: int, created_ms: int | None) -> dict[str, Any]:
    """The first run of a queue, which follows none of the same."""
    return run(ref, first_ms, last_ms, depth, created_ms) | {"continues": False}


def found(made: Made, span: TimeRange = SPAN, chosen: list[QueueRef] | None = None) -> tuple[Recreated, ...]:
    made.publish()
    return gather(Analysis(made.out), span, chosen).recreated


def of_each(out: Path) -> Made:
    return made(
        out,
        # Of an hour before, and created again between two polls; and once more.
        run(ORDERS, START_MS, START_MS + HOUR_MS - 1, 900),
        run(ORDERS, START_MS + HOUR_MS, AGAIN_MS - 3_000, 400),
        first(ORDERS, AGAIN_MS + 2_000, AGAIN_MS + HOUR_MS, 7, AGAIN_MS),
        first(ORDERS, AGAIN_MS + 2 * HOUR_MS, SPAN.to_ms, 0, AGAIN_MS + HOUR_MS + MINUTE_MS),
        # New, and after a gap still the same.
        first(EMAILS, AGAIN_MS, AGAIN_MS + MINUTE_MS, 3, AGAIN_MS),
        first(EMAILS, AGAIN_MS + HOUR_MS, SPAN.to_ms, 3, AGAIN_MS),
        run(INVOICES, START_MS, SPAN.to_ms, 5),
    )


def test_they_are_in_the_report(tmp_path: Path) -> None:
    again = Recreated(ORDERS, AGAIN_MS, 400), Recreated(ORDERS, AGAIN_MS + HOUR_MS + MINUTE_MS, 7)

    assert found(of_each(tmp_path)) == again
    report = gather(Analysis(tmp_path), SPAN)
    was = f"{NAME}orders{END} was created again at"
    assert recreated(report) == [
        f"{was} 2031-05-14 01:12:00; the one before held 400 messages at its last poll.",
        f"{was} 2031-05-14 02:13:00; the one before held 7 messages at its last poll.",
    ]
    assert "## Queues that were created again\n\n- `orders` was created again at" in as_markdown(report)
    assert 'id="recreated"' in as_html(report)


def test_of_the_chosen_queues_in_the_range(tmp_path: Path) -> None:
    analysis = of_each(tmp_path)

    assert found(analysis, chosen=[EMAILS]) == ()
    assert len(found(analysis, chosen=[EMAILS, ORDERS])) == 2
    assert found(analysis, TimeRange(AGAIN_MS + 3 * MINUTE_MS, SPAN.to_ms))[0].messages == 7
    report = gather(Analysis(tmp_path), TimeRange(START_MS, START_MS + HOUR_MS))
    assert (report.recreated, "created again" in as_markdown(report)) == ((), False)


def test_what_was_lost_in_a_restart_is_told_there(tmp_path: Path) -> None:
    analysis = of_each(tmp_path)
    analysis.add(
        SERVER_RUNS,
        answered("one", START_MS, AGAIN_MS - MINUTE_MS, START_MS - HOUR_MS),
        answered("two", AGAIN_MS + MINUTE_MS, SPAN.to_ms, AGAIN_MS - 1_000),
    )

    assert [one.messages for one in found(analysis)] == [7]
    assert [(one.queues, one.messages) for one in gather(Analysis(tmp_path), SPAN).restarts] == [(1, 400)]


def test_many_are_counted(tmp_path: Path) -> None:
    runs = [first(ORDERS, START_MS + n * MINUTE_MS, START_MS + n * MINUTE_MS, n, START_MS + n) for n in range(15)]
    analysis = made(tmp_path, *runs)

    assert len(found(analysis)) == 14
    sentences = recreated(gather(Analysis(tmp_path), SPAN))
    assert (len(sentences), sentences[-1]) == (11, "There were 4 more.")
