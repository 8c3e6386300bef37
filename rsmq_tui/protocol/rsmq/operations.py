"""Each operation of RSMQ as a value that a client runs, and the types of arguments and results. No I/O.

An ``Operation`` says which script or command to send, with which keys and arguments, and how to decode the reply. The
functions here validate and build them. ``Rsmq`` and ``AsyncRsmq`` have each as a method, without ``keys``, that returns
the result of the operation: the docstrings are those of the methods.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, islice
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, overload

from redis.exceptions import ResponseError

from rsmq_tui.protocol import validation
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import Keys, name_of, random_suffix, sent_ms
from rsmq_tui.protocol.replies import TEXT_DATE, decoded, leading_int, text_date_ms
from rsmq_tui.protocol.rsmq import scripts
from rsmq_tui.protocol.rsmq.scripts import Script


@dataclass(frozen=True, slots=True)
class Message:
    """A received message.

    ``rc`` counts receives, this one included; ``fr_ms`` is when it was first received and ``sent_ms`` when it was
    sent, both in ms since the epoch; ``sent_ms`` is None if the id has no plausible time.
    """

    id: str
    body: bytes
    rc: int
    fr_ms: int
    sent_ms: int | None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in a queue: ``due_ms`` is its score; ``rc`` is 0 and ``fr_ms`` None until the first receive."""

    id: str
    body: bytes
    due_ms: int
    rc: int = 0
    fr_ms: int | None = None


class RawMessage(NamedTuple):
    """A message as its keys hold it, byte for byte: what scans read, and what compare-and-set compares.

    ``rc`` and ``fr`` are the raw fields, None if absent or not asked for; ``size`` is the body's length in bytes, and
    ``body`` is None if there is none, if it was not asked for, or if it was too long to be read.
    """

    id: bytes
    score: bytes
    rc: bytes | None
    fr: bytes | None
    size: int
    body: bytes | None


# Makes a RawMessage of its fields in order. Calling the class takes three times as long, and there may be millions.
raw_message = partial(tuple.__new__, RawMessage)


class Messages(Sequence[RawMessage]):
    """Messages as columns: one sequence for each field of ``RawMessage``. A message is made when it is asked for."""

    __slots__ = ("columns",)

    def __init__(self, columns: Iterable[Sequence[Any]]) -> None:
        self.columns = tuple(columns)

    @classmethod
    def of(cls, messages: Iterable[RawMessage]) -> "Messages":
        """Return messages as columns."""
        if isinstance(messages, Messages):
            return messages
        return cls(list(zip(*messages, strict=True)) or [()] * len(RawMessage._fields))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[RawMessage]:
        return map(raw_message, zip(*self.columns, strict=True))

    @overload
    def __getitem__(self, place: int) -> RawMessage: ...
    @overload
    def __getitem__(self, place: slice) -> "Messages": ...
    def __getitem__(self, place: int | slice) -> "RawMessage | Messages":
        if isinstance(place, slice):
            return Messages([column[place] for column in self.columns])
        message: RawMessage = raw_message([column[place] for column in self.columns])
        return message

    def __add__(self, others: "Messages") -> "Messages":
        if not (self and others):
            return self or others
        return Messages([(*mine, *theirs) for mine, theirs in zip(self.columns, others.columns, strict=True)])

    @property
    def ids(self) -> Sequence[bytes]:
        """The column of ids."""
        return self.columns[0]

    @property
    def scores(self) -> Sequence[bytes]:
        """The column of scores."""
        return self.columns[1]

    @property
    def rcs(self) -> Sequence[bytes | None]:
        """The column of receive counts."""
        return self.columns[2]

    @property
    def sizes(self) -> Sequence[int]:
        """The column of the lengths of bodies."""
        return self.columns[4]

    @property
    def bodies(self) -> Sequence[bytes | None]:
        """The column of bodies."""
        return self.columns[5]

    def kept(self, wanted: Iterable[bool]) -> "Messages":
        """Return the messages for which ``wanted`` is true."""
        chosen = tuple(wanted)
        return Messages([tuple(compress(column, chosen)) for column in self.columns])

    def having(self, **columns: Sequence[Any]) -> "Messages":
        """Return the same messages with other columns, by the names of the fields."""
        return Messages(map(columns.get, RawMessage._fields, self.columns))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # as of a list


