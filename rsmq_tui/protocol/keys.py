"""Names of keys, and message ids.

A canonical id is the server's time in microseconds, base36 in lower case (10 characters from 1973 to 2085), and 22
random characters of ``[A-Za-z0-9]``. Other clients write other lengths and units; ``sent_ms`` knows those in use.
"""

import os
import re
from dataclasses import dataclass

# The namespace of clients that name none.
DEFAULT_NS = "rsmq"
# The fields of a queue's hash that belong to the queue and to no message, in the order in which they are read; then
# those that other clients keep there besides.
ATTRIBUTE_FIELDS = ("vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv")
FOREIGN_FIELDS = ("createdby", "msgs", "hiddenmsgs", "totalsend")
QUEUE_FIELDS = frozenset(name.encode() for name in (*ATTRIBUTE_FIELDS, *FOREIGN_FIELDS))


def name_of(raw: bytes) -> str:
    """Decode a name that came from the server so that ``name_bytes`` gives back the same bytes, whatever they are."""
    return raw.decode("utf-8", "surrogateescape")


def name_bytes(name: str) -> bytes:
    """Encode a name for the server; undoes ``name_of``."""
    return name.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one namespace; ``ns`` is used unchanged, as by the canonical client.

    With ``realtime``, clients publish the depth after each send.
    """

    ns: str
    realtime: bool = False

    @property
    def index(self) -> bytes:
        """The set of queue names."""
        return name_bytes(f"{self.ns}:QUEUES")

    def messages(self, queue: str) -> bytes:
        """The zset of message ids, each scored by the ms at which it becomes visible."""
        return name_bytes(f"{self.ns}:{queue}")

    def attributes(self, queue: str) -> bytes:
        """The hash of attributes, totals, bodies, receive counts and first-received times."""
        return name_bytes(f"{self.ns}:{queue}:Q")

    def channel(self, queue: str) -> bytes:
        """The pub/sub channel to publish the depth on; empty unless ``realtime``."""
        return name_bytes(f"{self.ns}:rt:{queue}") if self.realtime else b""

    def marker(self, token: str) -> bytes:
        """The key for the outcome of a guarded change; no queue has this name, because of its colon."""
        return name_bytes(f"{self.ns}:rsmq-tui:{token}")


_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
# Mapping random bytes through a table costs 0.5 µs an id; its slight bias does not matter to uniqueness.
_TO_ALPHABET = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
SUFFIX_LENGTH = 22

# No RSMQ message was sent before 2012, and clocks of servers differ by less than a day.
EARLIEST_MS = 1_325_376_000_000
SLACK_MS = 86_400_000

# id length -> (length of the time prefix, microseconds per unit of it)
_PREFIXES = {
    32: (10, 1),  # canonical
    42: (10, 1),  # canonical in 2013: md5 in place of random characters
    30: (8, 1_000),  # rsmq_async 3 to 15 for Rust: milliseconds
    28: (6, 1_000_000),  # rsmq_async 7: seconds
}
_CANONICAL_LENGTH = 32
_LOWER_BASE36 = re.compile(r"[0-9a-z]+")
_ALL_HEX = re.compile(r"[0-9a-f]{32}")

_CANONICAL = "[a-zA-Z0-9:]{32}"
# The ids that the canonical client accepts, as text and as raw bytes.
CANONICAL_ID = re.compile(_CANONICAL)
RAW_CANONICAL_ID = re.compile(_CANONICAL.encode())
# The forms of all clients in use: those above, 22 characters of rsmq-rb and ebuckley/rsmq, and UUIDs of rsmq4s.
RAW_ID_OF_ANY_CLIENT = re.compile(
    rb"[a-zA-Z0-9:]{32}|[a-zA-Z0-9]{42}|[a-zA-Z0-9]{30}|[a-zA-Z0-9]{28}|[a-zA-Z0-9]{22}"
    rb"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)


def random_suffix(length: int = SUFFIX_LENGTH) -> bytes:
    """Return the random characters that end an id."""
    return os.urandom(length).translate(_TO_ALPHABET)


def another_id(id: bytes) -> bytes:
    """Return a new id with the same time and form; one of unknown form keeps its first 10 bytes."""
    time_length, _ = _PREFIXES.get(len(id), _PREFIXES[_CANONICAL_LENGTH])
    return id[:time_length] + random_suffix(len(id) - time_length if len(id) in _PREFIXES else SUFFIX_LENGTH)


def make_id(at_us: int) -> str:
    """Return a canonical id for a message sent at that time, in microseconds since the epoch."""
    prefix = ""
    while at_us:
        at_us, digit = divmod(at_us, 36)
        prefix = _DIGITS[digit] + prefix
    return prefix.rjust(10, "0") + random_suffix().decode()


def sent_ms(message_id: str, *, now_ms: int) -> int | None:
    """Return when a message was sent, in ms since the epoch, or None if its id has no plausible time.

    Plausible is: one of the known lengths, a lower-case base36 prefix, and a time between 2012 and a day after
    ``now_ms``. An id of 32 lower-case hex digits is one of rbmq, which has no time.
    """
    known = _PREFIXES.get(len(message_id))
    if known is None:
        return None
    length, unit_us = known
    prefix = message_id[:length]
    if not _LOWER_BASE36.fullmatch(prefix) or _ALL_HEX.fullmatch(message_id):
        return None
    at_ms = int(prefix, 36) * unit_us // 1000
    return at_ms if EARLIEST_MS <= at_ms <= now_ms + SLACK_MS else None
