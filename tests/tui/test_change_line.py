"""What is told of a change while it runs, at its end, and of one that was interrupted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button

from rsmq_tui.monitor import MessageView
from rsmq_tui.triage.actions import Delete
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes import controller
from rsmq_tui.tui.changes.controller import Aim
from rsmq_tui.tui.dialogs.screens import HelpScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.lines import ChangeLine
from tests.tui.changing import ask_change, asked, confirm, made, say_yes
from tests.tui.driving import opened, play, play_orders, press, press_for_screen, says, settled, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, text_of
from tests.tui.scripted import ScriptedSource, messages_of
from tests.tui.scripted_triage import Gate, ScriptedTriage, change_of
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow


@asynccontextmanager
async def _begun(source: ScriptedSource, triage: ScriptedTriage, **options: Any) -> AsyncIterator[Pilot[None]]:
    """Open the app, and start a change that waits."""
    async with opened(source, triage=triage, **options) as pilot:
        source.messages["orders"] = messages_of([b"one", b"two"])
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=1204)]))
        ask_change(app_of(pilot), "delete", "orders")
        await asked(pilot)
        await say_yes(pilot)
        await until(pilot, lambda: app_of(pilot).dashboard.changes.is_running, "the change runs")
        yield pilot


def _line(pilot: Pilot[None]) -> str:
    return lines_of(pilot.app.screen.query_one(ChangeLine))[0].strip()


@pytest.fixture
def gate(triage: ScriptedTriage) -> Gate:
    triage.gate = Gate()
    return triage.gate


async def test_progress_with_a_bar_and_how_to_cancel(
    source: ScriptedSource, triage: ScriptedTriage, gate: Gate
) -> None:
    triage.skipped, triage.failed = 9, 2
    async with _begun(source, triage) as pilot:
        gate.release()
        await until(pilot, lambda: "301 / 1,204" in _line(pilot), "the progress is told")
        assert _line(pilot) == "deleting  █████░░░░░░░░░░░░░░░ 301 / 1,204 · 9 skipped · 2 failed · esc stops"
        gate.release()
        await until(pilot, lambda: "602 / 1,204" in _line(pilot), "it goes on")


async def test_without_unicode_the_bar_is_ascii(source: ScriptedSource, triage: ScriptedTriage, gate: Gate) -> None:
    async with _begun(source, triage, ascii_only=True) as pilot:
        gate.release(2)
        await says(pilot, "##########::::::::::")
        assert text_of(app_of(pilot)).isascii()


async def test_a_narrow_line_has_its_numbers(source: ScriptedSource, triage: ScriptedTriage, gate: Gate) -> None:
    async with _begun(source, triage, size=(40, 10)) as pilot:
        gate.release()
        await until(pilot, lambda: "301 / 1,204 · esc stops" in _line(pilot), "the progress is told")


async def test_it_goes_on_while_screens_change(source: ScriptedSource, triage: ScriptedTriage, gate: Gate) -> None:
    async with _begun(source, triage) as pilot:
        gate.release()
        await press_for_screen(pilot, "enter", QueueScreen)
        await until(pilot, lambda: "301 / 1,204" in _line(pilot), "it is told here as well")
        gate.release(3)
        assert await made(pilot) == "deleted 1,204, skipped 0, failed 0 · u undoes"
        assert _line(pilot) == "deleted 1,204, skipped 0, failed 0 · u undoes"
        await press(pilot, "q")
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert _line(pilot) == "deleted 1,204, skipped 0, failed 0 · u undoes"
        # It was not made from a search over queues, whose key does not undo it.
        assert not app_of(pilot).dashboard.changes.undo_several_words


async def test_escape_cancels_before_it_means_anything_else(
    source: ScriptedSource, triage: ScriptedTriage, gate: Gate
) -> None:
    async with _begun(source, triage) as pilot:
        await press_for_screen(pilot, "enter", QueueScreen)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, QueueScreen)
        await until(pilot, lambda: "stopping after the current batch" in _line(pilot), "it says so")
        gate.release()
        assert await made(pilot) == "deleted 301, skipped 0, failed 0; stopped on request · u undoes"
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_escape_still_closes_what_lies_in_front(
    source: ScriptedSource, triage: ScriptedTriage, gate: Gate
) -> None:
    async with _begun(source, triage) as pilot:
        await press_for_screen(pilot, "question_mark", HelpScreen)
        await press_for_screen(pilot, "escape", OverviewScreen)
        assert not triage.runs[0].is_stopping
        gate.release(4)
        await made(pilot)


async def test_one_thing_at_a_time(source: ScriptedSource, triage: ScriptedTriage, gate: Gate) -> None:
    async with _begun(source, triage, notifications=True) as pilot:
        await pilot.press("P", "u", "E")
        await says(pilot, "a change is running")
        assert isinstance(pilot.app.screen, OverviewScreen)
        gate.release(4)
        await made(pilot)


async def test_a_change_that_could_not_begin(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.run_refusal = "the journal cannot be written: disk full"
    async with opened(source, [queue_of("orders", ready=1204)], triage=triage) as pilot:
        ask_change(app_of(pilot), "delete", "orders")
        assert await confirm(pilot) == "it failed: the journal cannot be written: disk full"


async def test_a_change_that_was_stopped_says_why(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.stopped, triage.steps = "the server is gone", 1
    async with opened(source, [queue_of("orders", ready=1204)], triage=triage) as pilot:
        ask_change(app_of(pilot), "delete", "orders")
        assert (await confirm(pilot)).endswith("; the server is gone · u undoes")
        assert app_of(pilot).dashboard.changes.status is not None
        assert app_of(pilot).dashboard.changes.status.is_alarm


async def test_the_end_is_told_for_a_while(
    source: ScriptedSource, triage: ScriptedTriage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "STATUS_S", 0.05)
    async with opened(source, [queue_of("orders", ready=1204)], triage=triage) as pilot:
        ask_change(app_of(pilot), "delete", "orders")
        await say_yes(pilot)
        await until(pilot, lambda: triage.runs and triage.runs[0].report is not None, "it is at its end")
        await until(pilot, lambda: app_of(pilot).dashboard.changes.status is None, "the line leaves")
        assert not pilot.app.screen.query_one(ChangeLine).display
        assert source.woken


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quitting_waits_for_what_is_under_way(
    source: ScriptedSource, triage: ScriptedTriage, gate: Gate, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with _begun(source, triage) as pilot:
        app = app_of(pilot)
        await pilot.press(key)
        await until(pilot, lambda: "stopping after the current batch" in _line(pilot), "it is told")
        assert app.is_running
        assert triage.runs[0].is_stopping
        gate.release()
        await until(pilot, lambda: not app.is_running, "then it quits")
        assert triage.runs[0].report is not None
    assert triage.closed
    shown = " ".join(capsys.readouterr().err.split())
    assert "rsmq-tui: the running change was stopped, deleted" in shown
    assert "`rsmq-tui undo 7` reverts it" in shown


async def test_quitting_twice_does_not_wait(source: ScriptedSource, triage: ScriptedTriage, gate: Gate) -> None:
    async with _begun(source, triage) as pilot:
        app = app_of(pilot)
        await pilot.press("ctrl+c", "ctrl+c")
        await until(pilot, lambda: not app.is_running, "it quits")
    assert triage.closed


async def test_a_terminal_that_is_closed_does_not_hurry(
    source: ScriptedSource, triage: ScriptedTriage, gate: Gate
) -> None:
    async with _begun(source, triage) as pilot:
        app = app_of(pilot)
        for _ in range(3):
            app._quit(129)
            await pilot.pause()
        await until(pilot, lambda: "stopping after the current batch" in _line(pilot), "it is told")
        assert app.is_running
        gate.release()
        await until(pilot, lambda: not app.is_running, "then it quits")
        assert triage.runs[0].report is not None
    assert app.return_code == 129


async def test_what_was_interrupted_is_told(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.interrupted = [change_of(), change_of(queue="\x1b[2J[/foo]", ns="mail")]
    async with opened(source, [queue_of("orders")], triage=triage, notifications=True) as pilot:
        text = text_of(app_of(pilot))
        words = " ".join(text.replace("│", " ").replace("▌", " ").split())
        assert "A change was interrupted: deleted 812 of 1,204 in" in words
        assert "␛[2J[/foo] (namespace mail)" in words
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        assert triage.recoveries == 1


@pytest.mark.parametrize("read_only", [True, False])
async def test_nothing_is_recovered_before_the_server_is_there_or_where_nothing_may_change(
    source: ScriptedSource, triage: ScriptedTriage, read_only: bool
) -> None:
    async with opened(source, triage=triage, read_only=read_only) as pilot:
        await pilot.pause()
        assert triage.recoveries == 0
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        assert triage.recoveries == int(not read_only)


async def test_triage_is_made_when_it_is_needed_and_not_before(source: ScriptedSource, triage: ScriptedTriage) -> None:
    opened_for: list[str] = []

    def opening() -> Any:
        opened_for.append("it")
        return triage

    app = RsmqApp([WatchedServer(source, make_triage=opening)], clock=source.clock)
    async with app.run_test() as pilot:
        await pilot.pause()
        app.dashboard.servers[0].switch("mail")
        assert opened_for == []
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        assert opened_for == ["it"]
        assert triage.ns == "mail"
        app.dashboard.servers[0].switch("jobs")
        assert triage.ns == "jobs"
    assert triage.closed


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ((0, 0, 0), "exported 400 messages to "),
        ((10, 3, 0), "exported 387 of 400 messages (left out: 10 too long to read, 3 gone meanwhile) to "),
        ((0, 0, 2), "exported 400 messages (left out: 2 too long to search) to "),
    ],
)
async def test_an_export_tells_what_it_left_out(
    source: ScriptedSource, triage: ScriptedTriage, counts: tuple[int, int, int], shown: str
) -> None:
    triage.cut, triage.gone, triage.unsearched = counts
    async with opened(source, [queue_of("orders", ready=400)], triage=triage) as pilot:
        await pilot.press("E")
        await until(pilot, lambda: pilot.app.screen.query("#file"), "the form opens")
        await pilot.press("enter")
        assert (await made(pilot)).startswith(shown)
        assert app_of(pilot).dashboard.changes.status is not None
        assert app_of(pilot).dashboard.changes.status.is_alarm == any(counts)


async def test_a_change_that_was_said_yes_to_while_another_runs_is_not_made(
    source: ScriptedSource, triage: ScriptedTriage, gate: Gate
) -> None:
    async with opened(source, [queue_of("orders", ready=1204)], triage=triage, notifications=True) as pilot:
        app = app_of(pilot)
        ask_change(app, "delete", "orders")
        await asked(pilot)
        preview = await triage.preview(Delete(queue="orders"))
        app.dashboard.changes._begin((Aim(app.dashboard.servers[0], "orders"),), None, preview)
        await say_yes(pilot)
        await until(pilot, lambda: "a change is running" in text_of(app), "it is told")
        assert [run.preview for run in triage.runs] == [preview]
        gate.release(4)
        await made(pilot)


async def test_dialogs_do_not_stack(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with opened(source, [queue_of("orders", ready=1204)], triage=triage) as pilot:
        app = app_of(pilot)
        for _ in range(2):
            ask_change(app, "delete", "orders")
            ask_change(app, "send", "orders", body=b"x")
            app.dashboard.changes.undo(app.dashboard.servers[0], None)
            app.dashboard.changes.export(app.dashboard.servers[0], "orders", None)
        await asked(pilot)
        assert len(app.screen_stack) == 2
        # However often it is pressed, only the dialog closes.
        await pilot.press("q", "escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, OverviewScreen), "the dialog closes")
        ask_change(app, "delete", "orders")
        await asked(pilot)
        await until(pilot, lambda: not app.screen.query_one("#yes").disabled, "the preview is there")
        yes = app.screen.query_one("#yes", Button)
        yes.press()
        yes.press()
        await made(pilot)
        assert isinstance(app.screen, OverviewScreen)
        assert len(triage.runs) == 1


async def test_an_export_can_be_stopped(source: ScriptedSource, triage: ScriptedTriage, gate: Gate) -> None:
    async with opened(source, [queue_of("orders", ready=400)], triage=triage) as pilot:
        await pilot.press("E")
        await until(pilot, lambda: pilot.app.screen.query("#file"), "the form opens")
        await pilot.press("enter")
        await says(pilot, "exporting")
        gate.release()
        await until(pilot, lambda: "100 / 400" in _line(pilot), "the progress is told")
        await pilot.press("escape")
        gate.release()
        assert await made(pilot) == "export stopped: no file was written"


async def test_an_edit_is_dropped_where_something_else_was_opened_meanwhile(
    source: ScriptedSource, triage: ScriptedTriage
) -> None:
    async with opened(source, triage=triage) as pilot:
        await play_orders(pilot, source, [b"one", b"two"], "enter")
        read, gate = source.read, Gate()

        async def slow_read(queue: str, id: str) -> MessageView:
            await gate.acquire()
            return await read(queue, id)

        source.read = slow_read  # type: ignore[method-assign]
        await pilot.press("e", "question_mark")
        await wait_for_screen(pilot, HelpScreen)
        gate.release()
        await settled(pilot)
        assert isinstance(pilot.app.screen, HelpScreen)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_the_same_toast_is_shown_once(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with opened(source, triage=triage, notifications=True) as pilot:
        await play_orders(pilot, source, [b"one", b"two"], "enter")
        source.read_error = "the server is away"
        await press(pilot, *"yyyyyyyy")
        await says(pilot, "the server is away")
        assert text_of(app_of(pilot)).count("the server is away") == 1
        app_of(pilot).clear_notifications()
        await press(pilot, "y")
        await says(pilot, "the server is away")
