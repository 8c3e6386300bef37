"""Auditing a namespace: every queue's keys, messages and fields, as far as they disagree. It only reads.

Each call holds the server for a millisecond or two, however deep the queue; memory stays flat however much is found.
"""

import asyncio
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from rsmq_tui.monitor.audit_findings import Finding, FindingKind
from rsmq_tui.monitor.peek import PEEK_ERRORS, PeekError, told
from rsmq_tui.monitor.suspects import bad_attributes, condition_of, holds_messages, loose_fields, suspects
from rsmq_tui.monitor.wording import SENTENCE_MAX, count, duration, plural, printable
from rsmq_tui.protocol import SERVER_ERRORS, QueueReader, RsmqError, failure_of, name_of
from rsmq_tui.protocol.inspected import QueueLook
from rsmq_tui.protocol.inspection import INDEX_NAME

IDS_SHOWN = 5
# Clients make a queue in two steps, its hash and then its name: a second look comes so much later.
_SECOND_LOOK_S = 0.1
# It costs no time where so many are looked at in between.
_LOOKS = 5_000
_REST = "not everything was checked"
_REFUSED = re.compile(r"run the '([^'\s]+)' command")


@dataclass(frozen=True, slots=True)
class AuditProgress:
    """How far an audit has come, and what it has found for certain since the last time.

    ``queue`` is the one that is looked at, None while names are looked for; ``queues``, ``examined`` (messages and
    fields), ``keys`` (those of the server that were passed) and ``found`` count from the start. ``unseen`` are
    sentences about what could not be looked at, all of them. ``young`` counts what has one side only, and was sent too
    short a time ago to tell. ``listed`` is how many queues the index names, 0 before that is known or where it was not
    asked; ``elapsed_s`` is how long the audit has taken.
    """

    queue: str | None
    queues: int
    examined: int
    keys: int
    found: int
    findings: tuple[Finding, ...] = ()
    unseen: tuple[str, ...] = ()
    young: int = 0
    listed: int = 0
    elapsed_s: float = 0.0

    @property
    def words(self) -> str:
        """How far it has come, how fast, and how long the rest takes."""
        is_known = 0 < self.queues <= self.listed
        told = f"{count(self.queues)} of {plural(self.listed, 'queue')}" if is_known else plural(self.queues, "queue")
        per_s = self.queues / self.elapsed_s if self.elapsed_s >= 1 else 0.0
        if per_s:
            told += f", {per_s:,.0f}/s" if per_s >= 1 else ""
            left = self.listed - self.queues
            if left > 0:
                told += f", {duration(left / per_s * 1000)} left"
        return f"{told}, {count(self.examined)} messages and fields checked"


async def audit(
    reader: QueueReader,
    queues: Sequence[str] | None = None,
    *,
    settling_s: float | None = None,
    limit: int | None = None,
    seconds: float | None = None,
) -> AsyncGenerator[AuditProgress, None]:
    """Look at these queues, or at every queue of the namespace, those that the index does not name among them.

    Raises ``PeekError`` when the server cannot be read, or a queue of these is not there. Close it with ``aclose`` when
    leaving early. Messages that come, go and are received meanwhile are no findings; to tell, it waits ``settling_s``
    in a queue with doubtful ids that carry no time (``suspects.SETTLING_S`` where that is None). It ends after
    ``limit`` queues, and after so many seconds, and says in ``unseen`` what it left.
    """
    work = _Audit(reader, settling_s, limit)
    try:
        async with aclosing(work.of(queues) if queues is not None else work.of_all()) as steps:
            async for step in steps:
                yield step
                if seconds is not None and step.elapsed_s >= seconds:
                    yield work.stopped(f"stopped after {duration(seconds * 1000)}, as requested")
                    return
        if work.is_cut:
            yield work.stopped(f"stopped after {plural(work.queues, 'queue')}, as requested")
    except PEEK_ERRORS as error:
        raise told(error) from error


async def missing(reader: QueueReader, queues: Sequence[str]) -> list[str]:
    """Return those of these queues of which there is nothing at all; raises ``PeekError``."""
    try:
        return await _missing(reader, queues)
    except PEEK_ERRORS as error:
        raise told(error) from error


async def _missing(reader: QueueReader, queues: Sequence[str]) -> list[str]:
    looks = await reader.inspection.looks(queues)
    return [look.queue for look in looks if not look.listed and "none" == look.zset_type == look.hash_type]


