"""Audits a namespace: whether each queue's keys, messages and fields are consistent. It only reads.

Each call blocks the server for a millisecond or two, however deep the queue. Memory use does not depend on the number
of findings.

A finding is reported only if a second read, which reads all parts of a message atomically, still shows it. Some clients
write the zset entry and the fields of a message one after the other, so a message that was just sent is not reported.
If its id carries no time, the second read waits instead.
"""

import asyncio
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.monitor.messages.peek import PEEK_ERRORS, PeekError, in_words
from rsmq_tui.monitor.messages.reading import ScoreUnit, score_units
from rsmq_tui.monitor.text import SENTENCE_MAX, count, duration, plural, printable
from rsmq_tui.protocol import (
    SERVER_ERRORS,
    TIME_FROM,
    RawMessage,
    RsmqError,
    RsmqReader,
    failure_of,
    leading_int,
    name_of,
    sent_ms,
)
from rsmq_tui.protocol.keys import RAW_CANONICAL_ID, RAW_ID_OF_ANY_CLIENT
from rsmq_tui.protocol.rsmq.inspection import INDEX_NAME, NEEDED_ATTRIBUTES, Belonging, QueueLook, stem_of

# How long after the time in its id a message may be incomplete: clocks differ, and clients are delayed.
SETTLED_MS = 60_000
# How long the second read waits if ids carry no time.
SETTLING_S = 3.0
_TICK_S = 0.5
# How many messages wait together; if there are more, the audit waits several times.
_WAITING_MAX = 10_000
# The integers that HINCRBY accepts.
_WHOLE = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_RC_MAX = 2**63 - 1
# ZSCAN takes 0.2 ms for this many.
_CHUNK_MESSAGES = 125
# The problems of which the sender may still write the other half.
_INCOMPLETE = {FindingKind.DANGLING, FindingKind.LEAKED, FindingKind.STRAY, FindingKind.UNKNOWN}
_UNITS = {ScoreUnit.SECONDS: FindingKind.SECONDS, ScoreUnit.MICROSECONDS: FindingKind.MICROSECONDS}


class Flaw(NamedTuple):
    """A message with a problem, or a field that belongs to no message; ``id`` is that of the message, or the field.

    The size of a ``message`` without a body is 0.
    """

    kind: FindingKind
    id: bytes
    message: RawMessage | None = None


class AuditedPart(NamedTuple):
    """A part of a queue's messages or fields: server time in ms, how many were read, and the problems found.

    ``young`` counts messages without a body and fields that are too recent to judge.
    """

    at_ms: int
    examined: int
    found: list[Flaw]
    young: int = 0

    def ids(self, kind: FindingKind) -> list[bytes]:
        """Return the ids or fields with that problem."""
        return [flaw.id for flaw in self.found if flaw.kind is kind]


# Parts of a walk, each with the ids or fields that a second read must judge.
_Walk = AsyncGenerator[tuple[AuditedPart, list[bytes]], None]


def condition_of(look: QueueLook) -> FindingKind | None:
    """Return what is wrong with a queue as a whole, if anything; of two problems, the one whose fix fixes both."""
    has_zset, has_hash = look.zset_type == "zset", look.hash_type == "hash"
    if look.queue == INDEX_NAME:
        return FindingKind.RESERVED if look.listed or has_hash else None
    if look.zset_type not in ("none", "zset") or look.hash_type not in ("none", "hash"):
        return FindingKind.WRONG_TYPE if look.listed or (has_hash and look.attributes) else None
    if not has_hash:
        if has_zset:
            return FindingKind.NO_HASH if look.listed or _are_messages(look) else None
        return FindingKind.GHOST if look.listed else None
    if bad_attributes(look):
        if look.listed or has_zset:
            return FindingKind.ATTRIBUTES
        # Without any attribute, the hash may belong to another program.
        return FindingKind.REMAINS if look.attributes else None
    return None if look.listed else FindingKind.UNLISTED


def bad_attributes(look: QueueLook) -> list[bytes]:
    """Return those of vt, delay and maxsize that are missing or not numbers."""
    return [name for name in NEEDED_ATTRIBUTES if leading_int(look.attributes.get(name)) is None]


def holds_messages(look: QueueLook) -> bool:
    """Return whether the messages and fields of a queue can be audited, not only its keys."""
    is_readable = look.zset_type in ("none", "zset") and look.hash_type == "hash" and look.queue != INDEX_NAME
    return is_readable and (look.listed or look.zset_type == "zset" or not bad_attributes(look))


