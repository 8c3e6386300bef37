"""Ids of list items: where one lay and which bytes it had, for items have no id of their own.

Where it lay is for people, and for where to look first; a change means any item of the same bytes.
"""

import re
from hashlib import sha1
from typing import Literal, NamedTuple

Place = Literal["queue", "processing"]
Area = Literal["q", "p"]
"""A place as ids have it."""

# What stands where a message has its score. An item in the queue may be taken at once; one in processing has the
# deadline of its lease, or these where it has no lease, or where there are too many leases to look through.
READY_SCORE = b"0"
UNLEASED_SCORE = b"inf"
UNKNOWN_LEASE_SCORE = b"nan"

# A lease's member is a token of so many characters, a colon and the item.
_TOKEN_LENGTH = 22

_SHA_LENGTH = 1 + 40
_DIGITS = 15

_LETTERS: dict[Place, Area] = {"queue": "q", "processing": "p"}
_ID = re.compile(r"([qp]):([0-9]{1,15}):([0-9a-f]{40})")


class ItemId(NamedTuple):
    """Where an item lay, counted from the one that is taken next (in processing: from the oldest), and its SHA1."""

    place: Place
    position: int
    sha: str

    def __str__(self) -> str:
        return f"{_LETTERS[self.place]}:{self.position}:{self.sha}"


def read_item_id(id: str | bytes) -> ItemId | None:
    """Return what an id says, or None for one that is not of a list item."""
    text = id.decode("latin-1") if isinstance(id, bytes) else id
    found = _ID.fullmatch(text)
    if found is None:
        return None
    return ItemId("queue" if found[1] == "q" else "processing", int(found[2]), found[3])


def item_sha(item: bytes) -> str:
    """Return the SHA1 of an item's bytes, as ids carry it."""
    return sha1(item, usedforsecurity=False).hexdigest()


def item_id(place: Place, position: int, item: bytes) -> str:
    """Return the id of an item that lies there."""
    return f"{_LETTERS[place]}:{position}:{item_sha(item)}"


def value_id(area: Area, item: bytes) -> bytes:
    """Return the id of any item of these bytes, wherever it lies in the queue (``q``) or in processing (``p``)."""
    return f"{area}:0:{item_sha(item)}".encode()


def area_of(id: bytes) -> Area:
    """Return the area alone of an id that is an item's."""
    return "p" if id.startswith(b"p") else "q"


def position_of(id: bytes) -> int:
    """Return the position alone of an id that is an item's."""
    return int(id[2 : id.index(b":", 2)])


def digest_of(id: bytes) -> bytes:
    """Return the SHA1 alone, in 20 bytes, of an id that is an item's; raises ValueError for another."""
    return bytes.fromhex(id[-_SHA_LENGTH + 1 :].decode("ascii"))


def item_digest(item: bytes) -> bytes:
    """Return the SHA1 of an item's bytes, in 20 bytes."""
    return sha1(item, usedforsecurity=False).digest()


def order_of(id: bytes) -> bytes:
    """Return what to sort by: items of lists by their position, what is no item's id by itself."""
    # There may be millions.
    position = id[2:-_SHA_LENGTH] if id[1:2] == b":" else b""
    return id[:2] + position.rjust(_DIGITS, b"0") if position.isdigit() else id


def leased_item(member: bytes) -> bytes | None:
    """Return the item that a member of the leases stands for; None where it is somebody else's, of another form."""
    return member[_TOKEN_LENGTH + 1 :] if member[_TOKEN_LENGTH : _TOKEN_LENGTH + 1] == b":" else None
