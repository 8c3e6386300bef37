"""One table of the queues of several servers, and what is done to each where it is."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from textual.pilot import Pilot

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import QueueState, RsmqPoller, Verdict
from rsmq_tui.protocol import LISTS_NS, Failure, Rsmq, RsmqReader
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.lines import StatusLine
from rsmq_tui.tui.widgets.row_table import RowTable
from tests.tui.changing import confirm
from tests.tui.driving import press, says, settled, until
from tests.tui.reading import app_of, lines_of, table_of, text_of
from tests.tui.scripted import START_MS, FakeClock, ScriptedSource, messages_of
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

RED, GREEN = "#ff5f5f", "#5fd787"
DOWN = Failure("refused", "the connection was refused", "is it running?")


class _Servers:
    """Three of them: prod, test, and one that may only be looked at."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.sources = {place: ScriptedSource(clock) for place in ("prod", "test", "look")}
        self.triages: dict[str, Any] = {
            place: ScriptedTriage(count=3, server=f"redis://{place}:6379/0") for place in self.sources
        }
        colours = {"prod": RED, "test": GREEN}
        self.watched = [
            WatchedServer(
                source,
                place=place,
                name=place,
                colour=colours.get(place),
                make_triage=partial(self.triages.__getitem__, place),
                read_only=place == "look",
            )
            for place, source in self.sources.items()
        ]
        self.app = RsmqApp(self.watched, clock=clock)

    def play(self, place: str, queues: Sequence[QueueState], at_ms: int = START_MS) -> None:
        source = self.sources[place]
        found = [queue._replace(place=place) for queue in queues]
        source.play(replace(poll_of(source, found, at_ms), place=place, server=f"redis://{place}:6379/0"))

    @asynccontextmanager
    async def opened(self, size: tuple[int, int] = (140, 36)) -> AsyncIterator[Pilot[None]]:
        async with self.app.run_test(size=size, notifications=True) as pilot:
            self.play("prod", [queue_of("orders", ready=5, oldest_ready_ms=START_MS - 60_000, verdict=Verdict.AGED)])
            self.play("test", [queue_of("orders", ready=70), queue_of("mail", hidden=2)])
            self.play("look", [queue_of("seen", ready=1)])
            await until(pilot, lambda: len(table_of(pilot).keys) == 4, "all queues are there")
            yield pilot


def _status(pilot: Pilot[None]) -> str:
    status = pilot.app.screen.query_one(StatusLine)
    # It looks at the clock twice a second; the clock is ours, so the look is too.
    status.repaint()
    return lines_of(status)[0]


def _rows(pilot: Pilot[None]) -> list[tuple[str, str]]:
    return [(queue.place, queue.name) for queue in table_of(pilot).rows]


async def _on(pilot: Pilot[None], place: str, name: str) -> None:
    table = table_of(pilot)
    table.place_cursor(_rows(pilot).index((place, name)))
    await settled(pilot)


async def test_queues_of_all_servers_stand_in_one_table() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        assert _rows(pilot)[0] == ("prod", "orders")
        assert sorted(_rows(pilot)) == [("look", "seen"), ("prod", "orders"), ("test", "mail"), ("test", "orders")]
        text = text_of(app_of(pilot))
        assert "SERVER" in text
        assert "3 servers · rsmq" in text
        assert "4 queues · 78 messages" in text


async def test_a_queue_is_opened_and_followed_where_it_is() -> None:
    servers = _Servers()
    servers.sources["test"].messages["orders"] = messages_of([b"from test"])
    servers.sources["prod"].messages["orders"] = messages_of([b"from prod"])
    async with servers.opened() as pilot:
        await _on(pilot, "test", "orders")
        await press(pilot, "enter")
        await says(pilot, "from test")
        screen = pilot.app.screen
        assert isinstance(screen, QueueScreen)
        assert "redis://test:6379/0" in text_of(app_of(pilot))
        assert "from prod" not in text_of(app_of(pilot))
        shown = screen.snapshot
        servers.play("prod", [queue_of("orders", ready=6)])
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot.part("prod").totals.ready == 6, "another has news")
        assert screen.snapshot is shown
        servers.play("test", [queue_of("orders", ready=71)])
        await until(pilot, lambda: screen.snapshot.totals.ready == 71, "this one has news")


