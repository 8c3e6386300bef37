"""What a consumer would find of a message: ready, in flight or delayed."""

from collections.abc import Sequence
from enum import StrEnum

from rsmq_tui.monitor.reading import read_score
from rsmq_tui.protocol import MICROSECONDS_FROM, SECONDS_BELOW


class MessageState(StrEnum):
    """What a consumer would find."""

    READY = "ready"
    IN_FLIGHT = "in flight"
    DELAYED = "delayed"


def state_of(score: bytes, rc: bytes | None, at_ms: int) -> MessageState:
    """Return the state of a message with that raw score and receive count, at that server time."""
    due_ms, _ = read_score(score.decode("latin-1"))
    if due_ms is not None and due_ms <= at_ms:
        return MessageState.READY
    return _hidden_state(rc)


def count_states(scores: Sequence[bytes], rcs: Sequence[bytes | None], at_ms: int) -> dict[MessageState, int]:
    """Count messages, given by their raw scores and receive counts, by state at that server time."""
    due_ms = list(map(float, scores))
    if due_ms and min(due_ms) >= SECONDS_BELOW and max(due_ms) < MICROSECONDS_FROM:
        # The usual case, and there may be millions.
        hidden = [rc for due, rc in zip(due_ms, rcs, strict=True) if due > at_ms]
        in_flight = sum(_hidden_state(rc) is MessageState.IN_FLIGHT for rc in hidden)
        counts = (len(due_ms) - len(hidden), in_flight, len(hidden) - in_flight)
        return dict(zip(MessageState, counts, strict=True))
    states = [state_of(score, rc, at_ms) for score, rc in zip(scores, rcs, strict=True)]
    return {state: states.count(state) for state in MessageState}


def _hidden_state(rc: bytes | None) -> MessageState:
    return MessageState.IN_FLIGHT if rc is not None and rc.strip(b"+-0 ") else MessageState.DELAYED
