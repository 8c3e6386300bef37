"""The screen of the past: what it shows of an analysis, moved about in, at any size, whatever the files hold."""

import asyncio
import shlex
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from rsmq_tui.history.analysis import schema
from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import HeatMap, QueueRef, TimeRange
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from rsmq_tui.monitor.text import show_in_zone
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.dashboard import Dashboard
from rsmq_tui.tui.history.loading import AnalysisLocation, Lists, Loader, range_words
from rsmq_tui.tui.history.pages import HeatView, queue_rows
from rsmq_tui.tui.history.screen import HistoryScreen, RangeScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.lines import KeyHints
from tests.history.analysis.made import Made, bucket, episode, named, scripted
from tests.history.analysis.queues import END_MS, ORDERS, PROD, START_MS
from tests.history.made import state
from tests.history.replayed import Tape
from tests.quick_apps import strips_of
from tests.tui.driving import play, resized, type_at_once, until
from tests.tui.reading import app_of, lines_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

PAGES = (
    "Queues 4",
    "Heat map",
    "Incidents 5",
    "Episodes 5",
    "Changes 0",
    "Poison 3",
    "Advice 2",
    "Forecasts 2",
    "Unusual hours 3",
)
LAST_MS = END_MS - 5_000


@pytest.fixture(scope="session")
def analysis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("past")
    scripted(out, history="")
    return out


@asynccontextmanager
async def past_of(
    folder: Path, *, size: tuple[int, int] = (132, 36), history: str | None = None, **looks: Any
) -> AsyncIterator[Pilot[None]]:
    """Open the screen of an analysis alone, and wait until it has been read."""
    app = RsmqApp((), analysis=AnalysisLocation(str(folder), history), **looks)
    async with app.run_test(size=size, notifications=True) as pilot:
        await read(pilot)
        yield pilot


async def read(pilot: Pilot[None]) -> None:
    """Wait until what was asked for last is on the screen."""
    for _ in range(20):
        await until(pilot, lambda: not _is_loading(pilot), "it is read")
        await pilot.pause()
        if not _is_loading(pilot):
            return


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await read(pilot)


def screen_of(pilot: Pilot[None]) -> HistoryScreen:
    screen = next(screen for screen in reversed(pilot.app.screen_stack) if isinstance(screen, HistoryScreen))
    assert isinstance(screen, HistoryScreen)
    return screen


def _is_loading(pilot: Pilot[None]) -> bool:
    # A thread reads, and pilot knows of none.
    screens = [screen for screen in pilot.app.screen_stack if isinstance(screen, HistoryScreen)]
    return any(one._is_loading or one._asked != one._shown.wanted for one in screens)


def test_a_range_in_which_the_clocks_are_changed_has_both_zones() -> None:
    show_in_zone(ZoneInfo("Europe/Berlin"))
    try:
        words = range_words(TimeRange(1_792_800_000_000, 1_792_900_000_000))
    finally:
        show_in_zone(UTC)
    assert words == "10-24 02:00 CEST – 10-25 04:46 CET, 1d 3h"


def shows_range(pilot: Pilot[None], from_ms: int, to_ms: int) -> bool:
    return range_words(TimeRange(from_ms, to_ms)) in text(pilot)


def rows_of(pilot: Pilot[None]) -> list[str]:
    screen = screen_of(pilot)
    table = next(table for table in screen.tables.values() if table.display)
    return [line.strip() for line in lines_of(table)[1:] if line.strip()]


def text(pilot: Pilot[None]) -> str:
    return text_of(app_of(pilot))


@pytest.mark.parametrize("history", [None, "the history"])
async def test_the_command_that_shows_an_analysis_is_copied(analysis_folder: Path, history: str | None) -> None:
    async with past_of(analysis_folder, history=history) as pilot:
        await press(pilot, "Y")
        behind = [] if history is None else ["--history", history]
        assert shlex.split(pilot.app.clipboard) == ["rsmq-tui", "history", str(analysis_folder), *behind]


