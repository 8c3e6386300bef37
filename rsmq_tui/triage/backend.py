"""What each kind of queue must know so that its queues can be changed; the service does the rest."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable

from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.triage.change import Entry, Step
from rsmq_tui.triage.export import Exporting
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.scope import Preview, Scope, SeeingCallback


class Backend(ABC):
    """Knows a kind of queues; every method raises what its editor raises, and ``TriageError``."""

    @property
    @abstractmethod
    def editor(self) -> EditExecutor:
        """What carries its changes out."""

    def watch(self, ns: str) -> None:  # noqa: B027 # most kinds have no namespaces
        """Change the queues of another namespace from now on, where there are some."""

    @abstractmethod
    async def preview(self, base: Preview, journal: Journal, scope: Scope | None, seeing: SeeingCallback) -> Preview:
        """Find out what the action of ``base`` would do, and fill in what is known of it."""

    @abstractmethod
    def prepare(self, editor: EditExecutor, journal: Journal, preview: Preview) -> AsyncGenerator[Step, None]:
        """Prepare the batches of what was previewed."""

    @abstractmethod
    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Hand what a scope means to ``write``."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""


class BatchUndo(ABC):
    """Takes batches of one change back, those of one kind of queue.

    ``already`` are the numbers of those batches that an earlier, unfinished undo has taken back.
    """

    # What people should know before they take a change of such queues back.
    note = ""

    def __init__(self, journal: Journal, change: int, already: set[int]) -> None:
        self.journal, self.change, self.already = journal, change, already

    @abstractmethod
    def still_done(self, entry: Entry) -> str:
        """Return the outcome of a batch without what earlier, unfinished undoing has taken back."""

    @abstractmethod
    def steps(self, editor: EditExecutor, entry: Entry) -> AsyncGenerator[Step, None]:
        """Prepare the way back of one batch, as far as it was not gone before; ``editor`` is that of the change."""

    def created(self, entry: Entry) -> str | None:
        """Return the queue that a batch created, which is then removed."""
        return None
