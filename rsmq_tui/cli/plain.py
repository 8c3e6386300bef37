"""`rsmq-tui --plain`: the overview as lines of text, for screen readers and logs, and a line for each change."""

import asyncio
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import Interrupts, run_interruptibly, run_until_ended
from rsmq_tui.cli.options import zone_for
from rsmq_tui.cli.output import print_words, say
from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.places import KindPlace, named_places, words_of
from rsmq_tui.cli.servers import profiles_of
from rsmq_tui.events.detector import MaintenanceDetector, QueueDetector, ServerDetector
from rsmq_tui.events.known import FILE_NAME as KNOWN_NAME
from rsmq_tui.events.known import Known, KnownError, KnownReader
from rsmq_tui.events.model import Event, EventKind, Severity
from rsmq_tui.files import state_folder
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds, Verdict, reason
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.text import (
    ASCII_SIGNS,
    count,
    duration,
    escape_beyond,
    plural,
    printable_name,
    short_clock,
    show_in_zone,
    zone_words,
)
from rsmq_tui.monitor.tracking.reasons import returned
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.kinds import kind_of

if TYPE_CHECKING:
    from rsmq_tui.monitor.poller import Polling

# Options that would have no effect, by their attribute.
_NEED_A_SCREEN = {"--record": "record", "--analysis": "analysis", "--theme": "theme", "--open": "link"}
# Counts are printed again at most this often, and only if the depth has changed by this share.
COUNTS_EVERY_MS = 60_000
COUNTS_SHARE = 0.1
# A server may have several places: after this many failures of one, the others have failed too.
_FAILURES = 2
# Events of queues that are not printed: consumers that catch up are no news.
_QUIET = (EventKind.EMPTIED,)
_ASCII = str.maketrans(ASCII_SIGNS)
_NONE_EXPECTED = Expected()


def run(options: Options) -> int:
    """Print the overview of the servers; raises ``UsageError`` for an invalid address."""
    return print_overview(options, profiles_of(options))


def print_overview(options: Options, profiles: Sequence[Profile], folder: Path | None = None) -> int:
    """Print the overview of these servers until a signal, and return the exit status.

    ``folder`` is for the journal of a demo, in which nothing is kept across restarts.
    """
    for name, attribute in _NEED_A_SCREEN.items():
        if getattr(options, attribute, None):
            raise UsageError(f"--plain only prints lines, and takes no {name}")
    show_in_zone(zone_for(options, (profile.zone for profile in profiles)))
    if options.ascii:
        escape_beyond(sys.stdout.encoding or "ascii", ASCII_SIGNS)
    memory = None if folder is not None or options.no_memory else state_folder() / "memory"
    return run_interruptibly(
        partial(_follow, named_places(profiles), memory, folder, options.ascii), runs_for_days=True
    )


async def _follow(
    places: Sequence[tuple[str, KindPlace]],
    memory: Path | None,
    folder: Path | None,
    is_ascii: bool,
    interrupts: Interrupts,
) -> int:
    servers: dict[str, tuple[ServerDetector, str]] = {}
    known = _KnownTroubles((folder or state_folder()) / KNOWN_NAME)
    watched = []
    for name, place in places:
        # The places of a cluster may be on different nodes: INFO of the first one counts for all.
        informs = place.server not in servers
        # A server that several profiles have is named by the first one; the only place has no name.
        server, server_name = servers.setdefault(
            place.server, (ServerDetector(place.server), name and place.profile.name)
        )
        overview = PlainOverview(
            name,
            place.title,
            place.profile.thresholds,
            server,
            server_name=server_name,
            informs=informs,
            known=known.of,
            expected=place.profile.expected,
        )
        watched.append((overview, place.watcher(name, memory if place.profile.memory else None, folder)))
    say(f"watching {words_of([place for _, place in places])}; Ctrl+C ends it")
    return await run_until_ended(
        interrupts, [_reader_leaves(), *(_print(*each, is_ascii=is_ascii) for each in watched)]
    )


async def _print(overview: "PlainOverview", poller: "Polling", *, is_ascii: bool) -> None:
    async with aclosing(poller), aclosing(poller.snapshots()) as snapshots:
        async for snapshot in snapshots:
            for line in overview.observe(snapshot):
                print_words(line.translate(_ASCII) if is_ascii else line)
            sys.stdout.flush()


async def _reader_leaves() -> None:
    """Raise ``BrokenPipeError`` when nobody reads the output any more, even while nothing changes."""
    left = asyncio.Event()
    with suppress(OSError, ValueError, NotImplementedError):
        output = sys.stdout.fileno()
        if stat.S_ISFIFO(os.fstat(output).st_mode):
            # The write end of a pipe becomes readable when the read end is closed.
            asyncio.get_running_loop().add_reader(output, left.set)
    await left.wait()
    raise BrokenPipeError


