"""A consumer that never finishes its work: it receives in a tight loop, and remembers what it was handed last."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis

from rsmq_tui.protocol import Message, Rsmq

WAIT_S = 100.0


class HotConsumer:
    """Receives from a queue with a short visibility timeout until it is stopped; ``last`` is by id."""

    def __init__(self, url: str, queue: str, vt_s: int) -> None:
        self.last: dict[str, Message] = {}
        self.received = 0
        self._url, self._queue, self._vt_s = url, queue, vt_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._receive)

    def _receive(self) -> None:
        with Redis.from_url(self._url) as client:
            queues = Rsmq(client)
            while not self._is_over.is_set():
                for message in queues.receive_messages(self._queue, 5, vt=self._vt_s):
                    self.last[message.id] = message
                    self.received += 1

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def wait_for(self, ids: list[str], rc: int) -> None:
        """Wait until each of these was received so often; blocks."""
        ends_s = time.monotonic() + WAIT_S
        while any(id not in self.last or self.last[id].rc < rc for id in ids):
            if time.monotonic() > ends_s:
                raise TimeoutError("the consumer does not get on")
            time.sleep(0.005)


@contextmanager
def consuming(url: str, queue: str, vt_s: int = 0) -> Iterator[HotConsumer]:
    consumer = HotConsumer(url, queue, vt_s)
    consumer.start()
    try:
        yield consumer
    finally:
        consumer.stop()
