"""From Spark's ordinary iterators to the reading core, which is asynchronous."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import TypeVar

from rsmq_tui.pipeline.datasource.errors import ERRORS, told
from rsmq_tui.pipeline.datasource.options import Options
from rsmq_tui.protocol import QueueReader

T = TypeVar("T")


def iterate(options: Options, make: Callable[[QueueReader], AsyncGenerator[T, None]]) -> Iterator[T]:
    """Yield what an asynchronous generator yields, which is given a reader; raises ``SourceError``.

    What it has asked is under way while the caller works on what came.
    """
    reader = opened(options)
    with asyncio.Runner() as runner:
        coming = make(reader)
        try:
            while True:
                try:
                    item = runner.run(_next(coming))
                except StopAsyncIteration:
                    return
                except ERRORS as error:
                    raise told(error, reader.label) from None
                yield item
        finally:
            runner.run(_close(coming, reader))


def opened(options: Options) -> QueueReader:
    """Return a reader of the server that the options name; raises ``SourceError``."""
    return QueueReader(options.server.address(), options.ns)


async def _next(coming: AsyncGenerator[T, None]) -> T:
    return await anext(coming)


async def _close(coming: AsyncGenerator[T, None], reader: QueueReader) -> None:
    async with aclosing(reader), aclosing(coming):
        pass
