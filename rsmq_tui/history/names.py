r"""Names that any client may have chosen, as valid UTF-8 text from which the same bytes can be made again.

A backslash is written ``\\``, and a byte that is not part of valid UTF-8 ``\xNN``. Every other character stands for
itself, so that nearly all names look as they are; two different names never look the same.
"""

import re

_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2}))")


def stored_name(name: str) -> str:
    """Return what a name is stored as; ``name`` holds bytes that are not UTF-8 as lone surrogates."""
    if name.isascii() and "\\" not in name:
        return name
    return "".join(map(_stored, name))


def read_name(stored: str) -> str:
    """Return the name; undoes ``stored_name``."""
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)) if found[1] else "\\", stored)


def stored_text(text: str) -> str:
    """Return a sentence as valid UTF-8; it is for people, and is not undone."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _stored(character: str) -> str:
    if character == "\\":
        return "\\\\"
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    # No server sends one, but a snapshot may be made by hand.
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else character