class _KnownTroubles:
    """The troubles that somebody has acknowledged; a file that cannot be read is reported once, and counts as empty."""

    def __init__(self, path: Path) -> None:
        self._reader = KnownReader(path)
        self._problem = ""

    def of(self, server: str, ns: str) -> Mapping[str, Known]:
        """Return the current and past acknowledgements of a namespace, by the names of the queues."""
        try:
            self._reader.read()
        except KnownError as error:
            if (problem := str(error)) != self._problem:
                say(problem)
            self._problem = problem
        return self._reader.of(server, ns)


def _none_known(_: str, __: str) -> Mapping[str, Known]:
    return {}


class PlainOverview:
    """Converts the snapshots of one place to lines: all its queues at first, then the changes.

    Changes are found as for the log of events. ``name`` distinguishes the place from others. ``server`` is shared by
    the places of one server, one of which ``informs`` it of restarts and reports its maintenance; lines about it have
    its ``server_name``, or else its address. ``clock`` is the monotonic clock of the snapshots, in seconds. ``known``
    returns the acknowledgements of a server's namespace, by the names of the queues. Trouble that is ``expected`` is
    printed as such.
    """

    def __init__(
        self,
        name: str,
        title: str,
        thresholds: Thresholds,
        server: ServerDetector,
        *,
        server_name: str = "",
        informs: bool = True,
        clock: Callable[[], float] = time.monotonic,
        known: Callable[[str, str], Mapping[str, Known]] = _none_known,
        expected: Expected = _NONE_EXPECTED,
    ) -> None:
        self._name, self._title, self._server_name = name, title, server_name
        self._thresholds = thresholds
        self._server = server
        self._informs = informs
        self._clock = clock
        self._all_known = known
        self._expected = expected
        self._maintenance = MaintenanceDetector(expected)
        # The queues whose trouble is acknowledged now, and the acknowledgements that have ended since the start.
        self._known: dict[str, Known] = {}
        self._ended: set[tuple[str, int]] = set()
        self._queues: QueueDetector | None = None
        self._failures = 0
        # The depths that were printed last, by queue, and when they were checked.
        self._printed: dict[str, int | None] = {}
        self._printed_ms = 0

    def observe(self, snapshot: Snapshot) -> list[str]:
        """Return the lines to print."""
        at_ms = self._server_ms(snapshot)
        lines = [
            self._event(event, at_ms) for event in self._server.observe(self._name, snapshot.connection.failure, at_ms)
        ]
        if self._informs:
            lines += [self._event(event, at_ms) for event in self._maintenance.observe(snapshot.server, now_ms())]
        if self._informs and snapshot.info is not None:
            lines += [self._event(event, at_ms) for event in self._server.observe_info(snapshot.info)]
        lines += self._access(snapshot, at_ms)
        if snapshot.connection.failure is not None:
            return lines
        before, self._known = self._known, self._known_in(snapshot)
        if self._queues is None:
            self._queues = QueueDetector(snapshot.server, snapshot.ns, self._thresholds)
            self._queues.observe(snapshot)
            lines += self._begin(snapshot)
        else:
            lines += [self._event(event, at_ms) for event in self._acknowledged(before, snapshot)]
            events = [event for event in self._queues.observe(snapshot) if event.kind not in _QUIET]
            lines += [self._event(event, at_ms) for event in events]
            lines += self._counts(snapshot, {event.queue for event in events})
        return lines

    def _known_in(self, snapshot: Snapshot) -> dict[str, Known]:
        """Return the acknowledgements that are in force, by the names of the queues.

        As in the dashboard, what is acknowledged until it is ok has ended once the queue is.
        """
        known = self._all_known(snapshot.server, snapshot.ns)
        active = {}
        for queue in snapshot.queues if known else ():
            found = known.get(queue.name)
            if found is None or not found.is_active:
                continue
            over = found.why_over(now_ms(), is_ok=queue.verdict is Verdict.OK)
            if over and found.until_ms is None:
                self._ended.add((found.queue, found.since_ms))
            if not over and (found.queue, found.since_ms) not in self._ended:
                active[queue.name] = found
        return active

    def _acknowledged(self, before: Mapping[str, Known], snapshot: Snapshot) -> Iterator[Event]:
        """Yield the beginnings and ends of acknowledgements since the last poll."""
        ok = {queue.name for queue in snapshot.queues if queue.verdict is Verdict.OK}
        for name, known in before.items():
            if name not in self._known and any(queue.name == name for queue in snapshot.queues):
                yield known.event(snapshot.at_ms, known.why_over(now_ms(), is_ok=name in ok) or "somebody ended it")
        yield from (known.event(snapshot.at_ms) for name, known in self._known.items() if before.get(name) != known)

    def _access(self, snapshot: Snapshot, at_ms: int) -> Iterator[str]:
        """Yield a line if the place cannot be read although the server answers, or can be read again."""
        failure = snapshot.connection.failure
        about = f"{short_clock(at_ms, at_ms)} {self._name or self._title}"
        if failure is None:
            if self._failures > _FAILURES:
                yield f"{about}: can be read again"
            self._failures = 0
        elif self._server.is_lost:
            self._failures = min(self._failures, _FAILURES)
        elif self._failures <= _FAILURES:
            self._failures += 1
            if self._failures > _FAILURES:
                yield f"{about}: cannot be read: {failure.sentence}"

    def _server_ms(self, snapshot: Snapshot) -> int:
        """Return the server's time; after a failed poll, the time of the last good one plus the time since."""
        fresh_s = snapshot.connection.fresh_at_s
        if fresh_s is None:
            return now_ms()
        return snapshot.at_ms + (0 if snapshot.connection.failure is None else round((self._clock() - fresh_s) * 1000))

    def _begin(self, snapshot: Snapshot) -> Iterator[str]:
        queues = sorted(
            snapshot.queues,
            key=lambda queue: queue.trouble(is_silenced=queue.name in self._known or self._expected.ignores(queue)),
        )
        self._printed, self._printed_ms = {queue.name: queue.depth for queue in queues}, snapshot.at_ms
        in_trouble = sum(queue.verdict.is_trouble for queue in queues)
        acknowledged = sum(queue.verdict.is_trouble and queue.name in self._known for queue in queues)
        title = self._name or f"{snapshot.server}, {self._title}"
        expected = sum(map(self._expected.ignores, queues))
        of_these = f", {count(acknowledged)} acknowledged" if acknowledged else ""
        of_these += f", {count(expected)} expected" if expected else ""
        trouble = f"{count(in_trouble) if in_trouble else 'none'} in trouble{of_these}"
        yield f"{title}: {plural(len(queues), 'queue')}, {trouble}; times in {zone_words(snapshot.at_ms)}"
        yield from (*snapshot.refusals, *snapshot.notes)
        for queue in queues:
            yield self._line(queue, snapshot)

    def _counts(self, snapshot: Snapshot, reported: set[str | None]) -> Iterator[str]:
        """Yield the queues whose depth has changed much since it was printed last."""
        at_ms = snapshot.at_ms
        # The clock of the server may have been set back.
        is_due = not 0 <= at_ms - self._printed_ms < COUNTS_EVERY_MS
        if is_due:
            self._printed_ms = at_ms
            self._printed = {queue.name: self._printed.get(queue.name) for queue in snapshot.queues}
        for queue in snapshot.queues if is_due or reported else ():
            known = self._printed.get(queue.name)
            if known is None or queue.name in reported:
                self._printed[queue.name] = queue.depth
            elif is_due and queue.depth is not None and abs(queue.depth - known) > COUNTS_SHARE * known:
                self._printed[queue.name] = queue.depth
                yield f"{short_clock(at_ms, at_ms)} {self._line(queue, snapshot)}"

    def _line(self, queue: QueueState, snapshot: Snapshot) -> str:
        """Return a line for a queue: its verdict, name, counts, how long its first message has waited, and why."""
        parts = [f"{count(queue.ready)} ready", f"{count(queue.hidden)} hidden"]
        waiting_ms = queue.waiting_ms(snapshot.at_ms)
        if waiting_ms is not None:
            parts.append(f"waiting {duration(waiting_ms)}")
        named = f"{printable_name(queue.name)}{f' on {self._name}' if self._name else ''}"
        silenced = self._silence_words(queue.name, queue.kind, is_trouble=queue.verdict.is_trouble)
        why = reason(queue, snapshot.at_ms, self._thresholds), returned(queue, snapshot.trend)
        return f"{queue.verdict} {named}: {'; '.join([', '.join(parts), *filter(None, why)])}{silenced}"

    def _silence_words(self, queue: str, kind: str, *, is_trouble: bool) -> str:
        """Return why no alerts are sent for a queue."""
        known = self._known.get(queue)
        words = "" if known is None else f"; acknowledged {known.until}{': ' if known.note else ''}{known.note}"
        return words + ("; expected" if is_trouble and self._expected.holds(queue, kind) else "")

    def _event(self, event: Event, at_ms: int) -> str:
        # Any of its places may find what happened to the server.
        of_many = self._name if event.ns else self._server_name
        about = of_many or event.server if event.queue is None else printable_name(event.queue)
        place = f" on {self._name}" if self._name and event.queue is not None else ""
        is_trouble = event.kind is EventKind.VERDICT and event.severity is not Severity.INFO
        silenced = ""
        if event.queue is not None and is_trouble:
            silenced = self._silence_words(event.queue, kind_of(event.ns).name, is_trouble=True)
        return f"{short_clock(event.at_ms, at_ms)} {about}{place}: {event.text}{silenced}"
