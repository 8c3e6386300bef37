"""Looking at messages beside the rows: what a walk through all of them finds, on real servers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest
from redis import Redis

from rsmq_tui.monitor import QueueState, RsmqPoller, Thresholds, Verdict, outlook, reason
from rsmq_tui.monitor.tracking.place_tracker import WALK_MESSAGES
from rsmq_tui.protocol import MessagePage, PageLook, Rsmq, RsmqReader
from tests.protocol.keyspace import now_ms, plant

pytestmark = pytest.mark.slow

DEPTH = 2_000
MIDDLE = 1_000
USERS = ["", "plain:x@"]
NO_BODY = "1 message has no body: consumers receive only an id"


def id_of(number: int) -> str:
    return f"{number:032d}"


@pytest.fixture(params=USERS)
async def poller(request: pytest.FixtureRequest, client: Redis, redis_url: str) -> AsyncIterator[RsmqPoller]:
    """A poller that runs scripts, and one that may not."""
    client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-@scripting"])
    async with aclosing(RsmqReader(redis_url.replace("redis://", f"redis://{request.param}"))) as reader:
        yield RsmqPoller(reader)


@pytest.fixture
def crowded(client: Redis) -> int:
    """Fill queue ``q`` with messages that have just become due, and return when the first did."""
    at_ms = now_ms(client) - DEPTH
    Rsmq(client).create_queue("q")
    with client.pipeline(transaction=False) as to:
        for number in range(DEPTH):
            to.zadd("rsmq:q", {id_of(number): at_ms + number})
            to.hset("rsmq:q:Q", id_of(number), "body")
        to.execute()
    return at_ms


async def polled(poller: RsmqPoller, times: int) -> list[QueueState]:
    """Poll so often; return what each poll says of the one queue."""
    return [(await poller.poll()).queues[0] for _ in range(times)]


async def test_one_that_comes_back_is_found_in_the_middle_of_two_thousand(
    client: Redis, crowded: int, poller: RsmqPoller
) -> None:
    client.hset("rsmq:q:Q", f"{id_of(MIDDLE)}:rc", 9)
    states = await polled(poller, DEPTH // WALK_MESSAGES + 2)
    half, whole = states[MIDDLE // WALK_MESSAGES], states[-1]

    assert (half.poison, half.looked, half.looked_all_ms) == (0, MIDDLE - WALK_MESSAGES, None)
    assert "too early to tell" in reason(half, crowded, Thresholds())
    assert (whole.verdict, whole.poison, whole.highest_rc, whole.looked) == (Verdict.POISONED, 1, 9, DEPTH)
    assert whole.looked_all_ms is not None
    assert reason(whole, whole.looked_all_ms + 40_000, Thresholds()) == (
        "1 message received 5 times or more (up to 9), seen for 40 s; all checked 40 s ago"
    )


async def test_it_is_forgotten_when_a_later_walk_finds_none(client: Redis, crowded: int, poller: RsmqPoller) -> None:
    client.hset("rsmq:q:Q", f"{id_of(MIDDLE)}:rc", 9)
    walk = DEPTH // WALK_MESSAGES
    assert (await polled(poller, walk + 2))[-1].poison == 1
    Rsmq(client).delete_message("q", id_of(MIDDLE))

    assert (await polled(poller, 2 * walk + 2))[-1].poison == 0


async def test_after_a_change_of_this_program_a_queue_is_walked_first(
    client: Redis, crowded: int, poller: RsmqPoller
) -> None:
    for number in range(6):
        Rsmq(client).create_queue(f"other{number}")
        with client.pipeline(transaction=False) as to:
            to.zadd(f"rsmq:other{number}", {id_of(each): crowded for each in range(300)})
            to.hset(f"rsmq:other{number}:Q", mapping={id_of(each): "body" for each in range(300)})
            # With a poison message, it is walked again and again.
            to.hset(f"rsmq:other{number}:Q", f"{id_of(0)}:rc", "9")
            to.execute()
    client.hset("rsmq:q:Q", f"{id_of(MIDDLE)}:rc", 9)

    async def poison() -> int:
        return next(queue.poison for queue in (await poller.poll()).queues if queue.name == "q")

    while not await poison():
        pass
    Rsmq(client).delete_message("q", id_of(MIDDLE))
    changes = iter([["q"]])

    async def own_changes(server: str, ns: str) -> Sequence[str]:
        return next(changes, [])

    poller.own_changes = own_changes
    # One poll notes the change, some read the queue, and one has its state.
    assert [await poison() for _ in range(DEPTH // WALK_MESSAGES + 3)][-1] == 0


async def test_a_first_message_without_a_body_is_told_by_the_first_poll(
    client: Redis, crowded: int, poller: RsmqPoller
) -> None:
    client.hdel("rsmq:q:Q", id_of(0))
    (state,) = await polled(poller, 1)

    assert (state.verdict, state.broken, state.depth, state.ready) == (Verdict.BROKEN, NO_BODY, DEPTH, DEPTH)
    assert reason(state, crowded, Thresholds()) == outlook(state, crowded) == NO_BODY


async def test_one_without_a_body_is_found_in_the_middle(client: Redis, crowded: int, poller: RsmqPoller) -> None:
    client.hdel("rsmq:q:Q", id_of(MIDDLE))
    states = await polled(poller, DEPTH // WALK_MESSAGES + 2)

    assert [state.verdict for state in states[: MIDDLE // WALK_MESSAGES]] == [Verdict.WATCHING] * 4
    assert (states[-1].verdict, states[-1].broken, states[-1].missing) == (Verdict.BROKEN, NO_BODY, 1)


async def test_a_queue_is_whole_again_once_the_body_is(client: Redis, crowded: int, poller: RsmqPoller) -> None:
    client.hdel("rsmq:q:Q", id_of(0))
    walk = DEPTH // WALK_MESSAGES
    assert (await polled(poller, walk + 2))[-1].verdict is Verdict.BROKEN
    client.hset("rsmq:q:Q", id_of(0), "")

    assert (await polled(poller, 2 * walk + 2))[-1].broken is None


async def test_a_first_message_without_a_body_is_not_forgotten_while_it_is_hidden(
    client: Redis, poller: RsmqPoller
) -> None:
    queues = Rsmq(client)
    queues.create_queue("q", vt=900)
    first, _ = (queues.send_message("q", body) for body in "ab")
    client.hdel("rsmq:q:Q", first)
    before = await polled(poller, 3)
    client.zincrby("rsmq:q", 900_000, first)
    after = await polled(poller, 30)

    assert {state.verdict for state in (*before, *after)} == {Verdict.BROKEN}


async def test_a_message_that_moves_back_during_a_walk_counts_once(
    client: Redis, crowded: int, poller: RsmqPoller
) -> None:
    client.hset("rsmq:q:Q", f"{id_of(0)}:rc", 9)
    await polled(poller, 4)
    client.zincrby("rsmq:q", 60_000, id_of(0))

    assert {state.poison for state in await polled(poller, 30)} == {1}


async def test_a_quiet_queue_is_walked_through_once(client: Redis, crowded: int, poller: RsmqPoller) -> None:
    await polled(poller, DEPTH // WALK_MESSAGES + 2)
    client.config_resetstat()
    await polled(poller, 20)

    assert (
        "cmdstat_hexists" not in client.info("commandstats")
        or client.info("commandstats")["cmdstat_hexists"]["calls"] <= 20
    )


async def test_each_poll_looks_at_a_bounded_number_of_messages(client: Redis, crowded: int, poller: RsmqPoller) -> None:
    for number in range(100):
        Rsmq(client).create_queue(f"more{number:02d}")
        Rsmq(client).send_messages(f"more{number:02d}", ["x"] * 30)
    await poller.poll()
    for _ in range(5):
        client.config_resetstat()
        await poller.poll()
        assert client.info("commandstats").get("cmdstat_hexists", {"calls": 0})["calls"] <= WALK_MESSAGES + 110


@pytest.mark.parametrize("user", USERS)
class TestPages:
    async def pages(self, client: Redis, redis_url: str, user: str, *pages: MessagePage) -> list[PageLook]:
        client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-@scripting"])
        async with aclosing(RsmqReader(redis_url.replace("redis://", f"redis://{user}"))) as reader:
            return (await reader.rows.looks((), pages, 0, 5, 0))[1]

    async def test_go_on_behind_a_message(self, client: Redis, redis_url: str, crowded: int, user: str) -> None:
        behind = b"%d" % (crowded + 9), id_of(9).encode()
        (page,) = await self.pages(client, redis_url, user, MessagePage("q", behind, 5))

        assert (page.looked, page.last, page.is_last) == (5, (b"%d" % (crowded + 14), id_of(14).encode()), False)

    async def test_go_on_where_a_message_was(self, client: Redis, redis_url: str, crowded: int, user: str) -> None:
        client.zrem("rsmq:q", id_of(9))
        behind = b"%d" % (crowded + 9), id_of(9).encode()
        (page,) = await self.pages(client, redis_url, user, MessagePage("q", behind, 5))

        assert page.last[1] == id_of(14).encode()

    async def test_go_on_where_a_message_was_that_was_received(
        self, client: Redis, redis_url: str, crowded: int, user: str
    ) -> None:
        client.zincrby("rsmq:q", 90_000, id_of(9))
        behind = b"%d" % (crowded + 9), id_of(9).encode()
        (page,) = await self.pages(client, redis_url, user, MessagePage("q", behind, 5))

        assert page.last[1] == id_of(14).encode()

    async def test_end_with_the_queue(self, client: Redis, redis_url: str, crowded: int, user: str) -> None:
        behind = b"%d" % (crowded + DEPTH - 3), id_of(DEPTH - 3).encode()
        first, second = await self.pages(
            client, redis_url, user, MessagePage("q", behind, 5), MessagePage("none", None, 5)
        )

        assert (first.looked, first.is_last) == (2, True)
        assert (second.looked, second.is_last, second.poison, second.missing) == (0, True, (), ())

    async def test_name_what_is_wrong(self, client: Redis, redis_url: str, user: str) -> None:
        Rsmq(client).create_queue("q")
        counts: Sequence[int | str] = (4, 5, "1e9", "9" * 30, " 7x")
        for number, rc in enumerate(counts):
            plant(client, "q", id_of(number), due_ms=number, rc=rc, **({"body": "x"} if number != 1 else {}))
        (page,) = await self.pages(client, redis_url, user, MessagePage("q", None, 100))

        assert page.poison == tuple(id_of(number).encode() for number in (1, 3, 4))
        assert (page.missing, page.highest_rc) == ((id_of(1).encode(),), 999_999_999_999_999)

    @pytest.mark.parametrize("wrong", ["rsmq:q", "rsmq:q:Q"])
    async def test_of_keys_of_other_types_hold_nothing(
        self, client: Redis, redis_url: str, crowded: int, user: str, wrong: str
    ) -> None:
        client.delete(wrong)
        client.set(wrong, "x")
        (page,) = await self.pages(client, redis_url, user, MessagePage("q", None, 5))

        assert (page.looked, page.is_last) == (0, True)
