"""What is wrong with the keys of one queue, seen so that no consumer at work makes it look wrong.

A first look finds what may be wrong; what is told was still so in a second one, which sees all of a message at once.
"""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import NamedTuple

from rsmq_tui.monitor.audit_findings import FindingKind
from rsmq_tui.monitor.reading import TIME_FROM, ScoreUnit, score_units
from rsmq_tui.protocol import QueueReader, RawMessage, leading_int
from rsmq_tui.protocol.inspected import Belonging, QueueLook
from rsmq_tui.protocol.inspection import INDEX_NAME

_CANONICAL_ID = re.compile(rb"[a-zA-Z0-9:]{32}")
# What ids of any client look like.
_LIKE_AN_ID = re.compile(rb"[a-zA-Z0-9:-]{20,42}")
# As HINCRBY wants it.
_WHOLE = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_RC_MAX = 2**63 - 1
# ZSCAN takes 0.4 ms for so many.
_CHUNK_MESSAGES = 250
_UNITS = {ScoreUnit.SECONDS: FindingKind.SECONDS, ScoreUnit.MICROSECONDS: FindingKind.MICROSECONDS}


class Suspect(NamedTuple):
    """A message that something is wrong with, as it was; one that has no body has no ``size``."""

    kind: FindingKind
    message: RawMessage


class Suspects(NamedTuple):
    """Part of a queue's messages: how many were looked at, and what is wrong with some; the server's time in ms."""

    at_ms: int
    examined: int
    found: list[Suspect]


class LooseFields(NamedTuple):
    """Part of a queue's fields: how many were looked at, and the names of those that belong to no message."""

    examined: int
    bodies: list[bytes]
    counters: list[bytes]


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
    return [name for name in (b"vt", b"delay", b"maxsize") if leading_int(look.attributes.get(name)) is None]


def holds_messages(look: QueueLook) -> bool:
    """Tell whether there is anything to look at beyond the keys themselves."""
    is_readable = look.zset_type in ("none", "zset") and look.hash_type == "hash" and look.queue != INDEX_NAME
    return is_readable and (look.listed or look.zset_type == "zset" or not bad_attributes(look))


async def suspects(reader: QueueReader, queue: str) -> AsyncGenerator[Suspects, None]:
    """Walk through a queue's messages; raises what the reader raises."""
    chunks = reader.scan.chunks(queue, counts=True, bodies=False, sizes=True, count=_CHUNK_MESSAGES)
    async with aclosing(chunks) as walk:
        async for chunk in walk:
            plain: list[RawMessage] = []
            doubtful: list[RawMessage] = []
            for message in chunk.messages:
                (doubtful if _is_doubtful(message) else plain).append(message)
            found = [Suspect(kind, message) for kind, message in _seen_alone(plain)]
            if doubtful:
                sizes = {message.id: message.size for message in doubtful}
                for id, score, has_body, rc, fr in await reader.inspection.members(queue, list(sizes)):
                    if score is None:
                        continue
                    message = RawMessage(id, score, rc, fr, sizes[id], None)
                    if not has_body:
                        found.append(Suspect(FindingKind.DANGLING, message))
                        continue
                    if rc is not None and not _is_count(rc):
                        found.append(Suspect(FindingKind.BAD_RC, message))
                    elif rc is not None and fr is None and int(rc) > 0:
                        found.append(Suspect(FindingKind.NO_FR, message))
                    found += [Suspect(kind, message) for kind, message in _seen_alone([message])]
            yield Suspects(chunk.at_ms, len(chunk), found)


async def loose_fields(reader: QueueReader, queue: str) -> AsyncGenerator[LooseFields, None]:
    """Walk through the fields of a queue that belong to no message; raises what the reader raises.

    A counter of such a body is not told: it goes with that.
    """
    inspection = reader.inspection
    async with aclosing(inspection.fields(queue)) as walk:
        async for names in walk:
            whose = await inspection.belongings(queue, names)
            doubtful = [name for name, belonging in zip(names, whose, strict=True) if belonging]
            # Clients exist that write a message's two sides one after the other.
            still = await inspection.belongings(queue, doubtful)
            bodies, counters = [], []
            for name, belonging in zip(doubtful, still, strict=True):
                # A canonical id may end as a counter does; that of a canonical id is longer.
                if belonging is Belonging.BODY or (belonging and _CANONICAL_ID.fullmatch(name)):
                    bodies.append(name)
                elif belonging is Belonging.COUNTER:
                    counters.append(name)
            yield LooseFields(len(names), bodies, counters)


def _is_doubtful(message: RawMessage) -> bool:
    _, _, rc, fr, size, _ = message
    return not size or (rc is not None and (fr is None or not _is_count(rc)))


def _seen_alone(messages: list[RawMessage]) -> Iterator[tuple[FindingKind, RawMessage]]:
    """Yield what is wrong with an id or a score, which one reply tells whole."""
    has_units = bool(score_units([message.score for message in messages]))
    for message in messages:
        id, score = message.id, message.score
        if not _CANONICAL_ID.fullmatch(id):
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
    if look.head is None or not _LIKE_AN_ID.fullmatch(look.head[0]):
        return False
    return float(look.head[1]) >= TIME_FROM
