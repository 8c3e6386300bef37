"""What the overview tells before a key is pressed: every column, the sums, the worst first."""

import asyncio
import gc

import pytest
from textual.pilot import Pilot

from rsmq_tui.monitor import Drain, Snapshot, Verdict
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.protocol import make_id
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.overview.totals import NowPanel
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.charts import ChartPanel
from rsmq_tui.tui.widgets.lines import StatusLine
from tests.tui.driving import opened, play, play_rows, press, until
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, row_of
from tests.tui.states import broken_queue, one_of_each, poll_of, queue_of

WIDE = (132, 36)


def _row(pilot: Pilot[None], name: str) -> list[str]:
    """A row's cells; where the queue's name is a word of its own, they are what stands between blanks."""
    return next(line.split() for line in lines_of(table_of(pilot)) if f" {name} " in line)


async def test_each_queue_shows_all_its_numbers(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), size=WIDE) as pilot:
        head = lines_of(table_of(pilot))[0].split()
        assert head == [
            *("VERDICT", "QUEUE", "READY", "HIDDEN", "DEPTH", "WAITING", "OLDEST"),
            *("IN/s", "OUT/s", "RECV/s", "IN,", "10", "MIN", "DRAINS", "IN"),
        ]
        for row in (
            "▲ growing orders 37,900 212 38,112 2h 14m 2h 14m 612.0 401.3 440.1 never (+211/s)",
            "■ stalled emails 3,020 7 3,027 41m 41m 12.0 0.0 0.0 no consumer for 41m",
            "☣ poisoned invoices 14 3 17 1m 0s 1m 0s 0.2 0.3 4.1 rc up to 9: 3 messages",
            "◷ aged billing 12 1 13 22m 22m 1.1 1.2 1.3 steady",
            "● ok audit 3 0 3 2 s 2 s 0.4 0.5 0.6 4 s",
        ):
            assert " ".join(_row(pilot, row.split()[2])) == row


async def test_a_queue_with_an_empty_name_is_shown_as_such(source: ScriptedSource) -> None:
    async with opened(source, [queue_of("", ready=3)], size=WIDE) as pilot:
        assert "(no name)" in "".join(lines_of(table_of(pilot)))


