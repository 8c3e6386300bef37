"""Searching bodies for a text or a regex: many at a time, and as bytes where that finds the same."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import cast

from rsmq_tui.monitor.regexes import BytesSearch, bytes_search, is_bytewise, text_search

# Which of some bodies match, by their places.
BodySearch = Callable[[Sequence[bytes | None]], list[int]]

# A regex is tried on this much of a body: what takes quadratic time, such as .*a.*b, must still come to an end.
REGEX_CHARS = 65_536
# Between bodies that are searched as one.
_BETWEEN = b"\xff"


def holds_text(text: str) -> Callable[[bytes], bool]:
    """Return what tells whether a body holds a text, in small letters or large."""
    needle = text.casefold()
    needle_bytes = needle.encode() if needle.isascii() else None

    def holds(body: bytes) -> bool:
        if needle_bytes is not None:
            # Mostly as it was typed; and what is ASCII need not be decoded to be folded.
            if needle_bytes in body:
                return True
            if body.isascii():
                return needle_bytes in body.lower()
        return needle in body.decode("utf-8", "surrogateescape").casefold()

    return holds


def search_for_text(text: str) -> BodySearch:
    """Return what tells which of some bodies hold a text, in small letters or large."""
    holds = holds_text(text)
    return lambda bodies: [index for index, body in enumerate(bodies) if body is not None and holds(body)]


def search_for_regex(text: str) -> BodySearch:
    """Return what tells in which of some bodies a regex finds something; raises ValueError for what is none.

    Bytes that are ASCII are searched as they are, and all at once where no match can reach from one into the next.
    """
    search, search_bytes = text_search(text), bytes_search(text)
    takes_any = search_bytes is not None and is_bytewise(text)
    # What names all that it takes, and no end of a text, cannot take what lies between two bodies.
    is_joinable = takes_any and search_bytes is not None and not set("^$") & set(text) and not search_bytes(b"")

    def is_in(body: bytes) -> object:
        if search_bytes is not None and body.isascii():
            return search_bytes(body, 0, REGEX_CHARS)
        return search(body.decode("utf-8", "surrogateescape"), 0, REGEX_CHARS)

    def matching(bodies: Sequence[bytes | None]) -> list[int]:
        there = cast("Sequence[bytes]", bodies) if None not in bodies else [body for body in bodies if body is not None]
        if search_bytes is not None and is_joinable and len(there) == len(bodies):
            joined = _BETWEEN.join(there)
            if len(joined) <= REGEX_CHARS:
                return _places(there, joined, search_bytes)
        is_plain = len(there) == len(bodies) and (takes_any or all(map(bytes.isascii, there)))
        if search_bytes is not None and is_plain and max(map(len, there), default=0) <= REGEX_CHARS:
            return [index for index, body in enumerate(there) if search_bytes(body)]
        return [index for index, body in enumerate(bodies) if body is not None and is_in(body)]

    return matching


def _places(bodies: Sequence[bytes], joined: bytes, search: BytesSearch) -> list[int]:
    """Return which bodies match by searching all as one: a call for each takes as long as the search itself."""
    places: list[int] = []
    nexts: list[int] = []
    found = search(joined)
    while found is not None:
        # Where the one after each begins.
        nexts = nexts or list(accumulate(map((1).__add__, map(len, bodies))))
        places.append(bisect_right(nexts, found.start()))
        found = search(joined, nexts[places[-1]])
    return places
