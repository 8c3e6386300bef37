"""What may be written: names, ids, times and sizes, by the rules of the canonical client's ``_validate``.

Reading never validates; writing always does. Two rules are stricter than the canonical ones: numbers must be ``int``
(the canonical client takes "5abc" for 5), and the queue name ``QUEUES`` is refused, because ``{ns}:QUEUES`` is the
index of all queues and deleting such a queue would delete the index. One is looser: the canonical client refuses ids
that are not 32 letters, digits or colons, although it receives them, so that such messages can never be deleted.
"""

import re

from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import QUEUE_FIELDS, name_bytes

SECONDS_MAX = 9_999_999
MAXSIZE_MIN = 1024
MAXSIZE_MAX = 65_536
UNLIMITED = -1
ID_BYTES_MAX = 65_536

# fullmatch, never match with "$": "$" would accept a trailing newline, which no RSMQ client does.
_QUEUE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,160}")
_INDEX_NAME = "QUEUES"


def queue_name(name: object) -> str:
    """Return a writable queue name; raise ``missingParameter`` or ``invalidFormat``."""
    if name is None or name == "":
        raise rsmq_error("missingParameter", item="qname")
    if not isinstance(name, str) or not _QUEUE_NAME.fullmatch(name):
        raise rsmq_error("invalidFormat", item="qname")
    if name == _INDEX_NAME:
        raise rsmq_error("invalidFormat", item="qname", reason="QUEUES is the name of the index of all queues")
    return name


def message_id(value: object) -> bytes:
    """Return the raw bytes of a message id; raise ``missingParameter`` or ``invalidFormat``.

    Any member of a queue's zset is an id, whatever client made it, up to 65,536 bytes; what is not UTF-8 is a ``str``
    with surrogate escapes, as ``receive_message`` returns it. The name of a field that belongs to the queue (``vt``,
    ``totalsent``) is refused.
    """
    if value is None or value == "":
        raise rsmq_error("missingParameter", item="id")
    if not isinstance(value, str):
        raise rsmq_error("invalidFormat", item="id")
    try:
        raw = name_bytes(value)
    except UnicodeEncodeError as error:
        raise rsmq_error("invalidFormat", item="id", reason="it contains a lone surrogate") from error
    if len(raw) > ID_BYTES_MAX:
        raise rsmq_error("invalidFormat", item="id", reason=f"it is longer than {ID_BYTES_MAX:,} bytes")
    if raw in QUEUE_FIELDS:
        raise rsmq_error("invalidFormat", item="id", reason=f"{value} is the name of a field of the queue")
    return raw


def seconds(item: str, value: object) -> int:
    """Return ``vt`` or ``delay`` in whole seconds, 0 to 9,999,999; raise ``invalidValue``, also for None."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SECONDS_MAX:
        raise rsmq_error("invalidValue", item=item, low=0, high=SECONDS_MAX)
    return value


def maxsize(value: object) -> int:
    """Return ``maxsize``, 1,024 to 65,536 or -1 for unlimited; raise ``invalidValue``, also for None."""
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not (value == UNLIMITED or MAXSIZE_MIN <= value <= MAXSIZE_MAX)
    ):
        raise rsmq_error("invalidValue", item="maxsize", low=MAXSIZE_MIN, high=MAXSIZE_MAX)
    return value


def body_bytes(body: object) -> tuple[bytes, int]:
    """Return a body's bytes and its size as ``maxsize`` measures it; raise ``messageNotString``.

    A ``str`` is sent as UTF-8 and measured in UTF-16 code units, because that is JavaScript's ``length``, which the
    canonical client compares with ``maxsize``: both clients then refuse the same texts. ``bytes`` have no code units
    and are measured in bytes, as the clients that send raw bytes do. A lone surrogate, which UTF-8 cannot carry, is
    ``messageNotString``.
    """
    if isinstance(body, bytes):
        return body, len(body)
    if not isinstance(body, str):
        raise rsmq_error("messageNotString")
    try:
        encoded = body.encode()
    except UnicodeEncodeError as error:
        raise rsmq_error("messageNotString") from error
    units = len(body) if body.isascii() else len(body.encode("utf-16-le")) // 2
    return encoded, units


def stored_size(body: bytes) -> int:
    """Return the size of a stored body as ``maxsize`` measures it: as text if it is UTF-8, else in bytes."""
    try:
        return body_bytes(body.decode())[1]
    except UnicodeDecodeError:
        return len(body)


def is_limited(maxsize: object) -> bool:
    """Return whether a queue's raw ``maxsize`` limits its bodies, if its clients respect it; some do not."""
    return isinstance(maxsize, bytes) and maxsize.isdigit() and int(maxsize) <= MAXSIZE_MAX
