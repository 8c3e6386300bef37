"""Audits list queues: compares processing lists with leases. It only reads.

Consumers continue meanwhile, and an item gets its lease a moment after it was moved, so one read proves nothing. Each
possible problem is read again, and reported only if every read shows it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Container, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from math import inf

from rsmq_tui.monitor.audit.findings import Finding
from rsmq_tui.monitor.audit.findings import ListFindingKind as Kind
from rsmq_tui.monitor.audit.rsmq import IDS_SHOWN, AuditProgress, ticks
from rsmq_tui.monitor.messages.peek import PEEK_ERRORS, in_words
from rsmq_tui.monitor.text import SENTENCE_MAX, count, duration, plural, printable
from rsmq_tui.protocol import RsmqError, failure_of, name_bytes, name_of
from rsmq_tui.protocol.lists.inspection import KeyTypes, LeaseMember
from rsmq_tui.protocol.lists.naming import UNLEASED_SCORE, read_item_id
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.rsmq.scripts import MICROSECONDS_FROM, SECONDS_BELOW

OVERDUE_MS = 60_000
# Delay between two reads: longer than the time between a move and its lease.
SETTLING_S = 1.0
# More than one, because equal items that get their leases one after the other cannot be distinguished.
_SECOND_LOOKS = 2
# Queues with more items in processing, or more leases, are not compared: each takes 100 bytes of memory.
COMPARED_MAX = 200_000
_RIGHT_TYPES = KeyTypes("list", "list", "zset")
_KEYS = KeyTypes("its key", "its processing key", "its leases key")


async def audit_lists(
    reader: ListReader, queues: Sequence[str] | None = None, *, settling_s: float | None = None
) -> AsyncGenerator[AuditProgress, None]:
    """Audit these list queues; without them, all that match the reader's patterns, and find others that are in use.

    Raises ``PeekError`` if the server cannot be read. Close it with ``aclose`` when leaving early. ``settling_s`` is
    the delay before a possible problem is read again; None means ``SETTLING_S``.
    """
    work = _ListAudit(reader, SETTLING_S if settling_s is None else settling_s)
    with in_words():
        async with aclosing(work.of_all() if queues is None else work.of(queues)) as steps:
            async for step in steps:
                yield step


async def missing_lists(reader: ListReader, queues: Iterable[str]) -> list[str]:
    """Return those of these list queues that are neither watched nor have a key; raises ``PeekError``."""
    with in_words():
        await reader.discovery.search()
        unknown = [queue for queue in queues if name_bytes(queue) not in reader.discovery.names]
        types = {queue: await reader.leases.types(queue) for queue in unknown}
    # Other keys may have the same names: only a list makes a list queue.
    return [queue for queue, found in types.items() if "list" not in found[:2]]


@dataclass(slots=True)
class _Look:
    """One read of a queue: items in processing, and those of them without a lease, counted by SHA1.

    ``lasting`` are the leases that existed both before and after the items were read.
    """

    items: Counter[str] = field(default_factory=Counter)
    unleased: Counter[str] = field(default_factory=Counter)
    lasting: dict[bytes, LeaseMember] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    at_ms: int = 0

    @property
    def orphans(self) -> Counter[str]:
        """The surplus of leases over items, by SHA1."""
        leased = Counter(member.sha for member in self.lasting.values() if member.sha is not None)
        return leased - self.items


@dataclass(slots=True)
class _ListAudit:
    reader: ListReader
    settling_s: float
    queues: int = 0
    examined: int = 0
    found: int = 0
    unseen: list[str] = field(default_factory=list)

    async def of_all(self) -> AsyncGenerator[AuditProgress, None]:
        """Audit all watched queues, and find others that are in use."""
        await self.reader.discovery.search()
        if note := self.reader.discovery.note:
            self.unseen.append(printable(note, SENTENCE_MAX))
        watched = self._watched()
        async with aclosing(self.of(sorted(watched))) as steps:
            async for step in steps:
                yield step
        worked_on, note = await self.reader.worked_on()
        if note is not None and self.reader.discovery.note is None:
            self.unseen.append(f"not all processing lists of other queues were found: {printable(note, SENTENCE_MAX)}")
        for _ in range(_SECOND_LOOKS):
            if worked_on <= self._watched():
                break
            # A search does not find lists that are empty at that moment.
            await self.reader.discovery.search()
        async with aclosing(self.of(sorted(worked_on & self._watched() - watched))) as steps:
            async for step in steps:
                yield step
        for queue in sorted(worked_on - self._watched()):
            self.queues += 1
            detail = ""
            try:
                detail = f"it holds {plural(await self.reader.leases.processing(queue), 'item')}"
            except PEEK_ERRORS as error:
                self._left_out(error, queue)
            yield self._progress(queue, [Finding(Kind.UNWATCHED, queue, detail=detail)])
        yield self._progress(None)

    def _watched(self) -> frozenset[str]:
        return frozenset(map(name_of, self.reader.discovery.names))

    async def of(self, queues: Sequence[str]) -> AsyncGenerator[AuditProgress, None]:
        """Audit these queues."""
        for queue in dict.fromkeys(queues):
            self.queues += 1
            findings: list[Finding] = []
            try:
                types = await self.reader.leases.types(queue)
                if wrong := _wrong(types):
                    findings.append(Finding(Kind.TYPE, queue, len(wrong), detail="; ".join(wrong)))
                if types.processing == "list" or types.leases == "zset":
                    async with aclosing(self._inside(queue, types)) as steps:
                        async for step in steps:
                            findings += step.findings
                            yield self._progress(queue)
            except PEEK_ERRORS as error:
                self._left_out(error, queue)
            yield self._progress(queue, findings)

    async def _inside(self, queue: str, types: KeyTypes) -> AsyncGenerator[AuditProgress, None]:
        """Compare the items in processing with the leases."""
        if types.processing not in ("list", "none") or types.leases not in ("zset", "none"):
            self.unseen.append(f"queue {printable(queue, SENTENCE_MAX)}: leases cannot be compared with other types")
            return
        look = await self._look(queue)
        yield self._progress(queue)
        if look is None:
            where = f"queue {printable(queue, SENTENCE_MAX)}"
            self.unseen.append(f"{where}: more than {count(COMPARED_MAX)} items or leases were not compared")
            return
        unleased, orphans, lasting = look.unleased, look.orphans, look.lasting
        for _ in range(_SECOND_LOOKS):
            if not (unleased or orphans):
                break
            async with aclosing(ticks(asyncio.sleep(self.settling_s))) as passing:
                async for _ in passing:
                    yield self._progress(queue)
            again = await self._look(queue)
            if again is not None:
                unleased, orphans = unleased & again.unleased, orphans & again.orphans
                lasting = {mark: member for mark, member in lasting.items() if mark in again.lasting}
                look.ids |= again.ids
        orphaned = _orphaned(orphans, lasting)
        findings = [*_unleased(queue, unleased, look.ids), *_of_leases(queue, lasting, orphaned, look.at_ms)]
        findings += _finding_of(Kind.ORPHAN, queue, list(orphaned.values()))
        yield AuditProgress(queue, 0, 0, 0, 0, tuple(findings))

    async def _look(self, queue: str) -> _Look | None:
        """Read the items and leases once; None if there are more than ``COMPARED_MAX``."""
        look = _Look()
        before = await self._leases(queue, look)
        if before is None:
            return None
        async with aclosing(self.reader.scan.chunks(queue, bodies=False, places=("processing",))) as chunks:
            async for chunk in chunks:
                ids, scores = chunk.columns[:2]
                self.examined += len(chunk)
                for raw, score in zip(ids, scores, strict=True):
                    id = read_item_id(raw)
                    assert id is not None, "the scan yields item ids"
                    look.items[id.sha] += 1
                    # An infinite deadline has the same score.
                    if score == UNLEASED_SCORE:
                        look.ids[id.sha] = str(id)
                if look.items.total() > COMPARED_MAX:
                    return None
        after = await self._leases(queue, look)
        if after is None:
            return None
        look.lasting = {mark: member for mark, member in after.items() if mark in before}
        look.unleased = look.items - Counter(member.sha for member in (before | after).values() if member.sha)
        return look

    async def _leases(self, queue: str, look: _Look) -> dict[bytes, LeaseMember] | None:
        """Return the leases by their marks."""
        found: dict[bytes, LeaseMember] = {}
        async with aclosing(self.reader.leases.pages(queue)) as pages:
            async for page in pages:
                look.at_ms = page.at_ms
                self.examined += len(page.members)
                found.update((member.mark, member) for member in page.members)
                if len(found) > COMPARED_MAX:
                    return None
        return found

    def _left_out(self, error: Exception, queue: str) -> None:
        """Note what could not be checked; raise the error if the server cannot be read at all."""
        if not isinstance(error, RsmqError) and failure_of(error).kind not in ("noperm", "crossslot"):
            raise error
        where = f"queue {printable(queue, SENTENCE_MAX)}"
        self.unseen.append(f"{where}: it was not checked: {printable(str(error), SENTENCE_MAX)}")

    def _progress(self, queue: str | None, findings: Sequence[Finding] = ()) -> AuditProgress:
        self.found += len(findings)
        return AuditProgress(
            queue, self.queues, self.examined, 0, self.found, tuple(findings), tuple(dict.fromkeys(self.unseen))
        )


def _wrong(types: KeyTypes) -> list[str]:
    return [
        f"{key} is a {found}, not a {right}"
        for key, found, right in zip(_KEYS, types, _RIGHT_TYPES, strict=True)
        if found not in (right, "none")
    ]


def _unleased(queue: str, unleased: Counter[str], ids: dict[str, str]) -> Iterable[Finding]:
    if number := unleased.total():
        yield Finding(Kind.UNLEASED, queue, number, tuple(ids[sha] for sha in unleased if sha in ids)[:IDS_SHOWN])


def _orphaned(orphans: Counter[str], lasting: dict[bytes, LeaseMember]) -> dict[bytes, LeaseMember]:
    """Return the leases without an item; of the leases of equal items, any may be named."""
    left = Counter(orphans)
    found = {}
    for mark, member in lasting.items():
        if member.sha is not None and left[member.sha] > 0:
            left[member.sha] -= 1
            found[mark] = member
    return found


def _of_leases(
    queue: str, lasting: dict[bytes, LeaseMember], orphaned: Container[bytes], now_ms: int
) -> Iterable[Finding]:
    """Yield the findings about deadlines and forms of leases; no consumer waits for the item of an orphaned one."""
    members = list(lasting.values())
    units: dict[str, list[LeaseMember]] = {"in seconds": [], "in microseconds": [], "infinite": []}
    overdue: list[LeaseMember] = []
    first_ms = inf
    for mark, member in lasting.items():
        if member.sha is None:
            continue
        score = float(member.score)
        if score == inf:
            units["infinite"].append(member)
        elif score >= MICROSECONDS_FROM:
            units["in microseconds"].append(member)
        elif score < SECONDS_BELOW:
            units["in seconds"].append(member)
        elif score <= now_ms - OVERDUE_MS and mark not in orphaned:
            overdue.append(member)
            first_ms = min(first_ms, score)
    if overdue:
        yield from _finding_of(Kind.OVERDUE, queue, overdue, f"the first {duration(now_ms - first_ms)} ago")
    odd = [member for found in units.values() for member in found]
    if odd:
        detail = ", ".join(f"{count(len(found))} {unit}" for unit, found in units.items() if found)
        yield from _finding_of(Kind.UNIT, queue, odd, detail)
    yield from _finding_of(Kind.FORM, queue, [member for member in members if member.sha is None])


def _finding_of(kind: Kind, queue: str, members: Sequence[LeaseMember], detail: str = "") -> Iterable[Finding]:
    if members:
        ids = tuple(member.token.decode("utf-8", "surrogateescape") for member in members[:IDS_SHOWN])
        yield Finding(kind, queue, len(members), ids, detail)
