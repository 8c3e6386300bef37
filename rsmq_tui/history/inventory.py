"""Inventories: every message of a queue written down, so gently that polls do not notice."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing

from rsmq_tui.history.place import Place
from rsmq_tui.history.recorder import Recorder
from rsmq_tui.monitor import PeekError, parse_filter, search
from rsmq_tui.protocol import QueueReader

# Beyond this an inventory is cut short: the deepest queue must not take the whole disk.
MESSAGES_MAX = 1_000_000
_ROOM_S = 0.02
_EVERYTHING = parse_filter("")


class Inventory:
    """Takes inventories of the queues of one place; ``bodies`` reads and records these too.

    ``problem`` is why the last of them is not whole, if it is not. ``clock`` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        reader: QueueReader,
        place: Place,
        recorder: Recorder,
        *,
        bodies: bool = False,
        messages_max: int = MESSAGES_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem: str | None = None
        self._reader = reader
        self._place = place
        self._recorder = recorder
        self._bodies = bodies
        self._messages_max = messages_max
        self._clock = clock

    async def take(self, queues: Sequence[str]) -> None:
        """Take one of each of these queues in turn; a queue that cannot be read does not keep it from the others."""
        problem = None
        for queue in queues:
            try:
                await self._take(queue)
            except PeekError as error:
                problem = f"the messages of {queue} cannot be read: {error}"
        self.problem = problem

    async def _take(self, queue: str) -> None:
        begun_ms: int | None = None
        at_ms, scanned = 0, 0
        async with aclosing(search(self._reader, queue, _EVERYTHING, bodies=self._bodies)) as coming:
            asked_s = self._clock()
            async for found in coming:
                at_ms, scanned = found.at_ms, found.scanned
                begun_ms = at_ms if begun_ms is None else begun_ms
                if found.messages:
                    self._recorder.take_messages(self._place, queue, found.messages, at_ms=at_ms, inventory_ms=begun_ms)
                if scanned >= self._messages_max:
                    return
                # The server rests for as long as it has worked for us, and the disk may catch up.
                await asyncio.sleep(min(1.0, self._clock() - asked_s))
                while not self._recorder.has_room:  # noqa: ASYNC110 - a thread makes room
                    await asyncio.sleep(_ROOM_S)
                asked_s = self._clock()
        if begun_ms is not None:
            self._recorder.end_inventory(self._place, queue, at_ms=at_ms, inventory_ms=begun_ms)