async def audit_messages(
    reader: RsmqReader, queue: str, settling_s: float | None = None
) -> AsyncGenerator[AuditedPart, None]:
    """Iterate over a queue's messages, and yield those with problems; raises what the reader raises.

    ``settling_s`` is how long the second read waits if ids carry no time; None means SETTLING_S.
    """
    chunks = reader.scan.chunks(queue, counts=True, bodies=False, sizes=True, count=_CHUNK_MESSAGES)
    sizes: dict[bytes, int] = {}

    async def walk() -> _Walk:
        nonlocal sizes
        async with aclosing(chunks) as coming:
            async for chunk in coming:
                plain: list[RawMessage] = []
                doubtful: list[RawMessage] = []
                for message in chunk.messages:
                    (doubtful if _is_doubtful(message) else plain).append(message)
                sizes = {message.id: message.size for message in doubtful}
                yield AuditedPart(chunk.at_ms, len(chunk), list(_seen_alone(plain))), list(sizes)

    async def again(ids: list[bytes]) -> list[Flaw]:
        found: list[Flaw] = []
        for id, score, has_body, rc, fr in await reader.inspection.members(queue, ids):
            if score is not None:
                message = RawMessage(id, score, rc, fr, sizes.get(id, 0), None)
                found += _seen_whole(message) if has_body else [Flaw(FindingKind.DANGLING, id, message)]
        return found

    async with aclosing(_judged(walk(), again, settling_s)) as parts:
        async for part in parts:
            yield part


async def audit_fields(
    reader: RsmqReader, queue: str, settling_s: float | None = None
) -> AsyncGenerator[AuditedPart, None]:
    """Iterate over the fields of a queue that belong to no message; raises what the reader raises.

    The counters of such a body are not yielded: they are removed with it. ``settling_s`` is as in ``audit_messages``.
    """
    inspection = reader.inspection

    async def walk() -> _Walk:
        # Messages sent during the walk have later times, and count as young too.
        at_ms = await inspection.clock_ms()
        async with aclosing(inspection.fields(queue)) as coming:
            async for names in coming:
                whose = await inspection.belongings(queue, names)
                doubtful = [name for name, belonging in zip(names, whose, strict=True) if belonging]
                yield AuditedPart(at_ms, len(names), []), doubtful

    async with aclosing(_judged(walk(), partial(_loose, reader, queue), settling_s)) as parts:
        async for part in parts:
            yield part


async def _judged(
    walk: _Walk, again: Callable[[list[bytes]], Awaitable[list[Flaw]]], settling_s: float | None
) -> AsyncGenerator[AuditedPart, None]:
    """Yield the parts of a walk, with the problems that doubtful messages or fields have in a second read.

    ``again`` reads each of them atomically. Parts that are too recent then count as young; parts that may be are read
    again later.
    """
    waiting: list[bytes] = []
    at_ms = 0

    async def settled() -> AsyncGenerator[AuditedPart, None]:
        if waiting:
            async with aclosing(ticks(_settle(settling_s))) as passing:
                async for _ in passing:
                    yield AuditedPart(at_ms, 0, [])
        for start in range(0, len(waiting), _CHUNK_MESSAGES):
            yield AuditedPart(at_ms, 0, await again(waiting[start : start + _CHUNK_MESSAGES]))
        waiting.clear()

    async with aclosing(walk) as coming:
        async for part, doubtful in coming:
            at_ms, young = part.at_ms, 0
            for flaw in await again(doubtful):
                is_young = _is_young(flaw, at_ms)
                if is_young is None:
                    waiting.append(flaw.id)
                elif is_young:
                    young += 1
                else:
                    part.found.append(flaw)
            yield part._replace(young=young)
            if len(waiting) >= _WAITING_MAX:
                async for later in settled():
                    yield later
    async for later in settled():
        yield later


async def _settle(settling_s: float | None) -> None:
    await asyncio.sleep(SETTLING_S if settling_s is None else settling_s)


async def ticks(wait: Coroutine[Any, Any, None]) -> AsyncGenerator[None, None]:
    """Yield twice a second until a wait is over: without progress, the server would be said not to answer."""
    waiting = asyncio.create_task(wait)
    try:
        while not (await asyncio.wait([waiting], timeout=_TICK_S))[0]:
            yield
        waiting.result()
    finally:
        waiting.cancel()