@dataclass(frozen=True, slots=True)
class QueueAttributes:
    """A queue's attributes, under the canonical client's names.

    ``vt`` and ``delay`` are in seconds, ``maxsize`` in characters (-1: unlimited), ``created`` and ``modified`` in
    seconds since the epoch; ``totalrecv`` counts deliveries. ``msgs`` counts every stored message and ``hiddenmsgs``
    those whose score is after the server's time, to the millisecond. A field that is missing or does not start with a
    number is None (NaN in the canonical client); a date as text, as Go writes it, is converted (in the canonical client
    it is read as its year).
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


T = TypeVar("T")
Item = TypeVar("Item")
Argument = bytes | str | int

# A batch goes to the server in chunks of this many messages and about this many body bytes, so that one call holds the
# server for little more than a millisecond.
CHUNK_MESSAGES = 500
CHUNK_BYTES = 1_000_000


class Operation(NamedTuple, Generic[T]):
    """One round trip: ``script`` with ``keys`` and ``arguments``, or if it is None, the command in ``arguments``."""

    script: Script | None
    keys: tuple[bytes, ...]
    arguments: tuple[Argument, ...]
    read: Callable[[Any], T]

    def decode(self, reply: Any) -> T:
        """Decode the reply; raises redis-py's ``InvalidResponse`` for a malformed one."""
        return decoded(self.read, reply)

    @property
    def by_sha(self) -> tuple[Argument, ...]:
        """The command to send first."""
        if self.script is None:
            return self.arguments
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.arguments)

    @property
    def by_text(self) -> tuple[Argument, ...]:
        """The command to send if the server does not know the script: it also loads it."""
        if self.script is None:
            return self.arguments
        return ("EVAL", self.script.text, len(self.keys), *self.keys, *self.arguments)


class Waiting(NamedTuple, Generic[T]):
    """A blocking command: ``command`` without the timeout at its end, which is ``wait_s`` seconds, 0 for ever."""

    command: tuple[Argument, ...]
    wait_s: float
    read: Callable[[Any], T]

    def timed(self, wait_s: float) -> tuple[Argument, ...]:
        """Return the command with a timeout."""
        return (*self.command, f"{wait_s:.3f}".rstrip("0").rstrip("."))


Flow = Generator[Operation[Any] | Waiting[Any], Any, T]
"""An operation of several round trips: it yields each of them, is sent the result, and returns the final result."""


def raise_refusal(error: ResponseError) -> NoReturn:
    """Raise the ``RsmqError`` of a script's error reply or of WRONGTYPE, or else the error itself."""
    refusal = re.match(r"RSMQ (\w+) ?(\w*)", str(error))
    if refusal:
        raise rsmq_error(refusal[1], item=refusal[2], low=0, high=validation.SECONDS_MAX) from None
    if "WRONGTYPE" in str(error):
        raise rsmq_error("wrongType") from error
    raise error


def list_queues(keys: Keys) -> Operation[list[str]]:
    """Return the names in the index, sorted; names that are listed need not have keys."""
    return Operation(None, (), ("SMEMBERS", keys.index), lambda reply: sorted(name_of(name) for name in reply))


