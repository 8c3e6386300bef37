"""What a consumer would find of a message: ready, in flight or delayed; of a list's item also what is with its lease.

What is such an item, and where it lies, its id tells; its score is the deadline of its lease.
"""

from collections.abc import Sequence
from enum import StrEnum

from rsmq_tui.monitor.reading import read_score
from rsmq_tui.protocol import MICROSECONDS_FROM, SECONDS_BELOW
from rsmq_tui.protocol.lists.item_ids import UNKNOWN_LEASE_SCORE, UNLEASED_SCORE, Place, read_item_id


class MessageState(StrEnum):
    """What a consumer would find; the last two only of items of lists that are in processing."""

    READY = "ready"
    IN_FLIGHT = "in flight"
    DELAYED = "delayed"
    EXPIRED = "expired"
    UNLEASED = "no lease"


def place_of(id: str | bytes) -> Place | None:
    """Return where an item of a list lies, by its id; None for a message of another kind."""
    # Ids of messages have no colon there, and there may be millions of them.
    if id[1:2] not in (":", b":"):
        return None
    found = read_item_id(id)
    return None if found is None else found.place


def state_of(score: bytes, rc: bytes | None, at_ms: int, id: bytes = b"") -> MessageState:
    """Return the state of a message with that raw score, receive count and id, at that server time."""
    place = place_of(id)
    if place is not None:
        return item_state(place, score, at_ms)
    due_ms, _ = read_score(score.decode("latin-1"))
    if due_ms is not None and due_ms <= at_ms:
        return MessageState.READY
    return _hidden_state(rc)


def item_state(place: Place, score: bytes, at_ms: int) -> MessageState:
    """Return the state of a list's item with that score."""
    if place == "queue":
        return MessageState.READY
    if score == UNLEASED_SCORE:
        return MessageState.UNLEASED
    # Of a deadline that nobody has looked up it is only known that there may be one.
    is_over = score != UNKNOWN_LEASE_SCORE and float(score) <= at_ms
    return MessageState.EXPIRED if is_over else MessageState.IN_FLIGHT


def count_states(
    scores: Sequence[bytes], rcs: Sequence[bytes | None], at_ms: int, ids: Sequence[bytes] = ()
) -> dict[MessageState, int]:
    """Count messages, given by their raw scores, receive counts and ids, by state at that server time."""
    if ids and place_of(ids[0]) is not None:
        states = [state_of(score, None, at_ms, id) for score, id in zip(scores, ids, strict=True)]
        return {state: states.count(state) for state in MessageState}
    due_ms = list(map(float, scores))
    if due_ms and min(due_ms) >= SECONDS_BELOW and max(due_ms) < MICROSECONDS_FROM:
        # The usual case, and there may be millions.
        hidden = [rc for due, rc in zip(due_ms, rcs, strict=True) if due > at_ms]
        in_flight = sum(_hidden_state(rc) is MessageState.IN_FLIGHT for rc in hidden)
        counts = (len(due_ms) - len(hidden), in_flight, len(hidden) - in_flight, 0, 0)
        return dict(zip(MessageState, counts, strict=True))
    states = [state_of(score, rc, at_ms) for score, rc in zip(scores, rcs, strict=True)]
    return {state: states.count(state) for state in MessageState}


def _hidden_state(rc: bytes | None) -> MessageState:
    return MessageState.IN_FLIGHT if rc is not None and rc.strip(b"+-0 ") else MessageState.DELAYED
