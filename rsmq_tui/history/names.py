r"""Places, stored names and errors of a history. Does not import Arrow.

A name may be any bytes. It is stored as valid UTF-8 text from which the same bytes can be restored: a backslash is
written ``\\``, a byte that is not part of valid UTF-8 ``\xNN``, and every other character unchanged. Different names
never have the same text.
"""

import errno
import re
from typing import NamedTuple

_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2}))")


def stored_name(name: str) -> str:
    """Return the stored form of a name, which holds bytes that are not UTF-8 as lone surrogates."""
    if name.isascii() and "\\" not in name:
        return name
    return "".join(map(_stored, name))


def read_name(stored: str) -> str:
    """Return the name: the inverse of ``stored_name``."""
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)) if found[1] else "\\", stored)


def stored_text(text: str) -> str:
    """Return a text as valid UTF-8; the original cannot be restored."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _stored(character: str) -> str:
    if character == "\\":
        return "\\\\"
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    # No server sends such a surrogate, but a snapshot may be made by hand.
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else character


class Place(NamedTuple):
    """One namespace of one server; ``profile`` is empty if the server was given by a URL."""

    profile: str
    server: str
    ns: str

    @property
    def stored(self) -> "Place":
        """It with its names as files have them."""
        return Place(stored_name(self.profile), self.server, stored_name(self.ns))

    @classmethod
    def read(cls, profile: str, server: str, ns: str) -> "Place":
        """Return the place of a row's columns."""
        return cls(read_name(profile), server, read_name(ns))


# The errors of a full disk, a quota, and a limit of file size.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class HistoryError(Exception):
    """A history that cannot be read or written; its text is one sentence."""


def explain(error: Exception, label: str) -> str:
    """Return a sentence for a failure to write to the history named ``label``."""
    if isinstance(error, HistoryError):
        return str(error)
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return f"no space left for {label}: free some space, or use --max-size to delete the oldest days"
    if isinstance(error, OSError) and error.strerror:
        return f"{label} cannot be written: {error.strerror}"
    return f"{label} cannot be written: {type(error).__name__}: {str(error)[:200]}"