def create_queue(
    keys: Keys, queue: str, *, vt: int = 30, delay: int = 0, maxsize: int = validation.MAXSIZE_MAX
) -> Operation[None]:
    """Create a queue.

    ``vt`` and ``delay`` are seconds, 0 to 9,999,999; ``maxsize`` is 1,024 to 65,536, or -1 for unlimited. Raises
    ``queueExists``, ``missingParameter``, ``invalidFormat``, ``invalidValue``. If a partial hash has a ``vt``, the
    canonical client adds the missing fields and says ``queueExists``; this client changes nothing. A hash without
    ``vt`` is no queue to any client; its fields are kept.
    """
    validation.queue_name(queue)
    arguments = (queue, validation.seconds("vt", vt), validation.seconds("delay", delay), validation.maxsize(maxsize))
    return Operation(scripts.CREATE_QUEUE, (keys.attributes(queue), keys.index), arguments, _nothing)


def delete_queue(keys: Keys, queue: str) -> Operation[None]:
    """Delete a queue and all its messages.

    Raises ``queueNotFound`` if it had no keys; its name is removed from the index all the same, as by the canonical
    client. Raises ``wrongType``, before anything is removed, if one of its keys has another type.
    """
    validation.queue_name(queue)
    return Operation(scripts.DELETE_QUEUE, (*_of(keys, queue), keys.index), (queue,), _nothing)


def get_queue_attributes(keys: Keys, queue: str) -> Operation[QueueAttributes]:
    """Return the attributes, totals and counts of a queue; raises ``queueNotFound``.

    ``hiddenmsgs`` counts scores after the server's time, to the millisecond. The canonical client counts from the start
    of the current second, inclusive, so that a message shows as hidden there for up to a second after it was sent or
    became visible.
    """
    validation.queue_name(queue)
    return Operation(scripts.ATTRIBUTES, _of(keys, queue), (), _read_attributes)


def set_queue_attributes(
    keys: Keys, queue: str, *, vt: int | None = None, delay: int | None = None, maxsize: int | None = None
) -> Operation[QueueAttributes]:
    """Change attributes for later sends and receives, and return them all.

    Raises ``noAttributeSupplied`` before anything else, ``queueNotFound``, ``invalidValue``.
    """
    if vt is None and delay is None and maxsize is None:
        raise rsmq_error("noAttributeSupplied")
    validation.queue_name(queue)
    arguments: list[Argument] = []
    if vt is not None:
        arguments += ["vt", validation.seconds("vt", vt)]
    if maxsize is not None:
        arguments += ["maxsize", validation.maxsize(maxsize)]
    if delay is not None:
        arguments += ["delay", validation.seconds("delay", delay)]
    return Operation(scripts.ATTRIBUTES, _of(keys, queue), tuple(arguments), _read_attributes)


def send_message(keys: Keys, queue: str, body: str | bytes, *, delay: int | None = None) -> Operation[str]:
    """Send one message and return its id; ``delay`` in seconds, the queue's own by default.

    Raises ``queueNotFound``, ``messageNotString``, and ``messageTooLong`` when the body is longer than ``maxsize``: a
    ``str`` is measured in UTF-16 code units, because that is what the canonical client compares (JavaScript's
    ``length``), so that both refuse the same texts; ``bytes`` have no code units and are measured in bytes.
    """
    validation.queue_name(queue)
    given_delay = optional_seconds("delay", delay)
    encoded, size = validation.body_bytes(body)
    arguments = (given_delay, size, keys.channel(queue), random_suffix(), encoded)
    return Operation(scripts.SEND, _of(keys, queue), arguments, lambda reply: reply[0].decode())


def send_messages(
    keys: Keys, queue: str, bodies: Iterable[str | bytes], *, delay: int | None = None
) -> Flow[list[str]]:
    """Send many messages in order and return their ids.

    They go in chunks, each atomic. One body longer than ``maxsize`` refuses them all (``messageTooLong``). With
    ``realtime`` the depth is published once a chunk.
    """
    if isinstance(bodies, str | bytes):
        raise TypeError("send_messages takes many bodies; send_message sends one")
    validation.queue_name(queue)
    given_delay = optional_seconds("delay", delay)
    encoded = [validation.body_bytes(body) for body in bodies]
    # Each chunk has the size of the longest body of all, so that the first refuses them all.
    longest = max((size for _, size in encoded), default=0)
    head = (given_delay, longest, keys.channel(queue))
    return in_chunks(
        Operation(scripts.SEND, _of(keys, queue), (*head, *_suffixed(chunk)), _read_ids)
        for chunk in chunked(encoded, weight=lambda item: len(item[0]))
    )


