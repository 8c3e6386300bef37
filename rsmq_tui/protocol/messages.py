"""The values that operations take and give."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Message:
    """A received message.

    ``rc`` counts receives, this one included; ``fr_ms`` is when it was first received and ``sent_ms`` when it was
    sent, both in ms since the epoch; ``sent_ms`` is None where the id carries no plausible time.
    """

    id: str
    body: bytes
    rc: int
    fr_ms: int
    sent_ms: int | None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it lies in a queue: ``due_ms`` is its score, ``rc`` 0 and ``fr_ms`` None until the first receive."""

    id: str
    body: bytes
    due_ms: int
    rc: int = 0
    fr_ms: int | None = None


class RawMessage(NamedTuple):
    """A message as its keys hold it, byte for byte: what scans read, and what compare-and-set compares.

    ``rc`` and ``fr`` are the raw fields, None where absent (or not asked for); ``size`` is the body's length in bytes,
    and ``body`` None where there is none, where it was not asked for, or where it was too long to be read.
    """

    id: bytes
    score: bytes
    rc: bytes | None
    fr: bytes | None
    size: int
    body: bytes | None


# Makes a RawMessage of its fields in order. Calling the class takes three times as long, and there may be millions.
raw_message = partial(tuple.__new__, RawMessage)


@dataclass(frozen=True, slots=True)
class QueueAttributes:
    """A queue's attributes, under the canonical client's names.

    ``vt`` and ``delay`` are in seconds, ``maxsize`` in characters (-1: unlimited), ``created`` and ``modified`` in
    seconds since the epoch; ``totalrecv`` counts deliveries. ``msgs`` counts every stored message and ``hiddenmsgs``
    those whose score lies after the server's time, to the millisecond. A field that another client left out or wrote
    in a way that starts with no number is None, where the canonical client gives NaN; a text date, as Go writes it, is
    the moment that it means, where that client gives its year.
    """

    vt: int | None
    delay: int | None
    maxsize: int | None
    totalrecv: int
    totalsent: int
    created: int | None
    modified: int | None
    msgs: int
    hiddenmsgs: int
