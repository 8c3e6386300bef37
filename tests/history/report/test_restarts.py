"""When servers were restarted, and which queues were lost: as far as that is known."""

from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import QUEUES, SERVER_RUNS, VERDICT_RUNS
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.names import Place
from rsmq_tui.history.report.facts import gather
from rsmq_tui.history.report.html import as_html
from rsmq_tui.history.report.markdown import as_markdown
from rsmq_tui.history.report.restarts import Restart
from rsmq_tui.history.report.slo import Server
from rsmq_tui.history.report.words import END, NAME, restarts
from rsmq_tui.monitor.moments import HOUR_MS, MINUTE_MS
from tests.history.analysis.made import Made, named
from tests.history.analysis.queues import EMAILS, INVOICES, ORDERS, PROD, START_MS

SPAN = TimeRange(START_MS, START_MS + 4 * HOUR_MS)
SERVER = Server(*PROD[:2])
LISTS = PROD._replace(ns="(lists)")
# A poll every five seconds; the server is down for a minute, and was started 12 minutes after three.
DOWN_MS = START_MS + 3 * HOUR_MS + 11 * MINUTE_MS
UP_MS = DOWN_MS + MINUTE_MS


def answered(run_id: str, first_ms: int, last_ms: int, started_ms: int | None, place: Place = PROD) -> dict[str, Any]:
    names = {name: value for name, value in named(QueueRef(*place, "")).items() if name != "queue"}
    return {**names, "run_id": run_id, "first_ms": first_ms, "last_ms": last_ms, "started_ms": started_ms}


def run(ref: QueueRef, first_ms: int, last_ms: int, depth: int = 0, created_ms: int | None = 1) -> dict[str, Any]:
    return {
        **named(ref), "verdict": "ok", "first_ms": first_ms, "last_ms": last_ms, "continues": True,
        "first_depth": 0, "last_depth": depth, "created_ms": created_ms, "kind": "rsmq",
    }  # fmt: skip


def polls(first_ms: int, last_ms: int, place: Place = PROD) -> dict[str, Any]:
    return run(QueueRef(*place, ""), first_ms, last_ms, created_ms=None) | {"queue": None}


def made(out: Path) -> Made:
    """Polls until the server is down, and after it is up again; INFO is read now and then."""
    made = Made(out)
    for ref in (ORDERS, EMAILS, INVOICES, QueueRef(*LISTS, "orders")):
        known = {"kind": "rsmq", "first_ms": START_MS, "last_ms": SPAN.to_ms, "samples": 10}
        made.add(QUEUES, {**named(ref), **known, "peak_depth": 1, "last_depth": 0})
    for place in (PROD, LISTS):
        made.add(VERDICT_RUNS, polls(DOWN_MS - 11 * MINUTE_MS, DOWN_MS, place), polls(UP_MS, SPAN.to_ms, place))
    return made


def restarted(made: Made) -> None:
    for place, later_ms in ((PROD, 0), (LISTS, 2_500)):
        made.add(
            SERVER_RUNS,
            answered("one", DOWN_MS - MINUTE_MS, DOWN_MS - 5_000, START_MS - HOUR_MS, place),
            answered("two", UP_MS + later_ms, SPAN.to_ms, UP_MS, place),
        )


def found(made: Made, span: TimeRange = SPAN, chosen: list[QueueRef] | None = None) -> tuple[Restart, ...]:
    made.publish()
    return gather(Analysis(made.out), span, chosen).restarts


def test_a_restart_and_the_queues_that_were_lost_in_it_are_in_the_report(tmp_path: Path) -> None:
    analysis = made(tmp_path)
    restarted(analysis)
    analysis.add(
        VERDICT_RUNS,
        # Gone, created again, and still there with fewer messages, which consumers may have received.
        run(ORDERS, START_MS, DOWN_MS, 1_200),
        run(EMAILS, START_MS, DOWN_MS, 34),
        run(EMAILS, UP_MS, SPAN.to_ms, 5, created_ms=UP_MS),
        run(INVOICES, START_MS, DOWN_MS, 500),
        run(INVOICES, UP_MS, SPAN.to_ms, 100),
        # Nobody knows whether it was emptied before.
        run(QueueRef(*LISTS, "orders"), START_MS, DOWN_MS, 70, created_ms=None),
    )

    assert found(analysis) == (Restart(SERVER, UP_MS, True, 2, 1_234),)
    report = gather(Analysis(tmp_path), SPAN)
    assert restarts(report) == [
        f"{NAME}prod{END} was restarted at 2031-05-14 03:12:00. 2 queues were lost, "
        "with 1,234 messages at the last poll before it."
    ]
    assert "## Restarts\n\n- `prod` was restarted at 2031-05-14 03:12:00." in as_markdown(report)
    assert 'id="restarts"' in as_html(report)
    assert found(analysis, chosen=[EMAILS]) == (Restart(SERVER, UP_MS, True, 1, 34),)