def receive_message(keys: Keys, queue: str, *, vt: int | None = None) -> Operation[Message | None]:
    """Receive the first ready message, or None; it stays hidden for ``vt`` seconds, the queue's own by default.

    An id without a body is hidden like a received message and skipped, so that it never blocks the messages behind it.
    Raises ``queueNotFound``, ``invalidValue``.
    """
    return Operation(scripts.RECEIVE, _of(keys, queue), _to_receive(queue, 1, vt), _read_first)


def receive_messages(keys: Keys, queue: str, count: int, *, vt: int | None = None) -> Operation[list[Message]]:
    """Receive up to ``count`` ready messages at once; see ``receive_message``."""
    return Operation(scripts.RECEIVE, _of(keys, queue), _to_receive(queue, count, vt), _read_messages)


def pop_message(keys: Keys, queue: str) -> Operation[Message | None]:
    """Receive the first ready message and delete it, or None; ids without a body are removed as well."""
    validation.queue_name(queue)
    return Operation(scripts.POP, _of(keys, queue), (1,), _read_first)


def delete_message(keys: Keys, queue: str, id: str) -> Operation[bool]:
    """Delete a message, with an id of any client; False if it was not there.

    Raises ``missingParameter`` for an empty id, and ``invalidFormat`` for the name of a field of the queue, such as
    ``vt``, or more than 65,536 bytes. Only what belongs to this message is removed.
    """
    validation.queue_name(queue)
    return Operation(scripts.DELETE, _of(keys, queue), (validation.message_id(id),), _read_flag)


def delete_messages(keys: Keys, queue: str, ids: Iterable[str]) -> Flow[list[bool]]:
    """Delete many messages, in chunks, each atomic; returns for each id whether it was there."""
    validation.queue_name(queue)
    checked = [validation.message_id(id) for id in ids]
    return in_chunks(
        Operation(scripts.DELETE, _of(keys, queue), tuple(chunk), _read_flags) for chunk in chunked(checked)
    )


def change_message_visibility(keys: Keys, queue: str, id: str, vt: int) -> Operation[bool]:
    """Make a message visible ``vt`` seconds from now, hidden or not; False if it is not there.

    Takes the ids that ``delete_message`` takes. Raises ``queueNotFound``, ``invalidFormat``, ``invalidValue``. ``rc``
    and ``fr`` stay as they are.
    """
    validation.queue_name(queue)
    identity, given_vt = validation.message_id(id), validation.seconds("vt", vt)
    return Operation(scripts.VISIBILITY, _of(keys, queue), (given_vt, identity), _read_flag)


def change_visibility_of(keys: Keys, queue: str, ids: Iterable[str], vt: int) -> Flow[list[bool]]:
    """Change the visibility of many messages, in chunks, each atomic; see ``change_message_visibility``."""
    validation.queue_name(queue)
    checked, given_vt = [validation.message_id(id) for id in ids], validation.seconds("vt", vt)
    return in_chunks(
        Operation(scripts.VISIBILITY, _of(keys, queue), (given_vt, *chunk), _read_flags) for chunk in chunked(checked)
    )


def restore_messages(keys: Keys, queue: str, messages: Iterable[StoredMessage]) -> Flow[list[bool]]:
    """Write messages exactly as given: id, body, score, rc and fr; False for an id that was already there.

    Raises ``invalidFormat`` for the ids that ``delete_message`` refuses; a message whose fields belong to another one
    is left out as well. Totals stay as they are: a restored message was counted when it was first sent.
    """
    validation.queue_name(queue)
    return in_chunks(
        Operation(scripts.RESTORE, _of(keys, queue), tuple(_restored(chunk)), _read_flags)
        for chunk in chunked(messages, weight=lambda message: len(message.body))
    )


