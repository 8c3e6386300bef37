"""Real sentinels: the master is found, and found again when another one is master."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis.exceptions import ReadOnlyError

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import (
    Address,
    AsyncRsmq,
    ExplainedError,
    Node,
    Rsmq,
    RsmqReader,
    Sentinels,
    connect,
    connect_async,
)
from rsmq_tui.triage.actions import Send
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.servers import real
from tests.servers.real import HOST, Watched, real_server
from tests.servers.whole import depths, whole_walk
from tests.triage.doing import done
from tests.waiting import wait_until

PASSWORD = "hunter2"


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with real.watched("mymaster", password=PASSWORD) as running:
        yield running


def address_of(watched: Watched, *nodes: Node, service: str = "mymaster", password: str | None = PASSWORD) -> Address:
    known = nodes or tuple(Node(HOST, sentinel.port) for sentinel in watched.sentinels)
    way_in = None if password is None else (lambda: password)
    return Address("redis://localhost/0", sentinels=Sentinels(service, known, password=way_in))


async def refusal(address: Address) -> ExplainedError:
    """What both clients say of an address, which is the same."""
    async with connect_async(address) as aclient:
        with pytest.raises(ExplainedError) as refused:
            await aclient.ping()
    with connect(address) as client, pytest.raises(ExplainedError) as again:
        client.ping()
    assert again.value.failure == refused.value.failure
    assert PASSWORD not in f"{refused.value.failure} {refused.value}"
    return refused.value


async def test_everything_works_on_the_master(watched: Watched, tmp_path: Path) -> None:
    address = address_of(watched)
    assert address.label == f"sentinel://{HOST}:{watched.sentinels[0].port}/mymaster/0"

    await whole_walk(address, "rsmq", tmp_path)

    assert watched.master.call("EXISTS", "rsmq:walk:Q") == 1


async def test_both_clients_and_a_database_of_ones_own(watched: Watched) -> None:
    sentinels = address_of(watched).sentinels
    address = Address("redis://localhost/3", sentinels=sentinels)
    with connect(address) as client:
        Rsmq(client, "jobs").create_queue("a")
    async with connect_async(address) as aclient:
        assert await AsyncRsmq(aclient, "jobs").list_queues() == ["a"]
    with watched.master.client() as master:
        assert "db3" in master.info("keyspace")


async def test_sentinels_that_are_gone_are_passed_over(watched: Watched) -> None:
    nodes = Node(HOST, 1), Node("no-such-host.invalid", 26379), Node(HOST, watched.sentinels[0].port)
    async with connect_async(address_of(watched, *nodes)) as client:
        assert await client.ping()


async def test_when_no_sentinel_answers_each_is_named(watched: Watched) -> None:
    refused = await refusal(address_of(watched, Node(HOST, 1), Node(HOST, 2)))

    assert refused.failure.kind == "refused"
    assert refused.failure.sentence == (
        "no sentinel answers (127.0.0.1:1: connection refused, 127.0.0.1:2: connection refused)"
    )


async def test_a_service_that_they_do_not_know_is_told_with_those_they_do(watched: Watched) -> None:
    refused = await refusal(address_of(watched, service="master"))

    assert refused.failure.kind == "no-service"
    assert refused.failure.sentence == "the sentinels do not know the service master"
    assert refused.failure.hint == "known services: mymaster"


@pytest.mark.parametrize("password", [None, "wrong"])
async def test_a_sentinel_that_wants_a_password_says_where_to_put_it(watched: Watched, password: str | None) -> None:
    refused = await refusal(address_of(watched, password=password))

    assert refused.failure.kind == "noauth"
    assert refused.failure.sentence.startswith(f"no sentinel answers ({HOST}:{watched.sentinels[0].port}: the server ")
    assert "sentinel_password_env" in refused.failure.hint


async def test_what_is_no_sentinel_is_told(redis_url: str, watched: Watched) -> None:
    port = int(redis_url.removesuffix("/0").rpartition(":")[2])
    refused = await refusal(address_of(watched, Node(HOST, port), password=None))

    assert "no sentinel answers" in refused.failure.sentence
    assert "unknown command" in refused.failure.sentence


async def test_a_server_that_refuses_to_be_written_to_is_left_for_the_master(stack: ExitStack, tmp_path: Path) -> None:
    first, second = (stack.enter_context(real_server("--repl-diskless-sync-delay", "0")) for _ in range(2))
    sentinel = stack.enter_context(real_server("--sentinel", conf=[f"sentinel monitor main {HOST} {first.port} 1"]))
    address = Address("redis://x", sentinels=Sentinels("main", (Node(HOST, sentinel.port),)))
    triage = ChangeService(RsmqBackend(address, "rsmq"), tmp_path)
    try:
        with connect(address) as client:
            Rsmq(client).create_queue("a")
            preview = await triage.preview(Send(queue="a", bodies=(b"one",)))
            # Whoever changes the roles so does not hang up on those who are connected.
            second.call("REPLICAOF", HOST, first.port)
            wait_until(lambda: second.call("ROLE")[3] == b"connected", what="the second to have it all")
            second.call("REPLICAOF", "NO", "ONE")
            first.call("REPLICAOF", HOST, second.port)
            sentinel.call("SENTINEL", "REMOVE", "main")
            sentinel.call("SENTINEL", "MONITOR", "main", HOST, second.port, 1)

            assert (await triage.run(preview).to_end()).tally.done == 1
            assert second.call("ZCARD", "rsmq:a") == 1
            with pytest.raises(ReadOnlyError):
                Rsmq(client).send_message("a", "two")
            Rsmq(client).send_message("a", "two")
            assert second.call("ZCARD", "rsmq:a") == 2
    finally:
        await triage.aclose()


async def test_a_failover_is_followed_by_the_next_poll_and_the_next_change(watched: Watched, tmp_path: Path) -> None:
    address = address_of(watched)
    triage, poller = ChangeService(RsmqBackend(address, "jobs"), tmp_path), RsmqPoller(RsmqReader(address, "jobs"))
    with connect(address) as client:
        queues = Rsmq(client, "jobs")
        queues.create_queue("b")
        assert (await done(triage, Send(queue="b", bodies=(b"one",)))).tally.done == 1
        assert depths(await poller.poll()) == {"b": 1}
        before = watched.master
        wait_until(lambda: before.call("WAIT", 1, 100) == 1, what="the replica to keep up")
        watched.fail_over()

        assert depths(await poller.poll()) == {"b": 1}
        assert (await done(triage, Send(queue="b", bodies=(b"two",)))).tally.done == 1
        assert depths(await poller.poll()) == {"b": 2}
        assert queues.get_queue_attributes("b").msgs == 2
    await triage.aclose()
    await poller.aclose()

    # And when the last one is gone, it is said which.
    after = watched.master
    after.kill()
    refused = await refusal(address)
    assert refused.failure.kind == "refused"
    assert refused.failure.sentence == f"{HOST}:{after.port}: connection refused"
