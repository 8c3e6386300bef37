"""What is wrong with the keys of one queue, seen so that no consumer at work makes it look wrong.

A first look finds what may be wrong; what is told was still so in a second one, which sees all of a message at once.
Clients exist that write a message's two sides one after the other: what was sent just now may be whole in a moment, and
is not told. Where no id says when that was, the second look comes later.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import NamedTuple

from rsmq_tui.monitor.audit_findings import FindingKind
from rsmq_tui.monitor.reading import ScoreUnit, score_units
from rsmq_tui.protocol import TIME_FROM, QueueReader, RawMessage, leading_int, name_of, sent_ms
from rsmq_tui.protocol.ids import RAW_CANONICAL_ID, RAW_ID_OF_ANY_CLIENT
from rsmq_tui.protocol.inspected import NEEDED_ATTRIBUTES, Belonging, QueueLook, stem_of
from rsmq_tui.protocol.inspection import INDEX_NAME

# How long after the time in its id a message may have one side only: clocks differ, and clients are held up.
SETTLED_MS = 60_000
# How long the second look waits for those whose ids carry no time.
SETTLING_S = 3.0
# How many of those wait at a time: beyond these, an audit waits once more.
_WAITING_MAX = 10_000
# As HINCRBY wants it.
_WHOLE = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_RC_MAX = 2**63 - 1
# ZSCAN takes 0.2 ms for so many.
_CHUNK_MESSAGES = 125
_UNITS = {ScoreUnit.SECONDS: FindingKind.SECONDS, ScoreUnit.MICROSECONDS: FindingKind.MICROSECONDS}


class Suspect(NamedTuple):
    """A message that something is wrong with, as it was; one that has no body has no ``size``."""

    kind: FindingKind
    message: RawMessage


class Suspects(NamedTuple):
    """Part of a queue's messages: how many were looked at, and what is wrong with some; the server's time in ms.

    ``young`` counts those that have no body and were sent too short a time ago to tell.
    """

    at_ms: int
    examined: int
    found: list[Suspect]
    young: int = 0


class LooseFields(NamedTuple):
    """Part of a queue's fields: how many were looked at, and the names of those that belong to no message.

    ``unknown`` are called as no client calls anything; ``young`` counts those that are too young to tell.
    """

    examined: int
    bodies: list[bytes]
    counters: list[bytes]
    unknown: list[bytes]
    young: int = 0


def condition_of(look: QueueLook) -> FindingKind | None:
    """Return what is wrong with a queue as a whole, if anything: of two, the one whose mending mends both."""
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
        # Without any of them it may be anybody's hash.
        return FindingKind.REMAINS if look.attributes else None
    return None if look.listed else FindingKind.UNLISTED


def bad_attributes(look: QueueLook) -> list[bytes]:
    """Return those of vt, delay and maxsize that are missing or no numbers."""
    return [name for name in NEEDED_ATTRIBUTES if leading_int(look.attributes.get(name)) is None]


def holds_messages(look: QueueLook) -> bool:
    """Tell whether there is anything to look at beyond the keys themselves."""
    is_readable = look.zset_type in ("none", "zset") and look.hash_type == "hash" and look.queue != INDEX_NAME
    return is_readable and (look.listed or look.zset_type == "zset" or not bad_attributes(look))


async def suspects(reader: QueueReader, queue: str, settling_s: float | None = None) -> AsyncGenerator[Suspects, None]:
    """Walk through a queue's messages; raises what the reader raises.

    ``settling_s`` is how long the second look waits for ids without a time, SETTLING_S where it is None.
    """
    chunks = reader.scan.chunks(queue, counts=True, bodies=False, sizes=True, count=_CHUNK_MESSAGES)
    waiting: list[RawMessage] = []
    at_ms = 0
    async with aclosing(chunks) as walk:
        async for chunk in walk:
            at_ms = chunk.at_ms
            plain: list[RawMessage] = []
            doubtful: list[RawMessage] = []
            for message in chunk.messages:
                (doubtful if _is_doubtful(message) else plain).append(message)
            found = [Suspect(kind, message) for kind, message in _seen_alone(plain)]
            young = 0
            for message, has_body in await _again(reader, queue, doubtful):
                if has_body:
                    found += _seen_whole(message)
                elif (is_young := _is_young(message.id, at_ms)) is None:
                    waiting.append(message)
                elif is_young:
                    young += 1
                else:
                    found.append(Suspect(FindingKind.DANGLING, message))
            yield Suspects(at_ms, len(chunk), found, young)
            if len(waiting) >= _WAITING_MAX:
                async for found in _settled(reader, queue, waiting, settling_s):
                    yield Suspects(at_ms, 0, found)
                waiting = []
    async for found in _settled(reader, queue, waiting, settling_s):
        yield Suspects(at_ms, 0, found)


async def _again(reader: QueueReader, queue: str, messages: list[RawMessage]) -> list[tuple[RawMessage, bool]]:
    """Look at messages once more, each in one step: those that are there still, and whether they have bodies."""
    sizes = {message.id: message.size for message in messages}
    return [
        (RawMessage(id, score, rc, fr, sizes[id], None), has_body)
        for id, score, has_body, rc, fr in await reader.inspection.members(queue, list(sizes))
        if score is not None
    ]


async def _settled(
    reader: QueueReader, queue: str, messages: list[RawMessage], settling_s: float | None
) -> AsyncGenerator[list[Suspect], None]:
    """Wait, and yield what is wrong with these messages even then, a few at a time."""
    if messages:
        await _settle(settling_s)
    for start in range(0, len(messages), _CHUNK_MESSAGES):
        found: list[Suspect] = []
        for message, has_body in await _again(reader, queue, messages[start : start + _CHUNK_MESSAGES]):
            found += _seen_whole(message) if has_body else [Suspect(FindingKind.DANGLING, message)]
        yield found


async def loose_fields(
    reader: QueueReader, queue: str, settling_s: float | None = None
) -> AsyncGenerator[LooseFields, None]:
    """Walk through the fields of a queue that belong to no message; raises what the reader raises.

    A counter of such a body is not told: it goes with that. ``settling_s`` is as with ``suspects``.
    """
    inspection = reader.inspection
    # What is sent while this walks is younger still.
    at_ms = await inspection.clock_ms()
    waiting: list[bytes] = []
    async with aclosing(inspection.fields(queue)) as walk:
        async for names in walk:
            whose = await inspection.belongings(queue, names)
            doubtful = [name for name, belonging in zip(names, whose, strict=True) if belonging]
            told = LooseFields(len(names), [], [], [])
            young = 0
            for kind, name in await _loose(reader, queue, doubtful):
                is_young = _is_young(stem_of(name) or name if kind is FindingKind.STRAY else name, at_ms)
                if is_young is None:
                    waiting.append(name)
                elif is_young:
                    young += 1
                else:
                    _names_of(told, kind).append(name)
            yield told._replace(young=young)
            if len(waiting) >= _WAITING_MAX:
                async for later in _settled_fields(reader, queue, waiting, settling_s):
                    yield later
                waiting = []
    async for later in _settled_fields(reader, queue, waiting, settling_s):
        yield later


async def _settled_fields(
    reader: QueueReader, queue: str, names: list[bytes], settling_s: float | None
) -> AsyncGenerator[LooseFields, None]:
    """Wait, and yield those of these fields that belong to no message even then, a few at a time."""
    if names:
        await _settle(settling_s)
    for start in range(0, len(names), _CHUNK_MESSAGES):
        told = LooseFields(0, [], [], [])
        for kind, name in await _loose(reader, queue, names[start : start + _CHUNK_MESSAGES]):
            _names_of(told, kind).append(name)
        yield told


async def _loose(reader: QueueReader, queue: str, names: list[bytes]) -> list[tuple[FindingKind, bytes]]:
    """Tell what those of these fields are that belong to no message, each looked at in one step."""
    found = []
    for name, belonging in zip(names, await reader.inspection.belongings(queue, names), strict=True):
        # A canonical id may end as a counter does; that of a canonical id is longer.
        if belonging is Belonging.BODY or (belonging and RAW_CANONICAL_ID.fullmatch(name)):
            kind, id = FindingKind.LEAKED, name
        elif belonging is Belonging.COUNTER:
            kind, id = FindingKind.STRAY, stem_of(name) or name
        else:
            continue
        # Anybody may keep a field of his own in there, and miss it.
        found.append((kind if RAW_ID_OF_ANY_CLIENT.fullmatch(id) else FindingKind.UNKNOWN, name))
    return found


async def _settle(settling_s: float | None) -> None:
    await asyncio.sleep(SETTLING_S if settling_s is None else settling_s)


def _names_of(told: LooseFields, kind: FindingKind) -> list[bytes]:
    match kind:
        case FindingKind.LEAKED:
            return told.bodies
        case FindingKind.STRAY:
            return told.counters
    return told.unknown


def _is_young(id: bytes, at_ms: int) -> bool | None:
    """Tell whether an id was made too short a time ago to judge by, or None where it does not say when."""
    sent = sent_ms(name_of(id), now_ms=at_ms)
    return None if sent is None else at_ms - sent < SETTLED_MS


def _seen_whole(message: RawMessage) -> Iterator[Suspect]:
    """Yield what is wrong with a message that has a body, seen in one step."""
    rc = message.rc
    if rc is not None and not _is_count(rc):
        yield Suspect(FindingKind.BAD_RC, message)
    elif rc is not None and message.fr is None and int(rc) > 0:
        yield Suspect(FindingKind.NO_FR, message)
    for kind, _ in _seen_alone([message]):
        yield Suspect(kind, message)


def _is_doubtful(message: RawMessage) -> bool:
    _, _, rc, fr, size, _ = message
    return not size or (rc is not None and (fr is None or not _is_count(rc)))


def _seen_alone(messages: list[RawMessage]) -> Iterator[tuple[FindingKind, RawMessage]]:
    """Yield what is wrong with an id or a score, which one reply tells whole."""
    has_units = bool(score_units([message.score for message in messages]))
    for message in messages:
        id, score = message.id, message.score
        if not RAW_CANONICAL_ID.fullmatch(id):
            yield FindingKind.FOREIGN_ID, message
        if has_units:
            for unit in score_units((score,)):
                yield _UNITS[unit], message
        if score == b"inf":
            yield FindingKind.NEVER, message


def _is_count(rc: bytes) -> bool:
    return _WHOLE.fullmatch(rc) is not None and -_RC_MAX <= int(rc) < _RC_MAX


def _are_messages(look: QueueLook) -> bool:
    """Tell whether a zset that no index names looks like a queue's, and not like somebody's list of scores."""
    if look.head is None or not RAW_ID_OF_ANY_CLIENT.fullmatch(look.head[0]):
        return False
    return float(look.head[1]) >= TIME_FROM