async def test_a_change_is_made_where_the_queue_is_and_bears_the_servers_colour() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        await _on(pilot, "prod", "orders")
        await press(pilot, "u")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen), "it asks")
        await says(pilot, "redis://prod:6379/0")
        border = pilot.app.screen.query_one(".dialog").styles.border_top
        assert border[1].hex.lower() == RED
        await press(pilot, "escape")
        assert [len(triage.asked) for triage in servers.triages.values()] == [1, 0, 0]


async def test_what_may_only_be_looked_at_is_not_changed() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        await _on(pilot, "look", "seen")
        await press(pilot, "P")
        await says(pilot, "read-only")
        assert not isinstance(pilot.app.screen, ConfirmScreen)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "it is opened")
        assert "delete" not in text_of(app_of(pilot)).splitlines()[-1]
        await press(pilot, "x")
        assert not isinstance(pilot.app.screen, ConfirmScreen)
        assert servers.triages["look"].asked == []


async def test_a_server_that_does_not_answer_is_marked_and_the_others_go_on() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        servers.sources["prod"].play_failure(DOWN)
        servers.play("test", [queue_of("orders", ready=72)])
        await says(pilot, "prod is stale (the connection was refused)")
        lines = text_of(app_of(pilot)).splitlines()
        (row,) = [line for line in lines if " prod " in line and " orders " in line and "stale" in line]
        # What was last known of it, and how old that is.
        assert row.split()[:2] == ["◷", "aged"]
        assert row.rstrip().endswith(" stale 0 s")
        table = table_of(pilot)
        verdict, outlook = (
            next(column for column in table.columns if column.id == id).cell(table.rows[0], table.context)
            for id in ("verdict", "drains")
        )
        assert (table.rows[0].place, verdict, outlook) == ("prod", ("◷ aged", "muted"), ("stale 0 s", "muted"))
        assert (
            "◷ aged orders on prod: ✗ stale 0 s · reconnecting in 4 s: the connection was refused · the first ready "
            "message has waited 1m 0s" in lines_of(pilot.app.screen.query_one("#why"))[0]
        )
        # The ages grow while nothing comes.
        servers.sources["prod"].clock.now_s += 3
        await until(pilot, lambda: "stale 3 s · reconnecting in 1 s" in lines_of(pilot.app.screen.query_one("#why"))[0],
                    "the line counts on")  # fmt: skip
        assert lines_of(table)[1].rstrip().endswith(" stale 3 s")
        assert "◌ stale 3 s" in text_of(app_of(pilot))
        servers.play("test", [queue_of("orders", ready=73)])
        await says(pilot, "73")
        header = text_of(app_of(pilot)).splitlines()[0]
        # Of the third, no poll has failed, but its numbers are as old.
        assert "✗ prod" in header
        assert "◌ look" in header
        assert header.endswith("◌ 2 of 3 stale ")
        servers.play("look", [queue_of("seen")])
        await until(pilot, lambda: _status(pilot).endswith("✗ prod: stale 3 s "), "the header names the one")


async def test_the_header_names_the_server_that_is_late_before_its_poll_has_failed() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        assert _status(pilot).endswith("● live ")
        clock = servers.sources["prod"].clock
        for _ in range(3):
            clock.now_s += 1
            servers.play("test", [queue_of("orders", ready=72)])
            servers.play("look", [queue_of("seen")])
            await settled(pilot)
        await until(pilot, lambda: _status(pilot).endswith("◌ prod: stale 3 s "), "one is late")
        assert "◌ prod " in _status(pilot)
        await until(
            pilot, lambda: any(line.rstrip().endswith(" stale 3 s") for line in lines_of(table_of(pilot))), "row"
        )
        clock.now_s += 3
        await until(pilot, lambda: _status(pilot).endswith("◌ stale 3 s · waiting for the servers "), "all are late")


