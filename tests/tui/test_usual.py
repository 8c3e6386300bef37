"""What an analysis says is usual at this hour of the week, on the live screens."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import BASELINE
from rsmq_tui.history.analysis.values import QueueRef, UsualRange
from rsmq_tui.history.names import HistoryError
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.tui.history.loading import AnalysisLocation
from rsmq_tui.tui.history.usual import RENEW_MS, UsualValues
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from tests.history.analysis.made import Made, named
from tests.tui.driving import opened, play, press, says, until, wait_for_screen
from tests.tui.reading import app_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import poll_of, queue_of

# START_MS is a Wednesday, 11:06 UTC.
HOUR_OF_WEEK = 2 * 24 + 11
SERVER = "redis://cache-1:6379/0"
ORDERS = QueueRef("prod", SERVER, "rsmq", "orders")
DEPTH = {"metric": "depth", "median": 150.0, "mad": 60 / (3 * 1.4826)}


def _made(out: Path, *rows: dict[str, object], ref: QueueRef = ORDERS, run: str = "run-1") -> None:
    made = Made(out)
    for row in rows:
        made.add(BASELINE, {**named(ref), "hours": 12, "zone": "UTC", "hour_of_week": HOUR_OF_WEEK, **row})
    made.publish(run)


def _words(out: Path, at_ms: int = START_MS) -> str:
    usual = UsualValues(str(out))
    assert usual.read(at_ms)
    return usual.words(*ORDERS[1:])


def test_the_hour_is_the_one_that_clocks_show() -> None:
    assert datetime.fromtimestamp(START_MS / 1000, UTC).strftime("%A %H:%M") == "Wednesday 11:06"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([DEPTH], "usual at this hour of the week: 90 to 210 messages"),
        (
            [DEPTH, {"metric": "arrivals_s", "median": 12.0, "mad": 0.0}],
            "usual at this hour of the week: 90 to 210 messages, 12.0 arrivals/s",
        ),
        ([{**DEPTH, "mad": 0.0}], "usual at this hour of the week: 150 messages"),
        ([{**DEPTH, "median": 20.0}], "usual at this hour of the week: 0 to 80 messages"),
        ([{"metric": "deletes_s", "median": 1.0, "mad": 0.0}], ""),
        ([{**DEPTH, "hours": 2}], ""),
        ([{**DEPTH, "median": None}], ""),
        ([{**DEPTH, "hour_of_week": HOUR_OF_WEEK + 1}], ""),
        ([{**DEPTH, "hour_of_week": HOUR_OF_WEEK + 1, "zone": "Europe/Berlin"}], "usual at this hour of the week: 90"),
        ([{**DEPTH, "zone": None}], "usual at this hour of the week: 90 to 210 messages"),
    ],
)
def test_what_is_usual_is_a_range(tmp_path: Path, rows: list[dict[str, object]], words: str) -> None:
    _made(tmp_path, *rows)
    found = _words(tmp_path)
    assert found.startswith(words)
    assert bool(found) is bool(words)


def test_queues_of_several_zones_are_each_at_their_own_hour(tmp_path: Path) -> None:
    made, refs = Made(tmp_path), [ORDERS, ORDERS._replace(queue="emails"), ORDERS._replace(queue="jobs")]
    for ref, zone, hour in zip(refs, ("UTC", "Asia/Tokyo", None), (11, 20, 11), strict=True):
        row = {**named(ref), **DEPTH, "hours": 12, "zone": zone}
        made.add(BASELINE, *({**row, "hour_of_week": 48 + each, "median": float(each == hour)} for each in range(24)))
    made.publish()

    found = Analysis(tmp_path).usual(START_MS, "depth")

    assert found == {ref: {"depth": UsualRange(0.0, 1.0, 61.0)} for ref in refs}


def test_a_new_hour_and_a_new_run_are_read(tmp_path: Path) -> None:
    _made(tmp_path, DEPTH, {**DEPTH, "hour_of_week": HOUR_OF_WEEK + 1, "median": 500.0})
    usual = UsualValues(str(tmp_path))
    assert usual.read(START_MS)
    assert not usual.read(START_MS + 1)
    assert usual.read(START_MS + HOUR_MS)
    assert "440 to 560 messages" in usual.words(*ORDERS[1:])
    assert usual.read(START_MS)
    _made(tmp_path, {**DEPTH, "median": 1000.0}, run="run-2")
    assert usual.read(START_MS + RENEW_MS + 2)
    assert "940 to 1,060 messages" in usual.words(*ORDERS[1:])


def test_an_hour_begins_on_the_clocks_of_the_zone(tmp_path: Path) -> None:
    # 11:06 UTC is 16:51 in Nepal, whose clocks are 5:45 ahead.
    _made(
        tmp_path,
        {**DEPTH, "zone": "Asia/Kathmandu", "hour_of_week": HOUR_OF_WEEK + 5},
        {**DEPTH, "zone": "Asia/Kathmandu", "hour_of_week": HOUR_OF_WEEK + 6, "median": 500.0},
    )
    usual = UsualValues(str(tmp_path))
    assert usual.read(START_MS)
    assert "90 to 210 messages" in usual.words(*ORDERS[1:])
    assert usual.read(START_MS + 10 * 60_000)
    assert "440 to 560 messages" in usual.words(*ORDERS[1:])


def test_a_new_run_that_could_not_be_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _made(tmp_path, DEPTH)
    usual = UsualValues(str(tmp_path))
    assert usual.read(START_MS)
    _made(tmp_path, {**DEPTH, "median": 1000.0}, run="run-2")
    with monkeypatch.context() as broken:
        broken.setattr(Analysis, "usual", lambda *_: (_ for _ in ()).throw(HistoryError("the store is busy")))
        assert not usual.read(START_MS + RENEW_MS)
    assert usual.problem == "the store is busy"
    assert usual.read(START_MS + RENEW_MS + 1)
    assert (usual.problem, usual.words(*ORDERS[1:])) == ("", "usual at this hour of the week: 940 to 1,060 messages")


def test_a_damaged_file_is_a_problem(tmp_path: Path) -> None:
    _made(tmp_path, DEPTH)
    for file in tmp_path.rglob("*.parquet"):
        file.write_bytes(b"damaged")
    usual = UsualValues(str(tmp_path))
    assert usual.read(START_MS)
    assert "was left out" in usual.problem


async def test_a_store_that_does_not_answer_holds_up_nothing(
    source: ScriptedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made(tmp_path, DEPTH)
    reading, answers, threads = threading.Event(), threading.Event(), list[threading.Thread]()
    usual = Analysis.usual

    def waiting(analysis: Analysis, *given: Any) -> Any:
        threads.append(threading.current_thread())
        reading.set()
        answers.wait()
        return usual(analysis, *given)

    monkeypatch.setattr(Analysis, "usual", waiting)
    async with opened(source, size=(150, 40), analysis=AnalysisLocation(str(tmp_path))) as pilot:
        source.play(poll_of(source, [queue_of("orders", ready=4_900)]))
        await until(pilot, reading.is_set, "it is read")
        values = app_of(pilot).dashboard.usual
        assert values is not None
        # As in the next minute.
        assert not values.read(START_MS)
        # The program ends without waiting for it.
        assert threads[0].daemon
        answers.set()
        await says(pilot, "usual at this hour of the week: 90 to 210 messages")


def test_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    usual = UsualValues(str(tmp_path))
    assert not usual.read(START_MS)
    assert str(tmp_path) in usual.problem
    _made(tmp_path, DEPTH)
    assert usual.read(START_MS)
    assert usual.problem == ""


async def test_the_live_screens_say_what_is_usual(source: ScriptedSource, tmp_path: Path) -> None:
    _made(tmp_path, DEPTH)
    async with opened(source, size=(150, 40), analysis=AnalysisLocation(str(tmp_path))) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=4_900)]))
        await wait_for_screen(pilot, OverviewScreen)
        await says(pilot, "usual at this hour of the week: 90 to 210 messages")
        await press(pilot, "enter")
        await wait_for_screen(pilot, QueueScreen)
        await says(pilot, "usual at this hour of the week: 90 to 210 messages")


async def test_an_analysis_that_is_damaged_is_told_once_and_hides_nothing(
    source: ScriptedSource, tmp_path: Path
) -> None:
    async with opened(source, notifications=True, analysis=AnalysisLocation(str(tmp_path / "none"))) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=7)]))
        await says(pilot, "What is usual")
        assert "orders" in text_of(app_of(pilot))
        assert "usual at this hour" not in text_of(app_of(pilot))
