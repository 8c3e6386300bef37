"""Polls each place once for all sessions, and streams its snapshots to them over a Unix socket.

The socket is in a folder that only its user can enter. Messages of the server are pickled; requests of sessions are
JSON. A message is its length in four bytes, then its content.

A snapshot refers to an hour of every queue, to which polls add one bucket every few seconds: sending all of it would
cost more than polling. So a session gets one snapshot in full, and then the changes of each poll.
"""

import asyncio
import json
import os
import pickle
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rsmq_tui.monitor import Snapshot, Source
from rsmq_tui.monitor.model import ChangedStates, QueueState
from rsmq_tui.monitor.poller import LooksFirst
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.protocol import ENDED, Failure

# A session that does not read is disconnected: it connects again, and starts from a full snapshot.
_UNREAD_BYTES_MAX = 64_000_000
_ASKED_BYTES_MAX = 4_000_000
_SNAPSHOT_BYTES_MAX = 2_000_000_000
_AGAIN_S = 0.2
# The queues on the screens of all sessions that are looked at first.
_SHOWN_MAX = 1_000
_NO_TREND = Trend()


class _Channel:
    """The polls of one place in one namespace, and the sessions that get them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.sessions: dict[asyncio.StreamWriter, list[str]] = {}
        # Those that joined during a poll, and get its snapshot in full.
        self._joining: set[asyncio.StreamWriter] = set()
        self._sender = SnapshotSender()
        self._task = asyncio.create_task(self._poll())

    def join(self, session: asyncio.StreamWriter) -> None:
        """Send the last snapshot to a session, and all later ones."""
        self.sessions[session] = []
        if self._sender.is_behind:
            self._joining.add(session)
        elif (full := self._sender.full()) is not None:
            _send(session, full)

    def look_first(self, session: asyncio.StreamWriter, queues: list[str]) -> None:
        """Look at the queues on the screens of all sessions first, beginning with this one."""
        self.sessions.pop(session, None)
        shown = dict.fromkeys([*queues, *(name for names in self.sessions.values() for name in names)])
        self.sessions[session] = queues
        if isinstance(self.source, LooksFirst):
            self.source.look_first(list(shown)[:_SHOWN_MAX])

    async def aclose(self) -> None:
        """End the polls and close the connections."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.source.aclose()

    async def _poll(self) -> None:
        async with aclosing(self.source.snapshots()) as snapshots:
            async for snapshot in snapshots:
                message = self._sender.encode(snapshot)
                joining, self._joining = self._joining.intersection(self.sessions), set()
                full = self._sender.full() if joining else None
                for session in list(self.sessions):
                    _send(session, full if full is not None and session in joining else message)


