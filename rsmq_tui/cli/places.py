"""The places of a profile, by which commands read, check and change each kind of queue in the same way."""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence, Set
from contextlib import aclosing, asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from rsmq_tui.cli.errors import EXIT_FAILED, UsageError, refusing
from rsmq_tui.cli.output import ProgressLine, say
from rsmq_tui.cli.servers import reader_of
from rsmq_tui.files import sqlite_version, state_folder
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.monitor.poller import Polling
from rsmq_tui.monitor.text import count, lists_hint, plural, printable, printable_name, printable_ns
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import SERVER_ERRORS, PageRequest, RsmqReader, failure_of
from rsmq_tui.protocol.connections.connect import TIMEOUT_S
from rsmq_tui.protocol.kinds import LIST, RSMQ, Kind, kind_of
from rsmq_tui.protocol.server.status import STALE_REPLICA

# Readers of lists, checks, audits and changes are imported where they are needed, so that the first paint does not wait
# for them.
if TYPE_CHECKING:
    from rsmq_tui.monitor.checks import Checked, Limits, Scanned
    from rsmq_tui.monitor.filters.json_paths import JsonPath
    from rsmq_tui.monitor.list_poller import ListPoller
    from rsmq_tui.monitor.model import QueueState
    from rsmq_tui.monitor.server import CheckResult
    from rsmq_tui.monitor.tracking.memory import Memory
    from rsmq_tui.protocol.lists.reader import ListReader
    from rsmq_tui.triage.service import Backend


_Answer = TypeVar("_Answer")

_LOOK_EVERY_S = 0.2
# More places than this are counted, not named.
_NAMED_MAX = 4
_HINTS_MAX = 8
LISTS_HINT = "rsmq-tui queues list --lists '*' shows the existing lists"


def no_queue_words(where: str, queue: str) -> str:
    """Say that there is no such queue ``where`` it was looked for, and how to find those that there are."""
    return f"no such queue in {where}; rsmq-tui queues list shows the existing queues{name_hint(queue)}"


def name_hint(queue: str) -> str:
    """Say what was probably meant by a name that no RSMQ queue has; empty if it may be one."""
    from rsmq_tui.monitor.filters.language import is_pattern  # noqa: PLC0415

    if ":" in queue:
        return f"; a Redis List is written list:{queue}"
    return "; a pattern of queues is for messages only: rsmq-tui messages" if is_pattern(queue) else ""


