"""The servers that the dashboard watches."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rsmq_tui.monitor import Source
from rsmq_tui.protocol.kinds import Kind, kind_of

if TYPE_CHECKING:
    from rsmq_tui.triage.service import ChangeService


class WatchedServer:
    """One server, in one namespace at a time.

    ``place`` tells it from others for as long as the program runs, and is empty where there is one; ``name`` is the
    profile's, shown at the top in its ``colour``, which is ``#rrggbb``, and ``ns`` the namespace that it begins in.
    ``triage`` is what changes its queues, or makes
    it when it is first needed: the first numbers are on the screen before it is loaded. Without it, and where it or the
    site is ``read_only``, nothing is changed.
    """

    def __init__(
        self,
        source: Source,
        *,
        place: str = "",
        name: str = "",
        ns: str = "",
        colour: str | None = None,
        triage: "ChangeService | Callable[[], ChangeService] | None" = None,
        read_only: bool = False,
    ) -> None:
        self.source = source
        self.place = place
        self.name = name
        self.colour = colour
        self.read_only = read_only or bool(getattr(triage, "read_only", False))
        self._opening = triage
        self._triage: ChangeService | None = None
        self._first_ns = ns
        self._ns: str | None = None

    @property
    def kind(self) -> Kind:
        """The kind of its queues."""
        return kind_of(self._first_ns)

    def title(self, ns: str) -> str:
        """Return what it is called while it watches that namespace."""
        is_elsewhere = self._first_ns and ns and ns != self._first_ns
        return f"{self.name or self.place} {ns}" if is_elsewhere else self.place or self.name

    @property
    def can_export(self) -> bool:
        """True where messages may be written to a file."""
        return self._opening is not None

    @property
    def can_change(self) -> bool:
        """True where queues may be changed."""
        return self._opening is not None and not self.read_only

    def awaited_ns(self, shown_ns: str) -> str | None:
        """Return the namespace that it was switched to, as long as another one is shown; None where all is one."""
        return None if not self.kind.has_namespaces or self._ns in (None, shown_ns) else self._ns

    @property
    def triage(self) -> "ChangeService":
        """What changes its queues, made when it is first asked for."""
        if self._triage is None:
            if self._opening is None:
                raise RuntimeError("changes are not available")
            self._triage = self._opening() if callable(self._opening) else self._opening
            if self._ns is not None:
                self._triage.watch(self._ns)
        return self._triage

    def switch(self, ns: str) -> None:
        """Watch and change the queues of another namespace from now on."""
        self._ns = ns
        self.source.switch(ns)
        if self._triage is not None:
            self._triage.watch(ns)

    async def aclose(self) -> None:
        """Let go of the server and the journal."""
        if self._triage is not None:
            await self._triage.aclose()
        elif self._opening is not None and not callable(self._opening):
            await self._opening.aclose()
        await self.source.aclose()


def are_of_one_server(sites: Sequence[WatchedServer]) -> bool:
    """Tell whether there is nothing to tell apart but the kinds of queues: one namespace, and the lists beside it."""
    return len({site.name for site in sites}) == 1 and len({site.kind.name for site in sites}) == len(sites)
