"""One server to watch, with everything that was said about it."""

from dataclasses import dataclass, field

from rsmq_tui.monitor.verdicts import Thresholds
from rsmq_tui.protocol import Address
from rsmq_tui.protocol.lists.naming import ListNames


@dataclass(frozen=True, slots=True)
class Profile:
    """A server, and how it is to be watched; ``name`` is empty for one that came from ``-r`` or the environment.

    ``namespaces`` holds at least one; ``colour`` is the accent that marks its screens and dialogs, if any. ``lists``
    are names and patterns of list queues, whose keys are named as ``list_names`` says; ``list_age`` is where the JSON
    of an item tells when it was made.
    """

    name: str
    address: Address
    namespaces: tuple[str, ...] = ("rsmq",)
    read_only: bool = False
    colour: str | None = None
    interval_s: float = 1.0
    thresholds: Thresholds = field(default_factory=Thresholds)
    lists: tuple[str, ...] = ()
    list_names: ListNames = field(default_factory=ListNames)
    list_age: str | None = None

    @property
    def ns(self) -> str:
        """The namespace to begin in."""
        return self.namespaces[0]