async def test_it_begins_with_the_last_day_and_the_worst_queue(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        shown = text(pilot).splitlines()
        assert "HISTORY (read-only)" in shown[0]
        assert "created 2031-05-18 00:00 UTC" in shown[0]
        assert "05-16 23:59 – 05-17 23:59 UTC, 1d 0h" in shown[1]
        assert "depth of emails" in shown[2]
        assert [row.split()[1:3] for row in rows_of(pilot)] == [
            ["stalled", "emails"], ["growing", "orders"], ["poisoned", "invoices"], ["ok", "webhooks"],
        ]  # fmt: skip


async def test_each_page_lists_its_own_and_wraps_around(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        for number, title in enumerate([*PAGES, PAGES[0]]):
            assert f"[ {title} ]" in text(pilot), number
            assert pilot.app.focused is not None
            assert pilot.app.focused.display
            await press(pilot, "l")
        await press(pilot, "h", "h")
        assert f"[ {PAGES[-1]} ]" in text(pilot)


ROWS = (
    (2, ["growing", "orders", "05-17 14:00", "4h 0m", "05-17 18:30", "38,400", "151k", "1", "arrivals exceeded"]),
    (2, ["down", "(all of prod)", "05-17 10:00", "20m", "05-17 10:20", "connection refused"]),
    (2, ["poisoned", "invoices", ">1h 59m", "ongoing"]),
    (3, ["growing", "orders", "05-17 14:00", "4h 0m", "30m", "38,400", "2h 14m", "151k", "arrivals exceeded"]),
    (3, ["down", "(all of prod rsmq)", "05-17 10:00", "20m", "connection refused"]),
    (3, ["poisoned", "invoices", ">1h 59m", "ongoing"]),
    (5, ["invoices", "11", "gone", "05-17 19:00", "214 B", "hocx8qopw1aQ0zR7cK2mV5nB8xL4jD2g"]),
    (6, ["invoices", "30 s", "90 s", "98", "23.9%", "410", "about 98 of 410"]),
    (7, ["orders", "depth", "05-18 07:00", "10,000", "1,400", "+1,080", "at +0.3/s"]),
    (7, ["webhooks", "never", "-360", "it does not grow"]),
    (8, ["05-17 15:00", "orders", "depth", "38,000", "560", "+21.0"]),
)


async def test_rows_say_all_that_is_known(analysis_folder: Path) -> None:
    async with past_of(analysis_folder, size=(200, 36)) as pilot:
        shown = 0
        for page, words in ROWS:
            await press(pilot, *["l"] * (page - shown))
            shown = page
            assert any(all(word in row for word in words) for row in rows_of(pilot)), (words, rows_of(pilot))


async def test_the_charts_follow_the_cursor_and_sum_what_is_marked(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        charts = screen_of(pilot).charts
        await press(pilot, "j")
        assert "depth of orders · prod rsmq" in str(charts.metric.border_title)
        assert "95th percentile" in lines_of(charts.metric)[0]
        assert "40k" in "".join(lines_of(charts.metric)) or "50k" in "".join(lines_of(charts.metric))
        await press(pilot, "space", "space", "G")
        assert str(charts.metric.border_title) == "depth of 2 queues"
        assert "95th percentile" not in lines_of(charts.metric)[0]
        assert "2 queues marked" in text(pilot)
        assert [row[0] for row in rows_of(pilot)].count("●") >= 2
        await press(pilot, "A")
        assert str(charts.metric.border_title) == "depth of all 4 queues"
        await press(pilot, "A", "g")
        assert "marked" not in text(pilot)
        assert str(charts.metric.border_title) == "depth of emails · prod rsmq"


async def test_the_outage_of_a_place_is_charted_with_all_its_queues(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "l", "l", "j", "j", "j")
        assert "down" in rows_of(pilot)[3]
        assert str(screen_of(pilot).charts.metric.border_title) == "depth of 3 queues"


async def test_m_charts_the_next_metric_in_a_unit_of_its_own(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "j", "m")
        metric = screen_of(pilot).charts.metric
        assert str(metric.border_title).startswith("oldest ready of orders")
        assert lines_of(metric)[0].strip().startswith("min")
        await press(pilot, "m")
        assert str(metric.border_title).startswith("arrivals/s of orders")
        await press(pilot, "m", "m", "m", "m")
        assert str(metric.border_title).startswith("depth of orders")


async def test_the_range_is_shifted_and_zoomed_within_what_is_known(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "right")
        assert shows_range(pilot, LAST_MS - DAY_MS, LAST_MS)
        await press(pilot, "left")
        assert shows_range(pilot, LAST_MS - DAY_MS * 3 // 2, LAST_MS - DAY_MS // 2)
        await press(pilot, "plus")
        assert shows_range(pilot, LAST_MS - DAY_MS * 5 // 4, LAST_MS - DAY_MS * 3 // 4)
        await press(pilot, *["plus"] * 12)
        assert " UTC, 1m 0s" in text(pilot)
        await press(pilot, *["minus"] * 20)
        assert shows_range(pilot, START_MS, LAST_MS)
        assert "Incidents 6" in text(pilot)
        await press(pilot, *["left"] * 3)
        assert shows_range(pilot, START_MS, LAST_MS)


@pytest.mark.parametrize(
    ("downs", "length_ms"), [(0, HOUR_MS), (1, DAY_MS), (2, LAST_MS - START_MS), (4, LAST_MS - START_MS)]
)
async def test_a_usual_range_is_picked_from_a_list(analysis_folder: Path, downs: int, length_ms: int) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "f")
        assert isinstance(pilot.app.screen, RangeScreen)
        await press(pilot, *["down"] * downs, "enter")
        assert shows_range(pilot, LAST_MS - length_ms, LAST_MS)


RANGES = (
    ("2031-05-17 14:00 – 18:00", END_MS - 10 * HOUR_MS, END_MS - 6 * HOUR_MS),
    ("14:00 .. 16:00", END_MS - 10 * HOUR_MS, END_MS - 8 * HOUR_MS),
    ("23:00 to 01:00", END_MS - HOUR_MS, END_MS + HOUR_MS),
    ("-2h", LAST_MS - 2 * HOUR_MS, LAST_MS),
    ("-2h - -1h", LAST_MS - 2 * HOUR_MS, LAST_MS - HOUR_MS),
    ("2031-05-15 - 2031-05-16", START_MS + DAY_MS, START_MS + 2 * DAY_MS),
)


async def test_a_range_is_typed(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        for typed, from_ms, to_ms in RANGES:
            await _type_range(pilot, typed)
            assert shows_range(pilot, from_ms, to_ms), typed


async def _type_range(pilot: Pilot[None], typed: str) -> None:
    await press(pilot, "f", "tab")
    pilot.app.screen.query_one(Input).value = typed
    await press(pilot, "enter")


async def test_what_is_typed_in_the_list_begins_a_range(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "f", "minus", "2", "h", "enter")
        assert shows_range(pilot, LAST_MS - 2 * HOUR_MS, LAST_MS)


async def test_what_is_typed_fast_in_the_list_is_a_range_too(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "f")
        type_at_once(pilot, "-2h\r")
        await until(pilot, lambda: shows_range(pilot, LAST_MS - 2 * HOUR_MS, LAST_MS), "2 hours")


NO_RANGES = {
    "soon": "'soon' is not a time",
    "18:00 – 2031-05-17 14:00": "ends before it begins",
    "": "is not a time",
    "2030-01-01 – 2030-01-02": "no data for that time",
    "-1h – -2h": "ends before it begins",
}


async def test_what_is_no_range_is_refused_in_a_sentence(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        for typed, why in NO_RANGES.items():
            await _type_range(pilot, typed)
            assert why in text(pilot), typed
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, HistoryScreen)


async def test_the_filter_keeps_queues_by_their_names(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "slash", *"prod", "space", "exclamation_mark", *"ord", "enter")
        assert [row.split()[2] for row in rows_of(pilot)] == ["emails", "invoices"]
        await press(pilot, "A")
        assert "2 queues marked" in text(pilot)
        await press(pilot, "escape")
        assert "marked" not in text(pilot)
        await press(pilot, "slash", *"zzz", "enter")
        assert "Nothing matches" in text(pilot)
        await press(pilot, "escape")
        assert len(rows_of(pilot)) == 4
        # Who begins to type a word that is to be left out has left out nothing yet.
        await press(pilot, "slash", "exclamation_mark", "enter")
        assert len(rows_of(pilot)) == 4


def test_of_a_queues_trouble_only_what_lies_in_the_range_counts(analysis_folder: Path) -> None:
    def trouble_ms(span: TimeRange) -> int:
        analysis = Analysis(analysis_folder)
        lists = Lists(span, analysis.queues(), analysis.incidents(span))
        (row,) = (row for row in queue_rows(lists) if row.worst == "growing")
        return row.trouble_ms

    (growing,) = (
        one for one in Analysis(analysis_folder).episodes(TimeRange(START_MS, END_MS)) if one.verdict == "growing"
    )
    assert trouble_ms(TimeRange(START_MS, END_MS)) == growing.length_ms
    assert trouble_ms(TimeRange(growing.end_ms - 60_000, END_MS)) == 60_000


async def test_the_heat_map_is_by_day_or_by_weekday(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "j", "minus", "minus", "l")
        view = pilot.app.screen.query_one(HeatView)
        lines = lines_of(view)
        assert str(view.border_title) == "depth of orders · prod rsmq, by hour, UTC"
        assert [line.split()[:2] for line in lines[1:5]] == [
            ["05-17", "Sat"], ["05-16", "Fri"], ["05-15", "Thu"], ["05-14", "Wed"],
        ]  # fmt: skip
        cells = [line[10:].ljust(120)[2::5][:24] for line in lines[1:5]]
        assert cells[0][3] == "·"
        assert cells[0][16] == "▓"
        assert cells[1][6] == " "
        assert "blank: no data" in "".join(lines)
        await press(pilot, "W")
        assert [line.split()[0] for line in lines_of(view)[1:8]] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
        assert lines_of(view)[1].split() == ["Mon"]


def test_shades_split_different_values_evenly() -> None:
    for values, levels in (
        ((0.0, 0.0, None, 7.0), [0.0, 7.0]),
        (tuple(float(number) for number in range(10)), [0.0, 2.0, 4.0, 6.0, 8.0]),
        ((3.0,), [3.0]),
        ((None,), []),
    ):
        assert HeatMap("depth", False, ((0, values),)).levels == levels


async def test_enter_leads_from_a_queue_to_its_incidents(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "j", "enter")
        assert "[ Incidents 5 ]" in text(pilot)
        assert "   of orders · prod rsmq" in text(pilot)
        # Its server was down, and so was it.
        assert [row.split()[1:3] for row in rows_of(pilot)] == [["growing", "orders"], ["down", "(all"]]
        assert "depth of orders" in text(pilot)
        await press(pilot, "escape")
        assert "[ Queues 4 ]" in text(pilot)
        assert "marked" not in text(pilot)
        await press(pilot, "enter", "l", "h")
        assert len(rows_of(pilot)) == 5
        assert "   of orders" not in text(pilot)


@pytest.mark.parametrize(("page", "queue"), [(6, "invoices"), (7, "orders")])
async def test_enter_leads_from_advice_and_forecasts_to_the_incidents_of_that_queue(
    analysis_folder: Path, page: int, queue: str
) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "space", *["l"] * page, "enter")
        assert "[ Incidents 5 ]" in text(pilot)
        assert {row.split()[2] for row in rows_of(pilot)} == {queue, "(all"}
        assert f"depth of {queue}" in text(pilot)
        await press(pilot, "escape")
        assert f"[ {PAGES[page]} ]" in text(pilot)
        # What was marked before is marked again.
        assert "emails · prod rsmq marked" in text(pilot)


async def test_a_queue_without_incidents_says_so(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "G", "enter")
        assert rows_of(pilot) == [
            "webhooks · redis://eu:6379/0 jobs had no problems in this time. Press esc to go back."
        ]


async def test_h_is_hinted_at_only_where_it_leads_somewhere(analysis_folder: Path, source: ScriptedSource) -> None:
    for past, is_hinted in ((None, False), (AnalysisLocation(str(analysis_folder)), True)):
        app = RsmqApp([WatchedServer(source)], clock=source.clock, analysis=past)
        async with app.run_test(size=(200, 36)) as pilot:
            await play(pilot, source, poll_of(source, [queue_of("orders", ready=3)]))
            assert ("H history" in lines_of(pilot.app.screen.query_one(KeyHints))[0]) is is_hinted
    async with past_of(analysis_folder, size=(200, 36)) as pilot:
        # It is here already.
        assert "H history" not in lines_of(pilot.app.screen.query_one(KeyHints))[0]


async def test_escape_does_not_end_the_program_and_q_does(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "space", "escape", "escape", "escape")
        assert "[ Queues 4 ]" in text(pilot)
        await pilot.press("q")
        assert pilot.app.return_code == 0


async def test_without_a_history_enter_says_that_there_is_none_to_replay(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "l", "l", "enter")
        words = "cannot replay 2031-05-17 22:00"
        await until(pilot, lambda: words in text(pilot), "a toast says so")
        assert isinstance(pilot.app.screen, HistoryScreen)


async def test_enter_replays_the_moment_of_an_episode(analysis_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(Dashboard, "open_replay", lambda dashboard, *rest: asked.append(rest))
    async with past_of(analysis_folder, history="/the/history") as pilot:
        await press(pilot, "l", "l", "j", "j", "enter", "j", "enter", "l", "l", "l", "enter")
    day = START_MS + 3 * DAY_MS
    assert asked == [
        ("/the/history", day + 14 * HOUR_MS, "orders"),
        ("/the/history", day + 10 * HOUR_MS, None),
        ("/the/history", END_MS - 4 * HOUR_MS, "invoices"),
    ]


async def test_the_replay_shows_that_moment_and_q_leads_back(analysis_folder: Path, tmp_path: Path) -> None:
    began_ms = END_MS - 2 * HOUR_MS
    tape = Tape(tmp_path, place=PROD)
    for number in range(-20, 20):
        tape.poll(began_ms + number * 5_000, state("invoices", depth=100 + number, ready=90, hidden=10 + number))
    tape.seal()
    async with past_of(analysis_folder, history=str(tmp_path)) as pilot:
        await press(pilot, "l", "l", "enter")
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is not None, "the replay is shown")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "the queue is opened")
        replay, snapshot = app_of(pilot).dashboard.replay, app_of(pilot).dashboard.snapshot
        assert replay is not None
        assert snapshot is not None
        assert (replay.position_ms, snapshot.queues[0].depth) == (began_ms, 100)
        await pilot.press("q")
        await until(pilot, lambda: not isinstance(pilot.app.screen, QueueScreen), "the overview is shown")
        await pilot.press("q")
        await until(pilot, lambda: isinstance(pilot.app.screen, HistoryScreen), "the past is shown again")
        assert app_of(pilot).dashboard.replay is None
        assert "[ Incidents 5 ]" in text(pilot)


async def test_what_is_typed_while_a_queue_opens_is_for_its_list(
    analysis_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = Tape(tmp_path, place=PROD)
    tape.poll(END_MS - 2 * HOUR_MS, state("invoices", depth=100, ready=90, hidden=10))
    tape.poll(END_MS - 2 * HOUR_MS + 5_000, state("invoices", depth=100, ready=90, hidden=10))
    tape.seal()
    async with past_of(analysis_folder, history=str(tmp_path)) as pilot:
        navigation = app_of(pilot).dashboard.navigation
        opened = navigation.open_queue

        def open_and_type(queue: str, place: str = "") -> None:
            opened(queue, place)
            type_at_once(pilot, "q")

        monkeypatch.setattr(navigation, "open_queue", open_and_type)
        await press(pilot, "l", "l", "enter")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 2, "the queue is left again")
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is not None, "the replay is shown")
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_a_history_that_cannot_be_replayed_is_a_sentence(analysis_folder: Path, tmp_path: Path) -> None:
    async with past_of(analysis_folder, history=str(tmp_path / "gone")) as pilot:
        await press(pilot, "l", "l", "enter")
        await until(pilot, lambda: "is not a history" in text(pilot), "a toast says why")
        assert isinstance(pilot.app.screen, HistoryScreen)


async def test_it_says_what_is_missing_and_r_finds_a_newer_run(tmp_path: Path) -> None:
    made = scripted(tmp_path)
    _damage(tmp_path)
    async with past_of(tmp_path, size=(200, 36)) as pilot:
        await press(pilot, "minus", "minus", "l")
        assert "day=2031-05-16/part-0.parquet was left out" in text(pilot)
        made.add("episodes", episode(PROD, "orders", "aged", LAST_MS - 1_000, LAST_MS))
        made.publish("run-2")
        shutil.rmtree(tmp_path / "runs/run-1")
        await press(pilot, "r")
        assert "left out" not in text(pilot)
        assert "Episodes 7" in text(pilot)


def _damage(folder: Path) -> None:
    for path in folder.glob("runs/*/rollup_1h/day=2031-05-16/*"):
        path.write_bytes(b"no parquet")


@pytest.mark.parametrize("kind", ["missing", "empty"])
async def test_where_there_is_nothing_it_says_why_and_what_next(tmp_path: Path, kind: str) -> None:
    if kind == "empty":
        Made(tmp_path, history="/srv/history").publish()
    async with past_of(tmp_path, size=(100, 30)) as pilot:
        history = "/srv/history" if kind == "empty" else "DIR"
        words = f"rsmq-tui pipeline run --history {history} --out {tmp_path}"
        assert "".join(words.split()) in "".join(text(pilot).split())
        await press(pilot, "l", "l", "l", "f", "plus", "left", "space", "A", "m", "enter", "h", "h", "h")
        made = scripted(tmp_path)
        made.publish("run-9")
        await press(pilot, "r")
        assert len(rows_of(pilot)) == 4


async def test_without_its_packages_it_says_how_to_get_them(
    analysis_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> object:
        raise ImportError("No module named 'pyarrow'")

    monkeypatch.setattr(Loader, "_opened", missing)
    async with past_of(analysis_folder) as pilot:
        assert "pip install 'rsmq-tui[history]'" in text(pilot)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("incidents", "the incidents"), ("anomalies", "the unusual hours"), ("lines", "the charts"),
        ("heat", "the heat map"),
    ],
)  # fmt: skip
async def test_a_part_that_cannot_be_read_is_said_and_the_rest_is_shown(
    analysis_folder: Path, monkeypatch: pytest.MonkeyPatch, part: str, name: str
) -> None:
    def fails(*_: object, **__: object) -> object:
        raise PermissionError("[Errno 13] Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Analysis, part, fails)
        async with past_of(analysis_folder, size=(200, 36)) as pilot:
            await press(pilot, *(["l"] if part == "heat" else []))
            assert f"! {name} cannot be shown: [Errno 13] Permission denied" in text(pilot)
            await press(pilot, *(["h"] if part == "heat" else []))
            assert [row.split()[2] for row in rows_of(pilot)][-1] == "webhooks"
            shown = [title for title in PAGES if title in text(pilot)]
            assert len(shown) == len(PAGES) - (part not in ("lines", "heat"))
            patched.undo()
            await press(pilot, "r", "l")
            assert "cannot be shown" not in text(pilot)


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), RuntimeError("a\nb"), TypeError()])
async def test_whatever_goes_wrong_at_all_is_one_sentence(
    analysis_folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> object:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Analysis, "queues", fails)
        async with past_of(analysis_folder) as pilot:
            assert f"{analysis_folder} cannot be shown: " in text(pilot)
            patched.undo()
            await press(pilot, "r")
            assert len(rows_of(pilot)) == 4


