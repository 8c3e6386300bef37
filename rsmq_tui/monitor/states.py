"""What a consumer would find of a message: ready, in flight or delayed."""

from collections.abc import Iterable
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


def count_states(messages: Iterable[tuple[bytes, bytes | None]], at_ms: int) -> dict[MessageState, int]:
    """Count messages, given by their raw scores and receive counts, by state at that server time."""
    ready, in_flight, delayed = 0, 0, 0
    for score, rc in messages:
        due_ms = float(score)
        if SECONDS_BELOW <= due_ms < MICROSECONDS_FROM:
            state = MessageState.READY if due_ms <= at_ms else _hidden_state(rc)
        else:
            state = state_of(score, rc, at_ms)
        if state is MessageState.READY:
            ready += 1
        elif state is MessageState.IN_FLIGHT:
            in_flight += 1
        else:
            delayed += 1
    return {MessageState.READY: ready, MessageState.IN_FLIGHT: in_flight, MessageState.DELAYED: delayed}


def _hidden_state(rc: bytes | None) -> MessageState:
    return MessageState.IN_FLIGHT if rc is not None and rc.strip(b"+-0 ") else MessageState.DELAYED
