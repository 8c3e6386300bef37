"""The servers that the dashboard watches."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rsmq_tui.monitor import Source
from rsmq_tui.protocol.keys import DEFAULT_NS
from rsmq_tui.protocol.kinds import kind_of

if TYPE_CHECKING:
    from rsmq_tui.triage.service import ChangeService


class WatchedServer:
    """One server in one namespace at a time, or the list queues of one.

    ``place`` identifies it while the program runs, and is empty if there is only one; ``name`` is that of the profile,
    shown at the top in its ``colour`` (``#rrggbb``); ``address`` is without user and password, and is shown until the
    first poll. ``ns`` is the initial namespace, which also determines the ``kind`` of its queues; ``lists`` are the
    patterns of its lists. ``make_triage`` makes the service that changes its queues when that is first needed, after
    the first numbers are on the screen. Without it, or if the server is ``read_only``, nothing can be changed.
    """

    def __init__(
        self,
        source: Source,
        *,
        place: str = "",
        name: str = "",
        address: str = "",
        ns: str = "",
        lists: Sequence[str] = (),
        colour: str | None = None,
        make_triage: "Callable[[], ChangeService] | None" = None,
        read_only: bool = False,
    ) -> None:
        self.source = source
        self.place = place
        self.name = name
        self.address = address
        self.lists = lists
        self.colour = colour
        self.kind = kind_of(ns)
        self.read_only = read_only
        self._make_triage = make_triage
        self._triage: ChangeService | None = None
        self._first_ns = ns
        self._ns: str | None = None

    def title(self, ns: str) -> str:
        """Return its title while it watches that namespace."""
        is_elsewhere = self._first_ns and ns and ns != self._first_ns
        return f"{self.name or self.place} {ns}" if is_elsewhere else self.place or self.name

    @property
    def options(self) -> list[str]:
        """The options by which a command watches the same queues of the server or profile: its namespace, its lists."""
        usual, ns = (self._first_ns if self.name else DEFAULT_NS), self._ns or self._first_ns
        named = ["--ns", ns] if self.kind.has_namespaces and ns not in ("", usual) else []
        return named + [word for pattern in self.lists if not self.name for word in ("--lists", pattern)]

    @property
    def can_export(self) -> bool:
        """Whether messages can be exported."""
        return self._make_triage is not None

    @property
    def can_change(self) -> bool:
        """Whether queues may be changed."""
        return self._make_triage is not None and not self.read_only

    def awaited_ns(self, shown_ns: str) -> str | None:
        """Return the namespace that it was switched to, while another one is still shown; otherwise None."""
        return None if not self.kind.has_namespaces or self._ns in (None, shown_ns) else self._ns

    @property
    def triage(self) -> "ChangeService":
        """The service that changes its queues, created on first use."""
        if self._triage is None:
            if self._make_triage is None:
                raise RuntimeError("changes are not available")
            self._triage = self._make_triage()
            if self._ns is not None:
                self._triage.watch(self._ns)
        return self._triage

    @property
    def triage_in_use(self) -> "ChangeService | None":
        """The service that changes its queues, None before its first use."""
        return self._triage

    def switch(self, ns: str) -> None:
        """Switch to another namespace."""
        self._ns = ns
        self.source.switch(ns)
        if self._triage is not None:
            self._triage.watch(ns)

    async def aclose(self) -> None:
        """Close the connections and the journal."""
        if self._triage is not None:
            await self._triage.aclose()
        await self.source.aclose()


def are_of_one_server(servers: Sequence[WatchedServer]) -> bool:
    """Return whether the servers differ only in kind: one namespace of a server, and the lists beside it."""
    kinds = {server.kind.name for server in servers}
    return len({server.name for server in servers}) == 1 and len(kinds) == len(servers)
