"""Ten thousand queues: every key answers, and only what is in sight is painted."""

from collections.abc import Sequence

import pytest
from textual.pilot import Pilot

from rsmq_tui.monitor import QueueState
from rsmq_tui.monitor.text import compact
from rsmq_tui.tui.overview import columns
from rsmq_tui.tui.overview.known import Silenced
from rsmq_tui.tui.overview.rows import ByTrouble
from rsmq_tui.tui.queue.screen import QueueScreen
from tests.tui.driving import opened, play, press
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import poll_of, queue_of

QUEUES = [queue_of(f"queue-{number:05d}", ready=number) for number in range(10_000)]


def _top(pilot: Pilot[None]) -> str:
    return lines_of(table_of(pilot))[1].split()[2]


async def test_moving_through_ten_thousand_queues(source: ScriptedSource) -> None:
    async with opened(source, QUEUES, size=(100, 30)) as pilot:
        table = table_of(pilot)
        assert len(names_in(pilot)) == 10_000
        assert table.cursor_key == "queue-09999"
        await press(pilot, "G")
        assert table.cursor_key == "queue-00000"
        assert lines_of(table)[-1].split()[2] == "queue-00000"
        await press(pilot, "pageup")
        assert table.cursor_key == f"queue-{table.visible_rows:05d}"
        await press(pilot, "g")
        assert (table.cursor_key, _top(pilot)) == ("queue-09999", "queue-09999")
        await press(pilot, "pagedown", "pagedown")
        assert table.cursor_key == f"queue-{9999 - 2 * table.visible_rows:05d}"
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_the_row_under_the_cursor_keeps_its_place_on_the_screen(source: ScriptedSource) -> None:
    async with opened(source, QUEUES, size=(100, 30)) as pilot:
        await press(pilot, *["pagedown"] * 3, "k", "k")
        table = table_of(pilot)
        name = str(table.cursor_key)
        place = next(y for y, line in enumerate(lines_of(table)) if name in line)
        source.clock.now_s += 10
        # A thousand queues from the end come first now: the cursor's row is the thousand-and-somethingth.
        moved = [queue._replace(ready=20_000, depth=20_000) for queue in QUEUES[:1000]]
        await play(pilot, source, poll_of(source, [*moved, *QUEUES[1000:]], START_MS + 1000))
        assert table.cursor_key == name
        assert next(y for y, line in enumerate(lines_of(table)) if name in line) == place


@pytest.mark.usefixtures("painting")
async def test_a_tick_looks_only_at_the_rows_in_sight(source: ScriptedSource, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(source, QUEUES, size=(100, 30)) as pilot:
        seen: list[float | None] = []

        def counted(value: float | None) -> str:
            seen.append(value)
            return compact(value)

        monkeypatch.setattr(columns, "compact", counted)
        changed = [*QUEUES[:-1], QUEUES[-1]._replace(ready=12_345, depth=12_345)]
        await play(pilot, source, poll_of(source, changed, START_MS + 1000))
        assert 12_345 in seen
        assert len(seen) <= 3 * 2 * table_of(pilot).visible_rows


async def test_an_unchanged_poll_sorts_nothing(source: ScriptedSource, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(source, QUEUES, size=(100, 30)) as pilot:
        sorts = []
        monkeypatch.setattr("rsmq_tui.tui.overview.rows.sort_queues", lambda *_: sorts.append(1))
        await play(pilot, source, poll_of(source, QUEUES, START_MS + 1000))
        assert sorts == []


async def test_a_poll_sorts_nothing_while_another_screen_covers_the_overview(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(source, QUEUES, size=(100, 30)) as pilot:
        of = ByTrouble.of
        sorts: list[int] = []

        def counted(queues: Sequence[QueueState], silenced: Silenced) -> ByTrouble:
            sorts.append(len(queues))
            return of(queues, silenced)

        monkeypatch.setattr(ByTrouble, "of", counted)
        await press(pilot, "enter")
        changed = [queue._replace(ready=0, depth=0) for queue in QUEUES]
        await play(pilot, source, poll_of(source, changed, START_MS + 1000))
        assert sorts == []
        await press(pilot, "q")
        assert sorts == [10_000]
        assert "10,000 queues · 0 messages" in text_of(app_of(pilot))
        # It is still in sight behind a dialog.
        await press(pilot, "question_mark")
        await play(pilot, source, poll_of(source, QUEUES, START_MS + 2000))
        assert sorts == [10_000, 10_000]


async def test_filtering_ten_thousand(source: ScriptedSource) -> None:
    async with opened(source, QUEUES, size=(100, 30)) as pilot:
        await press(pilot, "slash", *"0777", "enter")
        assert names_in(pilot) == ["queue-07779", *(f"queue-{n:05d}" for n in range(7778, 7769, -1)), "queue-00777"]
        await press(pilot, "G")
        assert table_of(pilot).cursor_key == "queue-00777"