async def test_of_one_server_that_is_gone_one_age_and_one_countdown_are_told() -> None:
    clock = FakeClock()
    sources = {place: ScriptedSource(clock, place=place) for place in ("rsmq", LISTS_NS)}
    url = "redis://cache-1:6379/0"
    app = RsmqApp([WatchedServer(source, place=place, ns=place) for place, source in sources.items()], clock=clock)
    async with app.run_test(size=(200, 30)) as pilot:
        for place, source in sources.items():
            queue = queue_of("orders", ready=5, place=place, oldest_ready_ms=START_MS)
            source.play(replace(poll_of(source, [queue]), server=url, ns=place))
            clock.now_s += 3
        await until(pilot, lambda: len(table_of(pilot).keys) == 2, "both are there")
        # Each notices it at a time of its own.
        sources["rsmq"].play_failure(DOWN, retry_in_s=8)
        clock.now_s += 2
        sources[LISTS_NS].play_failure(DOWN, retry_in_s=1)
        words = "stale 5 s · reconnecting in 1 s: the connection was refused"
        await until(pilot, lambda: words in _status(pilot), "the header tells it")
        assert _status(pilot).count("refused") == 1
        for place in sources:
            await _on(pilot, place, "orders")
            assert f"orders: ✗ {words}" in lines_of(pilot.app.screen.query_one("#why"))[0]
        assert [line.rstrip().endswith(" stale 5 s") for line in lines_of(table_of(pilot))[1:3]] == [True, True]


async def test_where_no_server_answers_the_header_is_of_all_and_the_bottom_line_of_one() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        servers.sources["prod"].clock.now_s += 4
        for source, retry_in_s in zip(servers.sources.values(), (8, 2, 4), strict=True):
            source.play_failure(DOWN, retry_in_s)
        header = "✗ no server answers · stale 4 s or more · reconnecting in 2 s "
        await until(pilot, lambda: lines_of(pilot.app.screen.query_one(StatusLine))[0].endswith(header), "it says so")
        await _on(pilot, "prod", "orders")
        assert "prod: ✗ stale 4 s · reconnecting in 8 s: " in lines_of(pilot.app.screen.query_one("#why"))[0]


async def test_sorting_and_filtering_know_the_server() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        await press(pilot, "slash", *"test")
        assert {place for place, _ in _rows(pilot)} == {"test"}
        await press(pilot, "escape")
        table = table_of(pilot)
        await press(pilot, "s", "s")
        assert table.sorted_by == ("server", False)
        assert [place for place, _ in _rows(pilot)] == ["look", "prod", "test", "test"]


async def test_pause_refresh_and_leaving_are_for_all_of_them() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        await press(pilot, "r")
        assert [source.woken for source in servers.sources.values()] == [1, 1, 1]
        await press(pilot, "p")
        assert all(source.paused for source in servers.sources.values())
    assert all(source.closed for source in servers.sources.values())


async def test_another_namespace_is_that_of_the_server_under_the_cursor() -> None:
    servers = _Servers()
    servers.sources["test"].found = servers.sources["test"].found._replace(names=("mail", "rsmq"))
    async with servers.opened() as pilot:
        await _on(pilot, "test", "mail")
        await press(pilot, "n")
        await says(pilot, "enter switches")
        await press(pilot, "enter")
        assert [source.switched for source in servers.sources.values()] == [[], ["mail"], []]


async def test_on_a_queues_screen_it_is_that_of_its_server() -> None:
    servers = _Servers()
    servers.sources["test"].found = servers.sources["test"].found._replace(names=("mail", "rsmq"))
    async with servers.opened() as pilot:
        await _on(pilot, "test", "mail")
        for opening in ("enter", "F"):
            await press(pilot, opening, "n")
            await says(pilot, "enter switches")
            await press(pilot, "enter")
        assert [source.switched for source in servers.sources.values()] == [[], ["mail", "mail"], []]


