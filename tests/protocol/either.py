"""One way to call both clients, so that each behaviour is written once."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any


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
