"""A real cluster: whatever moves, the namespace is found."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from rsmq_tui.cli.demo.server import find_server
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.monitor.server import status_results
from rsmq_tui.protocol import Address, AsyncRsmq, Node, Rsmq, RsmqReader, connect, connect_async, slot_of, url_of
from rsmq_tui.protocol.connections.connect import Traffic
from rsmq_tui.protocol.connections.pool import ConnectionManager
from rsmq_tui.protocol.connections.topology import SingleServerTopology
from rsmq_tui.protocol.errors import ExplainedError
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, MessageBatch
from rsmq_tui.protocol.rsmq.operations import RawMessage
from rsmq_tui.triage.actions import Send
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.servers import real
from tests.servers.real import HOST, Cluster, RealServer
from tests.servers.whole import depths, whole_walk
from tests.triage.doing import done, undone
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def address_of(cluster: Cluster, *seeds: int) -> Address:
    ports = seeds or tuple(node.port for node in cluster.masters)
    return Address(url_of(HOST, ports[0]), cluster=tuple(Node(HOST, port) for port in ports))


def tags(cluster: Cluster) -> list[str]:
    """A namespace on each master."""
    names: dict[int, str] = {}
    for number in range(1000):
        slot = slot_of(f"{{t{number}}}")
        assert slot is not None
        names.setdefault(cluster.owner(slot).port, f"{{t{number}}}")
        if len(names) == len(cluster.masters):
            break
    return [names[master.port] for master in cluster.masters]


def first_slot(cluster: Cluster) -> tuple[str, int]:
    """The namespace on the first master, and its slot."""
    ns = tags(cluster)[0]
    slot = slot_of(ns)
    assert slot is not None
    return ns, slot


def queue_on_the_first(cluster: Cluster) -> tuple[str, int]:
    """Create queue ``a`` in the namespace on the first master; returns the namespace and its slot."""
    ns, slot = first_slot(cluster)
    with connect(address_of(cluster), ns) as client:
        Rsmq(client, ns).create_queue("a")
    return ns, slot


@pytest.fixture(autouse=True)
def _empty(cluster: Cluster) -> None:
    for master in cluster.masters:
        master.call("FLUSHALL")


@pytest.fixture
async def polling(cluster: Cluster) -> AsyncIterator[Callable[..., RsmqPoller]]:
    """Makes pollers that are closed afterwards."""
    made: list[RsmqPoller] = []

    def make(ns: str, *seeds: int) -> RsmqPoller:
        made.append(RsmqPoller(RsmqReader(address_of(cluster, *seeds), ns)))
        return made[-1]

    yield make
    for poller in made:
        await poller.aclose()


@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_everything_works_whichever_node_is_asked_first(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    for ns in tags(cluster):
        await whole_walk(address_of(cluster, cluster.masters[seed].port), ns, tmp_path / ns)


async def test_a_dead_node_and_a_wrong_port_among_the_seeds_are_passed_over(
    cluster: Cluster, polling: Callable[..., RsmqPoller]
) -> None:
    poller = polling(tags(cluster)[0], 1, cluster.masters[2].port)

    assert depths(await poller.poll()) == {}


async def test_both_clients_find_the_node(cluster: Cluster) -> None:
    for ns in tags(cluster):
        with connect(address_of(cluster), ns) as client:
            Rsmq(client, ns).create_queue("a")
        async with connect_async(address_of(cluster), ns) as aclient:
            assert await AsyncRsmq(aclient, ns).list_queues() == ["a"]


async def test_without_a_namespace_it_is_any_node(cluster: Cluster) -> None:
    with connect(address_of(cluster)) as client:
        assert client.ping()
    async with connect_async(address_of(cluster)) as aclient:
        assert await aclient.ping()


async def test_one_reader_reads_namespaces_on_every_node(cluster: Cluster) -> None:
    names = tags(cluster)
    for number, ns in enumerate(names):
        with connect(address_of(cluster), ns) as client:
            Rsmq(client, ns).create_queue(f"queue{number}")
    reader = RsmqReader(address_of(cluster), names[0])
    try:
        found = [(await reader.within(ns).rows.index()).names for ns in names]
        assert found == [("queue0",), ("queue1",), ("queue2",)]
        # Watching another one is the same, and back again.
        for ns, queues in [*zip(names, found, strict=True), (names[0], found[0])]:
            reader.watch(ns)
            assert (await reader.rows.index()).names == queues
        assert await reader.namespaces() == (type(await reader.namespaces())(tuple(sorted(names)), True))
    finally:
        await reader.aclose()


async def test_a_node_that_has_no_keys_any_more_is_not_held_on_to(cluster: Cluster) -> None:
    connections = ConnectionManager(address_of(cluster), timeout_s=5, traffic=Traffic())
    left = Node(HOST, cluster.replicas[0].port)
    replica = cluster.replicas[0]
    try:
        assert len(await connections.everywhere()) == len(cluster.masters)
        # As if it had been a master when the cluster was asked before.
        await connections._connection(left, None, SingleServerTopology(left)).runner.ask(("PING",))
        before = len(replica.call("CLIENT", "LIST").splitlines())
        for _ in range(3):
            found = await connections.everywhere()
            assert len(found) == len(cluster.masters)
            for link in found:
                await link.runner.ask(("PING",))
        assert left not in connections._connections
        assert len(connections._connections) == len(cluster.masters)
        wait_until(lambda: len(replica.call("CLIENT", "LIST").splitlines()) < before, what="it to be left")
    finally:
        await connections.aclose()


async def test_one_editor_changes_namespaces_on_every_node(cluster: Cluster) -> None:
    names = tags(cluster)
    for ns in names:
        with connect(address_of(cluster), ns) as client:
            Rsmq(client, ns).create_queue("a", vt=names.index(ns) + 1)
    editor = RsmqEditor(address_of(cluster), names[0])
    try:
        fields = [await editor.within(ns).fields("a") for ns in names]
        assert [each.attributes[b"vt"] for each in fields] == [b"1", b"2", b"3"]
    finally:
        await editor.aclose()


async def test_a_namespace_without_a_hash_tag_is_told_what_to_do(
    cluster: Cluster, polling: Callable[..., RsmqPoller], tmp_path: Path
) -> None:
    poller = polling("rsmq")
    failure = (await poller.poll()).connection.failure

    assert failure is not None
    assert failure.kind == "crossslot"
    assert failure.sentence == "a cluster spreads the keys of namespace rsmq, because its name has no hash tag"
    assert failure.hint == "on a cluster, RSMQ needs one: {rsmq}"
    assert all(master.call("DBSIZE") == 0 for master in cluster.masters)
    # From there one can go to a namespace that has one.
    with connect(address_of(cluster), "{a}") as client:
        Rsmq(client, "{a}").create_queue("q")
    assert (await poller.namespaces()).names == ("{a}",)
    poller.switch("{a}")
    assert depths(await poller.poll()) == {"q": 0}
    triage = ChangeService(RsmqBackend(address_of(cluster), "rsmq"), tmp_path)
    with pytest.raises(TriageError, match="hash tag"):
        await triage.preview(Send(queue="q", bodies=(b"x",)))
    await triage.aclose()
    with connect(address_of(cluster), "rsmq") as client, pytest.raises(ExplainedError, match="hash tag"):
        client.ping()


async def test_a_server_that_is_no_cluster_is_told_to_be_none(redis_url: str) -> None:
    port = int(redis_url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])
    reader = RsmqReader(Address(redis_url, cluster=(Node(HOST, port),)), "{a}")
    try:
        with pytest.raises(ExplainedError) as refused:
            await reader.rows.index()
    finally:
        await reader.aclose()

    assert refused.value.failure.kind == "no-cluster"
    assert f"{HOST}:{port}: it is not part of a cluster" in refused.value.failure.sentence


async def test_when_no_node_answers_each_is_named() -> None:
    reader = RsmqReader(Address("redis://", cluster=(Node(HOST, 1), Node(HOST, 2))), "{a}")
    try:
        with pytest.raises(ExplainedError) as refused:
            await reader.rows.index()
    finally:
        await reader.aclose()

    assert refused.value.failure.kind == "refused"
    assert refused.value.failure.sentence == (
        "no node of the cluster gives the address of these keys "
        "(127.0.0.1:1: connection refused, 127.0.0.1:2: connection refused)"
    )


async def test_the_way_is_counted(cluster: Cluster) -> None:
    reader = RsmqReader(address_of(cluster), tags(cluster)[0])
    try:
        await reader.rows.index()
        assert reader.traffic.bytes_received > 300
    finally:
        await reader.aclose()


async def test_a_slot_that_moves_is_followed_without_a_failure(
    cluster: Cluster, polling: Callable[..., RsmqPoller], tmp_path: Path
) -> None:
    ns, slot = queue_on_the_first(cluster)
    poller, triage = polling(ns), ChangeService(RsmqBackend(address_of(cluster), ns), tmp_path)
    await done(triage, Send(queue="a", bodies=(b"one",)))
    assert depths(await poller.poll()) == {"a": 1}
    for target in (cluster.masters[1], cluster.masters[2], cluster.masters[0]):
        cluster.move(slot, target)
        assert depths(await poller.poll()) == {"a": 1}
        # A change goes where the keys are, and is taken back there.
        await done(triage, Send(queue="a", bodies=(b"two",)))
        assert depths(await poller.poll()) == {"a": 2}
        assert (await undone(triage)).tally.done == 1
        assert target.call("EXISTS", f"{ns}:a") == 1
    await triage.aclose()


async def test_while_a_slot_moves_key_by_key_polls_and_changes_say_so(
    cluster: Cluster, polling: Callable[..., RsmqPoller], tmp_path: Path
) -> None:
    ns, slot = queue_on_the_first(cluster)
    poller, triage = polling(ns), ChangeService(RsmqBackend(address_of(cluster), ns), tmp_path)
    sending = Send(queue="a", bodies=(b"one",))
    await done(triage, sending)
    number = 0
    for keys in cluster.moving(slot, cluster.masters[1]):
        snapshot = await poller.poll()
        number = max(number, len(keys))
        if len(keys) == number:
            # None has moved yet.
            assert depths(snapshot) == {"a": 1}
            continue
        failure = snapshot.connection.failure
        assert failure is not None
        assert failure.sentence == "the cluster is moving these keys to another node"
        assert failure.hint == "wait until the move is complete"
        with pytest.raises(TriageError, match="wait until the move is complete"):
            await triage.preview(sending)
    try:
        assert depths(await poller.poll()) == {"a": 1}
        await done(triage, sending)
        assert depths(await poller.poll()) == {"a": 2}
    finally:
        await triage.aclose()
        cluster.move(slot, cluster.masters[0])


async def test_a_slot_that_moves_between_preview_and_run_is_followed(cluster: Cluster, tmp_path: Path) -> None:
    ns, slot = queue_on_the_first(cluster)
    triage = ChangeService(RsmqBackend(address_of(cluster), ns), tmp_path)
    try:
        preview = await triage.preview(Send(queue="a", bodies=(b"one",)))
        cluster.move(slot, cluster.masters[1])
        assert (await triage.run(preview).to_end()).tally.done == 1
    finally:
        await triage.aclose()
        cluster.move(slot, cluster.masters[0])


async def test_a_slot_that_moves_just_before_a_call_is_followed_and_the_call_made_once(cluster: Cluster) -> None:
    ns, slot = queue_on_the_first(cluster)
    editor = RsmqEditor(address_of(cluster), ns)
    try:
        await editor.fields("a")
        cluster.move(slot, cluster.masters[1])
        message = RawMessage(b"0" * 32, b"5", None, None, 1, b"x")
        outcome = await editor.apply(MessageBatch(EditKind.PUT, "a", (Edit(None, message),), sent=1), "token")
        assert outcome == Outcome.DONE
        assert cluster.masters[1].call("ZRANGE", f"{ns}:a", 0, -1) == [message.id]
    finally:
        await editor.aclose()
        cluster.move(slot, cluster.masters[0])


async def test_the_synchronous_client_follows_with_its_next_connection(cluster: Cluster) -> None:
    ns, slot = queue_on_the_first(cluster)
    with connect(address_of(cluster), ns) as client:
        queues = Rsmq(client, ns)
        assert queues.list_queues() == ["a"]
        cluster.move(slot, cluster.masters[1])
        with pytest.raises(Exception, match=r"(?i)moved|127"):
            queues.list_queues()
        assert queues.list_queues() == ["a"]
        cluster.move(slot, cluster.masters[0])


def step_down(cluster: Cluster, slot: int) -> None:
    """Let the first master's replica take its place, while it is there."""
    first, replica = cluster.masters[0], cluster.replicas[0]
    assert first.call("WAIT", 1, 5000) == 1
    replica.call("CLUSTER", "FAILOVER")
    wait_until(lambda: cluster.owner(slot) is replica, what="the replica to take over")
    wait_until(lambda: first.call("ROLE")[0] == b"slave", what="the master to follow it")


