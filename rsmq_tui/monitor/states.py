"""What a consumer would find of a message: ready, in flight or delayed."""

from enum import StrEnum

from rsmq_tui.monitor.reading import read_score


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
    return MessageState.IN_FLIGHT if rc is not None and rc.strip(b"+-0 ") else MessageState.DELAYED
