"""The read side of the list queues of one server, for everything that looks and never touches."""

from collections.abc import Sequence

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.connection import TIMEOUT_S
from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.links import Links
from rsmq_tui.protocol.lists.blocked import COMMANDS, BlockedConsumer, read_blocked
from rsmq_tui.protocol.lists.clustered import ClusterListRows, ClusterRunner
from rsmq_tui.protocol.lists.discovery import ListDiscovery, processing_glob
from rsmq_tui.protocol.lists.lease_look import ListLeases
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.pages import ListPages
from rsmq_tui.protocol.lists.rows import ListRows
from rsmq_tui.protocol.lists.scan import ListScan
from rsmq_tui.protocol.metering import Traffic
from rsmq_tui.protocol.running import ScriptRunner, raise_first


class ListReader:
    """Reads the list queues that ``patterns`` mean: ``rows`` for all of them, ``pages`` and ``scan`` for one.

    ``discovery`` knows which there are; ``shown_bytes`` is how much of each queue's next item its row holds.
    ``traffic`` counts what it has cost. Close it with ``aclose``. Raises ValueError for a URL that cannot be one.
    """

    def __init__(
        self,
        server: Address | str,
        names: ListNames,
        patterns: Sequence[str],
        *,
        shown_bytes: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.traffic = Traffic()
        address = Address.of(server)
        self.label = address.label
        self.names = names
        self._links = Links(address, timeout_s=timeout_s, traffic=self.traffic)
        self.discovery = ListDiscovery(self._links, names, patterns)
        if self._links.is_cluster:
            self._runner: ScriptRunner = ClusterRunner(self._links, self.traffic)
            self.rows: ListRows | ClusterListRows = ClusterListRows(
                self._links, names, lambda: self.discovery.names, shown_bytes=shown_bytes
            )
        else:
            link = self._links.of("")
            self._runner = link.runner
            self.rows = ListRows(
                link.tracked, self._runner, names, lambda: self.discovery.names, shown_bytes=shown_bytes
            )
        self.pages = ListPages(self._runner, names)
        self.scan = ListScan(self._runner, names)
        self.leases = ListLeases(self._runner, names)

    async def worked_on(self) -> tuple[frozenset[str], str | None]:
        """Look for all processing lists of the server, and return the queues of these, and why they may not be all.

        They are those that the names of processing lists mean, watched or not. Raises redis-py's errors.
        """
        found = ListDiscovery(self._links, self.names, [processing_glob(self.names)])
        await found.search()
        return frozenset(map(name_of, found.names)), found.note

    @property
    def scripts_refused(self) -> str | None:
        """Why scripts cannot be used here, once that is known."""
        return self._runner.refused

    async def blocked(self) -> list[BlockedConsumer]:
        """Return who waits on lists of the server's database, or of every server of a cluster; costs a line a client.

        On which of its lists each waits nobody can tell.
        """
        found: list[BlockedConsumer] = []
        for link in await self._links.everywhere():
            replies = await link.runner.commands(*COMMANDS)
            raise_first(replies)
            found += read_blocked(*replies)
        return found

    async def aclose(self) -> None:
        """Close all connections."""
        await self._links.aclose()
