"""The connections to one address: to one server, or to each node of a cluster."""

from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from redis.asyncio.connection import ConnectionPool

from rsmq_tui.protocol.address import Address, Node
from rsmq_tui.protocol.connections.connect import Traffic, pool_async, search_async
from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.connections.topology import ClusterTopology, SingleServerTopology, Slots, Topology, slot_of
from rsmq_tui.protocol.errors import SERVER_ERRORS
from rsmq_tui.protocol.polling import TrackedConnection


@dataclass(frozen=True, slots=True)
class ServerConnection:
    """The connections to one server, its script runner, and a connection for polls; ``node`` is that of a cluster."""

    pool: ConnectionPool
    runner: ScriptRunner
    tracked: TrackedConnection
    node: Node | None


class ConnectionManager:
    """Makes the connections to the servers of an address, each when it is first needed; ``traffic`` counts for all.

    In a cluster, each new connection looks up the node of its namespace again, because keys can move. Close with
    ``aclose``.
    """

    def __init__(self, address: Address, *, timeout_s: float, traffic: Traffic) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._traffic = traffic
        self._cluster = ClusterTopology(address.cluster, None) if address.cluster else None
        self._connections: dict[Hashable, ServerConnection] = {}
        self._slots: Slots | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether keys are on several servers."""
        return self._cluster is not None

    def of(self, ns: str) -> ServerConnection:
        """Return the connection for a namespace; connecting fails if its keys are in several slots of a cluster."""
        if self._cluster is None:
            return self._connection(None, None, None)
        slot = slot_of(ns)
        return self._connection(ns if slot is None else slot, ns, None)

    async def slots(self) -> Slots:
        """Return which node holds which slots, as last read; raises ``ExplainedError``."""
        if self._slots is None:
            assert self._cluster is not None, "only a cluster has slots"
            self._slots = await search_async(self._address, self._cluster.slots(), self._timeout_s, self._traffic)
        return self._slots

    def forget_slots(self) -> None:
        """Make the next call of ``slots`` ask the cluster again."""
        self._slots = None

    def at(self, node: Node) -> ServerConnection:
        """Return the connection to a node of the cluster."""
        return self._connection(node, None, SingleServerTopology(node))

    async def holder(self, key: bytes) -> ServerConnection:
        """Return the connection to the server that holds a key, as last read; raises ``ExplainedError``."""
        if self._cluster is None:
            return self._connection(None, None, None)
        slots = await self.slots()
        return self.at(slots.holder(key) or slots.ranges[0][1])

    async def everywhere(self) -> tuple[ServerConnection, ...]:
        """Return the connections to all servers that hold keys; raises ``ExplainedError``."""
        if self._cluster is None:
            return (self._connection(None, None, None),)
        masters = await search_async(self._address, self._cluster.masters(), self._timeout_s, self._traffic)
        gone = [node for node in self._connections if isinstance(node, Node) and node not in masters]
        # A node that left the cluster holds no keys; an error on closing it must not fail this call.
        with suppress(*SERVER_ERRORS):
            await _close([self._connections.pop(node) for node in gone])
        return tuple(self.at(node) for node in masters)

    async def aclose(self) -> None:
        """Close all connections, then raise the first error that closing them raised."""
        await _close(tuple(self._connections.values()))

    def _connection(self, key: int | str | Node | None, ns: str | None, topology: Topology | None) -> ServerConnection:
        connection = self._connections.get(key)
        if connection is None:
            pool = pool_async(self._address, ns, timeout_s=self._timeout_s, traffic=self._traffic, topology=topology)
            runner = ScriptRunner(pool, self._traffic)
            node = key if isinstance(key, Node) else None
            connection = ServerConnection(pool, runner, TrackedConnection(pool, self._traffic), node)
            self._connections[key] = connection
        return connection


async def _close(connections: Iterable[ServerConnection]) -> None:
    first: BaseException | None = None
    for close in [close for connection in connections for close in (connection.tracked.aclose, connection.pool.aclose)]:
        try:
            await close()
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first