def _depth_at(replica: RealServer, key: str) -> int:
    with replica.client() as client:
        client.execute_command("READONLY")
        return int(client.zcard(key))


async def depth_soon(poller: RsmqPoller, queue: str) -> int | None:
    """The depth that a poll finds, or the next one if that says that the keys have moved."""
    snapshot = await poller.poll()
    if snapshot.connection.failure is not None and snapshot.connection.failure.kind == "moved":
        snapshot = await poller.poll()
    return depths(snapshot)[queue]


async def test_many_queues_that_move_are_followed_where_the_server_tells_what_changed() -> None:
    # The embedded server does, and of so many queues the index is not read in every poll.
    names = [f"q{number}" for number in range(300)]
    with real.cluster(masters=3, replicas=1, program=str(find_server())) as cluster:
        ns, slot = first_slot(cluster)
        with connect(address_of(cluster), ns) as client:
            for name in names:
                Rsmq(client, ns).create_queue(name)
        reader = RsmqReader(address_of(cluster), ns)
        poller = RsmqPoller(reader)
        try:
            for _ in range(2):
                assert len(depths(await poller.poll())) == len(names)
            step_down(cluster, slot)
            # The server that was left is told of it too, and tells those who have read from it.
            with connect(address_of(cluster), ns) as client:
                Rsmq(client, ns).send_message("q7", "x")
            left = cluster.masters[0]
            wait_until(
                lambda: left.call("CLUSTER", "COUNTKEYSINSLOT", slot) and _depth_at(left, f"{ns}:q7") == 1, what="it"
            )
            assert await depth_soon(poller, "q7") == 1
            cluster.move(slot, cluster.masters[1])
            assert await depth_soon(poller, "q7") == 1
        finally:
            await poller.aclose()


