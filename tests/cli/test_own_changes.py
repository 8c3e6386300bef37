"""What this program changes, in another process, does not look like the work of a consumer or a producer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.cli.places import KindPlace, OwnChanges, place_of
from rsmq_tui.monitor import QueueState, Thresholds, Verdict
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import Address, Rsmq
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.triage.change import Change
from tests.cli.running import run

pytestmark = pytest.mark.slow


@pytest.fixture
def places(redis_url: str, client: Redis, state: Path) -> tuple[KindPlace, KindPlace]:
    """RSMQ queues and lists of one server, with messages in both."""
    queues = Rsmq(client)
    queues.create_queue("orders")
    for number in range(20):
        queues.send_message("orders", f"{number}")
    client.lpush("mail", *range(20))
    profile = Profile("", Address(redis_url), ("rsmq",), interval_s=1.0, lists=("mail",))
    return place_of(profile), place_of(profile, kind=LIST)


@pytest.fixture
async def watched(places: tuple[KindPlace, KindPlace]) -> AsyncIterator[tuple[Any, Any]]:
    """Their pollers, after polls at two times each."""
    async with AsyncExitStack() as stack:
        pollers = [await stack.enter_async_context(aclosing(place.watcher())) for place in places]
        for poller in pollers:
            first = (await poller.poll()).at_ms
            while (await poller.poll()).at_ms == first:
                pass
        yield pollers[0], pollers[1]


async def _change(redis_url: str, *arguments: str) -> None:
    done = await asyncio.to_thread(run, "messages", *arguments, "-r", redis_url, "--yes")
    assert done.returncode == 0, done.stderr


async def _poll(poller: Any) -> QueueState:
    state: QueueState
    (state,) = (await poller.poll()).queues
    return state


async def _of(poller: Any, name: str) -> QueueState:
    (state,) = (state for state in (await poller.poll()).queues if state.name == name)
    assert isinstance(state, QueueState)
    return state


async def test_a_delete_is_in_no_rate(watched: tuple[Any, Any], redis_url: str, client: Redis) -> None:
    orders, _ = watched
    assert (await _poll(orders)).deletes_s == 0
    await _change(redis_url, "delete", "orders", "--all", "--limit", "7")
    changed = await _poll(orders)
    assert (changed.depth, changed.deletes_s, changed.arrivals_s) == (13, None, None)
    while (later := await _poll(orders)).deletes_s is None:
        pass
    assert (later.deletes_s, later.arrivals_s, later.receives_s) == (0, 0, 0)
    # What a consumer deletes afterwards counts.
    Rsmq(client).pop_message("orders")
    assert ((await _poll(orders)).deletes_s or 0) > 0


async def test_a_delete_from_a_list_is_no_take(watched: tuple[Any, Any], redis_url: str, client: Redis) -> None:
    _, mail = watched
    await _change(redis_url, "delete", "list:mail", "--all", "--limit", "7")
    changed = await _poll(mail)
    at_ms = mail._last.at_ms
    assert (changed.depth, changed.net_s) == (13, None)
    assert changed.idle_since_ms is not None
    assert changed.idle_since_ms < at_ms
    # The command may write to the journal after the first poll too.
    while (later := await _poll(mail)).net_s is None:
        pass
    assert later.net_s == 0
    client.rpop("mail")
    state = await _poll(mail)
    assert state.idle_since_ms == mail._last.at_ms


async def test_a_send_and_its_undo_end_no_verdict(
    places: tuple[KindPlace, KindPlace], redis_url: str, client: Redis, state: Path
) -> None:
    # The counters of orders say that messages were received, and none of them lately.
    Rsmq(client).receive_message("orders", vt=0)
    stalled = Thresholds(stalled_ms=1)
    profile = Profile("", Address(redis_url), ("rsmq",), interval_s=1.0, lists=("mail",), thresholds=stalled)
    for place, queue, change in ((place_of(profile), "orders", 1), (place_of(profile, kind=LIST), "list:mail", 4)):
        async with aclosing(place.watcher()) as poller:
            while (before := await _poll(poller)).verdict is not Verdict.STALLED:
                pass
            for arguments in (("messages", "send", queue, "{}"), ("undo", f"{change}"), ("undo", f"{change + 1}")):
                done = await asyncio.to_thread(run, *arguments, "-r", redis_url, "--yes")
                assert done.returncode == 0, done.stderr
                for _ in range(3):
                    after = await _poll(poller)
                    assert (after.verdict, after.pending_since_ms) == (Verdict.STALLED, None)
                    assert after.since_ms == before.since_ms


@pytest.mark.parametrize(("source", "target"), [("list:mail", "rsmq:orders"), ("orders", "list:mail")])
async def test_a_move_and_its_undos_are_told_to_both_places(
    watched: tuple[Any, Any], redis_url: str, source: str, target: str
) -> None:
    orders, mail = watched
    move = "messages", "move", source, "--all", "--limit", "7", "--to", target
    for arguments in (move, ("undo", "1"), ("undo", "2"), ("undo", "3")):
        while (await _poll(orders)).deletes_s is None or (await _poll(mail)).net_s is None:
            pass
        done = await asyncio.to_thread(run, *arguments, "-r", redis_url, "--yes")
        assert done.returncode == 0, done.stderr
        queue, items = await _poll(orders), await _poll(mail)
        assert (queue.deletes_s, queue.arrivals_s, items.net_s) == (None, None, None)


async def test_a_redrive_and_its_undos_are_in_no_rate_of_the_source_queues(
    watched: tuple[Any, Any], redis_url: str, client: Redis
) -> None:
    orders, _ = watched
    Rsmq(client).create_queue("dead")
    await _change(redis_url, "move", "orders", "--all", "--limit", "7", "--to", "dead")
    redrive = "messages", "redrive", "dead", "--all"
    for arguments in (redrive, ("undo", "2"), ("undo", "3")):
        while (await _of(orders, "orders")).deletes_s is None:
            pass
        done = await asyncio.to_thread(run, *arguments, "-r", redis_url, "--yes")
        assert done.returncode == 0, done.stderr
        changed = await _of(orders, "orders")
        assert (changed.deletes_s, changed.arrivals_s) == (None, None)


async def test_an_undo_of_a_move_ends_no_verdict_of_its_target(
    places: tuple[KindPlace, KindPlace], redis_url: str, client: Redis
) -> None:
    # The counters of orders say that messages were received, and none of them lately.
    Rsmq(client).receive_message("orders", vt=0)
    profile = Profile("", Address(redis_url), ("rsmq",), interval_s=1.0, thresholds=Thresholds(stalled_ms=1))
    async with aclosing(place_of(profile).watcher()) as poller:
        while (before := await _poll(poller)).verdict is not Verdict.STALLED:
            pass
        await _change(redis_url, "move", "list:mail", "--all", "--limit", "7", "--to", "rsmq:orders")
        await _poll(poller)
        # The move counts as sends, so that its undo lowers a counter.
        done = await asyncio.to_thread(run, "undo", "1", "-r", redis_url, "--yes")
        assert done.returncode == 0, done.stderr
        for _ in range(3):
            after = await _poll(poller)
            assert (after.verdict, after.pending_since_ms, after.since_ms) == (Verdict.STALLED, None, before.since_ms)


async def test_the_journal_is_read_only_if_it_has_changed(
    redis_url: str, places: tuple[KindPlace, KindPlace], state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def read(path: Path) -> list[Change]:
        reads.append(path)
        return []

    monkeypatch.setattr("rsmq_tui.triage.journal.journal.last_changes", read)
    server, path = places[0].server, state / "rsmq-tui" / "journal.sqlite"
    own = OwnChanges(path)
    assert await own.since_last(server, "rsmq") == set()
    await _change(redis_url, "delete", "orders", "--all", "--limit", "1")
    assert reads == []
    for _ in range(3):
        await own.since_last(server, "rsmq")
    assert reads == [path]


async def test_only_queues_of_that_server_and_namespace(
    redis_url: str, places: tuple[KindPlace, KindPlace], state: Path
) -> None:
    path, server = state / "rsmq-tui" / "journal.sqlite", places[0].server
    asked = {name: OwnChanges(path) for name in ("rsmq", "other", LISTS_NS)}
    elsewhere = OwnChanges(path)
    await _change(redis_url, "copy", "orders", "--all", "--to", "list:mail")
    assert {ns: await own.since_last(server, ns) for ns, own in asked.items()} == {
        "rsmq": {"orders"}, "other": set(), LISTS_NS: {"mail"},
    }  # fmt: skip
    assert await elsewhere.since_last("redis://elsewhere:6379/0", "rsmq") == set()
