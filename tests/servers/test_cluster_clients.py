"""Who works on a queue of a cluster: the node that holds the queue is asked."""

import pytest
from redis import Redis

from rsmq_tui.protocol import Address, ListNames, ListQueue, Node, Rsmq, RsmqReader, slot_of, url_of
from rsmq_tui.protocol.lists.reader import ListReader
from tests.protocol.test_clients import seen_clients
from tests.servers.real import HOST, Cluster

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("tag", ["{a}", "{b}", "{c}"])
async def test_the_node_of_the_queue_is_watched(cluster: Cluster, tag: str) -> None:
    slot = slot_of(tag)
    assert slot is not None
    port = cluster.masters[0].port
    address = Address(url_of(HOST, port), cluster=(Node(HOST, port),))
    with Redis(port=cluster.owner(slot).port) as client:
        rsmq, items = Rsmq(client, ns=tag), ListQueue(client, f"work{tag}")
        rsmq.create_queue("orders")
        reader = RsmqReader(address, tag)
        found = await seen_clients(reader, "orders", client, lambda: rsmq.send_message("orders", "x"))
        await reader.aclose()
        assert [activity.sends for activity in found.activities] == [1]
        lists = ListReader(address, ListNames(), ["queue:*"])
        found = await seen_clients(lists, items.key, client, lambda: items.push("a", "b"))
        await lists.aclose()
        assert [activity.sends for activity in found.activities] == [2]