@dataclass
class _Audit:
    """One audit under way; what it counts is in ``AuditProgress``."""

    reader: QueueReader
    settling_s: float | None
    limit: int | None = None
    is_cut: bool = False
    listed: int = 0
    started_s: float = field(default_factory=time.monotonic)
    queues: int = 0
    examined: int = 0
    keys: int = 0
    found: int = 0
    young: int = 0
    # What was not looked at, and why -> in which queues, of which the first tells its name.
    unseen: dict[tuple[str, str], list[str | None]] = field(default_factory=dict)

    async def of(self, queues: Sequence[str]) -> AsyncGenerator[AuditProgress, None]:
        """Audit these."""
        names = list(dict.fromkeys(queues))
        for queue in await _missing(self.reader, names):
            where = f"{self.reader.label}, ns {self.reader.ns}"
            raise PeekError(f"queue {printable(queue, SENTENCE_MAX)} does not exist ({where})")
        async with aclosing(self._queues(names)) as steps:
            async for step in steps:
                yield step

    async def of_all(self) -> AsyncGenerator[AuditProgress, None]:
        """Audit all that there are."""
        known: set[str] = set()
        try:
            async with aclosing(_together(self._listed(), known)) as groups:
                async for names in groups:
                    self.listed = max(self.listed, len(known))
                    async with aclosing(self._queues(names)) as steps:
                        async for step in steps:
                            yield step
                    if self.is_cut:
                        return
        except RsmqError as error:
            if error.code != "wrongType":
                raise
            detail = f"{INDEX_NAME} is not a set of names"
            yield self._progress(None, [Finding(FindingKind.WRONG_TYPE, INDEX_NAME, detail=detail)])
        wrong: list[str] = []
        try:
            async with aclosing(self.reader.inspection.keyed()) as pages:
                async for passed, names in pages:
                    self.keys += passed
                    yield self._progress(None)
                    # Most are other programs' keys, and asked about only once more.
                    looks = await self.reader.inspection.looks([name for name in names if name not in known])
                    new = [look.queue for look in looks if condition_of(look) is not None and not look.listed]
                    known.update(new)
                    wrong += new
                    if len(wrong) >= _LOOKS:
                        async with aclosing(self._queues(wrong)) as steps:
                            async for step in steps:
                                yield step
                        wrong = []
                    if self.is_cut:
                        return
            async with aclosing(self._queues(wrong)) as steps:
                async for step in steps:
                    yield step
        except SERVER_ERRORS as error:
            self._left_out(error, "queues missing from the index were not searched for")
            yield self._progress(None)

    async def _listed(self) -> AsyncGenerator[list[str], None]:
        try:
            self.listed = await self.reader.inspection.listed_count()
            async with aclosing(self.reader.inspection.listed()) as pages:
                async for names in pages:
                    yield names
        except SERVER_ERRORS as error:
            self._left_out(error, "queues in the index were not checked")

    async def _queues(self, names: Sequence[str]) -> AsyncGenerator[AuditProgress, None]:
        if self.limit is not None and len(names) > self.limit - self.queues:
            names, self.is_cut = names[: self.limit - self.queues], True
        for start in range(0, len(names), _LOOKS):
            looks = await self.reader.inspection.looks(names[start : start + _LOOKS])
            doubtful = [look.queue for look in looks if condition_of(look) is not None]
            again: dict[str, QueueLook] = {}
            if doubtful:
                await asyncio.sleep(_SECOND_LOOK_S)
                again = {look.queue: look for look in await self.reader.inspection.looks(doubtful)}
            for look in looks:
                now = again.get(look.queue, look)
                kind = condition_of(now)
                findings = []
                # Of two queues of one name that were made one after the other, neither need be wrong.
                is_same = now.attributes.get(b"created") == look.attributes.get(b"created")
                if kind is not None and kind is condition_of(look) and is_same:
                    findings.append(_whole(kind, now))
                self.queues += 1
                yield self._progress(look.queue, findings)
                if holds_messages(now) and (now.depth or now.fields > len(now.attributes)):
                    async with aclosing(self._inside(look.queue)) as steps:
                        async for step in steps:
                            yield step

    async def _inside(self, queue: str) -> AsyncGenerator[AuditProgress, None]:
        """Look at a queue's messages, then at its fields."""
        counts: Counter[FindingKind] = Counter()
        ids: dict[FindingKind, list[bytes]] = defaultdict(list)

        def take(kind: FindingKind, id: bytes) -> None:
            counts[kind] += 1
            if len(ids[kind]) < IDS_SHOWN:
                ids[kind].append(id)

        try:
            async with aclosing(suspects(self.reader, queue, self.settling_s)) as messages:
                async for part in messages:
                    self.examined += part.examined
                    self.young += part.young
                    for kind, message in part.found:
                        take(kind, message.id)
                    yield self._progress(queue)
        except PEEK_ERRORS as error:
            self._left_out(error, "messages were not checked", queue)
        try:
            async with aclosing(loose_fields(self.reader, queue, self.settling_s)) as fields:
                async for page in fields:
                    self.examined += page.examined
                    self.young += page.young
                    for name in page.bodies:
                        take(FindingKind.LEAKED, name)
                    for name in page.counters:
                        take(FindingKind.STRAY, name)
                    for name in page.unknown:
                        take(FindingKind.UNKNOWN, name)
                    yield self._progress(queue)
        except PEEK_ERRORS as error:
            self._left_out(error, "bodies and counters without messages were not searched for", queue)
        found = [
            Finding(kind, queue, counts[kind], tuple(map(name_of, ids[kind]))) for kind in FindingKind if counts[kind]
        ]
        yield self._progress(queue, found)

    def _left_out(self, error: Exception, what: str, queue: str | None = None) -> None:
        """Note what could not be looked at, where that is not because the server cannot be read at all."""
        # Where something else has been put there meanwhile, the next audit says so.
        if not isinstance(error, RsmqError) and failure_of(error).kind != "noperm":
            raise error
        why = printable(str(error), SENTENCE_MAX)
        refused = _REFUSED.search(why)
        grant = f"; grant it +{refused[1]}" if refused is not None else ""
        self.unseen.setdefault((what, why + grant), []).append(queue)

    def _progress(self, queue: str | None, findings: Sequence[Finding] = ()) -> AuditProgress:
        self.found += len(findings)
        counts = (self.queues, self.examined, self.keys, self.found)
        elapsed_s = time.monotonic() - self.started_s
        return AuditProgress(queue, *counts, tuple(findings), self._unseen(), self.young, self.listed, elapsed_s)

    def stopped(self, why: str) -> AuditProgress:
        """Return how far it came when it was ended."""
        self.unseen[_REST, why] = [None]
        return self._progress(None)

    def _unseen(self) -> tuple[str, ...]:
        return tuple(f"{_of_queues(queues)}{what}: {why}" for (what, why), queues in self.unseen.items())


