"""What all workers of one workload share."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Site:
    """Where a workload works: its seed and speed, and whether it is ready, or over.

    Workers look at ``is_closed`` too because asyncio.wait_for, which redis-py sends with, can lose a cancellation on
    Python 3.11. ``waiting`` names the queues not made yet; ``on_ready`` is called when the last of them is.
    """

    seed: int
    speed: float
    waiting: set[str]
    on_ready: Callable[[], None] | None = None
    is_closed: bool = False

    def rng(self, queue: str, role: str) -> Random:
        """Return a generator of that role's own: what one makes does not depend on how they all interleave."""
        return Random(f"{self.seed} {queue} {role}")

    def made(self, queue: str) -> None:
        """Note that a queue is there, with its backlog."""
        if self.waiting == {queue} and self.on_ready is not None:
            self.on_ready()
        self.waiting.discard(queue)