def in_chunks(operations: Iterable[Operation[list[T]]]) -> Flow[list[T]]:
    """Return the flow of these operations, whose results are joined."""
    found: list[T] = []
    for operation in operations:
        found += yield operation
    return found


def _of(keys: Keys, queue: str) -> tuple[bytes, bytes]:
    return keys.messages(queue), keys.attributes(queue)


def _to_receive(queue: str, count: int, vt: int | None) -> tuple[Argument, Argument]:
    validation.queue_name(queue)
    if count < 1:
        raise ValueError("count must be at least 1")
    return optional_seconds("vt", vt), count


def optional_seconds(item: str, value: int | None) -> Argument:
    """Return ``vt`` or ``delay`` as the scripts read it: empty for the queue's own; raise ``invalidValue``."""
    return "" if value is None else validation.seconds(item, value)


def _suffixed(chunk: Iterable[tuple[bytes, int]]) -> Iterator[bytes]:
    for body, _ in chunk:
        yield from (random_suffix(), body)


def _restored(chunk: Iterable[StoredMessage]) -> Iterator[Argument]:
    for message in chunk:
        yield from (validation.message_id(message.id), message.body, message.due_ms, message.rc)
        yield "" if message.fr_ms is None else message.fr_ms


def chunked(
    items: Iterable[Item],
    count: int = CHUNK_MESSAGES,
    weight: Callable[[Item], int] | None = None,
    weight_max: int = CHUNK_BYTES,
) -> Iterator[list[Item]]:
    """Split into chunks of at most ``count`` items and ``weight_max``; an item that is heavier gets its own chunk."""
    rest = iter(items)
    if weight is None:
        while chunk := list(islice(rest, count)):
            yield chunk
        return
    chunk, heavy = [], 0
    for item in rest:
        weighs = weight(item)
        if chunk and (len(chunk) == count or heavy + weighs > weight_max):
            yield chunk
            chunk, heavy = [], 0
        chunk.append(item)
        heavy += weighs
    if chunk:
        yield chunk


def _nothing(_reply: Any) -> None:
    return None


def _read_ids(reply: Any) -> list[str]:
    return [value.decode() for value in reply]


def _read_flag(reply: Any) -> bool:
    return bool(reply[0] == 1)


def _read_flags(reply: Any) -> list[bool]:
    return [value == 1 for value in reply]


def _read_messages(reply: Any) -> list[Message]:
    now_ms = int(reply[0])
    return [_read_message(fields, now_ms) for fields in reply[1]]


def _read_first(reply: Any) -> Message | None:
    return _read_message(reply[1][0], int(reply[0])) if reply[1] else None


def _read_message(fields: Any, now_ms: int) -> Message:
    raw_id, body, rc, fr = fields
    identity = name_of(raw_id)
    first_ms = leading_int(fr)
    return Message(
        id=identity,
        body=body,
        rc=rc,
        fr_ms=now_ms if first_ms is None else first_ms,
        sent_ms=sent_ms(identity, now_ms=now_ms),
    )


def _date_s(raw: bytes | None) -> int | None:
    if not TEXT_DATE.match(raw or b""):
        return leading_int(raw)
    date_ms = text_date_ms(raw)
    return None if date_ms is None else date_ms // 1000


def _read_attributes(reply: Any) -> QueueAttributes:
    fields, msgs, hidden = reply
    vt, delay, maxsize, totalrecv, totalsent = map(leading_int, fields[:5])
    created, modified = map(_date_s, fields[5:])
    return QueueAttributes(
        vt=vt,
        delay=delay,
        maxsize=maxsize,
        totalrecv=totalrecv or 0,
        totalsent=totalsent or 0,
        created=created,
        modified=modified,
        msgs=msgs,
        hiddenmsgs=hidden,
    )
