"""The names of a list queue's keys, and the ids of its items.

An item has no id of its own: the id made here is its position when it was read, and a hash of its bytes. The position
is shown, and says where to look first; a change applies to any item with the same bytes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Literal, NamedTuple

from rsmq_tui.protocol.keys import name_bytes
from rsmq_tui.protocol.kinds import LIST

End = Literal["left", "right"]
"""One of the two ends of a list: ``left`` is its head (index 0), ``right`` its tail (index -1)."""

LISTS_NS = LIST.ns
"""Takes the place of a namespace for all list queues."""

_QUEUE, _NAME = "{queue}", "{name}"
_USUAL_QUEUE = "queue:{name}"
_MARK = ":rsmq-tui:"
_ONE_STAR = re.compile(r"[^*?\[]*\*[^*?\[]*")
_TOKEN = re.compile(r"[A-Za-z0-9]+")


def other_end(end: End) -> End:
    """Return the end opposite to ``end``."""
    return "left" if end == "right" else "right"


@dataclass(frozen=True, slots=True)
class ListNames:
    """How the keys of list queues are named, and the end that consumers take from.

    ``queue`` is the template of the key for a short name, and contains ``{name}`` once. ``processing`` and ``leases``
    are the templates of the keys for items in processing and their leases; each contains once either ``{queue}``, the
    queue's whole key, or ``{name}``, its short name. Those of Bull are ``queue="bull:{name}:wait"`` and
    ``processing="bull:{name}:active"``. If a key does not match ``queue``, its name is the whole key.

    On Redis Cluster the three keys must be in one slot: give the name a hash tag (``queue:{orders}``), or put braces
    around the whole key (``processing="{{queue}}:processing"``, ``leases="{{queue}}:leases"``).

    Raises ``ValueError`` for a template that lacks its placeholder or has it twice, for equal keys, and for an unknown
    end.
    """

    queue: str = _USUAL_QUEUE
    processing: str = "{queue}:processing"
    leases: str = "{queue}:leases"
    take_from: End = "right"

    def __post_init__(self) -> None:
        if self.queue.count(_NAME) != 1 or _QUEUE in self.queue:
            raise ValueError(f"The template of queues must hold {_NAME} exactly once: {self.queue!r} does not")
        for what, template in (("processing lists", self.processing), ("leases", self.leases)):
            if template.count(_QUEUE) + template.count(_NAME) != 1:
                raise ValueError(f"The template of {what} must hold {_QUEUE} or {_NAME} exactly once: {template!r}")
        if self.take_from not in ("left", "right"):
            raise ValueError(f"Consumers take from the left or the right end, not {self.take_from!r}")
        queue = self.queue.replace(_NAME, "x")
        if len({queue, self._fill(self.processing, queue), self._fill(self.leases, queue)}) < 3:
            raise ValueError("A queue, its processing list and its leases must have three different keys")

    def key(self, name: str) -> bytes:
        """Return the key of the queue of that short name."""
        return name_bytes(self.queue.replace(_NAME, name))

    def processing_key(self, key: str) -> bytes:
        """Return the key of the processing list of the queue at ``key``."""
        return name_bytes(self._fill(self.processing, key))

    def leases_key(self, key: str) -> bytes:
        """Return the key of the leases of the queue at ``key``."""
        return name_bytes(self._fill(self.leases, key))

    def marker(self, key: str, token: str) -> bytes:
        """Return the key for the outcome of a guarded change of the queue at ``key``."""
        return name_bytes(self._fill(self._marker, key) + token)

    def owner(self, key: str) -> str | None:
        """Return the key of the queue that a processing list, leases or a marker belong to; None for a queue."""
        for template in (self.processing, self.leases):
            filling = _filling(template, key)
            if filling:
                return filling if _QUEUE in template else self.queue.replace(_NAME, filling)
        start, _, token = key.rpartition(_MARK)
        if start and _TOKEN.fullmatch(token):
            return _filling(self._marker, start + _MARK)
        return None

    def for_patterns(self, patterns: Iterable[str]) -> "ListNames":
        """Return these names for queues that are watched by patterns of keys.

        If ``processing`` or ``leases`` contain ``{name}``, ``queue`` becomes the pattern with ``{name}`` for its ``*``.
        Without a pattern, a ``queue`` that was set is kept. Raises ``ValueError`` if there is neither, and for several
        patterns.
        """
        if _NAME not in self.processing + self.leases:
            return self
        found = {pattern.replace("*", _NAME) for pattern in patterns if _ONE_STAR.fullmatch(pattern)}
        if not found and self.queue != _USUAL_QUEUE:
            return self
        if len(found) != 1:
            raise ValueError(f"{_NAME} is the part of a key that * matches: give one pattern, such as bull:*:wait")
        return replace(self, queue=found.pop())

    @property
    def _marker(self) -> str:
        # The marker must be in the same cluster slot as the other keys.
        return ("{{queue}}" if "{{queue}}" in self.processing else _QUEUE) + _MARK

    def _fill(self, template: str, key: str) -> str:
        if _QUEUE in template:
            return template.replace(_QUEUE, key)
        return template.replace(_NAME, _filling(self.queue, key) or key)


def _filling(template: str, text: str) -> str | None:
    """Return what the placeholder of a template stands for in a text; None if the text does not match."""
    before, after = re.split(r"\{queue\}|\{name\}", template)
    if len(text) > len(before) + len(after) and text.startswith(before) and text.endswith(after):
        return text[len(before) : len(text) - len(after)]
    return None


ItemPlace = Literal["queue", "processing"]
Area = Literal["q", "p"]
"""A place, as in an id."""

# The scores of items. An item in the queue is ready; one in processing has the deadline of its lease, or one of these
# if it has no lease, or if there are too many leases to search.
READY_SCORE = b"0"
UNLEASED_SCORE = b"inf"
UNKNOWN_LEASE_SCORE = b"nan"

# A member of the leases is a token of this length, a colon and the item.
_TOKEN_LENGTH = 22

_SHA_LENGTH = 1 + 40
_DIGITS = 15

_LETTERS: dict[ItemPlace, Area] = {"queue": "q", "processing": "p"}
PLACE_OF: dict[Area, ItemPlace] = {"q": "queue", "p": "processing"}
_ID = re.compile(r"([qp]):([0-9]{1,15}):([0-9a-f]{40})")


class ItemId(NamedTuple):
    """Where an item lay, counted from the one that is taken next (in processing: from the oldest), and its SHA1."""

    place: ItemPlace
    position: int
    sha: str

    def __str__(self) -> str:
        return f"{_LETTERS[self.place]}:{self.position}:{self.sha}"


NO_ITEM_ID = (
    "the items of a list have no ids of their own: `rsmq-tui messages list` names each by q (in the queue) or p (in "
    "processing), its position and its SHA1, as in q:0:SHA1"
)


def read_item_id(id: str | bytes) -> ItemId | None:
    """Parse the id of a list item; None for any other id."""
    text = id.decode("latin-1") if isinstance(id, bytes) else id
    found = _ID.fullmatch(text)
    if found is None:
        return None
    return ItemId("queue" if found[1] == "q" else "processing", int(found[2]), found[3])


def item_sha(item: bytes) -> str:
    """Return the SHA1 of an item's bytes, as ids carry it."""
    return sha1(item, usedforsecurity=False).hexdigest()