async def test_a_folder_of_nobodys_home_is_one_sentence() -> None:
    async with past_of(Path("~nobody-has-this-name/analysis")) as pilot:
        assert "~nobody-has-this-name/analysis: its home directory is not known here" in text(pilot)


async def test_the_screen_never_waits_for_the_files(analysis_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    whole = Loader.load

    def slow(self: Loader, *asked: Any) -> Any:
        gate.wait()
        return whole(self, *asked)

    monkeypatch.setattr(Loader, "load", slow)
    async with RsmqApp((), analysis=AnalysisLocation(str(analysis_folder))).run_test(size=(132, 36)) as pilot:
        try:
            await pilot.press("l", "l", "m")
            assert "loading …" in text(pilot)
            assert "[ Incidents ]" in text(pilot)
        finally:
            gate.set()
        await read(pilot)
        assert "loading" not in text(pilot)
        assert "[ Incidents 5 ]" in text(pilot)
        assert str(screen_of(pilot).charts.metric.border_title).startswith("oldest ready of")


async def test_it_can_be_left_while_it_reads(analysis_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(Loader, "load", lambda *_: gate.wait())
    source = ScriptedSource()
    app = RsmqApp([WatchedServer(source)], analysis=AnalysisLocation(str(analysis_folder)))
    async with app.run_test(size=(132, 36)) as pilot:
        try:
            await pilot.press("H")
            await until(pilot, lambda: isinstance(pilot.app.screen, HistoryScreen), "it opens")
            await pilot.press("q")
            await until(pilot, lambda: isinstance(pilot.app.screen, OverviewScreen), "it closes")
        finally:
            gate.set()
        await asyncio.sleep(0)


async def test_h_opens_it_for_the_queue_that_is_looked_at(analysis_folder: Path, source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock, analysis=AnalysisLocation(str(analysis_folder)))
    async with app.run_test(size=(132, 36), notifications=True) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=3)]))
        await pilot.press("H")
        await read(pilot)
        assert "marked" not in text(pilot)
        await press(pilot, "escape", "enter", "H")
        assert "depth of orders · prod rsmq" in text(pilot)
        assert "orders · prod rsmq marked" in text(pilot)
        await press(pilot, "H")
        assert len(pilot.app.screen_stack) == 3
        await press(pilot, "escape", "escape", "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_a_queue_that_the_analysis_does_not_know_is_said(analysis_folder: Path, source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock, analysis=AnalysisLocation(str(analysis_folder)))
    async with app.run_test(size=(132, 36), notifications=True) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("[/new]", ready=3)]))
        await pilot.press("enter", "H")
        await read(pilot)
        await until(pilot, lambda: "the analysis does not contain queue [/new]" in text(pilot), "a toast says so")