async def _loose(reader: RsmqReader, queue: str, names: list[bytes]) -> list[Flaw]:
    """Classify those of these fields that belong to no message, each read atomically."""
    found = []
    for name, belonging in zip(names, await reader.inspection.belongings(queue, names), strict=True):
        # A canonical id may end like the name of a counter, but counters of canonical ids are longer.
        if belonging is Belonging.BODY or (belonging and RAW_CANONICAL_ID.fullmatch(name)):
            kind, id = FindingKind.LEAKED, name
        elif belonging is Belonging.COUNTER:
            kind, id = FindingKind.STRAY, stem_of(name) or name
        else:
            continue
        # Other programs may store fields of their own in the hash.
        found.append(Flaw(kind if RAW_ID_OF_ANY_CLIENT.fullmatch(id) else FindingKind.UNKNOWN, name))
    return found


def _is_young(flaw: Flaw, at_ms: int) -> bool | None:
    """Return whether a part may be missing because it was made too recently, or None if its id carries no time."""
    kind, id, _ = flaw
    if kind not in _INCOMPLETE:
        return False
    sent = sent_ms(name_of(stem_of(id) or id if kind is FindingKind.STRAY else id), now_ms=at_ms)
    return None if sent is None else at_ms - sent < SETTLED_MS


def _seen_whole(message: RawMessage) -> Iterator[Flaw]:
    """Yield the problems of a message that has a body, read atomically."""
    rc = message.rc
    if rc is not None and not _is_count(rc):
        yield Flaw(FindingKind.BAD_RC, message.id, message)
    elif rc is not None and message.fr is None and int(rc) > 0:
        yield Flaw(FindingKind.NO_FR, message.id, message)
    yield from _seen_alone([message])


def _is_doubtful(message: RawMessage) -> bool:
    _, _, rc, fr, size, _ = message
    return not size or (rc is not None and (fr is None or not _is_count(rc)))


def _seen_alone(messages: list[RawMessage]) -> Iterator[Flaw]:
    """Yield the problems of ids and scores, which need no second read."""
    has_units = bool(score_units([message.score for message in messages]))
    for message in messages:
        id, score = message.id, message.score
        if not RAW_CANONICAL_ID.fullmatch(id):
            yield Flaw(FindingKind.FOREIGN_ID, id, message)
        if has_units:
            for unit in score_units((score,)):
                yield Flaw(_UNITS[unit], id, message)
        if score == b"inf":
            yield Flaw(FindingKind.NEVER, id, message)


def _is_count(rc: bytes) -> bool:
    return _WHOLE.fullmatch(rc) is not None and -_RC_MAX <= int(rc) < _RC_MAX


def _are_messages(look: QueueLook) -> bool:
    """Return whether a zset that is not in the index looks like a queue's, not like another program's."""
    if look.head is None or not RAW_ID_OF_ANY_CLIENT.fullmatch(look.head[0]):
        return False
    return float(look.head[1]) >= TIME_FROM


IDS_SHOWN = 5
# Clients create a queue in two steps, its hash and then its name in the index: delay before the second read.
_SECOND_LOOK_S = 0.1
# Queues per batch: one delay serves all of them.
_LOOKS = 5_000
_REST = "not everything was checked"
_REFUSED = re.compile(r"run the '([^'\s]+)' command")


