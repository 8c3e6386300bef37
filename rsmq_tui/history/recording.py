"""Recording several places at once, each by itself: a slow or dead server delays no other."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rsmq_tui.history.inventory import Inventory
from rsmq_tui.history.place import Place
from rsmq_tui.history.recorder import Recorder
from rsmq_tui.monitor import LivePoller, Snapshot
from rsmq_tui.protocol import QueueReader

if TYPE_CHECKING:
    from rsmq_tui.monitor.list_poller import ListPoller


@dataclass(frozen=True, slots=True)
class Pace:
    """How often: seconds between polls, and between inventories of all messages (None: none are taken)."""

    every_s: float
    messages_s: float | None = None
    bodies: bool = False


class Watched:
    """A place that is recorded; ``snapshot`` is the last that was polled there.

    ``messages`` is a reader of its own for inventories, so that no poll waits behind one; None where none are taken, as
    of lists: their items have no ids by which one inventory could be compared with the next. ``clock`` is the poller's
    monotonic clock, in seconds.
    """

    def __init__(
        self,
        place: Place,
        poller: "LivePoller | ListPoller",
        messages: QueueReader | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.place = place
        self.snapshot: Snapshot | None = None
        self.inventory: Inventory | None = None
        self._poller = poller
        self._messages = messages
        self._clock = clock

    @property
    def failure(self) -> str | None:
        """What is wrong with the place just now, in a sentence."""
        if self.snapshot is not None and self.snapshot.link.failure is not None:
            return self.snapshot.link.failure.sentence
        return None if self.inventory is None else self.inventory.problem

    async def record(self, recorder: Recorder, pace: Pace) -> None:
        """Poll and give the snapshots to the recorder, until cancelled; then close the connections."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poll(recorder, pace.every_s))
                if pace.messages_s is not None and self._messages is not None:
                    self.inventory = Inventory(self._messages, self.place, recorder, bodies=pace.bodies)
                    group.create_task(self._take_inventories(self.inventory, pace.messages_s))
        finally:
            await self._poller.aclose()
            if self._messages is not None:
                await self._messages.aclose()

    async def _poll(self, recorder: Recorder, every_s: float) -> None:
        while True:
            begun_s = self._clock()
            snapshot = await self._poller.poll()
            self.snapshot = snapshot
            recorder.take(snapshot, self.place.profile)
            retry_at_s = snapshot.link.retry_at_s
            due_s = begun_s + every_s if retry_at_s is None else retry_at_s
            await asyncio.sleep(max(0.0, due_s - self._clock()))

    async def _take_inventories(self, inventory: Inventory, every_s: float) -> None:
        while True:
            begun_s = self._clock()
            snapshot = self.snapshot
            if snapshot is None or snapshot.link.failure is not None:
                # There is nothing to read yet.
                await asyncio.sleep(min(every_s, 0.1))
                continue
            names = [queue.name for queue in snapshot.queues if queue.kind == "rsmq"]
            await inventory.take(names)
            await asyncio.sleep(max(0.0, begun_s + every_s - self._clock()))


async def record(watched: Sequence[Watched], recorder: Recorder, pace: Pace, stop: asyncio.Event) -> None:
    """Record all of these until ``stop`` is set, and then let the recorder write and seal what it has."""
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(one.record(recorder, pace)) for one in watched]
    try:
        stopping = asyncio.create_task(stop.wait())
        tasks.append(stopping)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            # Nothing ends by itself: if it does, it is a fault that has to be seen.
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        recorder.close()
    while not recorder.is_closed:  # noqa: ASYNC110 - a thread closes it
        await asyncio.sleep(0.01)