class OwnChanges:
    """Finds the queues that this program changes, in any of its processes, by the journal at ``path``.

    The file is read only if somebody has written to it since.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = sqlite_version(path)
        self._looked_ms = now_ms()
        # Changes that were still running when the journal was last read.
        self._running: Set[int] = frozenset()

    async def since_last(self, server: str, ns: str) -> Set[str]:
        """Return the queues of a namespace that changes affected since the last call; none on the first call."""
        since_ms, self._looked_ms = self._looked_ms, now_ms()
        version = sqlite_version(self._path)
        if version == self._version:
            return frozenset()
        self._version = version
        # Imported when something was changed, so that the first paint does not wait for it.
        from rsmq_tui.triage.change import State  # noqa: PLC0415
        from rsmq_tui.triage.journal.journal import last_changes  # noqa: PLC0415

        last = await asyncio.to_thread(last_changes, self._path)
        running = {change.change for change in last if change.state is State.RUNNING}
        wanted, self._running = running | self._running, running
        changes = (change for change in last if change.change in wanted or change.alive_ms >= since_ms)
        return {queue for change in changes if change.server == server for queue in change.queues_in(ns)}


class KindPlace(ABC):
    """The queues of one kind on the server of a profile, in the namespace ``ns`` or what replaces it for that kind.

    Snapshots and ``queues`` have those that the profile watches; any other list can be read and changed by its key.
    Nothing is opened before it is needed; close it with ``aclose``. Every method raises ``UsageError`` for an invalid
    address; reading raises ``PeekError``.
    """

    kind: ClassVar[Kind]

    def __init__(self, profile: Profile, ns: str) -> None:
        self.profile, self.ns = profile, ns

    @property
    def server(self) -> str:
        """The server's label, without user and password."""
        return self.profile.address.label

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name for people: ``namespace jobs``, ``lists queue:*``."""

    @property
    def full_title(self) -> str:
        """Its name for people, with its server: ``namespace jobs on prod``."""
        return f"{self.title} on {self.profile.name or self.server}"

    @abstractmethod
    def poller(self, name: str = "", memory: Path | None = None) -> Polling:
        """Return a source of its snapshots, which the caller closes; ``name`` is its place among several servers.

        With ``memory``, a folder, it continues from the state of an earlier one.
        """

    def watcher(self, name: str = "", memory: Path | None = None, folder: Path | None = None) -> Polling:
        """Return a poller (see ``poller``) that distinguishes changes of this program from the work of consumers.

        ``folder`` is that of the journal, by default the user's.
        """
        poller = self.poller(name, memory)
        poller.own_changes = OwnChanges((folder or state_folder()) / "journal.sqlite").since_last
        return poller

    def follower(self, name: str = "") -> Polling:
        """Return a watcher that keeps nothing for charts."""
        poller = self.watcher(name)
        poller.is_charted = False
        return poller

    def _memory(self, folder: Path | None, *queues: str) -> "Memory | None":
        """Return the memory of these queues of the server, as its user sees them."""
        if folder is None:
            return None
        from rsmq_tui.monitor.tracking.memory import Memory  # noqa: PLC0415

        address = self.profile.address
        return Memory(folder, address.label, address.login, self.kind.name, *queues)

    @cached_property
    def source(self) -> Polling:
        """A source to read, search and audit its queues with; it is closed with the place."""
        return self.poller()

    @abstractmethod
    async def poll_once(self, line: ProgressLine | None = None) -> Snapshot:
        """Return one whole snapshot; if the server cannot be read, its ``connection`` says why.

        A search before it shows its progress on the ``line``, by default one of its own.
        """

    async def queues(self, line: ProgressLine | None = None) -> Sequence["QueueState"]:
        """Return its queues, as of one poll (see ``poll_once`` for ``line``); raises ``PeekError``."""
        from rsmq_tui.monitor.messages.peek import PeekError  # noqa: PLC0415

        snapshot = await self.source.poll()
        if (failure := snapshot.connection.failure) is not None:
            raise PeekError(failure.words)
        return snapshot.queues

    @abstractmethod
    def backend(self) -> "Backend":
        """Return the backend that changes and exports its queues; the caller closes it."""

    @abstractmethod
    async def refuse_missing(self, queue: str) -> None:
        """Raise ``UsageError`` for a queue that does not exist; for an empty list that is watched, print that."""

    @abstractmethod
    async def missing(self, queues: Sequence[str]) -> list[str]:
        """Return those of these queues that do not exist at all."""

    @abstractmethod
    async def check(self, limits: "Limits", scanned: "Scanned") -> "Checked":
        """Check its queues once; a queue that cannot be read is a problem too.

        ``scanned`` is called with the progress of a scan.
        """

    @abstractmethod
    def diagnose(self, timeout_s: float) -> "AsyncIterator[CheckResult]":
        """Yield the results of checks of what may prevent the dashboard from working here."""

    def inventory(self) -> RsmqReader | None:
        """Return a reader of all messages for a history; None if their ids do not identify them permanently."""
        return None

    async def aclose(self) -> None:
        """Close the connections."""
        if (source := vars(self).get("source")) is not None:
            await source.aclose()


class _RsmqPlace(KindPlace):
    """The RSMQ queues of a namespace."""

    kind = RSMQ

    @property
    def title(self) -> str:
        return f"namespace {printable_ns(self.ns)}"

    def poller(self, name: str = "", memory: Path | None = None) -> RsmqPoller:
        reader, profile = reader_of(self.profile, self.ns), self.profile
        return RsmqPoller(
            reader,
            interval_s=profile.interval_s,
            place=name,
            thresholds=profile.thresholds,
            memory_of=partial(self._memory, memory),
        )

    async def poll_once(self, line: ProgressLine | None = None) -> Snapshot:
        async with aclosing(self.poller()) as poller:
            first = await poller.poll()
            # The first poll reads receive counts after the rows; the verdicts of the second poll include them.
            return first if first.connection.failure else await poller.poll()

    def backend(self) -> "Backend":
        from rsmq_tui.triage.rsmq.backend import RsmqBackend  # noqa: PLC0415

        with refusing(ValueError):
            return RsmqBackend(self.profile.address, self.ns, self.profile.list_names)

    async def refuse_missing(self, queue: str) -> None:
        from rsmq_tui.monitor.messages.peek import PeekError  # noqa: PLC0415

        try:
            index = await cast("RsmqPoller", self.source).reader.rows.index()
        except SERVER_ERRORS as error:
            raise PeekError(failure_of(error).words) from error
        if queue not in index.names:
            raise UsageError(f"{printable_name(queue)} on {self.server}: {no_queue_words(self.title, queue)}")

    async def missing(self, queues: Sequence[str]) -> list[str]:
        from rsmq_tui.monitor.audit.rsmq import missing  # noqa: PLC0415

        async with aclosing(reader_of(self.profile, self.ns)) as reader:
            return await missing(reader, queues)

    async def check(self, limits: "Limits", scanned: "Scanned") -> "Checked":
        from rsmq_tui.monitor.checks import LastSeen, check  # noqa: PLC0415

        last_seen = LastSeen(state_folder() / "check", self.server, self.ns)
        async with aclosing(reader_of(self.profile, self.ns)) as reader:
            return await check(reader, limits, self.profile.thresholds, last_seen, scanned)

    def diagnose(self, timeout_s: float) -> "AsyncIterator[CheckResult]":
        from rsmq_tui.monitor.doctor import diagnose  # noqa: PLC0415

        profile = self.profile
        return diagnose(
            profile.address, self.ns, read_only=profile.read_only, interval_s=profile.interval_s, timeout_s=timeout_s
        )

    def inventory(self) -> RsmqReader | None:
        return reader_of(self.profile, self.ns)


class _ListPlace(KindPlace):
    """The list queues that a profile watches."""

    kind = LIST

    @cached_property
    def _age(self) -> "JsonPath | None":
        from rsmq_tui.monitor.filters.json_paths import age_path  # noqa: PLC0415

        return None if self.profile.list_age is None else age_path(self.profile.list_age)

    def _opened(self, timeout_s: float = TIMEOUT_S) -> "ListReader":
        from rsmq_tui.monitor.filters.json_paths import AGE_BYTES  # noqa: PLC0415
        from rsmq_tui.protocol.lists.reader import ListReader  # noqa: PLC0415

        profile, shown_bytes = self.profile, 0 if self._age is None else AGE_BYTES
        names, patterns = profile.list_names, profile.lists
        with refusing(ValueError):
            return ListReader(profile.address, names, patterns, shown_bytes=shown_bytes, timeout_s=timeout_s)

    @property
    def title(self) -> str:
        return f"{self.kind.label} {', '.join(self.profile.lists)}"

    def poller(self, name: str = "", memory: Path | None = None) -> "ListPoller":
        from rsmq_tui.monitor.list_poller import ListPoller  # noqa: PLC0415

        reader, profile, names = self._opened(), self.profile, self.profile.list_names
        return ListPoller(
            reader,
            interval_s=profile.interval_s,
            place=name,
            thresholds=profile.thresholds,
            age=self._age,
            memory=self._memory(memory, names.processing, names.leases, names.take_from, *profile.lists),
        )

    def follower(self, name: str = "") -> Polling:
        from rsmq_tui.monitor.list_poller import ListPoller  # noqa: PLC0415

        poller = super().follower(name)
        if isinstance(poller, ListPoller):
            poller.waits_for_search = True
        return poller

    async def poll_once(self, line: ProgressLine | None = None) -> Snapshot:
        async with aclosing(self.poller()) as poller:
            try:
                await _discover(poller, line)
            except SERVER_ERRORS as error:
                return poller.fail(error)
            return await poller.poll()

    async def queues(self, line: ProgressLine | None = None) -> "Sequence[QueueState]":
        from rsmq_tui.monitor.messages.peek import in_words  # noqa: PLC0415

        with in_words():
            await _discover(cast("ListPoller", self.source), line)
        return await super().queues()

    def backend(self) -> "Backend":
        from rsmq_tui.triage.lists.backend import ListBackend  # noqa: PLC0415

        profile = self.profile
        with refusing(ValueError):
            return ListBackend(profile.address, profile.list_names, profile.ns, profile.lists, self._age)

    async def refuse_missing(self, queue: str) -> None:
        from rsmq_tui.triage.errors import NO_LIST  # noqa: PLC0415

        if (await self.source.peek(PageRequest(queue, count=1))).depth:
            return
        if queue not in self.profile.lists:
            raise UsageError(f"{printable_name(queue)} on {self.server}: {NO_LIST}; {LISTS_HINT}")
        # A list that is watched by its key is a queue even while it is empty.
        say(f"{printable(queue)} is empty now: Redis deletes a list with its last item")

    async def missing(self, queues: Sequence[str]) -> list[str]:
        from rsmq_tui.monitor.audit.lists import missing_lists  # noqa: PLC0415

        async with aclosing(self._opened()) as reader:
            return await missing_lists(reader, queues)

    async def check(self, limits: "Limits", scanned: "Scanned") -> "Checked":
        from rsmq_tui.monitor.checks import LastSeen, check_lists  # noqa: PLC0415

        lists = self.profile.lists
        # Another check of the same server may cover other lists, and must not forget these.
        last_seen = LastSeen(state_folder() / "check", self.server, "\n".join((self.ns, *lists)))
        async with aclosing(self._opened()) as reader:
            return await check_lists(reader, lists, limits, self.profile.thresholds, last_seen, self._age)

    async def diagnose(self, timeout_s: float) -> "AsyncIterator[CheckResult]":
        from rsmq_tui.monitor.doctor import diagnose_lists  # noqa: PLC0415

        async with aclosing(self._opened(timeout_s)) as reader:
            async for result in diagnose_lists(reader, self.profile.lists, interval_s=self.profile.interval_s):
                yield result


async def _discover(poller: "ListPoller", line: ProgressLine | None = None) -> None:
    """Look for the lists that match its patterns; raises the error of a server that does not answer.

    Any other error may concern the search alone: the next poll says whether the server can be read.
    """
    line = line or ProgressLine()

    def on_progress(passed: int, found: int) -> None:
        line.show(f"looking for lists: {count(passed)} keys passed, {plural(found, 'list')} found")

    try:
        await poller.discover(on_progress)
    except SERVER_ERRORS as error:
        if failure_of(error).kind == "timeout":
            raise
    finally:
        line.clear()


def place_of(profile: Profile, ns: str | None = None, kind: Kind | None = None) -> KindPlace:
    """Return the place of a namespace, by default the profile's first, or of the kind with that ``ns``.

    ``kind`` is needed if an RSMQ namespace has the same name as the ``ns`` of another kind.
    """
    kind = kind or (RSMQ if ns is None else kind_of(ns))
    place: type[KindPlace] = kind.part("place")
    return place(profile, kind.ns or (profile.ns if ns is None else ns))


def places_of(profile: Profile) -> list[KindPlace]:
    """Return the places that a profile watches: its namespaces, then its lists, if it has any."""
    namespaces = [place_of(profile, ns, RSMQ) for ns in profile.namespaces]
    return [*namespaces, place_of(profile, LIST.ns)] if profile.lists else namespaces


async def poll_all(profile: Profile) -> Sequence[Snapshot]:
    """Poll what a profile watches: its namespaces, then its lists; raises ``UsageError``."""
    line = ProgressLine()
    return await ask_all(places_of(profile), lambda place: place.poll_once(line), line)


async def ask_all(
    places: Sequence[KindPlace],
    ask: Callable[[KindPlace], Coroutine[Any, Any, _Answer]],
    line: ProgressLine,
    patience_s: float = TIMEOUT_S,
) -> list[_Answer]:
    """Ask all places at once, and show which are waited for, as ``waiting`` does."""
    unanswered = [place.server for place in places]

    async def answer(place: KindPlace) -> _Answer:
        try:
            return await ask(place)
        finally:
            unanswered.remove(place.server)

    async with waiting(line, unanswered, patience_s):
        return await asyncio.gather(*map(answer, places))


@asynccontextmanager
async def waiting(line: ProgressLine, servers: Sequence[str], patience_s: float = TIMEOUT_S) -> AsyncIterator[None]:
    """After a second without progress, show on the line which servers are waited for; at the end, clear it.

    The servers may change meanwhile; ``patience_s`` is how long each is waited for. If the output is read by another
    program, nothing is shown.
    """

    async def show() -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            line.show_waiting(servers, patience_s)

    showing = asyncio.create_task(show()) if sys.stdout.isatty() else None
    try:
        yield
    finally:
        if showing is not None:
            showing.cancel()
        line.clear()


def named_places(profiles: Sequence[Profile]) -> list[tuple[str, KindPlace]]:
    """Return the places of all profiles, each with a name among the others; those in no namespace come last."""
    found = [place for profile in profiles for place in places_of(profile)]
    is_one = len(profiles) == 1 and bool(profiles[0].lists)
    found.sort(key=lambda place: not place.kind.has_namespaces)
    return [("" if len(found) == 1 else _name(place, is_one=is_one), place) for place in found]


def say_notes(snapshots: Sequence[Snapshot]) -> int:
    """Say what a poll could not read, and whether its numbers are old; return the exit status of ``POLL_STATUSES``."""
    for note in (note for snapshot in snapshots for note in snapshot.notes):
        say(note)
    if any(snapshot.info is not None and snapshot.info.is_stale for snapshot in snapshots):
        say(f"{snapshots[0].server}: {STALE_REPLICA}")
    return EXIT_FAILED if any(snapshot.is_partial for snapshot in snapshots) else 0


def say_nothing_found(snapshots: Sequence[Snapshot]) -> None:
    """If no queue was found, say so, and what else the server has."""
    # With a note, the index may not have been read.
    empty = [part for part in snapshots if kind_of(part.ns).has_namespaces and not part.notes]
    if empty and not any(snapshot.queues for snapshot in snapshots):
        names = [part.ns for part in empty]
        others = dict.fromkeys(ns for part in empty for ns in part.namespaces or () if ns not in names)
        hint = f"other namespaces (--ns): {', '.join(list(others)[:_HINTS_MAX])}" if others else ""
        hint = hint or lists_hint(empty[0].lists) or "rsmq-tui queues create creates one"
        say(f"no queues in namespace {' or '.join(map(printable_ns, names))} on {empty[0].server}; {hint}")


def words_of(places: Sequence[KindPlace]) -> str:
    """Say what these places are: ``namespace jobs and lists queue:* on prod``; many are only counted."""
    titles: dict[str, list[str]] = {}
    for place in places:
        titles.setdefault(place.profile.name or place.server, []).append(place.title)
    if len(places) <= _NAMED_MAX:
        return ", ".join(f"{' and '.join(of_server)} on {server}" for server, of_server in titles.items())
    namespaces = sum(place.kind.has_namespaces for place in places)
    lists = " and lists" if namespaces < len(places) else ""
    return f"{plural(namespaces, 'namespace')}{lists} on {plural(len(titles), 'server')}"


def _name(place: KindPlace, *, is_one: bool) -> str:
    """Name a place among others; on a single server without a name, by what is watched there."""
    profile = place.profile
    part = place.ns if len(profile.namespaces) > 1 or not place.kind.has_namespaces else ""
    if is_one and not profile.name:
        return part or profile.ns
    name = profile.name or profile.address.label
    return f"{name} {part}" if part else name
