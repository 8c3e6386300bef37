"""Which list queues there are: named, found, kept while they are empty, and forgotten in the end."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest
import redis

from rsmq_tui.protocol.lists import reader as list_reader
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.reader import KEPT_SEARCHES, ListDiscovery, ListReader, is_key_pattern

Looking = Callable[..., ListDiscovery]


@pytest.fixture
async def looking(redis_url: str) -> AsyncIterator[Looking]:
    """Makes discoveries on the test's server."""
    opened: list[ListReader] = []

    def look(*patterns: str, names: ListNames | None = None) -> ListDiscovery:
        opened.append(ListReader(redis_url, names or ListNames(), patterns))
        return opened[-1].discovery

    yield look
    for reader in opened:
        await reader.aclose()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("queue:a", False), ("a\\b]", False), ("", False), ("q:*", True), ("q?", True), ("[ab]", True)],
)
def test_a_pattern_is_what_holds_a_glob(text: str, expected: bool) -> None:
    assert is_key_pattern(text) == expected


async def test_what_is_named_is_known_without_looking(client: redis.Redis, looking: Looking) -> None:
    found = looking("gone", "queue:a", "gone")

    assert found.names == {b"gone", b"queue:a"}
    assert not found.searches
    assert await found.search()
    assert "cmdstat_scan" not in client.info("commandstats")
    assert found.note is None


async def test_lists_that_match_are_found(client: redis.Redis, looking: Looking) -> None:
    for name in ("queue:a", "queue:b", "other", "queue"):
        client.lpush(name, "x")
    client.set("queue:string", "x")
    client.zadd("queue:zset", {"x": 1})
    found = looking("queue:*")

    assert found.searches
    assert found.names == frozenset()
    assert await found.search()
    assert found.names == {b"queue:a", b"queue:b"}


async def test_patterns_are_those_of_the_server(client: redis.Redis, looking: Looking) -> None:
    for name in ("a1", "a2", "b1", "a*", "axx"):
        client.lpush(name, "x")
    first, second = looking("a[12]", "b?", "gone"), looking("a\\*")
    await first.search()
    await second.search()

    assert first.names == {b"a1", b"a2", b"b1", b"gone"}
    assert second.names == {b"a*"}


async def test_processing_lists_and_markers_stand_for_their_queue(client: redis.Redis, looking: Looking) -> None:
    client.lpush("queue:a:processing", "x")
    client.lpush("queue:b", "x")
    client.lpush("queue:b:processing", "x")
    client.lpush("queue:c:rsmq-tui:0123456789", "x")
    found = looking("queue:*")
    await found.search()

    assert found.names == {b"queue:a", b"queue:b", b"queue:c"}


@pytest.mark.parametrize(
    ("names", "pattern", "processing"),
    [
        (ListNames(processing="busy:{queue}"), "queue:*", "busy:queue:a"),
        (ListNames(processing="[{queue}]*"), "queue:*", "[queue:a]*"),
        (ListNames(), "queue:?", "queue:a:processing"),
        (ListNames("bull:{name}:wait", "bull:{name}:active"), "bull:*:wait", "bull:a:active"),
    ],
)
async def test_a_queue_whose_items_are_all_being_processed_is_found_whatever_the_keys_are_called(
    client: redis.Redis, looking: Looking, names: ListNames, pattern: str, processing: str
) -> None:
    client.lpush(processing, "x")
    client.lpush("unrelated", "x")
    found = looking(pattern, names=names)
    await found.search()

    assert found.names == {b"bull:a:wait" if pattern.startswith("bull") else b"queue:a"}


async def test_bytes_that_are_no_text_stay_as_they_are(client: redis.Redis, looking: Looking) -> None:
    client.lpush(b"queue:\xff\x1b[2J", "x")
    found = looking("queue:\udcff*", "\udcfe")
    await found.search()

    assert found.names == {b"queue:\xff\x1b[2J", b"\xfe"}


async def test_among_many_keys(client: redis.Redis, looking: Looking) -> None:
    client.mset({f"key:{number}": "x" for number in range(5000)})
    client.lpush("queue:far", "x")
    client.config_resetstat()
    found = looking("queue:*")

    steps: list[tuple[int, int]] = []
    assert await found.search(on_progress=lambda *step: steps.append(step))
    assert found.names == {b"queue:far"}
    assert [passed for passed, _ in steps] == [1000 * number for number in range(1, len(steps) + 1)]
    assert steps[-1] == (len(steps) * 1000, 1)
    assert client.info("commandstats")["cmdstat_scan"]["calls"] <= 10


class TestALargeServer:
    async def test_is_not_searched_without_end(self, client: redis.Redis, looking: Looking) -> None:
        client.mset({f"key:{number}": "x" for number in range(5000)})
        client.lpush("queue:a", "x")
        found = looking("queue:*")

        assert not await found.search(steps_max=2)
        assert (
            found.note == "the search for lists stopped after about 2,000 keys: name the lists, or narrow the pattern"
        )
        assert await found.search()
        assert found.note is None

    async def test_of_too_many_lists_shows_some(
        self, client: redis.Redis, looking: Looking, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(list_reader, "LISTS_MAX", 10)
        for number in range(50):
            client.lpush(f"queue:{number}", "x")
        found = looking("queue:*", "named")

        assert not await found.search()
        assert found.note == "there are more than 10 lists: narrow the pattern queue:*"
        assert len(found.names) == 10
        assert b"named" in found.names


async def test_a_list_that_was_emptied_stays_for_some_searches(client: redis.Redis, looking: Looking) -> None:
    client.lpush("queue:a", "x")
    found = looking("queue:*", "queue:named")
    await found.search()
    client.delete("queue:a")
    for _ in range(KEPT_SEARCHES - 1):
        await found.search()
    assert found.names == {b"queue:a", b"queue:named"}
    client.lpush("queue:a", "x")
    await found.search()
    client.delete("queue:a")
    for _ in range(KEPT_SEARCHES - 1):
        await found.search()
    assert b"queue:a" in found.names
    await found.search()

    assert found.names == {b"queue:named"}


async def test_a_user_who_may_not_look_sees_what_is_named(client: redis.Redis, redis_url: str) -> None:
    client.lpush("queue:a", "x")
    client.acl_setuser("narrow", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-scan"])
    url = redis_url.replace("redis://", "redis://narrow:x@")
    async with aclosing(ListReader(url, ListNames(), ["queue:*", "mail"])) as reader:
        assert not await reader.discovery.search()

        assert reader.discovery.names == {b"mail"}
        assert reader.discovery.note is not None
        assert "scan" in reader.discovery.note
        assert reader.discovery.note.endswith("only lists given by name are shown")
