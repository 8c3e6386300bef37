"""A place of a replay, as the screens follow a server: what they see of it, and what a recording cannot tell."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING

from rsmq_tui.history.replay_messages import Inventories, Inventory
from rsmq_tui.history.replay_player import Player
from rsmq_tui.monitor import Filter, MessageView, Page, PageRequest, PeekError, Progress, Snapshot
from rsmq_tui.protocol import Namespaces

if TYPE_CHECKING:
    from rsmq_tui.history.place import Place
    from rsmq_tui.monitor.auditing import AuditProgress

NO_AUDIT = "this is a recording, which has no keys to audit; audit the server itself"
NO_NAMESPACES = "this is a recording: it contains only the namespaces that were recorded"


class ReplaySource:
    """The recorded queues of one place, and the messages of the last inventory before the moment that is shown."""

    def __init__(self, player: Player, place: "Place", inventories: Inventories) -> None:
        self.thresholds = player.replay.thresholds
        self._player = player
        self._place = place
        self._inventories = inventories
        # When the messages of each queue that was looked at were written down.
        self.seen: dict[str, int] = {}

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Yield what is to be shown of this place."""
        async for snapshot in self._player.snapshots():
            yield snapshot.part(self._player.replay.labels[self._place])

    def wake(self) -> None:
        """Show it anew."""
        self._player.wake()

    def set_paused(self, paused: bool) -> None:
        """Pause, or play."""
        self._player.set_playing(not paused)

    def switch(self, ns: str) -> None:
        """Do nothing: a place is of one namespace."""

    async def peek(self, request: PageRequest) -> Page:
        """Return a page of the last inventory; raises ``PeekError`` where there is none."""
        inventory = await self._inventory(request.queue)
        return inventory.page(request)

    async def read(self, queue: str, id: str) -> MessageView:
        """Return a message of the last inventory; raises ``PeekError``."""
        inventory = await self._inventory(queue)
        return inventory.view(id)

    async def search(self, queue: str, wanted: Filter) -> AsyncGenerator[Progress, None]:
        """Look for what matches in the last inventory; it raises ``PeekError``."""
        inventory = await self._inventory(queue)
        async for progress in inventory.search(wanted):
            yield progress

    async def audit(self, queues: Sequence[str] | None) -> "AsyncGenerator[AuditProgress, None]":
        """Say that there are no keys to audit, by a ``PeekError``."""
        raise PeekError(NO_AUDIT)
        yield

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count when the messages of the last inventory became visible; raises ``PeekError``."""
        inventory = await self._inventory(queue)
        return inventory.due(at_ms)

    async def namespaces(self) -> Namespaces:
        """Say that there are no others, by a ``PeekError``."""
        raise PeekError(NO_NAMESPACES)

    async def aclose(self) -> None:
        """End the replay."""
        self._player.close()

    async def _inventory(self, queue: str) -> Inventory:
        try:
            found = await self._inventories.last(self._place, queue, self._player.position_ms)
        except PeekError:
            self.seen.pop(queue, None)
            raise
        before_ms, self.seen[queue] = self.seen.get(queue), found.at_ms
        if found.at_ms != before_ms:
            # Of when they are is said beside them.
            self._player.wake()
        return found
