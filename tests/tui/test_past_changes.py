"""What was changed with rsmq-tui, on the history screen and in a replay: in lists, in charts, and beside incidents."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from rsmq_tui.charts.drawing import MARKED
from rsmq_tui.history.analysis.values import DOWN, OPEN, Incident
from rsmq_tui.history.reading import History
from rsmq_tui.monitor.changes import AuditedChange, AuditedChanges, by_subject, read_changes
from rsmq_tui.monitor.moments import MINUTE_MS
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.dashboard import Dashboard
from rsmq_tui.tui.history.loading import Lists
from rsmq_tui.tui.history.pages import CHANGE_COLUMNS, PAGES, HistoryContext, change_rows, changes_at, detail_lines
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.replay import session
from tests.history.analysis.made import scripted
from tests.history.analysis.queues import PROD
from tests.history.replayed import NOON_MS, PLACE
from tests.history.report.test_changes import MOVE, PURGE, SENT, UNDO
from tests.history.report.test_html import EVIL
from tests.monitor.test_changes import log
from tests.tui.driving import settled, until
from tests.tui.reading import lines_of
from tests.tui.test_history import past_of, press, rows_of, screen_of, text
from tests.tui.test_replay import replay_in, replayed, taped

pytestmark = pytest.mark.slow

# From the first page to that of the changes.
TO_CHANGES = ("l",) * 4


@pytest.fixture(autouse=True)
def no_room_for_a_pane() -> None:
    """The pane shows changes as well."""


@pytest.fixture(scope="session")
def analysis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("changed")
    scripted(out, history="")
    return out


@pytest.fixture
def past(analysis_folder: Path, tmp_path: Path) -> Callable[..., Any]:
    """Open the history screen with these lines in the audit log."""

    def opened(*lines: Any, **looks: Any) -> Any:
        return past_of(analysis_folder, change_logs=[log(tmp_path / "audit.jsonl", *lines)], **looks)

    return opened


def _words(text: str) -> list[str]:
    return text.split()


async def pane_shows(pilot: Pilot[None], words: str) -> None:
    await until(pilot, lambda: words in pane(pilot), f"the pane shows {words}")


def pane(pilot: Pilot[None]) -> str:
    return " ".join(" ".join(line.split()) for line in lines_of(screen_of(pilot)._pane._details))


async def test_the_page_of_changes_has_each_with_what_became_of_it(
    past: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(Dashboard, "open_replay", lambda dashboard, *rest: asked.append(rest))
    async with past(PURGE, UNDO, MOVE, SENT, history="/the/history", size=(250, 50)) as pilot:
        await press(pilot, *TO_CHANGES)
        assert "[ Changes 4 ]" in text(pilot)
        assert [row.split() for row in rows_of(pilot)] == [
            ["05-17", "23:00:00", "emails", "·", "prod", "rsmq", "ada", *["send:", "sent", "3", "of", "3", "messages"]],
            ["05-17", "16:00:00", "orders", "·", "prod", "rsmq", "ada", *_words("▲ growing, over 2h 0m later"),
             *["move:", "moved", "20", "of", "200", "messages", "to", "emails"]],
            ["05-17", "14:35:00", "orders", "·", "prod", "rsmq", "ada", *_words("▲ growing, over 3h 25m later"),
             *["undo:", "put", "back", "150", "of", "200", "messages,", "50", "skipped"]],
            ["05-17", "14:30:10", "orders", "·", "prod", "rsmq", "ada", *_words("150 at 05-17 14:35"),
             *_words("▲ growing, over 3h 29m later"), *["purge:", "deleted", "200", "of", "200", "messages"]],
        ]  # fmt: skip
        await press(pilot, "j", "j")
        await pane_shows(pilot, "put back 150 of 200 messages, 50 skipped (of the change of 05-17 14:30:10). Up to 150")
        await press(pilot, "j", "enter")
        await pane_shows(pilot, "Of the 2,040 deletes of orders from 05-17 14:30 to 05-17 14:32, 200 are of the change")
    assert asked == [("/the/history", PURGE.at_ms, "orders")]


async def test_a_queue_and_an_incident_show_their_changes(past: Callable[..., Any]) -> None:
    async with past(PURGE, MOVE, SENT, replace(SENT, change=11, server="elsewhere"), size=(200, 60)) as pilot:
        # Emails come first.
        sent = "CHANGES made with rsmq-tui 05-17 23:00:00 send: sent 3 of 3 messages, by ada"
        await pane_shows(pilot, f"{sent} 05-17 16:00:00 move: moved 20")
        await press(pilot, "l", "l", "j", "j")
        await pane_shows(pilot, "move: moved 20 of 200 messages to emails, ended early, by ada")
        shown = pane(pilot)
        assert "QUEUE orders" in shown
        assert "arrivals exceeded deletes by 2.6/s for 4h 0m   2 changes made during it" in text(pilot)
        assert "purge: deleted 200 of 200 messages, by ada" in shown
        assert "send" not in shown


async def test_on_a_low_terminal_the_pane_scrolls_by_keys_and_says_nothing_twice(past: Callable[..., Any]) -> None:
    async with past(PURGE, UNDO, MOVE, SENT, size=(120, 15)) as pilot:
        await press(pilot, *TO_CHANGES, "j", "j", "j")
        await pane_shows(pilot, "QUEUE orders")
        details = screen_of(pilot)._pane._details
        # The change itself is no other change, and is in the text only.
        first = pane(pilot)
        await press(pilot, "J")
        await until(pilot, lambda: pane(pilot) != first, "it scrolls")
        place = str(details.border_subtitle)
        # A newer run of the pipeline leaves the position.
        screen_of(pilot).refresh_unpolled()
        await press(pilot)
        assert str(details.border_subtitle) == place
        await press(pilot, *"JJJJJ")
        assert str(details.border_subtitle).split()[0].endswith(f"–{details._length}")
        await press(pilot, *"KKKKKK")
        assert pane(pilot) == first
        await press(pilot, "J", "k")
        assert str(details.border_subtitle).startswith("1–")
        await press(pilot, "j")
        content = details._content or ()
        shown = " ".join("".join(text for text, _ in content[number]) for number in range(len(content)))
        assert shown.count("deleted 200") == 1, shown
        assert shown.count("put back 150") == 1, shown


async def test_charts_mark_the_changes_of_their_queues(past: Callable[..., Any]) -> None:
    async with past(PURGE, MOVE, SENT, size=(140, 40)) as pilot:
        charts = screen_of(pilot).charts
        for queue, marks in (("emails", 2), ("orders", 2), ("invoices", 0)):
            assert str(charts.metric.border_title).startswith(f"depth of {queue}")
            for chart in (charts.metric, charts.rates):
                assert (f"· {MARKED} changes" in str(chart.border_title)) is bool(marks), queue
                marked = {at for line in lines_of(chart) for at, sign in enumerate(line) if sign == MARKED}
                assert len(marked) == marks, queue
            await press(pilot, "j")


async def test_without_changes_the_page_says_so(past: Callable[..., Any], tmp_path: Path) -> None:
    async with past(size=(250, 36)) as pilot:
        await press(pilot, *TO_CHANGES)
        assert "[ Changes 0 ]" in text(pilot)
        assert "Nothing was changed with rsmq-tui in this time" in text(pilot)
        # Somebody changes a queue meanwhile.
        log(tmp_path / "audit.jsonl", PURGE, "junk", "more")
        screen_of(pilot).refresh_unpolled()
        await press(pilot)
        await until(pilot, lambda: "[ Changes 1 ]" in text(pilot), "the log is read again")
        assert "! 2 lines of the audit log" in text(pilot)


@pytest.mark.parametrize("size", [(132, 36), (40, 10)], ids=str)
async def test_hostile_logs_are_shown_as_harmless_text(past: Callable[..., Any], size: tuple[int, int]) -> None:
    evil = replace(PURGE, action=EVIL, who=EVIL, past=EVIL, target=EVIL, ended=EVIL)
    lines = (evil, replace(evil, change=8, queue=EVIL), replace(evil, change=9, queue=""), EVIL)
    async with past(*lines, size=size) as pilot:
        await press(pilot, *TO_CHANGES)
        assert "Changes 3" in text(pilot)
        for _ in range(3):
            shown = text(pilot)
            assert {len(line) <= size[0] for line in shown.splitlines()} == {True}
            assert "\x1b" not in shown
            assert "\u202e" not in shown
            await press(pilot, "j", "enter")


def incident(queue: str | None, *, ended: str = "over", verdict: str = "growing", head: str | None = None) -> Incident:
    times = PURGE.at_ms - 60_000, PURGE.at_ms + 60_000, ended, None
    return Incident(PROD, queue, str(queue), verdict, (verdict,), *times, None, None, 1, "", head)


def lists_of(incidents: Sequence[Incident], *changes: AuditedChange) -> Lists:
    return Lists(incidents=tuple(incidents), changes=changes, changed=by_subject(changes))


def test_a_head_has_the_changes_of_its_queues_and_an_outage_those_of_its_server() -> None:
    head = incident(None)
    incidents = [head, *(incident(queue, head=head.id) for queue in ("orders", "emails")), incident("other")]
    moved = replace(PURGE, action="move", target="emails")
    other, later = replace(PURGE, change=8, queue="other"), replace(PURGE, change=9, at_ms=PURGE.at_ms + 60_001)
    lists = lists_of(incidents, moved, other, later, replace(PURGE, change=10, server="elsewhere"))
    assert [changes_at(one, one.ref, lists) for one in incidents] == [[moved], [moved], [moved], [other]]
    assert changes_at(incident(None, verdict=DOWN), None, lists) == [moved, other]
    assert changes_at(None, incidents[1].ref, lists) == [moved, later]
    assert changes_at(None, None, lists) == []


@pytest.mark.parametrize(
    ("ended", "words"), [("over", "over 1m 0s later"), (OPEN, "ongoing"), ("unknown", "its end is not known")]
)
def test_whether_the_incident_of_a_change_ended_is_said_as_far_as_it_is_known(ended: str, words: str) -> None:
    (row,) = change_rows(lists_of([incident("orders", ended=ended)], PURGE))
    (column,) = (column for column in CHANGE_COLUMNS if column.id == "incident")
    assert column.cell(row, HistoryContext())[0] == f"▲ growing, {words}"


def test_of_many_changes_of_a_queue_the_pane_has_the_last_ones() -> None:
    made = [replace(PURGE, change=number, at_ms=PURGE.at_ms + number) for number in range(1, 1_001)]
    lists = lists_of([], *made)
    page = next(page for page in PAGES if page.id == "queues")
    shown = ["".join(text for text, _ in line) for line in
             detail_lines(page, None, incident("orders").ref, lists, HistoryContext(), 200)]  # fmt: skip
    assert sum("purge: deleted" in line for line in shown) == 20
    assert shown[-1] == "and 980 before these"


def test_no_column_shows_what_selected_messages() -> None:
    assert "filter" not in {column.id for column in CHANGE_COLUMNS}


async def test_a_replay_marks_changes_in_its_charts_and_lists_them(tmp_path: Path) -> None:
    tape = taped(tmp_path / "history")
    at_ms = NOON_MS + 2 * MINUTE_MS
    purge = replace(PURGE, at_ms=at_ms, server=PLACE.server, ns=PLACE.ns)
    elsewhere = replace(purge, server="elsewhere", change=8)
    other = replace(purge, at_ms=at_ms - MINUTE_MS, queue="other", change=9)
    logs = [log(tmp_path / "audit.jsonl", purge, elsewhere, other, "junk")]
    async with replayed(tape.out, NOON_MS + 3 * MINUTE_MS, change_logs=logs, size=(200, 60)) as pilot:
        overview = pilot.app.screen
        assert isinstance(overview, OverviewScreen)
        title = f"· {MARKED} changes"
        await until(pilot, lambda: title in str(overview.charts.rates.border_title), "the log is read")
        assert _marks(overview.charts.rates) == 2
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "the queue is opened")
        await settled(pilot)
        queue = pilot.app.screen
        assert isinstance(queue, QueueScreen)
        charts = queue._charts
        assert [_marks(chart) for chart in (charts.depth, charts.rates)] == [1, 1]
        # Before the change, there is nothing to mark.
        replay_in(pilot).player.seek(at_ms - 1)
        await until(pilot, lambda: MARKED not in str(charts.depth.border_title), "the charts are of another time")
        assert _marks(charts.depth) == 0
        replay_in(pilot).player.seek(NOON_MS + 3 * MINUTE_MS)
        await until(pilot, lambda: MARKED in str(charts.depth.border_title), "the charts are of the first time")
        await pilot.press("L")
        await until(
            pilot, lambda: "change 7, purge: deleted 200 of 200 messages, by ada" in text(pilot), "it is listed"
        )
        assert "! 1 line of the audit log audit.jsonl was left out" in text(pilot)
        assert "change 8" not in text(pilot)


async def test_a_replay_is_shown_while_a_long_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape, goes_on = taped(tmp_path / "history"), threading.Event()
    purge = replace(PURGE, at_ms=NOON_MS + 2 * MINUTE_MS, server=PLACE.server, ns=PLACE.ns)

    def read_slowly(*given: Any) -> AuditedChanges:
        assert goes_on.wait(60)
        return read_changes(*given)

    monkeypatch.setattr(session, "read_changes", read_slowly)
    replay = session.replay_session(
        History(tape.out, state=tape.out),
        from_ms=NOON_MS + 3 * MINUTE_MS,
        playing=False,
        change_logs=[log(tmp_path / "audit.jsonl", purge)],
    )
    async with RsmqApp(replay.servers, replay=replay).run_test(size=(200, 60)) as pilot:
        try:
            await until(pilot, lambda: "orders" in text(pilot), "the replay is shown")
            await pilot.press("L")
            await until(pilot, lambda: "reading the 15m before" in text(pilot), "the log of events waits for it")
        finally:
            goes_on.set()
        await until(pilot, lambda: "change 7, purge: deleted 200 of 200 messages" in text(pilot), "it is listed")
        overview = pilot.app.screen_stack[0]
        assert isinstance(overview, OverviewScreen)
        await pilot.press("escape")
        await until(pilot, lambda: _marks(overview.charts.rates) == 1, "the chart marks it")


def _marks(chart: Any) -> int:
    return len({at for line in lines_of(chart) for at, sign in enumerate(line) if sign == MARKED})
