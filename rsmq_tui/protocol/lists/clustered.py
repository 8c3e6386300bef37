"""List queues of a cluster: each node is polled for those that it holds, and asked about one of them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any

from redis.exceptions import MovedError

from rsmq_tui.protocol.address import Node
from rsmq_tui.protocol.failures import SERVER_ERRORS
from rsmq_tui.protocol.links import Links
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.rows import ListRows
from rsmq_tui.protocol.metering import Traffic
from rsmq_tui.protocol.polled import Index
from rsmq_tui.protocol.read_scripts import Row
from rsmq_tui.protocol.routes import has_moved
from rsmq_tui.protocol.running import Exchange, ScriptCall, ScriptRunner


class ClusterListRows:
    """Reads the rows of the list queues that ``known`` tells, wherever in the cluster they are, as ``ListRows``.

    Who holds what is asked anew after a poll that failed, as one does for keys that have moved.
    """

    def __init__(
        self, links: Links, names: ListNames, known: Callable[[], frozenset[bytes]], *, shown_bytes: int = 0
    ) -> None:
        self._links = links
        self._names = names
        self._known = known
        self._shown_bytes = shown_bytes
        self._nodes: dict[Node, ListRows] = {}
        self._split: frozenset[bytes] | None = None
        self._held: dict[Node, frozenset[bytes]] = {}
        self._at_ms: dict[Node, int] = {}

    async def index(self) -> Index:
        """Read the clocks; raises redis-py's errors when a node cannot be read."""
        try:
            await self._find_holders()
            found = await asyncio.gather(*(self._nodes[node].index() for node in self._held))
        except SERVER_ERRORS:
            self._forget_holders()
            raise
        self._at_ms = {node: index.at_ms for node, index in zip(self._held, found, strict=True)}
        names = tuple(sorted(name for index in found for name in index.names))
        return Index(max((index.at_ms for index in found), default=0), names)

    async def rows(self, now_ms: int) -> AsyncGenerator[tuple[Sequence[str], list[Row]]]:
        """Give the rows of all, in the order of their names; a node's clock tells what has expired there."""
        try:
            parts = await asyncio.gather(*(self._rows_of(node) for node in self._held))
        except SERVER_ERRORS:
            self._forget_holders()
            raise
        rows = {name: row for part in parts for name, row in part.items()}
        names = sorted(rows)
        yield names, [rows[name] for name in names]

    async def _rows_of(self, node: Node) -> dict[str, Row]:
        found: dict[str, Row] = {}
        async for names, rows in self._nodes[node].rows(self._at_ms[node]):
            found.update(zip(names, rows, strict=True))
        return found

    async def _find_holders(self) -> None:
        known = self._known()
        if known is self._split:
            return
        slots = await self._links.slots()
        held: dict[Node, set[bytes]] = {node: set() for _, node in slots.ranges}
        first = next(iter(held))
        for name in known:
            held[slots.holder(name) or first].add(name)
        for node in held.keys() - self._nodes.keys():
            link = self._links.at(node)
            of_node = partial(self._held_by, node)
            self._nodes[node] = ListRows(
                link.tracked, link.runner, self._names, of_node, shown_bytes=self._shown_bytes, in_cluster=True
            )
        self._held = {node: frozenset(names) for node, names in held.items()}
        self._split = known

    def _held_by(self, node: Node) -> frozenset[bytes]:
        return self._held.get(node, frozenset())

    def _forget_holders(self) -> None:
        self._links.forget_slots()
        self._split = None


class ClusterRunner(ScriptRunner):
    """Runs each script, and sends commands, where the first key is; keys that have moved are followed once."""

    def __init__(self, links: Links, traffic: Traffic) -> None:
        # Whatever is sent goes out by the runner of a node; this client is for what has no key.
        super().__init__(links.of("").client, traffic)
        self._links = links

    async def run_all(self, calls: Sequence[ScriptCall], over: Exchange | None = None) -> list[Any]:
        """Run the scripts, all of them where the first one's key is; raises ``ScriptsRefusedError``."""
        key = calls[0][1][0]
        runner = await self._of(key)
        try:
            return await runner.run_all(calls, over)
        except MovedError:
            self._links.forget_slots()
            return await (await self._of(key)).run_all(calls, over)
        finally:
            self.refused = self.refused or runner.refused

    async def commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send commands to where the first key among them is, or to any node."""
        key = next((command[1] for command in commands if len(command) > 1), b"")
        assert isinstance(key, bytes), "keys are bytes"
        replies = await (await self._of(key)).commands(*commands)
        if has_moved(replies):
            self._links.forget_slots()
            replies = await (await self._of(key)).commands(*commands)
        return replies

    async def _of(self, key: bytes) -> ScriptRunner:
        return (await self._links.holder(key)).runner
