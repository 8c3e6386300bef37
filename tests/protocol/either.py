"""One way to call both clients, so that each behaviour is written once."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from rsmq_tui.protocol import StoredMessage


class Either:
    """A client of either kind whose every method is awaited."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self.target, name)

        async def call(*arguments: Any, **keywords: Any) -> Any:
            result = method(*arguments, **keywords)
            return await result if inspect.isawaitable(result) else result

        return call


ID = "0" * 32
# Each operation once, on a queue `orders`.
OPERATIONS: dict[str, Callable[[Either], Awaitable[object]]] = {
    "create_queue": lambda queues: queues.create_queue("orders"),
    "delete_queue": lambda queues: queues.delete_queue("orders"),
    "get_queue_attributes": lambda queues: queues.get_queue_attributes("orders"),
    "set_queue_attributes": lambda queues: queues.set_queue_attributes("orders", vt=5),
    "send_message": lambda queues: queues.send_message("orders", "a"),
    "receive_message": lambda queues: queues.receive_message("orders"),
    "pop_message": lambda queues: queues.pop_message("orders"),
    "delete_message": lambda queues: queues.delete_message("orders", ID),
    "change_message_visibility": lambda queues: queues.change_message_visibility("orders", ID, 5),
    "send_messages": lambda queues: queues.send_messages("orders", ["a", "b"]),
    "receive_messages": lambda queues: queues.receive_messages("orders", 5),
    "delete_messages": lambda queues: queues.delete_messages("orders", [ID]),
    "change_visibility_of": lambda queues: queues.change_visibility_of("orders", [ID], 5),
    "restore_messages": lambda queues: queues.restore_messages("orders", [StoredMessage(ID, b"x", 5)]),
}