def item_id(place: ItemPlace, position: int, item: bytes) -> str:
    """Return the id of an item at a position."""
    return f"{_LETTERS[place]}:{position}:{item_sha(item)}"


def value_id(area: Area, item: bytes) -> bytes:
    """Return the id of any item of these bytes, wherever it lies in the queue (``q``) or in processing (``p``)."""
    return f"{area}:0:{item_sha(item)}".encode()


def area_of(id: bytes) -> Area:
    """Return the area in the id of an item."""
    return "p" if id.startswith(b"p") else "q"


def position_of(id: bytes) -> int:
    """Return the position in the id of an item."""
    return int(id[2 : id.index(b":", 2)])


def digest_of(id: bytes) -> bytes:
    """Return the SHA1, in 20 bytes, in the id of an item; raises ValueError for another id."""
    return bytes.fromhex(id[-_SHA_LENGTH + 1 :].decode("ascii"))


def item_digest(item: bytes) -> bytes:
    """Return the SHA1 of an item's bytes, in 20 bytes."""
    return sha1(item, usedforsecurity=False).digest()


def order_of(id: bytes) -> bytes:
    """Return a sort key: ids of items sort by position, other ids by themselves."""
    # There may be millions.
    position = id[2:-_SHA_LENGTH] if id[1:2] == b":" else b""
    return id[:2] + position.rjust(_DIGITS, b"0") if position.isdigit() else id


def leased_item(member: bytes) -> bytes | None:
    """Return the item of a member of the leases; None if the member has another form than ours."""
    return member[_TOKEN_LENGTH + 1 :] if member[_TOKEN_LENGTH : _TOKEN_LENGTH + 1] == b":" else None
