"""The read side of one namespace on one server, for everything that looks and never touches."""

from dataclasses import dataclass

from redis.exceptions import ResponseError

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.body_scan import BodyScan
from rsmq_tui.protocol.connection import TIMEOUT_S
from rsmq_tui.protocol.failures import failure_of
from rsmq_tui.protocol.fronts import QueueFronts
from rsmq_tui.protocol.inspection import QueueInspection
from rsmq_tui.protocol.keys import Keys, name_of
from rsmq_tui.protocol.links import Links
from rsmq_tui.protocol.metering import Traffic
from rsmq_tui.protocol.pages import QueuePages
from rsmq_tui.protocol.rows import QueueRows
from rsmq_tui.protocol.running import ScriptRunner
from rsmq_tui.protocol.scan import QueueScan
from rsmq_tui.protocol.score_ranges import QueueRanges

_SCAN_COUNT = 1000
_SCAN_CALLS_MAX = 500


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces that a scan found; ``complete`` is False when it stopped before the end of a large keyspace."""

    names: tuple[str, ...]
    complete: bool


class QueueReader:
    """Reads the queues of ``ns`` on a server: ``rows`` for all of them, ``pages`` and ``scan`` for one.

    ``inspection`` tells whether their keys agree. ``traffic`` counts what it has cost. Close it with ``aclose``. Raises
    ValueError for a URL that cannot be one.
    """

    def __init__(self, server: Address | str, ns: str = "rsmq", *, timeout_s: float = TIMEOUT_S) -> None:
        self.traffic = Traffic()
        address = Address.of(server)
        self.label = address.label
        self._links = Links(address, timeout_s=timeout_s, traffic=self.traffic)
        self.watch(ns)

    def watch(self, ns: str) -> None:
        """Read another namespace of the same server from now on."""
        self.ns = ns
        link = self._links.of(ns)
        self._runner = link.runner
        self.rows = QueueRows(link.tracked, self._runner, Keys(ns))
        self.pages = QueuePages(self._runner, Keys(ns))
        self.scan = QueueScan(self._runner, Keys(ns))
        self.ranges = QueueRanges(self._runner, Keys(ns))
        self.fronts = QueueFronts(self._runner, Keys(ns))
        self.bodies = BodyScan(self._runner, Keys(ns))
        self.inspection = QueueInspection(self._runner, Keys(ns))

    def within(self, ns: str) -> "QueueReader":
        """Return a reader of another namespace that shares the connections of this one, which reads on in its own."""
        other = object.__new__(QueueReader)
        other.traffic, other.label = self.traffic, self.label
        other._links = self._links
        other.watch(ns)
        return other

    @property
    def scripts_refused(self) -> str | None:
        """Why scripts cannot be used here, once that is known."""
        return self._runner.refused

    async def namespaces(self) -> Namespaces:
        """Look for sets named ``*:QUEUES`` by SCAN, on demand only; at most about 500,000 keys of a server are passed.

        In a cluster every node that holds keys is looked at.
        """
        found: set[str] = set()
        complete = True
        for link in await self._links.everywhere():
            complete = await self._add_namespaces(link.runner, found) and complete
        return Namespaces(tuple(sorted(found)), complete)

    async def _add_namespaces(self, runner: ScriptRunner, found: set[str]) -> bool:
        """Add those of one server, and tell whether these are all."""
        cursor: int | str | bytes = 0
        for _ in range(_SCAN_CALLS_MAX):
            (reply,) = await runner.commands(("SCAN", cursor, "MATCH", "*:QUEUES", "COUNT", _SCAN_COUNT, "TYPE", "set"))
            if isinstance(reply, ResponseError) and failure_of(reply).kind in ("noperm", "error"):
                # It may not be used, or not like this; anything else will pass.
                return False
            if isinstance(reply, Exception):
                raise reply
            cursor, keys = reply
            found.update(name_of(key).removesuffix(":QUEUES") for key in keys)
            if int(cursor) == 0:
                return True
        return False

    async def aclose(self) -> None:
        """Close all connections."""
        await self._links.aclose()
