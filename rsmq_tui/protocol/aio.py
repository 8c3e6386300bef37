"""The asyncio client: runs the same operations on a ``redis.asyncio.Redis`` or ``RedisCluster``."""

from collections.abc import Iterable

from redis.asyncio import Redis, RedisCluster

from rsmq_tui.protocol import operations
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.messages import Message, QueueAttributes, StoredMessage
from rsmq_tui.protocol.runner import AsyncRunner


class AsyncRsmq(AsyncRunner):
    """``Rsmq`` for asyncio: the same methods, arguments and errors, as coroutines."""

    def __init__(self, client: Redis | RedisCluster, ns: str = "rsmq", realtime: bool = False) -> None:
        super().__init__(client)
        self.ns = ns
        self.realtime = realtime
        self._keys = Keys(ns)

    async def list_queues(self) -> list[str]:
        """As ``Rsmq.list_queues``."""
        return await self._run(operations.list_queues(self._keys))

    async def create_queue(self, queue: str, *, vt: int = 30, delay: int = 0, maxsize: int = 65536) -> None:
        """As ``Rsmq.create_queue``."""
        await self._run(operations.create_queue(self._keys, queue, vt, delay, maxsize))

    async def delete_queue(self, queue: str) -> None:
        """As ``Rsmq.delete_queue``."""
        await self._run(operations.delete_queue(self._keys, queue))

    async def get_queue_attributes(self, queue: str) -> QueueAttributes:
        """As ``Rsmq.get_queue_attributes``."""
        return await self._run(operations.get_queue_attributes(self._keys, queue))

    async def set_queue_attributes(
        self, queue: str, *, vt: int | None = None, delay: int | None = None, maxsize: int | None = None
    ) -> QueueAttributes:
        """As ``Rsmq.set_queue_attributes``."""
        return await self._run(operations.set_queue_attributes(self._keys, queue, vt, delay, maxsize))

    async def send_message(self, queue: str, body: str | bytes, *, delay: int | None = None) -> str:
        """As ``Rsmq.send_message``."""
        return await self._run(operations.send_message(self._keys, queue, body, delay, self.realtime))

    async def send_messages(self, queue: str, bodies: Iterable[str | bytes], *, delay: int | None = None) -> list[str]:
        """As ``Rsmq.send_messages``."""
        return await self._run_all(operations.send_messages(self._keys, queue, bodies, delay, self.realtime))

    async def receive_message(self, queue: str, *, vt: int | None = None) -> Message | None:
        """As ``Rsmq.receive_message``."""
        return await self._run(operations.receive_message(self._keys, queue, vt))

    async def receive_messages(self, queue: str, count: int, *, vt: int | None = None) -> list[Message]:
        """As ``Rsmq.receive_messages``."""
        return await self._run(operations.receive_messages(self._keys, queue, count, vt))

    async def pop_message(self, queue: str) -> Message | None:
        """As ``Rsmq.pop_message``."""
        return await self._run(operations.pop_message(self._keys, queue))

    async def delete_message(self, queue: str, id: str) -> bool:
        """As ``Rsmq.delete_message``."""
        return await self._run(operations.delete_message(self._keys, queue, id))

    async def delete_messages(self, queue: str, ids: Iterable[str]) -> list[bool]:
        """As ``Rsmq.delete_messages``."""
        return await self._run_all(operations.delete_messages(self._keys, queue, ids))

    async def change_message_visibility(self, queue: str, id: str, vt: int) -> bool:
        """As ``Rsmq.change_message_visibility``."""
        return await self._run(operations.change_message_visibility(self._keys, queue, id, vt))

    async def change_visibility_of(self, queue: str, ids: Iterable[str], vt: int) -> list[bool]:
        """As ``Rsmq.change_visibility_of``."""
        return await self._run_all(operations.change_visibility_of(self._keys, queue, ids, vt))

    async def restore_messages(self, queue: str, messages: Iterable[StoredMessage]) -> list[bool]:
        """As ``Rsmq.restore_messages``."""
        return await self._run_all(operations.restore_messages(self._keys, queue, messages))