async def _together(pages: AsyncGenerator[list[str], None], known: set[str]) -> AsyncGenerator[list[str], None]:
    """Yield the names of some pages, each once, so many together that a second look at them costs no time."""
    names: list[str] = []
    async with aclosing(pages) as coming:
        async for page in coming:
            names += [name for name in dict.fromkeys(page) if name not in known]
            known.update(page)
            if len(names) >= _LOOKS:
                yield names
                names = []
    yield names


def _of_queues(queues: Sequence[str | None]) -> str:
    first = queues[0]
    if first is None:
        return ""
    return f"queue {printable(first, SENTENCE_MAX)}: " if len(queues) == 1 else f"{plural(len(queues), 'queue')}: "


def _whole(kind: FindingKind, look: QueueLook) -> Finding:
    """Say what is wrong with a queue as a whole."""
    match kind:
        case FindingKind.NO_HASH:
            head = () if look.head is None else (name_of(look.head[0]),)
            return Finding(kind, look.queue, look.depth, head)
        case FindingKind.WRONG_TYPE:
            return Finding(kind, look.queue, detail=f"messages are a {look.zset_type}, attributes a {look.hash_type}")
        case FindingKind.RESERVED:
            return Finding(kind, look.queue, detail=f"its hash holds {plural(look.fields, 'field')}")
        case FindingKind.ATTRIBUTES:
            bad = ", ".join(name.decode() for name in bad_attributes(look))
            return Finding(kind, look.queue, detail=f"{bad} missing or not a number")
        case FindingKind.REMAINS:
            return Finding(kind, look.queue, detail=plural(look.fields, "field"))
    return Finding(kind, look.queue)
