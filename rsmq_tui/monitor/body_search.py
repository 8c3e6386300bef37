"""Searching bodies for a text, in small letters or large."""

from collections.abc import Callable, Sequence

# Which of some bodies match, by their places.
BodySearch = Callable[[Sequence[bytes | None]], list[int]]


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