def test_what_was_gone_before_a_restart_was_not_lost_in_it(tmp_path: Path) -> None:
    analysis = made(tmp_path)
    restarted(analysis)
    analysis.add(
        VERDICT_RUNS,
        run(ORDERS, START_MS, DOWN_MS - 3 * MINUTE_MS, 1_200),
        # Created after it.
        run(EMAILS, UP_MS + 9 * MINUTE_MS, SPAN.to_ms, 3),
    )

    assert found(analysis) == (Restart(SERVER, UP_MS, True),)
    report = gather(Analysis(tmp_path), SPAN)
    assert restarts(report) == [f"{NAME}prod{END} was restarted at 2031-05-14 03:12:00."]


def test_a_restart_between_two_polls_has_no_outage(tmp_path: Path) -> None:
    analysis = made(tmp_path)
    analysis.rows.pop(VERDICT_RUNS)
    analysis.add(
        SERVER_RUNS,
        answered("one", DOWN_MS - MINUTE_MS, UP_MS - 6_000, START_MS - HOUR_MS),
        answered("two", UP_MS + 4_000, SPAN.to_ms, UP_MS),
    )
    analysis.add(
        VERDICT_RUNS,
        polls(START_MS + 3 * HOUR_MS, SPAN.to_ms),
        run(ORDERS, START_MS + 3 * HOUR_MS, UP_MS - 5_000, 1),
        run(EMAILS, START_MS + 3 * HOUR_MS, SPAN.to_ms, 7),
    )

    assert found(analysis) == (Restart(SERVER, UP_MS, True, 1, 1),)
    report = gather(Analysis(tmp_path), SPAN)
    assert restarts(report) == [
        f"{NAME}prod{END} was restarted at 2031-05-14 03:12:00. 1 queue was lost, "
        "with 1 message at the last poll before it."
    ]


def test_of_a_server_that_was_not_polled_since_nothing_is_known_to_be_lost(tmp_path: Path) -> None:
    analysis = made(tmp_path)
    restarted(analysis)
    analysis.rows.pop(VERDICT_RUNS)
    analysis.add(VERDICT_RUNS, polls(START_MS, DOWN_MS), run(ORDERS, START_MS, DOWN_MS, 1_200))

    assert found(analysis) == (Restart(SERVER, UP_MS, True),)


def test_another_server_that_ran_before_is_a_failover(tmp_path: Path) -> None:
    analysis = made(tmp_path)
    analysis.add(
        SERVER_RUNS,
        answered("one", DOWN_MS - MINUTE_MS, UP_MS - 4_000, START_MS - HOUR_MS),
        answered("two", UP_MS + 4_000, UP_MS + 8 * MINUTE_MS, START_MS - 2 * HOUR_MS),
        # And back again.
        answered("one", UP_MS + 9 * MINUTE_MS, SPAN.to_ms, START_MS - HOUR_MS),
    )

    assert [(one.at_ms, one.is_restart) for one in found(analysis)] == [
        (UP_MS, False),
        (UP_MS + 8 * MINUTE_MS + 30_000, False),
    ]
    report = gather(Analysis(tmp_path), SPAN)
    assert restarts(report)[0] == f"Another server took over for {NAME}prod{END} at 2031-05-14 03:12:00."


def test_many_restarts_are_counted(tmp_path: Path) -> None:
    analysis = made(tmp_path)
    for number in range(14):
        started_ms = START_MS + number * 10 * MINUTE_MS
        analysis.add(SERVER_RUNS, answered(f"run-{number}", started_ms + 1_000, started_ms + 590_000, started_ms))
    analysis.publish()

    sentences = restarts(gather(Analysis(tmp_path), SPAN))
    assert (len(sentences), sentences[-1]) == (11, "There were 3 more.")


@pytest.mark.parametrize(
    ("rows", "span"),
    [
        # Not in the range; the same one; of what it is not known when it was started.
        (
            [answered("one", START_MS, START_MS, 0), answered("two", UP_MS, UP_MS, UP_MS)],
            (UP_MS + MINUTE_MS, SPAN.to_ms),
        ),
        ([answered("one", START_MS, START_MS, 0), answered("one", UP_MS, UP_MS, 0)], SPAN),
        ([answered("one", START_MS, START_MS, 0), answered("two", UP_MS, UP_MS, None)], SPAN),
        ([], SPAN),
    ],
)
def test_what_is_not_known_to_be_a_restart_is_none(
    tmp_path: Path, rows: list[dict[str, Any]], span: tuple[int, int]
) -> None:
    analysis = made(tmp_path)
    analysis.add(SERVER_RUNS, *rows)

    assert found(analysis, TimeRange(*span)) == ()
    assert "Restarts" not in as_markdown(gather(Analysis(tmp_path), TimeRange(*span)))