@dataclass(frozen=True, slots=True)
class AuditProgress:
    """The progress of an audit, and the ``findings`` since the last one.

    ``queue`` is the queue being audited, None during the search for queues. ``queues``, ``examined`` (messages and
    fields), ``keys`` (keys of the server that were scanned) and ``found`` count from the start. ``unseen`` has a
    sentence for everything that could not be checked. ``young`` counts messages and fields that are incomplete but too
    recent to judge. ``listed`` is the number of queues in the index, 0 if it is unknown; ``elapsed_s`` is the duration.
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
        """The progress, the rate and the remaining time, for people."""
        is_known = 0 < self.queues <= self.listed
        text = f"{count(self.queues)} of {plural(self.listed, 'queue')}" if is_known else plural(self.queues, "queue")
        per_s = self.queues / self.elapsed_s if self.elapsed_s >= 1 else 0.0
        if per_s:
            text += f", {per_s:,.0f}/s" if per_s >= 1 else ""
            left = self.listed - self.queues
            if left > 0:
                text += f", {duration(left / per_s * 1000)} left"
        return f"{text}, {count(self.examined)} messages and fields checked"


async def audit(
    reader: RsmqReader,
    queues: Sequence[str] | None = None,
    *,
    limit: int | None = None,
    seconds: float | None = None,
) -> AsyncGenerator[AuditProgress, None]:
    """Audit these queues, or every queue of the namespace, including those that are missing from the index.

    Raises ``PeekError`` if the server cannot be read, or one of ``queues`` does not exist. Close it with ``aclose``
    when leaving early. Messages that are sent, received or deleted meanwhile are not findings. The audit ends after
    ``limit`` queues or ``seconds``; ``unseen`` then says so.
    """
    work = _Audit(reader, limit)
    with in_words():
        async with aclosing(work.of(queues) if queues is not None else work.of_all()) as steps:
            async for step in steps:
                yield step
                if seconds is not None and step.elapsed_s >= seconds:
                    yield work.stopped(f"stopped after {duration(seconds * 1000)}, as requested")
                    return
        if work.is_cut:
            yield work.stopped(f"stopped after {plural(work.queues, 'queue')}, as requested")


async def missing(reader: RsmqReader, queues: Sequence[str]) -> list[str]:
    """Return those of these queues that have no keys and are not in the index; raises ``PeekError``."""
    with in_words():
        return await _missing(reader, queues)


async def _missing(reader: RsmqReader, queues: Sequence[str]) -> list[str]:
    looks = await reader.inspection.looks(queues)
    return [look.queue for look in looks if not look.listed and "none" == look.zset_type == look.hash_type]


@dataclass
class _Audit:
    """A running audit; ``AuditProgress`` describes its counters."""

    reader: RsmqReader
    limit: int | None = None
    is_cut: bool = False
    listed: int = 0
    started_s: float = field(default_factory=time.monotonic)
    queues: int = 0
    examined: int = 0
    keys: int = 0
    found: int = 0
    young: int = 0
    # What was not checked, and why -> the queues that it applies to.
    unseen: dict[tuple[str, str], list[str | None]] = field(default_factory=dict)

    async def of(self, queues: Sequence[str]) -> AsyncGenerator[AuditProgress, None]:
        """Audit these queues."""
        names = list(dict.fromkeys(queues))
        for queue in await _missing(self.reader, names):
            where = f"{self.reader.label}, ns {self.reader.ns}"
            raise PeekError(f"queue {printable(queue, SENTENCE_MAX)} does not exist ({where})")
        async with aclosing(self._queues(names)) as steps:
            async for step in steps:
                yield step

    async def of_all(self) -> AsyncGenerator[AuditProgress, None]:
        """Audit all queues."""
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
                    # Most of these keys belong to other programs, and are read only once.
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
                # The queue may have been recreated between the reads: then neither read proves a problem.
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
        """Audit a queue's messages, then its fields."""
        counts: Counter[FindingKind] = Counter()
        ids: dict[FindingKind, list[bytes]] = defaultdict(list)

        for walk, unseen in (
            (audit_messages, "messages were not checked"),
            (audit_fields, "bodies and counters without messages were not searched for"),
        ):
            try:
                async with aclosing(walk(self.reader, queue)) as parts:
                    async for part in parts:
                        self.examined += part.examined
                        self.young += part.young
                        for kind, id, _ in part.found:
                            counts[kind] += 1
                            if len(ids[kind]) < IDS_SHOWN:
                                ids[kind].append(id)
                        yield self._progress(queue)
            except PEEK_ERRORS as error:
                self._left_out(error, unseen, queue)
        found = [
            Finding(kind, queue, counts[kind], tuple(map(name_of, ids[kind]))) for kind in FindingKind if counts[kind]
        ]
        yield self._progress(queue, found)

    def _left_out(self, error: Exception, what: str, queue: str | None = None) -> None:
        """Note what could not be checked; raise the error if the server cannot be read at all."""
        # A key that has changed its type meanwhile is reported by the next audit.
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
        """Return the last progress of an audit that was ended early."""
        self.unseen[_REST, why] = [None]
        return self._progress(None)

    def _unseen(self) -> tuple[str, ...]:
        return tuple(f"{_of_queues(queues)}{what}: {why}" for (what, why), queues in self.unseen.items())


async def _together(pages: AsyncGenerator[list[str], None], known: set[str]) -> AsyncGenerator[list[str], None]:
    """Merge pages of names into batches of ``_LOOKS``, each name once."""
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
    """Return the finding about a queue as a whole."""
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