async def test_without_an_analysis_h_says_how_to_get_one(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    async with app.run_test(size=(132, 36), notifications=True) as pilot:
        await pilot.press("H")
        await until(pilot, lambda: "rsmq-tui --analysis OUT" in text(pilot), "a toast says how")
        assert isinstance(pilot.app.screen, OverviewScreen)


def _hostile(out: Path) -> Path:
    evil = "[/red]\x1b[2J\u202e\n\u2066<b>" + "x" * 300
    made = Made(out, history=evil)
    place = PROD._replace(profile=evil, ns=evil, server=f"redis://{evil}")
    ref = named(QueueRef(*place, evil))
    made.add("queues", {**ref, "first_ms": START_MS, "last_ms": START_MS + DAY_MS, "samples": 1},
             {**named(ORDERS), "first_ms": START_MS, "last_ms": 2**62})  # fmt: skip
    made.add("rollup_1h", bucket(QueueRef(*place, evil), START_MS, HOUR_MS, depth=float("inf"), arrivals_s=1e15))
    made.add("episodes", episode(place, evil, "[bold]", START_MS, START_MS + DAY_MS, cause=evil),
             episode(place, None, evil, -(2**60), 2**62, cause=evil, ended=evil, peak_depth=-5))  # fmt: skip
    made.add("poison", {**ref, "id": evil, "rc": 2**40, "first_seen_ms": START_MS, "last_seen_ms": START_MS + 1})
    made.add(
        "advice",
        {**ref, "told": evil, "vt_s": -1.0, "advised_vt_s": float("nan"), "receives": -3, "redeliveries": 1 << 62},
    )
    made.add("forecast", {**ref, "metric": evil, "at_ms": START_MS, "told": evil, "slope_s": float("inf")})
    made.add("anomalies", {**ref, "bucket_ms": START_MS, "metric": evil, "value": 1e300, "median": float("nan"),
                           "mad": 0.0, "score": float("inf")})  # fmt: skip
    made.publish(problems=[evil])
    return out


@pytest.mark.parametrize("size", [(132, 36), (40, 10)], ids=str)
async def test_hostile_files_are_shown_as_harmless_text(tmp_path: Path, size: tuple[int, int]) -> None:
    async with past_of(_hostile(tmp_path), size=size) as pilot:
        await press(pilot, "f", "down", "down", "down", "down", "enter")
        for _ in PAGES:
            shown = text(pilot)
            assert {len(line) <= size[0] for line in shown.splitlines()} == {True}
            assert "\x1b" not in shown
            assert "\u202e" not in shown
            await press(pilot, "j", "l", "m")
        await press(pilot, "h", "h", "h", "h", "h", "h", "enter", "W", "slash", "x", "enter")


@pytest.mark.parametrize("size", [(200, 50), (80, 24), (40, 10), (12, 4)], ids=str)
async def test_every_page_fits_every_terminal(analysis_folder: Path, size: tuple[int, int]) -> None:
    async with past_of(analysis_folder, size=size) as pilot:
        for page in range(len(PAGES)):
            assert {len(line) for line in text(pilot).splitlines()} == {size[0]}
            if size >= (40, 10):
                assert f"{page + 1}/{len(PAGES)}" in text(pilot) or f"[ {PAGES[page]} ]" in text(pilot)
            await press(pilot, "l")
        if size >= (40, 10):
            assert rows_of(pilot)[0].split()[:3] == ["■", "stalled", "emails"]
        await press(pilot, "f")
        assert {len(line) for line in text(pilot).splitlines()} == {size[0]}
        await press(pilot, "escape")
        await resized(pilot, 132, 36)
        await read(pilot)
        assert "depth of emails" in text(pilot)


@pytest.mark.parametrize(
    ("width", "tabs"),
    [
        (130, "Episodes 5    Changes 0"),
        (120, "[ Queues 4 ]  Heat map    Incidents    Episodes    Changes"),
        (100, "1/9"),
    ],
)
async def test_numbers_leave_before_tabs(analysis_folder: Path, width: int, tabs: str) -> None:
    async with past_of(analysis_folder, size=(width, 30)) as pilot:
        assert tabs in text(pilot)


async def test_charts_fold_into_sparklines_and_these_leave_last(analysis_folder: Path) -> None:
    async with past_of(analysis_folder) as pilot:
        charts = screen_of(pilot).charts
        shown = lambda: [panel.region.height > 0 for panel in (charts.metric, charts.sparks)]  # noqa: E731
        for size, wanted in (((132, 36), [True, False]), ((80, 24), [False, True]), ((40, 10), [False, False])):
            await resized(pilot, *size)
            assert shown() == wanted, size


async def test_ascii_only_means_every_character(analysis_folder: Path) -> None:
    async with past_of(analysis_folder, ascii_only=True, size=(132, 40)) as pilot:
        for _ in PAGES:
            shown = text(pilot)
            assert shown.isascii(), sorted({c for c in shown if not c.isascii()})
            await press(pilot, "space", "l")
        await press(pilot, "f")
        assert text(pilot).isascii()


@pytest.mark.parametrize("theme", ["rsmq-light", "rsmq-ansi"])
async def test_every_page_renders_in_every_theme(analysis_folder: Path, theme: str) -> None:
    async with past_of(analysis_folder, theme=theme) as pilot:
        for _ in PAGES:
            assert pilot.app.export_screenshot(simplify=True)
            await press(pilot, "l")
        assert pilot.app.theme == theme


async def test_no_color_draws_without_colour(analysis_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with past_of(analysis_folder) as pilot:
        await press(pilot, "l", "l")
        for strip in strips_of(pilot.app):
            for segment in strip:
                color = segment.style.color if segment.style else None
                triplet = color.triplet if color is not None else None
                assert triplet is None or len(set(triplet)) == 1, segment


async def test_what_happened_together_is_below_its_head(tmp_path: Path) -> None:
    made = Made(tmp_path, "")
    day = START_MS + 3 * DAY_MS
    refs = [QueueRef(*PROD, name) for name in ("a", "b", "c", "calm")]
    for ref in refs:
        made.add(schema.ROLLUP_1H, bucket(ref, day, HOUR_MS, depth=3.0))
        known = {"kind": "rsmq", "first_ms": day, "last_ms": day + 5 * HOUR_MS, "samples": 9}
        made.add(schema.QUEUES, {**named(ref), **known, "peak_depth": 9, "last_depth": 2})
    made.add(
        schema.EPISODES,
        *(episode(PROD, name, "stalled", day + HOUR_MS, day + 2 * HOUR_MS, affected=5) for name in "ab"),
        episode(PROD, "b", "growing", day + 2 * HOUR_MS, day + 3 * HOUR_MS, affected=9),
        episode(PROD, "c", "aged", day + 4 * HOUR_MS, day + 5 * HOUR_MS),
    )
    made.publish()
    async with past_of(tmp_path, size=(160, 40)) as pilot:
        assert [row.split()[2:5] for row in rows_of(pilot)] == [
            ["b", "2h", "0m"], ["a", "1h", "0m"], ["c", "1h", "0m"], ["calm", "0", "9"],
        ]  # fmt: skip
        await press(pilot, "l", "l")
        assert "[ Incidents 2 ]" in text(pilot)
        assert [" ".join(row.split()[1:]).partition(" 05-17")[0] for row in rows_of(pilot)] == [
            "aged c", "stalled (all of prod)", "stalled └ a", "stalled └ b",
        ]  # fmt: skip
        await press(pilot, "j")
        assert "2 queues at the same time: stalled (2)" in text(pilot)
        assert str(screen_of(pilot).charts.metric.border_title) == "depth of 2 queues"
        await press(pilot, "j", "j")
        assert "■ stalled stalled → growing: b was stalled" in text(pilot)
        # Of one queue, its own and its head.
        await press(pilot, "h", "h", "j", "enter")
        assert "   of a" in text(pilot)
        assert [row.split()[2] for row in rows_of(pilot)] == ["(all", "└"]
