"""An open item of a list is told as it is now, and no other one with the same bytes takes its place."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from rsmq_tui.protocol import ListQueue
from rsmq_tui.tui.changes.controller import ChangeController, ChangeStatus
from rsmq_tui.tui.widgets.lines import TextLine
from tests.tui.changing import ask_change, confirm, fill, made, say_yes
from tests.tui.driving import press, says, settled, until
from tests.tui.reading import app_of, lines_of, text_of
from tests.tui.test_list_queues import KEY, thumbnails, watching
from tests.tui.test_list_queues import _open_item as open_item

pytestmark = pytest.mark.slow

__all__ = ["thumbnails"]


@pytest.mark.parametrize("meanwhile", ["", "x", "M", "0"])
async def test_a_twin_does_not_take_the_place_of_an_item_that_was_deleted(
    redis_url: str,
    thumbnails: ListQueue,
    client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: str,
) -> None:
    thumbnails.push("job-4")
    gate = asyncio.Event()
    honest = ChangeController._make

    async def held(changes: ChangeController, *rest: Any) -> ChangeStatus:
        shown = await honest(changes, *rest)
        await gate.wait()
        return shown

    async with watching(redis_url, tmp_path) as pilot:
        screen = await open_item(pilot, 1, "job-4", items=7)
        monkeypatch.setattr(ChangeController, "_make", held)
        await pilot.press("x")
        await say_yes(pilot)
        await until(pilot, lambda: client.llen(KEY) == 3, "it is deleted")
        if meanwhile:
            await pilot.press(meanwhile)
            assert screen.is_current
        gate.set()
        await made(pilot)
        await says(pilot, "no longer in the queue")
        # Whatever would read it again finds the other one.
        await press(pilot, "r", "question_mark", "escape", "e")
        before = app_of(pilot).dashboard.snapshot
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is not before, "another poll")
        await settled(pilot)
        assert screen.is_current
        assert screen.scope is None
        assert lines_of(screen.query_one("#facts", TextLine))[0].strip() == "no longer in the queue"
        await press(pilot, "u")
        await say_yes(pilot)
        await until(pilot, lambda: screen.scope is not None, "it is back")
        await says(pilot, "job-4")
    assert thumbnails.peek().count(b"job-4") == 2


async def test_only_the_undo_of_what_took_an_item_brings_it_back(
    redis_url: str, thumbnails: ListQueue, tmp_path: Path
) -> None:
    thumbnails.push("job-4")
    async with watching(redis_url, tmp_path) as pilot:
        screen = await open_item(pilot, 1, "job-4", items=7)
        await pilot.press("x")
        await confirm(pilot)
        ask_change(app_of(pilot), "send", KEY, body=b"job-4", place=screen.place or "")
        await fill(pilot)
        await confirm(pilot, "sent 1,")
        for is_back in (False, True):
            changes = app_of(pilot).dashboard.changes
            shown = changes.status
            await press(pilot, "u")
            await say_yes(pilot)
            await until(pilot, partial(_tells_another, changes, shown), "it begins")
            await made(pilot)
            await settled(pilot)
            assert (screen.scope is not None) == is_back


async def test_an_item_that_is_shown_is_told_as_it_is_now(
    redis_url: str, thumbnails: ListQueue, client: redis.Redis, tmp_path: Path
) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        await open_item(pilot, 0, "job-3")
        await says(pilot, "waiting for a consumer")
        thumbnails.take(600_000)
        await until(pilot, lambda: "its lease ends in " in text_of(app_of(pilot)), "it was taken")
        client.lrem(f"{KEY}:processing", 1, "job-3")
        await says(pilot, "no longer in the queue")
        assert "job-3" in text_of(app_of(pilot))
        # Another one of the same bytes is another one.
        thumbnails.push("job-3")
        before = app_of(pilot).dashboard.snapshot
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is not before, "another poll")
        await press(pilot, "question_mark", "escape")
        assert "no longer in the queue" in text_of(app_of(pilot))


def _tells_another(changes: ChangeController, shown: ChangeStatus | None) -> bool:
    return changes.status is not shown