async def test_a_master_that_steps_down_and_one_that_dies_are_followed(
    cluster: Cluster, polling: Callable[..., RsmqPoller], tmp_path: Path
) -> None:
    ns, slot = queue_on_the_first(cluster)
    first, replica = cluster.masters[0], cluster.replicas[0]
    poller = polling(ns)
    assert depths(await poller.poll()) == {"a": 0}
    step_down(cluster, slot)

    # The old one is there still, and says who holds the keys now.
    assert depths(await poller.poll()) == {"a": 0}
    wait_until(lambda: replica.call("WAIT", 1, 100) == 1, what="the old master to keep up")

    replica.kill()
    # Until another one takes over it is a failure, which says who does not answer.
    failure = (await poller.poll()).connection.failure
    assert failure is not None
    assert failure.sentence in (f"{HOST}:{replica.port}: connection refused", "the server closed the connection")
    wait_until(lambda: first.call("ROLE")[0] == b"master", what="the first to be master again")
    wait_until(lambda: first.call("CLUSTER", "INFO").startswith(b"cluster_state:ok"), what="the cluster to agree")
    assert depths(await poller.poll()) == {"a": 0}


async def test_each_node_tells_its_status(cluster: Cluster) -> None:
    ns, _ = first_slot(cluster)
    async with aclosing(RsmqPoller(RsmqReader(address_of(cluster), ns))) as poller:
        statuses = await poller.server()
    assert {status.node for status in statuses} == {f"{HOST}:{node.port}" for node in cluster.masters}
    for status in statuses:
        kind, *_ = status_results(status)
        assert "cluster, up for" in kind.text
