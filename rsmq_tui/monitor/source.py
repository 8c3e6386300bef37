"""Where screens get what they show: a live server here, a recording or a script elsewhere."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.peek import MessageRow, MessageView, Page, PageRequest, RowsAgain
from rsmq_tui.monitor.search import Progress
from rsmq_tui.monitor.snapshot import Snapshot
from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.protocol import Namespaces

if TYPE_CHECKING:
    from rsmq_tui.monitor.auditing import AuditProgress


class Source(Protocol):
    """A stream of snapshots, and looks into one queue at a time."""

    thresholds: Thresholds

    def snapshots(self) -> AsyncIterator[Snapshot]:
        """Yield one snapshot after another; a failed poll is a snapshot too, and never an exception."""
        ...

    def wake(self) -> None:
        """Poll now."""
        ...

    def set_paused(self, paused: bool) -> None:
        """Stop or go on polling; ``wake`` still polls once."""
        ...

    def switch(self, ns: str) -> None:
        """Watch another namespace from the next poll on."""
        ...

    async def peek(self, request: PageRequest) -> Page:
        """Read one page of a queue's messages without changing anything; raises ``PeekError``."""
        ...

    async def read(self, queue: str, id: str) -> MessageView:
        """Read one message whole without changing anything; raises ``PeekError``."""
        ...

    def search(self, queue: str, wanted: Filter) -> AsyncGenerator[Progress, None]:
        """Look for what matches in the whole queue, without changing anything; it raises ``PeekError``.

        Close it with ``aclose`` when leaving early.
        """
        ...

    def audit(self, queues: Sequence[str] | None) -> "AsyncGenerator[AuditProgress, None]":
        """Look for what does not fit together in these queues, or in all; it raises ``PeekError``.

        Close it with ``aclose`` when leaving early.
        """
        ...

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count when the messages of a queue become visible, as (label, messages); raises ``PeekError``."""
        ...

    async def namespaces(self) -> Namespaces:
        """Look for namespaces on the server; raises ``PeekError``."""
        ...

    async def aclose(self) -> None:
        """Let go of everything that is open."""
        ...


@runtime_checkable
class ReadsAgain(Protocol):
    """A source of messages that go on living, which can tell what has become of one without reading its body again."""

    async def read_again(self, queue: str, known: MessageView) -> MessageView:
        """Read anew where it is; of one that has left its queue, the body stays what it was. Raises ``PeekError``."""
        ...


@runtime_checkable
class ReadsRowsAgain(Protocol):
    """A source that can tell what has become of many messages at once."""

    async def rows_again(self, queue: str, rows: Sequence[MessageRow]) -> RowsAgain:
        """Read anew where they are and how often they were received; raises ``PeekError``."""
        ...


@runtime_checkable
class KnowsWaiters(Protocol):
    """A source that can tell how many consumers wait on lists of its server."""

    async def blocked(self) -> int:
        """Count them, on demand: it asks for the list of all clients; raises ``PeekError``."""
        ...
