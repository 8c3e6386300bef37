"""Scans of list queues: each item once, while consumers, producers and reapers move them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq_tui.protocol import RawMessage, RsmqError
from rsmq_tui.protocol.lists.naming import ListNames, item_id, read_item_id
from rsmq_tui.protocol.lists.pages import ListRanges, Moment, Range
from rsmq_tui.protocol.lists.scan import ListScan
from rsmq_tui.protocol.rsmq.scan import SCAN_BODY_BYTES
from tests.protocol.lists.lists_made import LEFT, QUEUE, RIGHT, fill, fill_wrongly, member, running

pytestmark = pytest.mark.slow

DEADLINE_MS = 4_000_000_000_000


def numbered(prefix: bytes, count: int) -> list[bytes]:
    return [b"%b-%06d" % (prefix, number) for number in range(count)]


class Scanned(list[RawMessage]):
    """Messages, and how often some may have been missed or given twice."""

    lost = 0


async def scanned(
    url: str, names: ListNames = RIGHT, *, meanwhile: Callable[[], object] = lambda: None, plain: bool = False,
    count: int = 500, **asked: Any,
) -> Scanned:  # fmt: skip
    found = Scanned()
    async with running(url) as runner:
        runner.refused = "not here" if plain else None
        async with aclosing(ListScan(runner, names).chunks(QUEUE, count=count, **asked)) as chunks:
            async for chunk in chunks:
                found += chunk.messages
                found.lost = chunk.restarts
                meanwhile()
    return found


@pytest.fixture(params=[RIGHT, LEFT], ids=lambda names: names.take_from)
def names(request: pytest.FixtureRequest) -> ListNames:
    found: ListNames = request.param
    return found


@pytest.mark.parametrize("plain", [False, True])
async def test_every_item_comes_once_with_its_place_and_lease(
    client: redis.Redis, redis_url: str, names: ListNames, plain: bool
) -> None:
    ready, processing = numbered(b"r", 1_234), numbered(b"p", 777)
    leased = processing[::2]
    fill(client, names, ready=ready, processing=processing, leases=[(item, DEADLINE_MS) for item in leased])
    found = {message.id: message for message in await scanned(redis_url, names, plain=plain)}
    expected = {
        **{item_id("queue", at, item).encode(): (b"0", item) for at, item in enumerate(ready)},
        **{
            item_id("processing", at, item).encode(): (b"inf" if at % 2 else b"%d" % DEADLINE_MS, item)
            for at, item in enumerate(processing)
        },
    }
    assert {id: (message.score, message.body) for id, message in found.items()} == expected
    assert all((one.rc, one.fr, one.size) == (None, None, len(one.body or b"")) for one in found.values())


async def test_a_missing_queue_has_no_items(client: redis.Redis, redis_url: str) -> None:
    assert await scanned(redis_url) == []


async def test_without_bodies_sizes_are_known_all_the_same(client: redis.Redis, redis_url: str) -> None:
    fill(client, ready=[b"abc"])
    (found,) = await scanned(redis_url, bodies=False)
    assert (found.size, found.body) == (3, None)


@pytest.mark.parametrize("plain", [False, True])
async def test_long_items_come_a_few_at_a_time_and_the_longest_without_bodies(
    client: redis.Redis, redis_url: str, plain: bool
) -> None:
    long, longest = [b"%03d" % number + b"x" * 300_000 for number in range(20)], b"y" * (SCAN_BODY_BYTES + 1)
    fill(client, ready=[*long[:10], longest, *long[10:]])
    found = await scanned(redis_url, plain=plain)
    assert {message.id.decode(): message.body for message in found} == {
        item_id("queue", at, item): None if item is longest else item
        for at, item in enumerate([*long[:10], longest, *long[10:]])
    }
    assert {message.size for message in found} == {300_003, SCAN_BODY_BYTES + 1}
    async with running(redis_url) as runner:
        runner.refused = "not here" if plain else None
        chunks = [chunk async for chunk in ListScan(runner, RIGHT).chunks(QUEUE)]
    assert sum(chunk.too_long for chunk in chunks) == 1
    assert max(len(chunk) for chunk in chunks) <= 5


async def test_only_what_is_in_processing_or_only_the_queue(client: redis.Redis, redis_url: str) -> None:
    fill(client, ready=[b"r"], processing=[b"p"])
    async with running(redis_url) as runner:
        scan = ListScan(runner, RIGHT)
        assert [
            [message.body for chunk in [chunk async for chunk in scan.chunks(QUEUE, places=(place,))]
             for message in chunk.messages]
            for place in ("queue", "processing")
        ] == [[b"r"], [b"p"]]  # fmt: skip


async def test_an_item_that_is_taken_while_leases_are_read_is_not_called_unleased(
    client: redis.Redis, redis_url: str
) -> None:
    fill(client, ready=numbered(b"r", 30), processing=numbered(b"p", 40), leases=[(b"p-000000", DEADLINE_MS)])
    rounds = iter(range(10))

    def lease_one() -> None:
        number = next(rounds, 0) + 1
        client.zadd(RIGHT.leases_key(QUEUE), {member(100 + number, b"p-%06d" % number): DEADLINE_MS})

    found = await scanned(redis_url, count=7, meanwhile=lease_one)
    scores = {message.body: message.score for message in found}
    assert scores[b"p-000000"] == scores[b"p-000001"] == scores[b"p-000002"] == b"%d" % DEADLINE_MS
    assert scores[b"p-000039"] == b"inf"


@pytest.mark.parametrize("place", range(3))
async def test_a_key_of_another_type_is_our_error(client: redis.Redis, redis_url: str, place: int) -> None:
    fill_wrongly(client, place)
    with pytest.raises(RsmqError) as raised:
        await scanned(redis_url)
    assert raised.value.code == "wrongType"


def once(action: Callable[[], object]) -> Callable[[], object]:
    """Return what does this the first time, and then nothing."""
    actions = [action]

    def act() -> None:
        if actions:
            actions.pop()()

    return act


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("equal", [1, 100, 1_000])
async def test_pushes_of_more_than_a_window_are_stepped_over(
    client: redis.Redis, redis_url: str, names: ListNames, plain: bool, equal: int
) -> None:
    ready = [b"r-%d" % (number // equal) for number in range(1_000)]
    fill(client, names, ready=ready)
    push = client.lpush if names.take_from == "right" else client.rpush
    found = await scanned(
        redis_url, names, count=50, plain=plain, meanwhile=once(lambda: push(QUEUE, *numbered(b"new", 400)))
    )
    new = numbered(b"new", 400)
    counted = Counter(message.body or b"" for message in found)
    assert not Counter(ready) - counted
    assert not counted - Counter(ready + new)


@pytest.mark.parametrize("longer", [False, True])
async def test_a_queue_that_is_replaced_is_read_or_it_is_said(
    client: redis.Redis, redis_url: str, longer: bool
) -> None:
    fill(client, ready=numbered(b"r", 3_000))
    after = numbered(b"other", 9_000 if longer else 200)
    replace, found, answer = once(lambda: fill(client, ready=after)), [], []
    async with running(redis_url) as runner, aclosing(ListScan(runner, RIGHT).chunks(QUEUE, count=20)) as chunks:
        async for chunk in chunks:
            found += chunk.messages
            answer.append(chunk.restarts)
            replace()
    counted = Counter(message.body or b"" for message in found)
    assert max(counted.values()) == 1
    assert set(after) <= set(counted) or answer[-1]


async def test_a_queue_that_is_emptied_ends_the_scan(client: redis.Redis, redis_url: str) -> None:
    fill(client, ready=numbered(b"r", 300))
    found = await scanned(redis_url, count=20, meanwhile=once(lambda: client.delete(QUEUE)))
    assert 20 <= len(found) <= 60


async def test_what_is_removed_from_its_midst_hides_nothing(client: redis.Redis, redis_url: str) -> None:
    ready = numbered(b"r", 400)
    fill(client, ready=ready)

    def remove() -> None:
        for item in ready[-60:-5]:
            client.lrem(QUEUE, 1, item)

    found = await scanned(redis_url, count=50, meanwhile=once(remove))
    counted = Counter(message.body or b"" for message in found)
    assert set(ready[:-60]) | set(ready[-5:]) <= set(counted)
    assert max(counted.values()) == 1


async def test_what_goes_from_the_queue_to_processing_and_back_comes_once(
    client: redis.Redis, redis_url: str, names: ListNames
) -> None:
    live = Live(client, names)
    live.fill(numbered(b"r", 200), numbered(b"p", 150))
    live.first = list(live.ever)
    rounds = iter(range(100))

    def use() -> None:
        if next(rounds, None) is not None:
            live.take(7)
            live.reap(0)
            live.reap(30)

    found = await scanned(redis_url, names, count=20, meanwhile=use)
    counted = Counter(message.body or b"" for message in found)
    assert set(counted) == {item for _, item in live.ever}
    live.check(found)


@pytest.mark.parametrize("equal", [1, 700])
async def test_a_producer_that_is_faster_than_the_scan_does_not_keep_it_up(
    client: redis.Redis, redis_url: str, equal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = (b"r-%d" % (number // equal % 3 if equal > 1 else number) for number in count())
    fill(client, ready=list(islice(kinds, 3_000)))
    read, calls, answer = ListRanges.read, 0, 0

    async def pushing(self: ListRanges, *asked: Range, **limits: int) -> Moment:
        nonlocal calls
        calls += 1
        assert calls < 200
        client.lpush(QUEUE, *islice(kinds, 5_000))
        return await read(self, *asked, **limits)

    monkeypatch.setattr(ListRanges, "read", pushing)
    async with running(redis_url) as runner, aclosing(ListScan(runner, RIGHT).chunks(QUEUE)) as chunks:
        async for chunk in chunks:
            answer = chunk.restarts
    assert answer


@dataclass
class Live:
    """A queue that is used while it is scanned, and what is known of its items: a number and bytes each."""

    client: redis.Redis
    names: ListNames
    ready: list[tuple[int, bytes]] = field(default_factory=list)
    processing: list[tuple[int, bytes]] = field(default_factory=list)
    ever: list[tuple[int, bytes]] = field(default_factory=list)
    left: set[int] = field(default_factory=set)

    def made(self, items: Sequence[bytes]) -> list[tuple[int, bytes]]:
        new = [(len(self.ever) + place, item) for place, item in enumerate(items)]
        self.ever += new
        return new

    def fill(self, ready: Sequence[bytes], processing: Sequence[bytes]) -> None:
        self.ready, self.processing = self.made(ready), self.made(processing)
        fill(self.client, self.names, ready=ready, processing=processing)

    @property
    def _right(self) -> bool:
        return self.names.take_from == "right"

    def push(self, items: Sequence[bytes], *, back: bool) -> None:
        new = self.made(items)
        to_left = self._right is back
        for number, item in new:
            (self.client.lpush if to_left else self.client.rpush)(QUEUE, item)
            self.ready.insert(len(self.ready) if back else 0, (number, item))

    def pop(self, count: int) -> None:
        for _ in range(count):
            found = self.client.rpop(QUEUE) if self._right else self.client.lpop(QUEUE)
            if self.ready:
                number, item = self.ready.pop(0)
                assert item == found
                self.left.add(number)

    def take(self, count: int) -> None:
        for _ in range(min(count, len(self.ready))):
            self.client.lmove(QUEUE, self.names.processing_key(QUEUE), "RIGHT" if self._right else "LEFT", "LEFT")
            self.processing.append(self.ready.pop(0))

    def ack(self, place: int) -> None:
        if self.processing:
            number, item = self.processing.pop(self._first(place))
            self.client.lrem(self.names.processing_key(QUEUE), -1, item)
            self.left.add(number)

    def reap(self, place: int) -> None:
        if self.processing:
            number, item = self.processing[self._first(place)]
            if sum(item == other for _, other in self.ever) > 1:
                # Whether this one was put back, or an equal one never left, cannot be told.
                return
            self.processing.remove((number, item))
            self.client.lrem(self.names.processing_key(QUEUE), -1, item)
            (self.client.rpush if self._right else self.client.lpush)(QUEUE, item)
            self.ready.insert(0, (number, item))

    def _first(self, place: int) -> int:
        """Return the place of the oldest with the same bytes, which is what LREM from the right removes."""
        wanted = self.processing[place % len(self.processing)][1]
        return next(at for at, (_, item) in enumerate(self.processing) if item == wanted)

    def check(self, found: Scanned) -> None:
        """Nothing is missed or doubled, or it is said that this may be."""
        if found.lost:
            return
        counted = Counter(message.body or b"" for message in found)
        throughout = Counter(item for number, item in self.first if number not in self.left)
        ever = Counter(item for _, item in self.ever)
        assert not throughout - counted, "missed"
        assert not counted - ever, "doubled"

    first: list[tuple[int, bytes]] = field(default_factory=list)


RUNS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(1, 60)), max_size=5)
MIXED = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=80)
UNIQUE = st.integers(0, 120).map(lambda count: numbered(b"u", count))
ITEMS = st.one_of(UNIQUE, MIXED, RUNS.map(lambda runs: [item for run, length in runs for item in [run] * length]))
FEW = st.lists(st.sampled_from([b"a", b"b", b"new"]), min_size=1, max_size=12)
CHANGE = st.one_of(
    st.tuples(st.just("push"), st.one_of(FEW, st.just([b"a"] * 40))),
    st.tuples(st.just("front"), FEW),
    st.tuples(st.just("pop"), st.integers(1, 40)),
    st.tuples(st.just("take"), st.integers(1, 10)),
    st.tuples(st.just("ack"), st.integers(0, 50)),
    st.tuples(st.just("reap"), st.integers(0, 50)),
)
CHANGES = st.lists(st.lists(CHANGE, max_size=3), max_size=30)


def used(live: Live, changes: Sequence[Sequence[tuple[str, object]]]) -> Iterator[None]:
    for step in changes:
        for name, value in step:
            if name in ("push", "front"):
                live.push(value, back=name == "push")  # type: ignore[arg-type]
            else:
                getattr(live, name)(value)
        yield


@settings(
    max_examples=100,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(ready=ITEMS, processing=ITEMS, changes=CHANGES, count=st.integers(3, 40), names=st.sampled_from([RIGHT, LEFT]))
async def test_what_is_there_throughout_comes_once_whatever_others_do(
    client: redis.Redis, redis_url: str, ready: list[bytes], processing: list[bytes],
    changes: list[list[tuple[str, object]]], count: int, names: ListNames,
) -> None:  # fmt: skip
    live = Live(client, names)
    live.fill(ready, processing[:60])
    live.first = list(live.ever)
    using = used(live, changes)
    found = await scanned(redis_url, names, count=count, meanwhile=lambda: next(using, None))
    live.check(found)
    assert len({message.id for message in found if read_item_id(message.id)}) <= len(found)


@pytest.mark.parametrize(
    ("ready", "processing"),
    [(b"baaaabb", b"a"), (b"a", b"a"), (b"u", b"aa")],
    ids=["run", "equal", "two-in-processing"],
)
async def test_an_item_that_is_put_back_beside_equal_ones(
    client: redis.Redis, redis_url: str, ready: bytes, processing: bytes
) -> None:
    live = Live(client, RIGHT)
    live.fill(*([bytes([item]) for item in items] for items in (ready, processing)))

    def put_back() -> None:
        (number, item) = live.processing.pop()
        client.lrem(RIGHT.processing_key(QUEUE), -1, item)
        client.rpush(QUEUE, item)
        live.ready.insert(0, (number, item))

    found = await scanned(redis_url, count=3, meanwhile=once(put_back))
    assert Counter(message.body for message in found) == Counter(item for _, item in live.ever)


async def test_long_items_are_followed_too(client: redis.Redis, redis_url: str, names: ListNames) -> None:
    ready = [b"%03d" % number + b"x" * 60_000 for number in range(60)]
    for change in (
        lambda: [client.lpush(QUEUE, b"new%03d" % number + b"y" * 60_000) for number in range(40)],
        lambda: client.ltrim(QUEUE, 30, -1),
    ):
        fill(client, ready=ready)
        counted = Counter(message.body for message in await scanned(redis_url, meanwhile=once(change)))
        # A list is trimmed of what was read first.
        assert set(ready[:30]) <= set(counted) & set(ready)
        assert max(counted.values()) == 1
