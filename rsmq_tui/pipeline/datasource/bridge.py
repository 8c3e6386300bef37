"""Runs the asynchronous readers from Spark's synchronous iterators."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import TypeVar

from rsmq_tui.monitor import LivePoller
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.pipeline.datasource.options import ERRORS, Options, SourceError, explain
from rsmq_tui.protocol import QueueReader
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.protocol.lists.reader import ListReader

_NEVER_S = 1e9

T = TypeVar("T")
R = TypeVar("R", QueueReader, ListReader)


def iterate(options: Options, make: Callable[[QueueReader], AsyncGenerator[T, None]]) -> Iterator[T]:
    """Yield the items of the asynchronous generator that ``make`` returns for a reader; raises ``SourceError``.

    The next item is fetched while the caller processes the current one.
    """
    return iterate_with(opened(options), make)


def iterate_with(reader: R, make: Callable[[R], AsyncGenerator[T, None]]) -> Iterator[T]:
    """As ``iterate``, with a reader of either kind, which is closed afterwards."""
    with asyncio.Runner() as runner:
        coming = make(reader)
        try:
            while True:
                try:
                    item = runner.run(_next(coming))
                except StopAsyncIteration:
                    return
                except ERRORS as error:
                    raise explain(error, reader.label) from None
                yield item
        finally:
            runner.run(_close(coming, reader))


def opened(options: Options) -> QueueReader:
    """Return a reader of the server that the options name; raises ``SourceError``."""
    return QueueReader(options.server.address(), options.ns)


def opened_lists(options: Options) -> ListReader:
    """Return a reader of the lists that the options name; raises ``SourceError``."""
    if not options.lists:
        raise SourceError(
            "option lists names the lists to read: queue:*, or several separated by commas; or option "
            "queue names one list"
        )
    return ListReader(options.server.address(), options.list_names, options.lists)


def opened_poller(options: Options, *, interval_s: float = 1.0) -> LivePoller | ListPoller:
    """Return a poller of the queues that the options name; raises ``SourceError``.

    A poller of lists searches for them only on request: a background search would not run between two polls.
    """
    if options.kind == LIST.name:
        return ListPoller(opened_lists(options), interval_s=interval_s, search_every_s=_NEVER_S)
    return LivePoller(opened(options), interval_s=interval_s)


async def _next(coming: AsyncGenerator[T, None]) -> T:
    return await anext(coming)


async def _close(coming: AsyncGenerator[T, None], reader: QueueReader | ListReader) -> None:
    async with aclosing(reader), aclosing(coming):
        pass