@pytest.mark.parametrize("key", ["u", "c", "n", "F"])
async def test_without_a_queue_under_the_cursor_nobody_knows_which_server_is_meant(key: str) -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        await press(pilot, "slash", *"zzz", "enter", key)
        await says(pilot, "select a queue first")
        assert [triage.asked for triage in servers.triages.values()] == [[], [], []]
        assert len(pilot.app.screen_stack) == 1


async def test_rows_keep_their_places_while_the_cursor_moves() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        await press(pilot, "s", "s")
        before = _rows(pilot)
        assert [place for place, _ in before] == ["look", "prod", "test", "test"]
        await press(pilot, "j")
        servers.play("prod", [queue_of("orders", ready=99)])
        await says(pilot, "99")
        assert _rows(pilot) == before


async def test_another_namespace_is_told_in_the_table() -> None:
    servers = _Servers()
    servers.watched[1] = WatchedServer(servers.sources["test"], place="test jobs", name="test", ns="rsmq")
    assert servers.watched[1].title("rsmq") == "test jobs"
    assert servers.watched[1].title("mail") == "test mail"


async def test_two_namespaces_of_one_server_find_out_once_what_was_interrupted() -> None:
    clock = FakeClock()
    sources = [ScriptedSource(clock, place=place) for place in ("prod jobs", "prod mail")]
    triages: list[Any] = [ScriptedTriage(), ScriptedTriage()]
    servers = [
        WatchedServer(source, place=source.last.place, name="prod", make_triage=partial(triages.__getitem__, number))
        for number, source in enumerate(sources)
    ]
    async with RsmqApp(servers, clock=clock).run_test(size=(140, 36)) as pilot:
        for source in sources:
            queue = queue_of("q", place=source.last.place)
            source.play(replace(poll_of(source, [queue]), server="redis://prod:6379/0"))
        await until(pilot, lambda: sum(triage.recoveries for triage in triages) == 1, "one finds out")
        await settled(pilot)
        assert sum(triage.recoveries for triage in triages) == 1


async def test_the_palette_finds_queues_by_server() -> None:
    servers = _Servers()
    async with servers.opened() as pilot:
        await press(pilot, "colon", *"orders on prod")
        rows = pilot.app.screen.query_one(RowTable).rows
        assert [(command.name, command.key) for command in rows] == [("orders", "prod")]


async def test_two_real_servers_and_one_that_is_not_there(tmp_path: Path) -> None:
    with EmbeddedServer() as one, EmbeddedServer() as other:
        for server, ready in ((one, 3), (other, 5)):
            with redis.Redis.from_url(server.url) as client:
                rsmq = Rsmq(client)
                rsmq.create_queue("orders")
                rsmq.send_messages("orders", [b"x"] * ready)
        urls = {"one": one.url, "other": other.url, "gone": "redis://127.0.0.1:1"}
        servers = [
            WatchedServer(
                RsmqPoller(RsmqReader(url), place=place, interval_s=0.2),
                place=place,
                name=place,
                make_triage=partial(ChangeService, RsmqBackend(url, "rsmq"), tmp_path, profile=place),
            )
            for place, url in urls.items()
        ]
        async with RsmqApp(servers).run_test(size=(140, 36), notifications=True) as pilot:
            await until(pilot, lambda: len(table_of(pilot).keys) == 2, "both are there")
            await says(pilot, "gone is stale")
            await _on(pilot, "other", "orders")
            await press(pilot, "enter")
            await says(pilot, "5 messages")
            await press(pilot, "asterisk", "x")
            await confirm(pilot)
        with redis.Redis.from_url(one.url) as client, redis.Redis.from_url(other.url) as changed:
            assert (client.zcard("rsmq:orders"), changed.zcard("rsmq:orders")) == (3, 0)
