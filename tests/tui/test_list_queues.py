"""List queues beside RSMQ's, on a real server: in one table, looked into and changed with the same keys."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from rsmq_tui.cli.dashboard import _servers
from rsmq_tui.listserver import ListServer
from rsmq_tui.monitor import QueueState, Verdict
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import Address, ListQueue, Rsmq
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.lines import KeyHints
from tests.tui.changing import confirm, fill, made, past_of_undo, say_yes
from tests.tui.driving import press, says, until, wait_for_screen
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of

pytestmark = pytest.mark.slow

KEY = "queue:thumbnails"


@pytest.fixture
def thumbnails(client: redis.Redis) -> ListQueue:
    """Six jobs, of which three are being worked on; the lease of the first has run out. And a queue of RSMQ."""
    Rsmq(client).create_queue("orders")
    Rsmq(client).send_messages("orders", ["one", "two"])
    queue = ListQueue(client, "thumbnails")
    queue.push(*(f"job-{number}" for number in range(6)))
    first = queue.take(60_000)
    assert first is not None
    (member,) = client.zrange(f"{KEY}:leases", 0, -1)
    client.zadd(f"{KEY}:leases", {member: 1_000_000_000_000})
    queue.take(600_000)
    queue.take(600_000)
    return queue


@asynccontextmanager
async def watching(url: str, folder: Path, *, read_only: bool = False) -> AsyncIterator[Pilot[None]]:
    profile = Profile("", Address(url), lists=("queue:*",), interval_s=0.05, read_only=read_only)
    async with RsmqApp(_servers((profile,), folder)).run_test(size=(170, 40), notifications=True) as pilot:
        await until(pilot, lambda: len(names_in(pilot)) == 2, "both queues are shown")
        yield pilot


async def _open(pilot: Pilot[None], queue: str) -> None:
    table = table_of(pilot)
    table.place_cursor([row.name for row in table.rows].index(queue))
    await press(pilot, "enter")
    await wait_for_screen(pilot, QueueScreen)


def _ids(pilot: Pilot[None]) -> list[str]:
    return [key.rpartition(":")[0] for key in table_of(pilot).keys]


async def test_both_kinds_stand_in_one_table_of_one_server(
    redis_url: str, thumbnails: ListQueue, tmp_path: Path
) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        await says(pilot, "leaking")
        head, first, second = (line.split() for line in lines_of(table_of(pilot))[:3])
        assert "SERVER" not in head
        assert head[1:3] == ["KIND", "QUEUE"]
        assert first[1:8] == ["leaking", "list", KEY, "3", "3", "6", "–"]
        assert second[2:4] == ["rsmq", "orders"]
        shown = text_of(app_of(pilot)).splitlines()[0]
        assert "rsmq and lists" in shown
        # Lists do not count what comes and goes.
        assert text_of(app_of(pilot)).count("/s  without lists") == 2
        assert "2 queues · 8 messages" in shown
        states = {queue.name: queue for queue in app_of(pilot).dashboard.snapshot.queues}
        assert states[KEY].verdict is Verdict.LEAKING
        assert (states[KEY].expired, states["orders"].expired) == (1, None)


async def test_n_on_a_list_shows_the_namespaces_of_its_server(
    redis_url: str, thumbnails: ListQueue, tmp_path: Path
) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        table = table_of(pilot)
        table.place_cursor([row.name for row in table.rows].index(KEY))
        await press(pilot, "n")
        await says(pilot, "enter switches")
        options = pilot.app.screen.query_one(OptionList)
        assert [str(option.prompt) for option in options.options] == ["rsmq"]


async def test_all_of_a_tab_are_as_many_as_it_has(redis_url: str, thumbnails: ListQueue, tmp_path: Path) -> None:
    thumbnails.take(600_000)
    async with watching(redis_url, tmp_path) as pilot:
        await _open(pilot, KEY)
        await press(pilot, "l", "A")
        await says(pilot, "all 2 matching")
        await press(pilot, "l", "A")
        await says(pilot, "all 4 matching")


async def test_its_tabs_are_those_of_a_list(redis_url: str, thumbnails: ListQueue, tmp_path: Path) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        await _open(pilot, KEY)
        await until(pilot, lambda: len(_ids(pilot)) == 6, "all items are shown")
        assert _ids(pilot) == ["q:0", "q:1", "q:2", "p:0", "p:1", "p:2"]
        text = text_of(app_of(pilot))
        assert "no lease 0" in text
        assert "a Redis List · 3 in processing · 1 lease expired" in text
        assert "Leases that end in" in text
        await press(pilot, "l", "l")
        await until(pilot, lambda: _ids(pilot) == ["p:0", "p:1", "p:2"], "what is in processing is shown")
        await press(pilot, "l")
        await until(pilot, lambda: _ids(pilot) == ["p:0"], "what has expired is found")
        await press(pilot, "enter")
        await says(pilot, "job-0")


async def test_an_item_goes_back_into_its_list_and_undo_takes_it_out_again(
    redis_url: str, thumbnails: ListQueue, client: redis.Redis, tmp_path: Path
) -> None:
    before = client.zrange(f"{KEY}:leases", 0, -1, withscores=True)
    async with watching(redis_url, tmp_path) as pilot:
        await _open(pilot, KEY)
        await press(pilot, "l", "l")
        await until(pilot, lambda: _ids(pilot) == ["p:0", "p:1", "p:2"], "what is in processing is shown")
        await press(pilot, "0")
        assert await confirm(pilot) == "requeued 1, skipped 0, failed 0 · u undoes"
        assert thumbnails.item_at(-1) == b"job-0"
        assert client.zcard(f"{KEY}:leases") == 2
        await press(pilot, "u")
        assert await confirm(pilot) == "moved back 1, skipped 0, failed 0"
        assert thumbnails.length() == 3
        assert client.lrange(f"{KEY}:processing", 0, -1) == [b"job-2", b"job-1", b"job-0"]
        assert client.zrange(f"{KEY}:leases", 0, -1, withscores=True) == before


async def test_the_key_undoes_what_the_outcome_says_though_the_cursor_is_on_the_other_kind(
    redis_url: str, thumbnails: ListQueue, client: redis.Redis, tmp_path: Path
) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        table = table_of(pilot)
        table.place_cursor([row.name for row in table.rows].index("orders"))
        await press(pilot, "x")
        await until(pilot, lambda: pilot.app.screen.query("#typed"), "the name is asked for")
        await until(pilot, lambda: pilot.app.screen.query_one("#typed").display, "the name is asked for")
        await pilot.press(*"orders")
        assert (await confirm(pilot)).endswith(" · u undoes")
        await until(pilot, lambda: len(names_in(pilot)) == 1, "the queue is gone, and the cursor is on the list")
        assert "u undoes" in text_of(app_of(pilot))

        await press(pilot, "u")
        await say_yes(pilot)

        assert (await made(pilot)).startswith("put back")
        assert [message.body for message in Rsmq(client).receive_messages("orders", 10)] == [b"one", b"two"]


async def test_it_says_what_is_only_for_items_in_processing(
    redis_url: str, thumbnails: ListQueue, tmp_path: Path
) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        await _open(pilot, KEY)
        await until(pilot, lambda: len(_ids(pilot)) == 6, "all items are shown")
        await press(pilot, "K")
        await says(pilot, "this applies only to items in processing.")


async def test_items_move_to_a_queue_of_rsmq(
    redis_url: str, thumbnails: ListQueue, client: redis.Redis, tmp_path: Path
) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        await _open(pilot, KEY)
        await until(pilot, lambda: len(_ids(pilot)) == 6, "all items are shown")
        await press(pilot, "space", "space", "M")
        pilot.app.screen.query_one("#target", Input).value = "rsmq:orders"
        await press(pilot, "enter")
        assert await confirm(pilot) == "moved 2, skipped 0, failed 0 · u undoes"
        bodies = {message.body for message in Rsmq(client).receive_messages("orders", 10)}
        assert bodies == {b"one", b"two", b"job-3", b"job-4"}
        assert thumbnails.peek() == [b"job-5"]


async def test_keys_are_those_of_the_kind(redis_url: str, thumbnails: ListQueue, tmp_path: Path) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        hints, before = {}, {}
        for queue in (KEY, "orders"):
            table = table_of(pilot)
            table.place_cursor([row.name for row in table.rows].index(queue))
            await press(pilot, "t", "t", "t")
            before[queue] = lines_of(pilot.app.screen.query_one(KeyHints))[0]
            await _open(pilot, queue)
            await press(pilot, "question_mark", "escape")
            hints[queue] = lines_of(pilot.app.screen.query_one(KeyHints))[0]
            await press(pilot, "q")
            await wait_for_screen(pilot, OverviewScreen)
        assert "R requeue" in before[KEY]
        assert "c create" not in before[KEY]
        assert "R redrive" in before["orders"]
        assert "c create" in before["orders"]
        assert "0 requeue" in hints[KEY]
        assert "0 release" in hints["orders"]
        assert "requeue" not in hints["orders"]


async def test_it_tells_who_waits(redis_url: str, thumbnails: ListQueue, tmp_path: Path) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        await _open(pilot, KEY)
        await press(pilot, "B")
        await says(pilot, "0 consumers blocked on lists")


async def test_the_screen_of_a_list_shows_who_waits_if_the_server_tells_it(
    list_server: ListServer, tmp_path: Path
) -> None:
    list_server.stop_clock()
    clients = [redis.Redis(port=list_server.port) for _ in range(3)]
    for queue in ("queue:one", "queue:two"):
        clients[0].rpush(queue, "x")
    async with watching(list_server.url, tmp_path) as pilot:
        await _open(pilot, "queue:one")
        assert "waiting:" not in text_of(app_of(pilot))
        clients[0].delete("queue:one")
        waits = [asyncio.create_task(asyncio.to_thread(client.blpop, ["queue:one"])) for client in clients]
        while list_server.do(lambda: list_server.engine.blocking.clients) < len(waits):
            await pilot.pause()
        list_server.advance_clock(41)
        await says(pilot, "waiting: 3, the first for 41 s")
        with redis.Redis(port=list_server.port) as producer:
            producer.rpush("queue:one", "a", "b", "c", "d")
        await asyncio.gather(*waits)
        list_server.advance_clock(1)
        await until(pilot, lambda: "waiting:" not in text_of(app_of(pilot)), "nobody waits")


async def _open_item(pilot: Pilot[None], steps: int, body: str, items: int = 6) -> MessageScreen:
    """Open one of so many items."""
    await _open(pilot, KEY)
    await until(pilot, lambda: len(_ids(pilot)) == items, "all items are shown")
    await press(pilot, *["j"] * steps, "enter")
    screen = await wait_for_screen(pilot, MessageScreen)
    await says(pilot, body)
    return screen


# Of the items from the next to be taken on, then in processing: which one, the key, what is typed, what is told.
OF_AN_ITEM: Sequence[tuple[int, str, str, dict[str, str], str, str]] = (
    (1, "job-4", "x", {}, "deleted 1,", "no longer in the queue"),
    (4, "job-1", "0", {}, "requeued 1,", "ready · waiting for a consumer"),
    (4, "job-1", "plus", {"seconds": "7200"}, "extended 1,", "in flight · its lease ends in 1h 59m"),
    (4, "job-1", "K", {}, "acked 1,", "no longer in the queue"),
    (1, "job-4", "M", {"target": "rsmq:orders"}, "moved 1,", "no longer in the queue"),
)


@pytest.mark.parametrize(("steps", "body", "key", "values", "shown", "facts"), OF_AN_ITEM)
async def test_the_item_that_is_shown_whole(
    redis_url: str,
    thumbnails: ListQueue,
    client: redis.Redis,
    tmp_path: Path,
    steps: int,
    body: str,
    key: str,
    values: dict[str, str],
    shown: str,
    facts: str,
) -> None:
    # One with the same bytes is another one.
    thumbnails.push("job-4")
    before = sorted(thumbnails.peek()), sorted(client.lrange(f"{KEY}:processing", 0, -1))
    async with watching(redis_url, tmp_path) as pilot:
        await _open(pilot, KEY)
        await until(pilot, lambda: len(_ids(pilot)) == 7, "all items are shown")
        is_processing = steps > 2
        await press(pilot, *["j"] * (steps + is_processing), "enter")
        await says(pilot, body)
        await press(pilot, key)
        if values:
            await fill(pilot, **values)
        await confirm(pilot, shown)
        await says(pilot, facts)
        assert isinstance(pilot.app.screen, MessageScreen)
        await press(pilot, "u")
        await confirm(pilot, f"{past_of_undo(shown)}1,")
        await until(pilot, lambda: "no longer in the queue" not in text_of(app_of(pilot)), "nothing is said any more")
        await says(pilot, body)
    # It comes back where it is taken next, or among what is in processing as the oldest.
    assert (sorted(thumbnails.peek()), sorted(client.lrange(f"{KEY}:processing", 0, -1))) == before


async def test_keys_of_an_item_are_those_of_its_kind(redis_url: str, thumbnails: ListQueue, tmp_path: Path) -> None:
    async with watching(redis_url, tmp_path) as pilot:
        await _open_item(pilot, 0, "job-3")
        hints = lines_of(pilot.app.screen.query_one(KeyHints))[0]
        assert "0 requeue" in hints
        assert "+ extend lease" in hints
        assert "redrive" not in hints
        await press(pilot, "R")
        assert isinstance(pilot.app.screen, MessageScreen)


async def test_read_only_holds_for_lists_too(redis_url: str, thumbnails: ListQueue, tmp_path: Path) -> None:
    async with watching(redis_url, tmp_path, read_only=True) as pilot:
        await _open(pilot, KEY)
        await press(pilot, "x", "0", "o", "equals_sign", "K")
        assert isinstance(pilot.app.screen, QueueScreen)
        await until(pilot, lambda: len(_ids(pilot)) == 6, "all items are shown")
        await press(pilot, "enter", "x", "0", "plus", "minus", "M", "C", "e", "K", "u")
        assert isinstance(pilot.app.screen, MessageScreen)
        assert thumbnails.length() == 3
        assert not (tmp_path / "journal.sqlite").exists()


async def test_an_item_that_is_put_back_by_hand_ends_no_trouble(
    redis_url: str, thumbnails: ListQueue, client: redis.Redis, tmp_path: Path
) -> None:
    # Two of the three leases are past their deadline, that of job-0 first.
    _, second = client.zrange(f"{KEY}:leases", 0, 1)
    client.zadd(f"{KEY}:leases", {second: 1_000_000_000_001})
    async with watching(redis_url, tmp_path) as pilot:
        dashboard = app_of(pilot).dashboard

        def state() -> QueueState:
            return next(queue for queue in dashboard.snapshot.queues if queue.name == KEY)

        await until(pilot, lambda: state().verdict is Verdict.LEAKING, "leases have expired")
        await _open_item(pilot, 3, "job-0")
        seen = []
        for key in ("0", "u"):
            was = state()
            await press(pilot, key)
            await confirm(pilot)
            await until(pilot, partial(_differs, state, was), "a poll has seen it")
            await until(pilot, lambda: not dashboard.changes.is_running, "another change may begin")
            seen.append((state().verdict, state().pending_since_ms, state().since_ms))
        assert seen == [(Verdict.LEAKING, None, 1_000_000_000_000)] * 2


def _differs(state: Callable[[], QueueState], before: QueueState) -> bool:
    return state().expired != before.expired
