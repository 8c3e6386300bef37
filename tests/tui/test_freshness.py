"""How fresh the numbers are: live, paused, stale, no data yet; and what to do about it."""

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from rsmq_tui.monitor import Connection, Cost
from rsmq_tui.protocol import Failure
from rsmq_tui.tui.widgets.lines import StatusLine
from rsmq_tui.tui.widgets.row_table import RowTable
from tests.tui.driving import opened, play, play_rows, press, shown, until
from tests.tui.reading import app_of, lines_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, row_of
from tests.tui.states import one_of_each, poll_of

pytestmark = pytest.mark.slow

REFUSED = Failure("refused", "connection refused", "start it, or check host and port")


def _status(pilot: Pilot[None]) -> str:
    status = pilot.app.screen.query_one(StatusLine)
    # It looks at the clock twice a second; the clock is ours, so the look is too.
    status.repaint()
    return lines_of(status)[0]


async def _fail(pilot: Pilot[None], source: ScriptedSource, retry_in_s: float = 4.0) -> None:
    source.play_failure(REFUSED, retry_in_s)
    await shown(pilot, source)


async def test_a_first_connection_that_fails_says_what_failed_and_what_to_try(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await _fail(pilot, source)
        text = text_of(app_of(pilot))
        assert "Cannot read redis://cache-1:6379/0: connection refused." in text
        assert "Try: start it, or check host and port." in text
        assert "It retries automatically" in text
        assert "no data yet · retrying in 4 s: connection refused" in _status(pilot)
        assert "queues" not in _status(pilot)
        # There is nothing stale, so nothing is dimmed.
        assert not pilot.app.screen.has_class("-stale")
        await press(pilot, "r")
        assert source.woken == 1
        source.clock.now_s += 5
        await play(pilot, source, poll_of(source, one_of_each()))
        assert _status(pilot).endswith("● live ")
        assert "Cannot read" not in text_of(app_of(pilot))
        assert "invoices" in text_of(app_of(pilot))


async def test_stale_counts_on_and_the_body_dims_until_the_server_is_back(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        table = pilot.app.screen.query_one(RowTable)
        assert not pilot.app.screen.has_class("-stale")
        source.clock.now_s += 12
        await _fail(pilot, source)
        assert pilot.app.screen.has_class("-stale")
        assert table.styles.opacity < 1
        assert "✗ stale 12 s · reconnecting in 4 s: connection refused" in _status(pilot)
        source.clock.now_s += 3
        assert "✗ stale 15 s · reconnecting in 1 s: connection refused" in _status(pilot)
        source.clock.now_s += 1
        assert "✗ stale 16 s · reconnecting: connection refused" in _status(pilot)
        # The last numbers stay, and can be looked through.
        assert "invoices" in text_of(app_of(pilot))
        await press(pilot, "G")
        await play(pilot, source, poll_of(source, one_of_each(), START_MS + 20_000))
        assert not pilot.app.screen.has_class("-stale")
        assert table.styles.opacity == 1
        assert _status(pilot).endswith("● live ")


async def test_the_status_line_counts_on_by_itself(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await _fail(pilot, source)
        status = pilot.app.screen.query_one(StatusLine)
        source.clock.now_s += 77
        await until(pilot, lambda: "stale 77 s" in lines_of(status)[0], "the status line looks at the clock")


async def test_a_server_that_is_silent_is_told_before_the_poll_gives_up(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        cost = Cost(poll_ms=20)
        await play(pilot, source, poll_of(source, one_of_each(), cost=cost))
        source.clock.now_s += 2.0
        assert _status(pilot).endswith("● live ")
        assert not pilot.app.screen.has_class("-stale")
        source.clock.now_s += 0.1
        assert _status(pilot).endswith("◌ stale 2 s · waiting for the server ")
        # The table is dimmed by the same rule, without a new snapshot.
        await until(pilot, lambda: pilot.app.screen.has_class("-stale"), "the numbers are dimmed")
        await play(pilot, source, poll_of(source, one_of_each(), interval_s=10.0, cost=cost))
        source.clock.now_s += 11
        assert _status(pilot).endswith("● live ")
        # Polls that take long are late only when the next one takes much longer.
        await play(pilot, source, poll_of(source, one_of_each(), interval_s=1.0, cost=Cost(poll_ms=1_500)))
        source.clock.now_s += 4.9
        assert _status(pilot).endswith("● live ")
        source.clock.now_s += 0.2
        assert _status(pilot).endswith("◌ stale 5 s · waiting for the server ")


async def test_stale_is_told_on_the_queue_and_the_message_screen_too(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "enter")
        source.clock.now_s += 9
        await _fail(pilot, source)
        assert pilot.app.screen.has_class("-stale")
        assert "stale 9 s" in _status(pilot)
        # A screen that was covered meanwhile learns it when it comes to the front.
        await press(pilot, "escape")
        assert pilot.app.screen.has_class("-stale")
        await press(pilot, "enter")
        await play(pilot, source, poll_of(source, one_of_each(), START_MS + 1000))
        assert not pilot.app.screen.has_class("-stale")


async def test_hostile_words_of_a_server_are_harmless(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        source.play_failure(Failure("error", "ERR [/foo] \x1b[2J " + "x" * 300, "see the server's log"))
        await shown(pilot, source)
        assert "ERR [/foo] ␛[2J xxx" in text_of(app_of(pilot))


async def test_p_pauses_and_resumes(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await press(pilot, "p")
        await shown(pilot, source)
        assert source.paused
        source.clock.now_s += 7
        assert "‖ paused · data 7 s old" in _status(pilot)
        assert not pilot.app.screen.has_class("-stale")
        await press(pilot, "p")
        await shown(pilot, source)
        assert not source.paused
        assert "paused" not in _status(pilot)


async def test_paused_while_the_server_is_away(source: ScriptedSource) -> None:
    async with opened(source, one_of_each()) as pilot:
        await _fail(pilot, source)
        await press(pilot, "p")
        await shown(pilot, source)
        assert "✗ stale 0 s · paused: connection refused" in _status(pilot)


async def test_what_does_not_fit_leaves_but_the_freshness_stays(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), size=(40, 12)) as pilot:
        assert _status(pilot).endswith("● live ")
        await _fail(pilot, source)
        assert "stale 0 s · reconnecting" in _status(pilot)
        assert len(_status(pilot)) == 40


async def test_a_failure_keeps_the_rates_unknown_not_zero_after_it(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await play_rows(pilot, {"orders": row_of(depth=1, sent=1)})
        await _fail(pilot, source)
        source.tracker.resume(START_MS + 60_000)
        await play_rows(pilot, {"orders": row_of(depth=500, sent=500)}, START_MS + 60_000)
        (row,) = (line for line in lines_of(pilot.app.screen.query_one(RowTable)) if " orders " in line)
        assert row.split().count("–") >= 3


async def test_never_fresh_and_no_failure_is_connecting(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await play(pilot, source, replace(source.last, connection=Connection()))
        assert "Connecting to redis://cache-1:6379/0 …" in text_of(app_of(pilot))
