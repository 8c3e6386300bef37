"""Label values from untrusted names: harmless text, valid UTF-8, of bounded length, and never two names with one."""

import hashlib

from rsmq_tui.monitor.wording import printable
from rsmq_tui.protocol.keys import name_bytes

# Prometheus and what stores its series can be told to refuse a whole scrape for one long value; 2,048 is usual there.
LABEL_MAX = 256
_DIGEST_CHARACTERS = 32


def label_value(name: str) -> str:
    r"""Return what stands for a name in a label.

    A name that is harmless everywhere stands for itself. Any other is written byte by byte, with ``\xNN`` for what is
    not printable ASCII and for the backslash, so that it is told apart from every other name: two series with the same
    labels would spoil the scrape. What is longer than ``LABEL_MAX`` characters ends in a digest of the name.
    """
    is_harmless = "\\" not in name and printable(name) == name
    value = name if is_harmless else "".join(map(_spelled, name_bytes(name)))
    if len(value) <= LABEL_MAX:
        return value
    # It is longer than any value that was not cut, and cannot be mistaken for one.
    return f"{value[:LABEL_MAX]}…{hashlib.sha256(name_bytes(name)).hexdigest()[:_DIGEST_CHARACTERS]}"


def spelled(name: str) -> str:
    r"""Return what stands for a name that is harmless, but already means something else: its first byte as ``\xNN``.

    No other name is written like that: ``label_value`` spells the bytes that are not printable, and the backslash.
    """
    first, *rest = name_bytes(name)
    return f"\\x{first:02x}{''.join(map(_spelled, rest))}"


def _spelled(byte: int) -> str:
    return chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x5C else f"\\x{byte:02x}"