async def test_what_is_unknown_is_a_dash_and_never_a_zero(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        why = "its vt is not a number: x"
        await play(pilot, source, poll_of(source, [broken_queue("cache", why), queue_of("new", ready=0)]))
        assert _row(pilot, "cache") == ["✗", "broken", "cache", *("–" * 8), *why.split()]
        assert _row(pilot, "new") == ["●", "ok", "new", "0", "0", "0", *("–" * 5), "nothing", "ready"]


async def test_a_queue_of_which_only_the_depth_is_known_shows_it(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        queue = broken_queue("cache", "gone")._replace(depth=12_345)
        await play(pilot, source, poll_of(source, [queue]))
        assert _row(pilot, "cache")[3:6] == ["–", "–", "12,345"]


async def test_a_problem_is_told_where_nothing_else_is_wrong(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        odd = queue_of("odd", ready=1, problems=("created is in ms",))
        worse = queue_of("worse", ready=1, verdict=Verdict.STALLED, drain=Drain.STALLED, problems=("vt is odd",))
        await play(pilot, source, poll_of(source, [odd, worse]))
        assert "created is in ms" in " ".join(_row(pilot, "odd"))
        assert "no consumer" in " ".join(_row(pilot, "worse"))


async def test_numbers_stay_right_aligned_and_in_their_columns(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        queues = [queue_of("few", ready=1), queue_of("many", ready=99_999), queue_of("lots", ready=38_100_000)]
        await play(pilot, source, poll_of(source, queues))
        lines = lines_of(table_of(pilot))
        end = lines[0].index("READY") + len("READY")
        shown = {line.split()[2]: line[end - 6 : end] for line in lines[1:4]}
        assert shown == {"few": "     1", "many": "99,999", "lots": " 38.1M"}


async def test_the_worst_come_first_then_the_oldest_then_the_fullest(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        more = [
            queue_of("zebra", ready=5, oldest_ready_ms=START_MS - 9000),
            queue_of("yak", ready=5, oldest_ready_ms=START_MS - 3000),
            queue_of("xerus", ready=9, oldest_ready_ms=START_MS - 3000),
            queue_of("empty-b"),
            queue_of("empty-a"),
        ]
        await play(pilot, source, poll_of(source, [*one_of_each(), *more]))
        trouble = ["cache", "emails", "orders", "invoices", "billing"]
        assert names_in(pilot) == [*trouble, "zebra", "xerus", "yak", "audit", "empty-a", "empty-b"]


async def test_another_verdict_stands_out_for_one_poll_whatever_came_or_went_beside_it(source: ScriptedSource) -> None:
    def emphasised() -> set[str]:
        table = table_of(pilot)
        strips = [table.render_line(y) for y in range(1, len(table.keys) + 1)]
        return {
            name
            for name, strip in zip(table.keys, strips, strict=True)
            if any(segment.style and segment.style.reverse for segment in strip)
        }

    queues = {name: queue_of(name, ready=1) for name in ("b", "c", "d", "e")}
    async with opened(source, size=WIDE) as pilot:
        await play(pilot, source, poll_of(source, queues.values(), START_MS))
        assert emphasised() == set()
        # A queue that is new shifts all others by one; it has no verdict that it had before.
        queues["c"] = queues["c"]._replace(verdict=Verdict.STALLED)
        queues["a"] = queue_of("a", ready=1, verdict=Verdict.GROWING)
        await play(pilot, source, poll_of(source, queues.values(), START_MS + 1000))
        assert emphasised() == {"c"}
        # So does one that is gone.
        del queues["a"]
        queues["e"] = queues["e"]._replace(verdict=Verdict.AGED)
        await play(pilot, source, poll_of(source, queues.values(), START_MS + 2000))
        assert emphasised() == {"e"}
        await play(pilot, source, poll_of(source, queues.values(), START_MS + 3000))
        assert emphasised() == set()


async def test_sums_of_all_queues(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), size=WIDE) as pilot:
        now = [line.split() for line in lines_of(pilot.app.screen.query_one(NowPanel))]
        assert now[0][:2] == ["ready", "40,949"]
        assert now[1][:2] == ["hidden", "223"]
        assert now[2] == ["waiting", "2h", "14m", "in", "orders"]
        assert now[3] == ["in", "625.7/s"]
        assert now[4] == ["out", "403.3/s"]
        assert now[5] == ["✗", "1", "■", "1", "▲", "1", "☣", "1", "◷", "1", "●", "1"]
        status = lines_of(pilot.app.screen.query_one(StatusLine))[0]
        assert "redis://cache-1:6379/0 · rsmq" in status
        assert "6 queues · 41,172 messages" in status
        assert status.endswith("● live ")


async def test_chart_and_sparklines_draw_the_past(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        chart = pilot.app.screen.query_one("#throughput", ChartPanel)
        await play_rows(pilot, {"orders": row_of(depth=0)})
        assert "collecting …" in "".join(lines_of(chart))
        for minute in range(1, 11):
            rows = {"orders": row_of(depth=minute * 60, sent=minute * minute * 60)}
            await play_rows(pilot, rows, START_MS + minute * 60_000)
        drawn = "".join(lines_of(chart))
        assert "arrivals/s" in drawn
        assert "deletes/s" in drawn
        assert any(character in drawn for character in map(chr, range(0x2801, 0x2900)))
        row = next(line for line in lines_of(table_of(pilot)) if " orders " in line)
        # One cell a minute, from almost nothing up, as the arrivals rose; of the first minute none are known.
        assert " ▂▂▃▄▄▅▅▆▇▇ " in row
        light = [segment.text for segment in table_of(pilot).render_line(1) if segment.style and segment.style.bold]
        assert "▇▇" in light
        now = lines_of(pilot.app.screen.query_one(NowPanel))
        assert now[0].split() == ["ready", "600", "▂▃▃▄▄▅▅▆▆▇", "max", "600"]


async def test_the_highest_sum_is_not_cut_off(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        for minute in range(12):
            await play_rows(pilot, {"orders": row_of(depth=98_765)}, START_MS + minute * 60_000)
        now = lines_of(pilot.app.screen.query_one(NowPanel))
        assert now[0].split()[-2:] == ["max", "98,765"]


async def test_round_trip_and_cost_are_told(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        cost = type(source.last.cost)(round_trip_ms=0.84, poll_ms=3.0, bytes=12_345, commands=5)
        await play(pilot, source, poll_of(source, one_of_each(), cost=cost, interval_s=2.5))
        status = lines_of(pilot.app.screen.query_one(StatusLine))[0]
        assert status.endswith("12.1 KiB   5 cmd ·   0.8 ms · 2.5 s · times in UTC ● live ")


async def test_before_the_first_poll_it_says_that_it_connects(source: ScriptedSource) -> None:
    async with opened(source, size=WIDE) as pilot:
        assert "connecting …" in text_of(app_of(pilot))
        # No key does harm yet.
        await press(pilot, "j", "G", "s", "S", "r", "p", "t", "enter", "escape", "slash", "a", "enter", "escape")
        assert "connecting …" in text_of(app_of(pilot))


async def test_before_the_first_poll_it_names_the_server_and_how_long_it_waits(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source, address="redis://cache-1:6379/0")], clock=source.clock)
    async with app.run_test(size=WIDE) as pilot:
        status = app.screen.query_one(StatusLine)
        assert lines_of(status)[0].strip() == "rsmq-tui   connecting to redis://cache-1:6379/0 …"
        source.clock.now_s += 4
        await until(pilot, lambda: "… 4 s" in lines_of(status)[0], "the line counts the seconds")


async def test_waiting_does_not_jump_where_messages_come_back_to_the_queue(source: ScriptedSource) -> None:
    minute_us = 60_000_000
    async with opened(source, size=WIDE) as pilot:
        # Those that were received and not deleted are due again in turn, whenever they were sent.
        for second, minutes in enumerate((22, 3, 17)):
            at_ms = START_MS + second * 1000
            id = make_id(START_MS * 1000 - minutes * minute_us)
            back = row_of(depth=9, hidden=6, sent=9, received=90 + second, head=(id, at_ms - 1_500))
            waits = row_of(depth=1, sent=1, head=(make_id((START_MS - 4_000) * 1000), START_MS - 4_000))
            await play_rows(pilot, {"back": back, "waits": waits}, at_ms)
            assert [_row(pilot, name)[6:8] for name in ("back", "waits")] == [["1", "s"], [f"{4 + second}", "s"]]
            assert names_in(pilot) == ["waits", "back"]
            assert f"waiting {'':5}{4 + second} s  in waits" in lines_of(pilot.app.screen.query_one(NowPanel))[2]


async def test_a_wide_terminal_shows_when_a_limit_is_reached(source: ScriptedSource) -> None:
    async with opened(source, size=(160, 36)) as pilot:
        limit = Limit("depth", START_MS + 720_000, START_MS + 1_200_000)
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=9, limit=limit), queue_of("quiet")]))
        head, *rows = lines_of(table_of(pilot))
        place = head.index("LIMIT")
        assert {row[place:].strip() for row in rows if " orders " in row} == {"depth 12m–20m"}
        assert {row[place:].strip() for row in rows if " quiet " in row} == {""}


def test_garbage_is_collected_from_the_first_numbers_on(source: ScriptedSource) -> None:
    seen = []

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, gc.isenabled, "the collector is on")
        seen.append(app.dashboard.snapshot is source.last)
        app.exit()

    source.play(poll_of(source, [queue_of("orders", ready=3)]))
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    try:
        app.run(headless=True, auto_pilot=look)
        assert seen == [True]
        assert gc.isenabled()
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(("first_wait_s", "has_numbers"), [(100.0, True), (0.01, False)])
async def test_the_first_frame_waits_for_the_first_numbers_for_a_while(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch, first_wait_s: float, has_numbers: bool
) -> None:
    mounted: list[Snapshot | None] = []
    mount = DashboardScreen.on_mount

    def on_mount(screen: DashboardScreen) -> None:
        mounted.append(screen.dashboard.snapshot)
        mount(screen)

    monkeypatch.setattr(DashboardScreen, "on_mount", on_mount)
    coming = poll_of(source, [queue_of("orders", ready=3)])
    if has_numbers:
        asyncio.get_running_loop().call_later(0.05, source.play, coming)
    async with RsmqApp([WatchedServer(source)], clock=source.clock, first_wait_s=first_wait_s).run_test(
        size=(132, 36)
    ) as pilot:
        assert mounted == [coming if has_numbers else None]
        if not has_numbers:
            source.play(coming)
        await until(pilot, lambda: names_in(pilot) == ["orders"], "the numbers are shown")
