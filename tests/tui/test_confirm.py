"""The dialog before a change: exact, harmless by default, and deaf to keys that were typed ahead."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, Static

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.triage.actions import Action, Delete, DeleteQueue, Fix, Purge
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.scope import Everything, Matching, Named, Preview, ScanProgress, Scope
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from tests.tui.changing import ask_change, asked, confirm, made
from tests.tui.driving import opened, play, press, says, settled, type_at_once, until
from tests.tui.reading import app_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import Gate, ScriptedTriage
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

HOSTILE = "\x1b[2J[/foo]\u202egnp.exe\x00[red]"


async def _asked(pilot: Pilot[None], source: ScriptedSource, name: str = "delete") -> None:
    await play(pilot, source, poll_of(source, [queue_of("orders", ready=1204)]))
    ask_change(app_of(pilot), name, "orders")
    await asked(pilot)


@asynccontextmanager
async def _asking(
    source: ScriptedSource, triage: ScriptedTriage, name: str = "delete", **options: Any
) -> AsyncIterator[Pilot[None]]:
    """Run the app, and ask for a change of ``orders``."""
    async with opened(source, triage=triage, **options) as pilot:
        await _asked(pilot, source, name)
        yield pilot


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """No preview counts as seen."""
    monkeypatch.setattr("rsmq_tui.tui.changes.confirm.SEEN_S", 60.0)


def _focused(pilot: Pilot[None]) -> str | None:
    focused = pilot.app.focused
    return None if focused is None else focused.id


def _yes(pilot: Pilot[None]) -> Button:
    return pilot.app.screen.query_one("#yes", Button)


async def test_it_says_what_where_how_many_and_how_to_undo(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.profile, triage.elsewhere, triage.unsearched = "PROD-EU", 3, 1
    async with _asking(source, triage) as pilot:
        await until(pilot, lambda: not _yes(pilot).disabled, "the preview is there")
        text = text_of(app_of(pilot))
        for words in (
            "Delete 1,204 messages",
            "orders on PROD-EU (redis://cache-1:6379/0, ns rsmq)",
            "every message of the queue",
            "u, or rsmq-tui undo",
            "3 messages changed or left the queue since shown",
            "1 message too long to search",
            "Messages received since this preview are changed too; only what is gone",
        ):
            assert words in text
        assert _yes(pilot).label.plain == "Delete 1,204"
        assert _focused(pilot) == "cancel"


@pytest.mark.parametrize(
    ("height", "name", "least"), [(24, "delete", 23), (20, "delete", 20), (20, "delete-queue", 20)]
)
async def test_a_long_preview_uses_the_terminal_and_keeps_its_buttons(
    source: ScriptedSource, triage: ScriptedTriage, height: int, name: str, least: int
) -> None:
    triage.notes = tuple(f"note {number}" for number in range(40))
    async with _asking(source, triage, name, size=(80, height)) as pilot:
        await says(pilot, "scroll")
        await until(pilot, lambda: pilot.app.screen.query_one(".dialog").size.height + 2 >= least, "it has its height")
        assert _yes(pilot).region.bottom < height
        assert "Cancel" in text_of(app_of(pilot))


async def test_enter_cancels_and_nothing_happens(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with _asking(source, triage) as pilot:
        await until(pilot, lambda: not _yes(pilot).disabled, "the preview is there")
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert triage.runs == []


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_escape_and_q_cancel(source: ScriptedSource, triage: ScriptedTriage, key: str) -> None:
    async with _asking(source, triage) as pilot:
        await press(pilot, key)
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert triage.runs == []


@pytest.mark.parametrize("keys", [("right", "enter"), ("l", "enter"), ("tab", "enter")])
async def test_the_other_button_makes_the_change(
    source: ScriptedSource, triage: ScriptedTriage, keys: tuple[str, ...]
) -> None:
    async with _asking(source, triage) as pilot:
        await until(pilot, lambda: not _yes(pilot).disabled, "the preview is there")
        await press(pilot, *keys)
        assert [run.preview.action for run in triage.runs] == [Delete(queue="orders")]
        assert await made(pilot) == "deleted 1,204, skipped 0, failed 0 · u undoes"


@pytest.mark.parametrize("ahead", [("right", "enter"), ("tab", "tab", "enter"), ("y", "enter"), ("enter", "enter")])
async def test_keys_typed_ahead_confirm_nothing(
    source: ScriptedSource, triage: ScriptedTriage, unseen: None, ahead: tuple[str, ...]
) -> None:
    triage.look = Gate()
    async with _asking(source, triage) as pilot:
        await pilot.press(*ahead[:1])
        triage.look.release()
        await pilot.press(*ahead[1:])
        await pilot.pause()
        assert triage.runs == []


async def test_the_button_waits_until_the_preview_was_seen(
    source: ScriptedSource, triage: ScriptedTriage, unseen: None
) -> None:
    async with _asking(source, triage) as pilot:
        await says(pilot, "Delete 1,204 messages")
        assert _yes(pilot).disabled
        await pilot.click("#yes")
        await press(pilot, "right", "enter")
        assert triage.runs == []


async def test_looking_tells_how_far_it_is_and_can_be_cancelled(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.look = Gate()
    triage.seen = (ScanProgress(12_000, 38_112, 1_204),)
    async with _asking(source, triage) as pilot:
        await says(pilot, "scanning … 12,000 of 38,112, 1,204 matches")
        assert not _yes(pilot).display
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert triage.runs == []


@pytest.mark.parametrize("ending", ["preview", "refusal"])
async def test_an_answer_that_comes_after_the_dialog_was_closed_is_dropped(
    source: ScriptedSource, triage: ScriptedTriage, ending: str
) -> None:
    asked_for, ended = asyncio.Event(), asyncio.Event()
    previews: list[Preview] = []

    async def look(on_progress: Callable[[ScanProgress], None]) -> Preview:
        asked_for.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # The server had answered by then.
            on_progress(ScanProgress(1, 2, 1))
            if ending == "refusal":
                raise TriageError("the connection was lost") from None
            previews.append(await triage.preview(Delete(queue="orders")))
            return previews[-1]
        finally:
            ended.set()
        raise AssertionError("nothing ends this wait")

    async with opened(source, [queue_of("orders", ready=1)], triage=triage) as pilot:
        chosen: list[Preview | None] = []
        app_of(pilot).push_screen(ConfirmScreen("Delete", look), chosen.append)
        await until(pilot, asked_for.is_set, "the server is asked")
        await press(pilot, "escape")
        await until(pilot, ended.is_set, "the answer has come")
        await settled(pilot)
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert chosen == [None]
        assert len(previews) == (ending == "preview")
        for preview in previews:
            # What it had seen is freed.
            with pytest.raises(ValueError, match="closed file"):
                list(preview.selection or ())


async def test_a_preview_of_nothing_only_closes(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.count = 0
    async with _asking(source, triage) as pilot:
        await says(pilot, "the message is not in the queue")
        assert not _yes(pilot).display
        assert pilot.app.screen.query_one("#cancel", Button).label.plain == "Close"
        await press(pilot, "right", "enter")
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert triage.runs == []


async def test_a_refusal_is_its_sentence(source: ScriptedSource, triage: ScriptedTriage) -> None:
    triage.refusal = f"the journal is full {HOSTILE}"
    async with _asking(source, triage) as pilot:
        await says(pilot, "the journal is full ␛[2J[/foo]")
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, OverviewScreen)


@pytest.mark.parametrize(("name", "action"), [("purge", Purge), ("delete-queue", DeleteQueue)])
async def test_what_ends_a_queue_wants_its_name(
    source: ScriptedSource, triage: ScriptedTriage, name: str, action: type[Purge]
) -> None:
    async with _asking(source, triage, name, notifications=True) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one("#typed").display, "the name is asked for")
        assert _focused(pilot) == "typed"
        pilot.app.screen.query_one("#typed", Input).value = "orders"
        await until(pilot, lambda: not _yes(pilot).disabled, "the preview was seen")
        for typed in ("", "order", "Orders", "orders "):
            pilot.app.screen.query_one("#typed", Input).value = typed
            await press(pilot, "enter")
            assert _yes(pilot).disabled
        assert triage.runs == []
        await says(pilot, "type the queue's name to confirm: orders")
        pilot.app.screen.query_one("#typed", Input).value = "orders"
        await until(pilot, lambda: not _yes(pilot).disabled, "the name is right")
        await press(pilot, "enter")
        assert triage.runs == []
        await press(pilot, "enter")
        assert [run.preview.action for run in triage.runs] == [action(queue="orders")]


async def test_what_the_server_is_called_cannot_act_on_the_terminal(
    source: ScriptedSource, triage: ScriptedTriage
) -> None:
    triage.server = triage.profile = HOSTILE
    triage.notes = (HOSTILE,)
    async with opened(source, [queue_of(HOSTILE, ready=3)], triage=triage) as pilot:
        ask_change(app_of(pilot), "delete", HOSTILE)
        await asked(pilot)
        await until(pilot, lambda: not _yes(pilot).disabled, "the preview is there")
        text = text_of(app_of(pilot))
        assert "␛[2J[/foo]" in text
        assert not {"\x1b", "\u202e", "\x00"} & set(text)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (132, 36)])
@pytest.mark.parametrize("name", ["delete", "purge"])
async def test_it_fits_any_screen(
    source: ScriptedSource, triage: ScriptedTriage, size: tuple[int, int], name: str
) -> None:
    async with _asking(source, triage, name, size=size) as pilot:
        await until(pilot, lambda: _yes(pilot).display, "the preview is there")
        await pilot.pause()
        text = text_of(app_of(pilot))
        assert f"{name.title()} 1,204 messages" in text
        assert f"Cancel     {name.title()} 1,204" in " ".join(text.split("  ")) or f"{name.title()} 1,204 " in text
        screen = pilot.app.screen
        for widget in (screen.query_one("#cancel"), _yes(pilot), screen.query_one("#words", Static)):
            assert widget.region.height > 0
        assert screen.region.contains_region(_yes(pilot).region)


async def test_undo_is_previewed_as_any_change(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with opened(source, [queue_of("orders", ready=1)], triage=triage) as pilot:
        await pilot.press("u")
        await asked(pilot)
        assert await confirm(pilot) == "put back 1,204, skipped 0, failed 0"
        assert triage.asked == [(None, None)]


@pytest.mark.parametrize("size", [(160, 48), (110, 32), (100, 30), (80, 24), (60, 20), (40, 10)], ids=str)
async def test_all_of_it_can_be_read_by_keys_on_every_screen(
    source: ScriptedSource, triage: ScriptedTriage, size: tuple[int, int]
) -> None:
    triage.profile, triage.elsewhere, triage.unsearched = "PROD-EU", 3, 1
    async with _asking(source, triage, size=size) as pilot:
        await until(pilot, lambda: not _yes(pilot).disabled, "the preview is there")
        await settled(pilot)
        words = pilot.app.screen.query_one(".words")
        is_scrolled = words.max_scroll_y > 0
        assert ("scroll" in text_of(app_of(pilot))) == is_scrolled
        read: list[str] = []
        at = -1.0
        while words.scroll_y != at:
            lines = [line.strip(" │║▁▂▃▄▅▆▇█▔") for line in text_of(app_of(pilot)).splitlines()]
            read += [line for line in lines if line not in read]
            at = words.scroll_y
            await press(pilot, "down")
        shown = " ".join(" ".join(read).split())
        for sentence in (
            "every message of the queue",
            "changed or left the queue since shown",
            "only what is gone is skipped.",
        ):
            assert sentence in shown, sentence
        assert is_scrolled or size != (40, 10)
        await press(pilot, "g")
        assert words.scroll_y == 0


async def test_ctrl_s_confirms_as_it_sends_a_form(source: ScriptedSource, triage: ScriptedTriage) -> None:
    async with _asking(source, triage) as pilot:
        await until(pilot, lambda: not _yes(pilot).disabled, "the preview is there")
        assert "ctrl+s confirms" in text_of(app_of(pilot))
        await press(pilot, "ctrl+s")
        assert [run.preview.action for run in triage.runs] == [Delete(queue="orders")]


async def test_ctrl_s_does_not_confirm_before_the_preview_was_seen_or_the_name_typed(
    source: ScriptedSource, triage: ScriptedTriage, unseen: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _asking(source, triage) as pilot:
        await until(pilot, lambda: _yes(pilot).display, "the preview is there")
        await press(pilot, "ctrl+s", "escape")
        monkeypatch.setattr("rsmq_tui.tui.changes.confirm.SEEN_S", 0.0)
        await _asked(pilot, source, "delete-queue")
        screen = pilot.app.screen
        await until(pilot, lambda: screen.query_one("#typed").display, "the preview is there")
        await press(pilot, "o", "ctrl+s")
        assert pilot.app.screen is screen
        assert triage.runs == []
        await press(pilot, *"rders", "ctrl+s")
        assert [run.preview.action for run in triage.runs] == [DeleteQueue(queue="orders")]


@pytest.mark.parametrize("confirms", ["\x13", "\t\r"])
async def test_a_key_that_waited_behind_others_does_not_confirm_what_was_not_there_when_it_was_typed(
    source: ScriptedSource, triage: ScriptedTriage, confirms: str
) -> None:
    async with opened(source, triage=triage) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=1204)]))
        ask_change(app_of(pilot), "delete", "orders")
        type_at_once(pilot, "jk" * 100 + confirms)
        all_wait = asyncio.Event()
        pilot.app.call_later(all_wait.set)
        await all_wait.wait()
        await settled(pilot)
        assert [action for action, _ in triage.asked] == [Delete(queue="orders")]
        assert triage.runs == []


async def test_a_key_that_is_held_down_does_not_confirm(
    source: ScriptedSource, triage: ScriptedTriage, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_s = 0.5
    monkeypatch.setattr("rsmq_tui.tui.changes.confirm.SEEN_S", seen_s)
    async with _asking(source, triage) as pilot:
        await until(pilot, lambda: _yes(pilot).display, "the preview is there")
        began_s = last_s = time.monotonic()
        longest_s = 0.0
        while last_s - began_s < 2 * seen_s and not triage.runs:
            await pilot.press("ctrl+s")
            await pilot.pause(0.02)
            before_s, last_s = last_s, time.monotonic()
            longest_s = max(longest_s, last_s - before_s)
        # On a busy machine the key may have been up so long.
        if longest_s < seen_s:
            assert triage.runs == []
            await until(pilot, lambda: not _yes(pilot).disabled, "the preview was seen")
            await press(pilot, "ctrl+s")
        assert len(triage.runs) == 1


@pytest.mark.parametrize(
    ("action", "scope", "why"),
    [
        (Purge(queue="orders"), None, "the queue is empty"),
        (Delete(queue="orders"), Everything(), "the queue is empty"),
        (Delete(queue="orders"), Matching(parse_filter("rc>9")), "no message matches"),
        (Fix(queue="orders", findings=()), None, "these problems are gone"),
        (Delete(queue="orders"), Named(("a",)), "the message is not in the queue"),
    ],
)
async def test_it_says_why_there_is_nothing_to_do(
    source: ScriptedSource, action: Action, scope: Scope | None, why: str
) -> None:
    preview = Preview(action, "what", "redis://localhost:1/0", "rsmq", "", 0, 0, scope=scope)

    async def look(_: Callable[[ScanProgress], None]) -> Preview:
        return preview

    async with opened(source, notifications=True) as pilot:
        await pilot.app.push_screen(ConfirmScreen("Delete", look))
        await asked(pilot, f"There is nothing to do: {why}.")
        assert not _yes(pilot).display
        await press(pilot, "ctrl+s")
        assert "ctrl+s" not in text_of(app_of(pilot))
