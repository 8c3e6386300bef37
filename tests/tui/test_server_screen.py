"""The server screen: what it shows, how often it asks, and one server after the other; then a real server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from redis import Redis
from textual.pilot import Pilot

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import PeekError, RsmqPoller
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.protocol import Failure, RsmqReader
from rsmq_tui.protocol.server.status import ServerInfo, ServerStatus, SlowCommand
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.overview.server import ServerScreen
from rsmq_tui.tui.servers import WatchedServer
from tests.tui.driving import opened, play, poll_again, press_for_screen, resized, says, settled, until
from tests.tui.reading import app_of, text_of
from tests.tui.scripted import START_MS, FakeClock, ScriptedSource
from tests.tui.states import poll_of, queue_of

INFO = {
    "redis_version": "7.2.11",
    "role": "master",
    "maxmemory": "1000000",
    "maxmemory_policy": "allkeys-lru",
    "used_memory": "250000",
    "connected_clients": "12",
    "blocked_clients": "3",
}
REFUSED = Failure("noperm", "permission denied", "grant it")


def status_of(info: dict[str, str], node: str = "") -> ServerStatus:
    slow = (SlowCommand(START_MS - 5_000, 12_345, ("EVAL", "\x1b[2J[bold]x")),)
    return ServerStatus(node, START_MS, info, None, slow, REFUSED)


class AskedSource(ScriptedSource):
    """A source whose server can be asked; ``held`` holds its answers back."""

    def __init__(self, clock: FakeClock | None = None, *, place: str = "", info: dict[str, str] = INFO) -> None:
        super().__init__(clock, place=place)
        self.statuses: Sequence[ServerStatus] = (status_of(info),)
        self.asked = 0
        self.problem: str | None = None
        self.held: asyncio.Event | None = None

    async def server(self) -> tuple[ServerStatus, ...]:
        self.asked += 1
        if self.held is not None:
            await self.held.wait()
        if self.problem is not None:
            raise PeekError(self.problem)
        return tuple(self.statuses)


@asynccontextmanager
async def on_the_server(source: AskedSource, size: tuple[int, int] = (120, 30)) -> AsyncIterator[Pilot[None]]:
    async with opened(source, [queue_of("orders")], size=size) as pilot:
        await press_for_screen(pilot, "i", ServerScreen)
        await settled(pilot)
        yield pilot


def shown(pilot: Pilot[None]) -> str:
    return " ".join(text_of(app_of(pilot)).split())


async def test_what_is_odd_about_a_server_is_said_with_what_to_do() -> None:
    async with on_the_server(AskedSource()) as pilot:
        text = shown(pilot)
        assert "▲ maxmemory-policy allkeys-lru evicts keys when 976.6 KiB are full, including whole queues" in text
        assert "→ CONFIG SET maxmemory-policy noeviction" in text
        assert "clients 12 clients, 3 blocked" in text
        assert "slow log 12.3 ms, 5 s ago: EVAL ␛[2J[bold]x" in text
        assert "latency events may not be read (LATENCY)" in text
        assert "round trip" in text
        await pilot.press("escape")
        await says(pilot, "VERDICT")


async def test_when_the_memory_is_full_is_said_of_the_server_that_is_polled() -> None:
    source = AskedSource(info={**INFO, "run_id": "abc"})
    async with on_the_server(source) as pilot:
        assert "memory full" not in shown(pilot)
        info = ServerInfo("abc", 1, "master", 0, 250_000, 1_000_000, START_MS)
        source.play(replace(source.last, info=info))
        await until(
            pilot, lambda: "memory full unknown: it is not filling within a day" in shown(pilot), "it is unknown"
        )
        limit = Limit("memory", source.last.at_ms + 2_400_000, source.last.at_ms + 3_600_000)
        source.play(replace(source.last, memory_limit=limit))
        words = "memory full ▲ in 40m–1h 0m, at the rates of the last ten minutes"
        await until(pilot, lambda: words in shown(pilot), "the forecast is shown")
        source.play(replace(source.last, memory_limit=limit._replace(soonest_ms=1, latest_ms=1)))
        await until(pilot, lambda: "memory full ▲ its limit is reached" in shown(pilot), "it is full")
        source.play(replace(source.last, info=info._replace(run_id="another")))
        await until(pilot, lambda: "memory full" not in shown(pilot), "of another server nothing is said")


@pytest.mark.parametrize("columns", [150, 80, 50])
async def test_the_overview_says_that_the_memory_is_full(columns: int) -> None:
    source = AskedSource()
    async with opened(source, [queue_of("orders")], size=(columns, 24)) as pilot:
        words = "! memory is full, messages are refused"
        assert words not in shown(pilot)
        info = ServerInfo("abc", 1, "master", 0, 1_000_001, 1_000_000, START_MS, maxmemory_policy="noeviction")
        source.play(replace(source.last, info=info))
        await until(pilot, lambda: words in shown(pilot), "it is said")


async def test_it_asks_every_two_seconds_at_most_and_only_while_it_is_shown() -> None:
    source = AskedSource()
    async with on_the_server(source) as pilot:
        assert source.asked == 1
        source.clock.now_s += 1.9
        await poll_again(pilot)
        assert source.asked == 1
        source.clock.now_s += 0.2
        await poll_again(pilot)
        assert source.asked == 2
        await pilot.press("escape")
        await settled(pilot)
        source.clock.now_s += 60
        await poll_again(pilot)
        assert source.asked == 2


async def test_it_asks_again_at_once_on_request_but_never_twice_at_a_time() -> None:
    source = AskedSource()
    async with on_the_server(source) as pilot:
        await pilot.press("r")
        await poll_again(pilot)
        assert source.asked == 2
        source.held = asyncio.Event()
        source.clock.now_s += 10
        for _ in range(2):
            source.play(replace(source.last, at_ms=source.last.at_ms + 1000))
            await until(pilot, lambda: app_of(pilot).dashboard.snapshot is source.last, "the snapshot arrives")
            source.clock.now_s += 10
        await until(pilot, lambda: source.asked == 3, "it asks")
        source.held.set()
        await settled(pilot)
        assert source.asked == 3


async def test_a_server_that_does_not_answer_keeps_its_last_status_and_is_not_asked() -> None:
    source = AskedSource()
    async with on_the_server(source) as pilot:
        source.clock.now_s += 10
        source.play_failure(Failure("timeout", "no answer within 5 s", "is it busy?"))
        await says(pilot, "stale")
        assert source.asked == 1
        assert "12 clients" in shown(pilot)
        source.problem = "permission denied\x1b[2J"
        source.clock.now_s += 10
        await poll_again(pilot)
        assert "! permission denied␛[2J" in shown(pilot)
        assert "12 clients" in shown(pilot)


async def test_a_server_that_never_answered_is_not_being_read() -> None:
    source = AskedSource()
    async with opened(source, size=(120, 30)) as pilot:
        source.play_failure(Failure("refused", "connection refused", "check that the server is running"))
        await says(pilot, "connection refused")
        await press_for_screen(pilot, "i", ServerScreen)
        await until(pilot, lambda: "Try: check that the server is running." in shown(pilot), "it says what to try")
        assert "connection refused." in shown(pilot)
        assert "reading" not in shown(pilot)
        source.problem = "permission denied"
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        await until(pilot, lambda: "! permission denied" in shown(pilot), "it answers, but not this")
        assert "reading" not in shown(pilot)
        assert "connection refused" not in shown(pilot)
        source.problem = None
        source.clock.now_s += 10
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        await until(pilot, lambda: "12 clients" in shown(pilot), "it is read")


async def test_a_user_who_may_read_nothing_is_not_refused_again_and_again() -> None:
    source = AskedSource()
    source.statuses = (ServerStatus("", START_MS, REFUSED, None, REFUSED, REFUSED),)
    async with on_the_server(source) as pilot:
        assert "this user may not read" in shown(pilot)
        source.clock.now_s += 60
        await poll_again(pilot)
        assert source.asked == 1
        await pilot.press("r")
        await poll_again(pilot)
        assert source.asked == 2


async def test_each_node_of_a_cluster_is_shown() -> None:
    source = AskedSource()
    gone = ServerStatus("h:7001", None, Failure("refused", "no connection", "is it up?"), None, REFUSED, REFUSED)
    source.statuses = (status_of(INFO, "h:7000"), gone)
    async with on_the_server(source, size=(100, 60)) as pilot:
        text = shown(pilot)
        assert text.index("node h:7000") < text.index("server Redis 7.2.11") < text.index("node h:7001")
        assert "server ▲ this node cannot be read: no connection" in text


async def test_one_server_after_the_other() -> None:
    clock = FakeClock()
    sources = [
        AskedSource(clock, place=place, info={**INFO, "connected_clients": clients})
        for place, clients in (("prod", "11"), ("prod jobs", "11"), ("test", "22"))
    ]
    # Two namespaces of one server are one server.
    servers = {"prod": "redis://prod:6379/0", "prod jobs": "redis://prod:6379/0", "test": "redis://test:6379/0"}
    app = RsmqApp([WatchedServer(source, place=source.last.place, name="x") for source in sources], clock=clock)
    async with app.run_test(size=(120, 30)) as pilot:
        for source in sources:
            polled = poll_of(source, [queue_of("orders")._replace(place=source.last.place)])
            source.play(replace(polled, place=source.last.place, server=servers[source.last.place]))
        await until(pilot, lambda: app.dashboard.snapshot and len(app.dashboard.snapshot.parts) == 3, "all are there")
        await press_for_screen(pilot, "i", ServerScreen)
        await until(pilot, lambda: "11 clients" in shown(pilot), "the first one is shown")
        assert "server 1 of 2" in shown(pilot)
        await pilot.press("l")
        await until(pilot, lambda: "22 clients" in shown(pilot), "the next one is shown")
        assert "redis://test:6379/0 server 2 of 2" in shown(pilot)
        await pilot.press("l")
        await until(pilot, lambda: "11 clients" in shown(pilot), "the first one follows the last")


async def test_it_fits_any_terminal() -> None:
    async with on_the_server(AskedSource()) as pilot:
        for size in ((40, 10), (12, 4), (1, 1), (200, 60)):
            await resized(pilot, *size)
            assert {len(line) for line in text_of(app_of(pilot)).splitlines()} == {size[0]}


async def test_a_real_server() -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as client:
        # By this clock, no time passes.
        clock = FakeClock()
        app = RsmqApp([WatchedServer(RsmqPoller(RsmqReader(server.url), interval_s=0.05, clock=clock))], clock=clock)
        async with app.run_test(size=(120, 30)) as pilot:
            await until(pilot, lambda: app.dashboard.snapshot is not None, "the first poll arrives")
            calls = int(client.info("commandstats").get("cmdstat_info", {"calls": 0})["calls"])
            await press_for_screen(pilot, "i", ServerScreen)
            await until(pilot, lambda: "nothing is saved to disk" in shown(pilot), "the findings are shown")
            assert "Valkey" in shown(pilot)
            # The screen's one reading, the poller's one of four sections, and the test's two, in many polls.
            assert int(client.info("commandstats")["cmdstat_info"]["calls"]) <= calls + 7
