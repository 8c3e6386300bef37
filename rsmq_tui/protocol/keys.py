"""The names of RSMQ's keys: ``{ns}:QUEUES``, ``{ns}:{queue}``, ``{ns}:{queue}:Q`` and a channel ``{ns}:rt:{queue}``."""

from dataclasses import dataclass

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
    """The keys of one namespace; ``ns`` is taken as it is, as the canonical client does (nothing is trimmed)."""

    ns: str

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
        """The pub/sub channel that ``realtime`` senders publish the depth on."""
        return name_bytes(f"{self.ns}:rt:{queue}")

    def marker(self, token: str) -> bytes:
        """Where a guarded change leaves its outcome until it is known; no queue's name holds a colon."""
        return name_bytes(f"{self.ns}:rsmq-tui:{token}")
