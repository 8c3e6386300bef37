"""The life of a message: the stages that follow from what polls see, and the screen on a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import redis
from textual.pilot import Pilot

from rsmq_tui.monitor import MessageRow, MessageState, MessageView, RsmqPoller
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import ListQueue, Rsmq, RsmqReader
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.queue.life import Life, LifeScreen, StageName, next_sentence, unseen_sentence
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from tests.tui import driving
from tests.tui.driving import play, press, press_for_screen, resized, says, settled, until
from tests.tui.reading import app_of, names_in, text_of
from tests.tui.scripted import ScriptedSource, messages_of
from tests.tui.states import poll_of, queue_of

T = 1_795_000_000_000
ID = "hofx9eacgt13nBibATawmrsysEpTcDbg"
VT_MS = 30_000


def row_of(
    due_ms: int, rc: int = 0, *, fr_ms: int | None = None, sent_ms: int | None = T, state: MessageState | None = None
) -> MessageRow:
    found = state or (MessageState.IN_FLIGHT if rc else MessageState.READY)
    return MessageRow(ID, str(due_ms), found, due_ms, sent_ms, rc, fr_ms, 7, b"{}")


def item_of(place: str, deadline_ms: int | None = None, sent_ms: int | None = T) -> MessageRow:
    state = MessageState.READY if place == "q" else MessageState.IN_FLIGHT
    return MessageRow(f"{place}:0:{0:040x}", "", state, deadline_ms, sent_ms, None, None, 7, b"{}")


def life_of(*seen: tuple[int, MessageRow | None], vt_ms: float | None = VT_MS) -> Life:
    """The life of a message that was seen so, each a number of ms after ``T``."""
    life = Life()
    life.vt_ms = vt_ms
    for at_ms, row in seen:
        known = next((row.id for _, row in seen if row is not None), ID)
        life.see(MessageView(T + at_ms, known if row is None else row.id, row, None, 7))
    return life


def stages(life: Life) -> list[tuple[str, float | None]]:
    return [(stage.name.value, None if stage.at_ms is None else stage.at_ms - T) for stage in life.stages]


def test_from_the_send_to_the_delete() -> None:
    first = row_of(T + 5_000 + VT_MS, 1, fr_ms=T + 5_000)
    second = row_of(T + 40_000 + VT_MS, 2, fr_ms=T + 5_000)
    life = life_of((1_000, row_of(T)), (6_000, first), (36_000, first), (41_000, second), (45_000, None))
    assert stages(life) == [
        ("sent", 0),
        ("ready", 0),
        ("in flight", 5_000),
        ("back", 35_000),
        ("received again", 40_000),
        ("deleted", 45_000),
    ]
    assert [life.lasted_ms(index, T + 50_000) for index in range(1, 5)] == [5_000, 30_000, 5_000, 5_000]
    assert life.stages[-1].after_ms == T + 41_000
    assert life.receives == 2
    assert next_sentence(life, T + 50_000, 5).startswith("Deleted, or removed in another way, between ")


def test_what_happened_before_it_was_first_seen_is_read_from_its_fields() -> None:
    row = row_of(T + 100_000 + VT_MS, 3, fr_ms=T + 2_000)
    life = life_of((101_000, row))
    assert stages(life) == [
        ("sent", 0),
        ("ready", 0),
        ("in flight", 2_000),
        ("back", None),
        ("received again", 100_000),
    ]
    assert [life.lasted_ms(index, T + 101_000) for index in (2, 3, 4)] == [None, None, 1_000]
    assert life.stages[-1].rc == 3
    # Without the timeout of its queue, it is not known when it was received last.
    assert stages(life_of((101_000, row), vt_ms=None))[-1] == ("received again", None)
    # It is ready again by now.
    assert stages(life_of((131_000, row)))[-1] == ("back", 130_000)


def test_receives_that_were_not_seen_are_told() -> None:
    first, second = (row_of(T + 2_000 + VT_MS, rc, fr_ms=T + 2_000) for rc in (1, 2))
    assert unseen_sentence(life_of((3_000, second))) == ""
    assert unseen_sentence(life_of((3_000, first), (36_000, second))) == ""
    assert unseen_sentence(life_of((3_000, row_of(T)))) == ""
    late = row_of(T + 900_000 + VT_MS, 396, fr_ms=T + 2_000)
    again = row_of(T + 940_000 + VT_MS, 400, fr_ms=T + 2_000)
    watched = unseen_sentence(life_of((901_000, late), (941_000, again)))
    assert watched.startswith("Of its 400 receives, 397 were before this screen was opened")
    third = row_of(T + 100_000 + VT_MS, 3, fr_ms=T + 2_000)
    assert unseen_sentence(life_of((101_000, third), (141_000, None))).startswith("Of its 3 receives, one was before ")
    assert unseen_sentence(life_of((1_000, item_of("q")), (2_000, item_of("q:processing")))) == ""


def test_a_delayed_message_becomes_ready_by_itself() -> None:
    row = row_of(T + 20_000, state=MessageState.DELAYED)
    life = life_of((1_000, row))
    assert stages(life) == [("sent", 0), ("delayed", 0)]
    assert "ready in 19 s" in next_sentence(life, T + 1_000, 5)
    assert stages(life.at(T + 20_500))[-1] == ("ready", 20_000)
    assert stages(life)[-1] == ("delayed", 0)
    assert stages(life_of((1_000, row), (21_000, row_of(T + 20_000))))[-1] == ("ready", 20_000)


def test_a_delayed_message_of_an_unknown_time() -> None:
    hidden = row_of(T + 20_000, sent_ms=None, state=MessageState.DELAYED)
    assert stages(life_of((1_000, hidden))) == [("delayed", None)]
    assert stages(life_of((1_000, row_of(T - 5, sent_ms=None)))) == [("ready", -5)]
    never = replace(hidden, due_ms=None)
    assert next_sentence(life_of((1_000, never)), T + 1_000, 5).startswith("It never becomes ready")


def test_a_receive_is_between_two_polls_where_nothing_says_when() -> None:
    first = row_of(T + 9_999_999, 1, fr_ms=T + 2_000)
    life = life_of((0, first), (1_000, row_of(T, 1, fr_ms=T + 2_000, state=MessageState.READY)), vt_ms=None)
    again = row_of(T + 9_999_999, 2, fr_ms=T + 2_000)
    life.see(MessageView(T + 3_000, ID, again, None, 7))
    assert stages(life)[-2:] == [("back", 0), ("received again", 3_000)]
    assert life.stages[-1].after_ms == T + 1_000


def test_hiding_and_releasing() -> None:
    held = row_of(T + 60_000, 1, fr_ms=T + 1_000)
    life = life_of((2_000, held), (3_000, replace(held, due_ms=T + 90_000)))
    # The same receive with a longer timeout.
    assert [stage.name for stage in life.stages].count(StageName.IN_FLIGHT) == 1
    assert life.stages[-1].ends_ms == T + 90_000
    life.see(MessageView(T + 5_000, ID, replace(held, due_ms=T + 4_000, state=MessageState.READY), None, 7))
    assert stages(life)[-1] == ("back", 4_000)
    # Hidden while it was ready, without name received.
    unread = life_of((1_000, row_of(T)), (2_000, row_of(T + 50_000, state=MessageState.DELAYED)))
    assert stages(unread)[-1] == ("delayed", 2_000)


def test_an_undo_brings_it_back() -> None:
    life = life_of((1_000, row_of(T)), (2_000, None), (3_000, None), (4_000, row_of(T)))
    assert [stage.name for stage in life.stages[-2:]] == [StageName.GONE, StageName.READY]
    assert life.stages[-2].at_ms == T + 2_000


def test_poison_is_told() -> None:
    row = row_of(T + 2_000, 5, fr_ms=T + 100)
    assert next_sentence(life_of((3_000, row)), T + 3_000, 5).endswith("From 5 receives on it is poison.")
    assert "poison" not in next_sentence(life_of((3_000, row)), T + 3_000, 6)


def test_a_list_item_with_its_lease() -> None:
    taken, again = item_of("p", T + 12_000), item_of("p", T + 30_000)
    life = life_of(
        (1_000, item_of("q")), (3_000, taken), (13_000, taken), (15_000, item_of("q")), (16_000, again), (17_000, None)
    )
    assert [stage.name for stage in life.stages] == [
        *(
            StageName.SENT,
            StageName.READY,
            StageName.IN_FLIGHT,
            StageName.EXPIRED,
            StageName.BACK,
            StageName.AGAIN,
            StageName.GONE,
        )
    ]
    assert [stage.at_ms and stage.at_ms - T for stage in life.stages[2:4]] == [3_000, 12_000]
    assert life.receives == 2
    assert next_sentence(life, T + 18_000, 5).startswith("Acknowledged, or removed in another way, between ")


def test_a_list_item_that_was_taken_before() -> None:
    assert stages(life_of((1_000, item_of("p", T + 5_000, None)))) == [("in flight", None)]
    assert stages(life_of((9_000, item_of("p", T + 5_000, None))))[-1] == ("expired", 5_000)
    unleased = replace(item_of("p", None), state=MessageState.UNLEASED)
    assert next_sentence(life_of((1_000, unleased)), T + 1_000, 5).startswith("It has no lease")
    # Its lease was extended: no new stage. It was returned and taken again between two polls: one.
    assert len(stages(life_of((1_000, item_of("p", T + 5_000)), (2_000, item_of("p", T + 8_000))))) == 2
    over = life_of((1_000, item_of("p", T + 5_000)), (6_000, item_of("p", T + 5_000)), (7_000, item_of("p", T + 9_000)))
    assert stages(over)[-1] == ("received again", 7_000)
    # While a reaper returns it, it may be seen without a lease.
    returning = life_of((1_000, item_of("p", T + 5_000)), (6_000, item_of("p", T + 5_000)), (7_000, unleased))
    assert stages(returning)[-1] == ("expired", 5_000)


def test_nothing_is_said_of_a_message_that_was_never_there() -> None:
    life = life_of((1_000, None))
    assert (life.stages, next_sentence(life, T, 5)) == ([], "")


@pytest.fixture
def queues(client: redis.Redis) -> Rsmq:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    return rsmq


@asynccontextmanager
async def _opened(source: RsmqPoller | ListPoller) -> AsyncIterator[Pilot[None]]:
    app = RsmqApp([WatchedServer(source)])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: names_in(pilot), "a queue is shown")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen), "the queue opens")
        await until(pilot, lambda: len(names_in(pilot)) == 1, "its message is shown")
        yield pilot


async def _is(pilot: Pilot[None], screen: LifeScreen, *names: StageName) -> None:
    await until(pilot, lambda: tuple(stage.name for stage in screen.life.stages) == names, f"it is {names[-1]}")


async def test_a_message_on_a_server(redis_url: str, queues: Rsmq) -> None:
    id = queues.send_message("orders", "{}")
    async with _opened(RsmqPoller(RsmqReader(redis_url), interval_s=0.05)) as pilot:
        screen = await press_for_screen(pilot, "W", LifeScreen)
        begun = [StageName.SENT, StageName.READY]
        await _is(pilot, screen, *begun)
        await says(pilot, "The next consumer gets it")
        assert queues.receive_message("orders") is not None
        await _is(pilot, screen, *begun, StageName.IN_FLIGHT)
        await says(pilot, "or it is ready again in ")
        await says(pilot, "left of 10m")
        queues.change_message_visibility("orders", id, 0)
        await _is(pilot, screen, *begun, StageName.IN_FLIGHT, StageName.BACK)
        await says(pilot, "It was received 1 time and not deleted")
        assert queues.receive_message("orders") is not None
        await _is(pilot, screen, *begun, StageName.IN_FLIGHT, StageName.BACK, StageName.AGAIN)
        assert "again" in text_of(app_of(pilot))
        await resized(pilot, 160, 48)
        await says(pilot, "received again")
        queues.delete_message("orders", id)
        await _is(pilot, screen, *begun, StageName.IN_FLIGHT, StageName.BACK, StageName.AGAIN, StageName.GONE)
        await says(pilot, "Deleted, or removed in another way, between ")
        # Nothing of it was changed by watching.
        assert screen.life.receives == 2
        await pilot.press("escape")
        await until(pilot, lambda: app_of(pilot).screen is not screen, "back on the queue")


async def test_the_screen_says_that_it_does_not_count_earlier_receives(redis_url: str, queues: Rsmq) -> None:
    queues.send_message("orders", "again and again")
    for _ in range(6):
        assert queues.receive_message("orders", vt=0) is not None
    async with _opened(RsmqPoller(RsmqReader(redis_url), interval_s=0.05)) as pilot:
        await press_for_screen(pilot, "W", LifeScreen)
        await says(pilot, "Of its 6 receives, 4 were before this screen was opened, or between two polls")


async def test_an_item_on_a_server(redis_url: str, client: redis.Redis) -> None:
    queue = ListQueue(client, b"queue:mail")
    queue.push(b"one")
    async with _opened(ListPoller(ListReader(redis_url, ListNames(), ["queue:*"]), interval_s=0.05)) as pilot:
        screen = await press_for_screen(pilot, "W", LifeScreen)
        await _is(pilot, screen, StageName.READY)
        lease = queue.take(100_000)
        assert lease is not None
        await _is(pilot, screen, StageName.READY, StageName.IN_FLIGHT)
        await says(pilot, "Its worker acknowledges it, or its lease ends in 1m")
        seconds, _ = client.time()
        client.zadd(queue.names.leases_key(queue.key), {lease.member: seconds * 1000})
        await _is(pilot, screen, StageName.READY, StageName.IN_FLIGHT, StageName.EXPIRED)
        await says(pilot, "a reaper returns it")
        assert any(queue.reap(grace_ms=0))
        await _is(pilot, screen, StageName.READY, StageName.IN_FLIGHT, StageName.EXPIRED, StageName.BACK)
        lease = queue.take(100_000)
        assert lease is not None
        taken = (StageName.READY, StageName.IN_FLIGHT, StageName.EXPIRED, StageName.BACK, StageName.AGAIN)
        await _is(pilot, screen, *taken)
        assert queue.ack(lease)
        await _is(pilot, screen, *taken, StageName.GONE)
        await says(pilot, "Acknowledged, or removed in another way, between ")
        assert screen.life.receives == 2


async def test_a_message_whose_queue_is_deleted(redis_url: str, queues: Rsmq) -> None:
    queues.send_message("orders", "{}")
    async with _opened(RsmqPoller(RsmqReader(redis_url), interval_s=0.05)) as pilot:
        screen = await press_for_screen(pilot, "W", LifeScreen)
        await _is(pilot, screen, StageName.SENT, StageName.READY)
        queues.delete_queue("orders")
        await _is(pilot, screen, StageName.SENT, StageName.READY, StageName.GONE)


async def test_a_read_that_ends_after_a_switch_of_the_namespace_is_of_another_message(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.messages["orders"] = messages_of([b"{}"])
    read, goes_on = source.read, asyncio.Event()

    async def slow(queue: str, id: str) -> MessageView:
        view = await read(queue, id)
        await goes_on.wait()
        return view

    async with driving.opened(source) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=1)]))
        await press(pilot, "enter")
        monkeypatch.setattr(source, "read", slow)
        screen = await press_for_screen(pilot, "W", LifeScreen)
        source.play(replace(source.last, ns="mail"))
        await until(pilot, lambda: app_of(pilot).dashboard.snapshot is source.last, "the namespace is switched")
        goes_on.set()
        await settled(pilot)
        assert screen.life.seen is None
        await play(pilot, source, replace(source.last, at_ms=source.last.at_ms + 1000))
        await until(pilot, lambda: screen.life.seen is not None, "it is read again")
