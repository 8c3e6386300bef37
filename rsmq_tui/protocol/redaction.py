"""Striking out passwords in what servers say: an error may repeat the arguments of AUTH, or anything else."""

import re
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

_STRUCK = "***"
# Shorter ones are struck out where they stand alone: within words they are no secret, and the words would be lost.
_WITHIN_WORDS_MIN = 4
# Of an error that was cut in the middle of a password, so much of it at the end is struck out.
_PREFIX_MIN = 4
_ARGUMENTS = re.compile(r",? with args beginning with:.*", re.DOTALL)


def redact(text: str, password: str | None) -> str:
    """Return a server's words without the password that it was sent, however it is written there.

    What a server repeats of a command that it does not know is cut off as a whole.
    """
    text = _ARGUMENTS.sub("", text)
    if not password:
        return text
    for form in sorted(set(_forms(password)), key=len, reverse=True):
        if len(form) < _WITHIN_WORDS_MIN:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", _STRUCK, text)
            continue
        text = text.replace(form, _STRUCK)
        kept = text.rstrip("'`\"., \r\n…")
        cut = next((size for size in range(len(form) - 1, _PREFIX_MIN - 1, -1) if kept.endswith(form[:size])), 0)
        text = kept[:-cut] + _STRUCK if cut else text
    return text


def _forms(password: str) -> Iterator[str]:
    """Yield how a password may be written: as it is, for URLs, as servers print bytes, and in base 64."""
    raw = password.encode("utf-8", "surrogateescape")
    yield from (password, quote(raw), quote(raw, safe=""), quote_plus(raw), raw.decode("utf-8", "replace"))
    yield "".join(_printed(byte) for byte in raw)
    yield raw.decode("latin-1")
    yield b64encode(raw).decode().rstrip("=")


def _printed(byte: int) -> str:
    """Write a byte as Redis does in its errors and logs."""
    if byte in b'\\"':
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte <= 0x7E else f"\\x{byte:02x}"