class Hub:
    """Polls the places of ``sources``, by name, from the start on; ``path`` is that of the socket.

    A source is created for each namespace that a session switches to, and closed when no session uses it any more.
    """

    def __init__(self, path: Path, sources: Mapping[str, Callable[[], Source]]) -> None:
        self.path = path
        self._sources = sources
        self._channels: dict[tuple[str, str | None], _Channel] = {}
        self._server: asyncio.Server | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start to poll and to listen."""
        for place in self._sources:
            self._channel(place, None)
        self._server = await asyncio.start_unix_server(self._serve, os.fspath(self.path), limit=_ASKED_BYTES_MAX)

    async def aclose(self) -> None:
        """End all polls, and disconnect the sessions."""
        if self._server is not None:
            self._server.close()
        for channel in self._channels.values():
            for session in channel.sessions:
                session.close()
        await asyncio.gather(*self._closing, *(channel.aclose() for channel in self._channels.values()))

    def _channel(self, place: str, ns: str | None) -> _Channel:
        channel = self._channels.get((place, ns))
        if channel is None:
            source = self._sources[place]()
            if ns is not None:
                source.switch(ns)
            channel = self._channels[place, ns] = _Channel(source)
        return channel

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one session for one place, until it disconnects."""
        at: tuple[str, str | None] | None = None
        try:
            while True:
                asked: Any = json.loads(await _receive(reader, _ASKED_BYTES_MAX))
                if "place" in asked:
                    self._leave(at, writer)
                    at = asked["place"], asked["ns"]
                    self._channel(*at).join(writer)
                elif at is not None and "queues" in asked:
                    self._channels[at].look_first(writer, asked["queues"])
                elif at is not None:
                    self._channels[at].source.wake()
        except (OSError, EOFError, ValueError, LookupError):
            # It has ended, or was disconnected.
            pass
        finally:
            self._leave(at, writer)
            writer.close()

    def _leave(self, at: tuple[str, str | None] | None, session: asyncio.StreamWriter) -> None:
        channel = None if at is None else self._channels.get(at)
        if at is None or channel is None:
            return
        channel.sessions.pop(session, None)
        if at[1] is not None and not channel.sessions:
            del self._channels[at]
            closing = asyncio.create_task(channel.aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class HubFeed:
    """The snapshots of a place from the hub at ``path``, instead of polls (see ``Feed`` of `monitor/poller.py`)."""

    # A cleaner of temporary files may remove the socket while the hub runs.
    end = Failure(ENDED, "rsmq-tui serve has ended, or its socket was removed", "restart it, then reload the page")

    def __init__(self, path: Path, place: str) -> None:
        self._path = path
        self._place = place
        # The namespace of the place, and the one to which it was switched.
        self._own_ns: str | None = None
        self._ns: str | None = None
        # The queues on the screen, which a new connection is told too.
        self._shown: list[str] = []
        self._receiver = SnapshotReceiver()
        self._writer: asyncio.StreamWriter | None = None
        self._is_switching = False

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Yield each snapshot of the hub, until the hub has ended."""
        while True:
            try:
                reader, self._writer = await asyncio.open_unix_connection(os.fspath(self._path))
            except OSError:
                return
            self._is_switching = False
            try:
                self._ask(place=self._place, ns=self._ns)
                if self._shown:
                    self._ask(queues=self._shown)
                self._receiver = SnapshotReceiver()
                while True:
                    snapshot = self._receiver.decode(await _receive(reader, _SNAPSHOT_BYTES_MAX))
                    self._own_ns = snapshot.ns if self._own_ns is None else self._own_ns
                    yield snapshot
            except (OSError, EOFError):
                # The hub has disconnected this session, or has ended.
                if not self._is_switching:
                    await asyncio.sleep(_AGAIN_S)
            finally:
                await self.aclose()

    def wake(self) -> None:
        """Ask the hub to poll now."""
        self._ask(wake=True)

    def switch(self, ns: str) -> None:
        """Ask for another namespace."""
        self._ns, self._is_switching = None if ns == self._own_ns else ns, True
        self._shown = []
        if self._writer is not None:
            self._writer.close()

    def look_first(self, queues: Sequence[str]) -> None:
        """Ask the hub to look at these queues more often than at others."""
        self._shown = list(queues)
        self._receiver.follow(queues)
        self._ask(queues=self._shown)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    def _ask(self, **asked: Any) -> None:
        if self._writer is not None and not self._writer.is_closing():
            _send(self._writer, json.dumps(asked).encode())


def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    if writer.is_closing():
        return
    if writer.transport.get_write_buffer_size() > _UNREAD_BYTES_MAX:
        writer.transport.abort()
        return
    writer.write(len(message).to_bytes(4, "big"))
    writer.write(message)


async def _receive(reader: asyncio.StreamReader, bytes_max: int) -> bytes:
    """Return the next message; raises ``EOFError`` at the end, and ``ValueError`` for one that is too long."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > bytes_max:
        raise ValueError("too long")
    return await reader.readexactly(size)


class _News(NamedTuple):
    """A snapshot without its queues and its trend, and the changes in these.

    ``states`` are those of ``indexes``, or of all queues if that is None. ``steps`` are those of the trend.
    """

    snapshot: Snapshot
    indexes: Sequence[int] | None
    states: Sequence[QueueState]
    steps: Sequence[Callable[[Trend], object]]


class SnapshotSender:
    """Makes the messages for all receivers of one place: each gets ``full`` first, then the result of every ``encode``.

    ``full`` must not be sent while the sender ``is_behind``: the next message would repeat some of it.
    """

    def __init__(self) -> None:
        self._last: Snapshot | None = None

    @property
    def is_behind(self) -> bool:
        """Whether a poll has added to the trend of the last snapshot, but its own snapshot was not encoded yet."""
        return self._last is not None and self._last.trend.steps != []

    def full(self) -> bytes | None:
        """Return the last snapshot as a message, None before the first one."""
        return None if self._last is None else pickle.dumps(replace(self._last, changes=None), pickle.HIGHEST_PROTOCOL)

    def encode(self, snapshot: Snapshot) -> bytes:
        """Take the next snapshot, and return the message for receivers of the previous one."""
        last, self._last = self._last, snapshot
        trend, queues, changes = snapshot.trend, snapshot.queues, snapshot.changes
        steps, trend.steps = trend.steps, []
        if last is None or last.trend is not trend or steps is None:
            return self.full() or b""
        indexes: Sequence[int] | None = None
        if changes is not None and changes.before is last.queues:
            indexes = changes.indexes
        elif queues is last.queues:
            indexes = ()
        states = queues if indexes is None else [queues[index] for index in indexes]
        news = _News(replace(snapshot, queues=(), trend=_NO_TREND, changes=None), indexes, states, steps)
        return pickle.dumps(news, pickle.HIGHEST_PROTOCOL)


class SnapshotReceiver:
    """Converts the messages of a ``SnapshotSender`` to snapshots."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None

    def decode(self, message: bytes) -> Snapshot:
        """Return the snapshot of the next message."""
        news: Snapshot | _News = pickle.loads(message)
        if isinstance(news, Snapshot):
            # Nobody takes those of the receiver.
            news.trend.steps = None
            self._last = news
        elif self._last is not None:
            self._last = _applied(self._last, news)
        else:
            raise RuntimeError("a change without the snapshot before it")
        return self._last

    def follow(self, names: Sequence[str]) -> None:
        """Keep a day of these queues, rather than of those that were followed longest ago."""
        if self._last is not None:
            self._last.trend.follow(names)


def _applied(last: Snapshot, news: _News) -> Snapshot:
    for step in news.steps:
        step(last.trend)
    if news.indexes is None:
        return replace(news.snapshot, trend=last.trend, queues=tuple(news.states))
    queues = last.queues
    if news.indexes:
        states = list(queues)
        for index, state in zip(news.indexes, news.states, strict=True):
            states[index] = state
        queues = tuple(states)
    return replace(news.snapshot, trend=last.trend, queues=queues, changes=ChangedStates(last.queues, news.indexes))
