"""Looking into a queue, of RSMQ or a list, without touching it."""

import argparse
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.list_argument import queue_of
from rsmq_tui.cli.output import say
from rsmq_tui.cli.target import list_reader_of, profile_of, reader_of
from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.list_ages import age_path
from rsmq_tui.monitor.list_looking import read_list_item, search_lists
from rsmq_tui.monitor.peek import MessageView, PeekError, read_message
from rsmq_tui.monitor.search import Progress, search
from rsmq_tui.monitor.wording import printable
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import SERVER_ERRORS, QueueReader, failure_of
from rsmq_tui.triage.due_first import search_due_first


class Look(Protocol):
    """A look into one queue; ``queue`` is its name and ``label`` its server's. Every method raises ``PeekError``."""

    queue: str
    label: str

    def search(self, wanted: Filter, limit: int | None) -> AsyncGenerator[Progress, None]:
        """Yield what matches; with a limit, those that a consumer would get first."""
        ...

    async def read(self, id: str) -> MessageView:
        """Read one message whole."""
        ...

    async def refuse_missing(self) -> None:
        """Raise ``UsageError`` where there is no such queue; to be asked when no message was found in it."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@asynccontextmanager
async def look_of(options: argparse.Namespace) -> AsyncIterator[Look]:
    """Give a look into the options' queue; what it cannot read becomes a ``UsageError``."""
    queue, is_list, profile = queue_of(options, profile_of(options))
    look: Look = ListLook(profile, queue) if is_list else RsmqLook(reader_of(profile), queue)
    try:
        yield look
    except PeekError as error:
        raise UsageError(f"{look.queue} on {look.label}: {error}") from error
    finally:
        await look.aclose()


class RsmqLook:
    """A look into a queue of RSMQ."""

    def __init__(self, reader: QueueReader, queue: str) -> None:
        self.queue, self.label = queue, reader.label
        self.reader = reader

    def search(self, wanted: Filter, limit: int | None) -> AsyncGenerator[Progress, None]:
        """Yield what matches: in no order, but with a limit those that are due first."""
        if limit is None:
            return search(self.reader, self.queue, wanted)
        return search_due_first(self.reader, self.queue, wanted, limit)

    async def read(self, id: str) -> MessageView:
        """Read one message whole."""
        return await read_message(self.reader, self.queue, id)

    async def refuse_missing(self) -> None:
        """Raise ``UsageError`` where no queue has that name."""
        try:
            index = await self.reader.rows.index()
        except SERVER_ERRORS as error:
            raise PeekError(f"{failure_of(error).sentence}: {failure_of(error).hint}") from error
        if self.queue not in index.names:
            hint = f"; a Redis List is written list:{self.queue}" if ":" in self.queue else ""
            raise UsageError(
                f"{self.queue} on {self.label}: no such queue in namespace {self.reader.ns}; "
                f"rsmq-tui queues list shows the existing queues{hint}"
            )

    async def aclose(self) -> None:
        """Close the connections."""
        await self.reader.aclose()


class ListLook:
    """A look into a list queue; an empty one is no key, and so never missing."""

    def __init__(self, profile: Profile, key: str) -> None:
        self._reader = list_reader_of(profile)
        self._age = None if profile.list_age is None else age_path(profile.list_age)
        self.queue, self.label = key, self._reader.label

    def search(self, wanted: Filter, limit: int | None) -> AsyncGenerator[Progress, None]:
        """Yield what matches."""
        return search_lists(self._reader, self.queue, wanted, limit=limit, age=self._age)

    async def read(self, id: str) -> MessageView:
        """Read one item whole."""
        return await read_list_item(self._reader, self.queue, id, age=self._age)

    async def refuse_missing(self) -> None:
        """Say that nothing is there, which is no error."""
        say(f"{printable(self.queue)} is empty now: Redis deletes a list with its last item")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._reader.aclose()
