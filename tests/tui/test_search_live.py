"""Filter, tabs, marks and groups on a real server: what is found is what is there, and nothing of it changes."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import redis
from textual.pilot import Pilot

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.triage.scope import Everything, Marked, Matching
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.tui.asked import Asked, keep_what_is_asked
from tests.tui.driving import says, until
from tests.tui.reading import lines_of, names_in, table_of

pytestmark = pytest.mark.slow

COUNT, IN_FLIGHT, DELAYED, POISON = 3_000, 40, 25, 6


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return keep_what_is_asked(monkeypatch)


class Planted(NamedTuple):
    """The ids of messages: all that are not delayed in the order of sending, those in flight, and the poison."""

    sent: list[str]
    in_flight: list[str]
    poison: list[str]


@pytest.fixture
def planted(client: redis.Redis) -> Iterator[Planted]:
    """A queue with messages in every state; nothing of it may change."""
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    bodies = [f'{{"type": "{"refund" if number % 5 == 0 else "order"}", "n": {number}}}' for number in range(COUNT)]
    sent = list(rsmq.send_messages("orders", bodies))
    rsmq.send_messages("orders", ['{"type": "late"}'] * DELAYED, delay=900)
    in_flight = [message.id for message in rsmq.receive_messages("orders", IN_FLIGHT)]
    poison = in_flight[:POISON]
    client.hset("rsmq:orders:Q", mapping={f"{id}:rc": 5 for id in poison})
    before = {key: client.dump(key) for key in client.scan_iter()}
    yield Planted(sent, in_flight, poison)
    assert {key: client.dump(key) for key in client.scan_iter()} == before


@asynccontextmanager
async def _opened(url: str, rows: int | None = None) -> AsyncIterator[Pilot[None]]:
    async with RsmqApp([WatchedServer(RsmqPoller(RsmqReader(url), interval_s=0.05))]).run_test(size=(130, 34)) as pilot:
        await until(pilot, lambda: names_in(pilot) == ["orders"], "the queue is shown")
        await pilot.press("enter")
        await until(pilot, lambda: len(names_in(pilot)) == (rows or table_of(pilot).visible_rows), "a page is shown")
        yield pilot


async def test_tabs_hold_what_is_in_that_state(redis_url: str, planted: Planted, asked: Asked) -> None:
    async with _opened(redis_url) as pilot:
        await pilot.press("l", "l")
        await says(pilot, f"[ in flight {IN_FLIGHT} ]")
        assert set(names_in(pilot)) == set(planted.in_flight)
        await pilot.press("l")
        await says(pilot, f"[ delayed {DELAYED} ]")
        assert not set(names_in(pilot)) & set(planted.sent)
        await pilot.press("l")
        await says(pilot, f"[ poison {POISON} ]")
        assert set(names_in(pilot)) == set(planted.poison)
        await pilot.press("asterisk", "x")
        assert isinstance(asked.scope, Marked)
        assert {shown.id for shown in asked.scope.messages} == set(planted.poison)
        assert {shown.rc for shown in asked.scope.messages} == {5}


async def test_a_filter_finds_all_and_a_takes_all_of_them(redis_url: str, planted: Planted, asked: Asked) -> None:
    async with _opened(redis_url) as pilot:
        await pilot.press("slash", *"json.type=refund", "enter")
        await says(pilot, "600 matches · as of")
        # By due time: what is in flight comes last.
        refunds = set(planted.sent[::5])
        late = refunds.intersection(planted.in_flight)
        assert set(names_in(pilot)) == refunds
        assert set(names_in(pilot)[len(refunds) - len(late) :]) == late
        await pilot.press("A", "x")
        await says(pilot, "all 600 matching")
        assert isinstance(asked.scope, Matching)
        assert asked.scope.filter.text == "json.type=refund"
        await pilot.press("escape", "escape")
        await says(pilot, f"of {COUNT + DELAYED:,}")
        await pilot.press("A", "x")
        assert isinstance(asked.scope, Everything)
        await says(pilot, f"all {COUNT + DELAYED:,} in the queue")


async def test_marks_outlast_polls_and_end_with_their_messages(
    redis_url: str, client: redis.Redis, asked: Asked
) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    sent = list(rsmq.send_messages("orders", ["x"] * 50))
    async with _opened(redis_url) as pilot:
        await pilot.press("space", "space", "space")
        await says(pilot, "3 marked")
        rsmq.delete_message("orders", sent[1])
        taken = rsmq.receive_message("orders")
        assert taken is not None
        assert taken.id == sent[0]
        await says(pilot, "2 marked")
        await pilot.press("x")
        assert isinstance(asked.scope, Marked)
        assert [(shown.id, shown.rc) for shown in asked.scope.messages] == [(sent[0], 0), (sent[2], 0)]


async def test_found_messages_that_are_received_or_deleted_say_so(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    sent = list(rsmq.send_messages("orders", ["x"] * 5))

    def states() -> list[str]:
        return [" ".join(line.split()[1:2]) for line in lines_of(table_of(pilot))[1:6]]

    async with _opened(redis_url, rows=5) as pilot:
        await pilot.press("slash", *"body:x", "enter")
        await until(pilot, lambda: states() == ["ready"] * 5, "all are found")
        rsmq.receive_message("orders")
        rsmq.delete_message("orders", sent[1])
        await until(
            pilot, lambda: states() == ["in", "gone", "ready", "ready", "ready"], "they say what became of them"
        )
        client.zadd("rsmq:orders", {sent[0]: 1_000_000_000_000})
        await until(pilot, lambda: states()[0] == "ready", "it is ready again")


async def test_groups_of_the_whole_queue(redis_url: str, planted: Planted) -> None:
    async with _opened(redis_url) as pilot:
        await pilot.press("b", "enter")
        await until(pilot, lambda: names_in(pilot) == ["order", "refund", "late"], "the groups are shown")
        await says(pilot, f"{COUNT + DELAYED:,} counted")
        await pilot.press("j", "j", "enter")
        await says(pilot, f"{DELAYED} match")


async def test_a_tab_that_was_seen_before_is_searched_again(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise what was found less than a second ago is shown again.
    monkeypatch.setattr("rsmq_tui.tui.queue.search._NOW_MS", 0)
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    rsmq.send_messages("orders", ["a", "b", "c"])
    async with _opened(redis_url, rows=3) as pilot:
        await pilot.press("l", "l")
        await says(pilot, "There are no in flight messages in this queue.")
        await pilot.press("h")
        await says(pilot, "[ ready 3 ]")
        received = {message.id for message in rsmq.receive_messages("orders", 2)}
        await pilot.press("l")
        await until(pilot, lambda: set(names_in(pilot)) == received, "both are listed")
        await says(pilot, "2 in flight")
