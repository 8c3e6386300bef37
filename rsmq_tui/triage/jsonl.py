"""Messages as JSON lines, and back, without loss.

One object per line: ``id``, ``score``, ``rc`` and ``fr``, the last three as numbers if they are plain numbers, else as
raw text. ``rc`` is 0 if a message has none, and "0" if that is what is stored; ``fr`` is omitted if it is absent.
``body`` is a text, or ``body_base64`` if it is not UTF-8; ``sent_ms`` is ignored on import, and so is ``queue``, which
the lines of an export of several queues have.
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import RawMessage, name_of, sent_ms
from rsmq_tui.triage.errors import TriageError

_SHOWN_CHARS = 60
# A superset of the scores that ZADD accepts.
_SCORE = re.compile(rb"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,9})?|inf(?:inity)?)", re.IGNORECASE)


class FileSeen(NamedTuple):
    """Identifies a file and its content when it was read."""

    inode: int
    size: int
    mtime_ns: int


def to_line(message: RawMessage, at_ms: int) -> str:
    """Return a message as one line of JSON, without a newline."""
    # ASCII only, so that no body can send escapes to a terminal or break a line.
    return json.dumps(to_fields(message, at_ms), ensure_ascii=True)


def to_fields(message: RawMessage, at_ms: int) -> dict[str, Any]:
    """Return the fields of a message's line."""
    line: dict[str, Any] = {"id": name_of(message.id), "score": _number(message.score)}
    sent = sent_ms(name_of(message.id), now_ms=at_ms)
    if sent is not None:
        line["sent_ms"] = sent
    line["rc"] = _rc(message.rc)
    if message.fr is not None:
        line["fr"] = _number(message.fr)
    if message.body is not None:
        try:
            line["body"] = message.body.decode()
        except UnicodeDecodeError:
            line["body_base64"] = base64.b64encode(message.body).decode()
    return line


def write_named(write: Callable[[str], object], queue: str, line: str) -> None:
    """Write the line of a message with the queue that it is from."""
    write(f'{{"queue": {json.dumps(queue)}, {line.removeprefix("{")}')


def from_line(line: str) -> RawMessage:
    """Return the message of a line; raises ValueError with a sentence."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a JSON object") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    if fields.get("too_long"):
        raise ValueError("its body was too long to be listed: export it")
    id, score = fields.get("id"), fields.get("score", "")
    if not isinstance(id, str):
        raise ValueError('no "id"')
    raw_score = b"" if isinstance(score, bool) else _raw(score) or b""
    if not _SCORE.fullmatch(raw_score):
        raise ValueError('"score" is not a number')
    body = _body(fields)
    rc = fields.get("rc")
    raw_rc = None if type(rc) is int and rc == 0 else _raw(rc)
    return RawMessage(_bytes(id), raw_score, raw_rc, _raw(fields.get("fr")), len(body or b""), body)


def file_seen(stat: os.stat_result) -> FileSeen:
    """Return the identity of a file; it changes when the file is replaced or written to."""
    return FileSeen(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def read_file(path: Path, seen: FileSeen | None) -> Iterator[RawMessage]:
    """Iterate over the messages of an export; raises ``TriageError`` that names the line, and OSError.

    Raises ``TriageError`` if the file is not the one in ``seen``.
    """
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        if seen is not None and file_seen(os.fstat(lines.fileno())) != seen:
            raise TriageError(f"{path} changed since the preview: preview it again")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield from_line(line)
            except ValueError as error:
                shown = printable(line.strip(), _SHOWN_CHARS)
                raise TriageError(f"{path}, line {number}: {error}: {shown}") from None


def _body(fields: dict[str, Any]) -> bytes | None:
    if "body_base64" in fields:
        try:
            return base64.b64decode(fields["body_base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError('"body_base64" is not base64') from None
    body = fields.get("body")
    if body is None:
        return None
    if not isinstance(body, str):
        raise ValueError('"body" is not a string')
    return _bytes(body)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("half of a character (a lone surrogate)") from None


def _number(raw: bytes) -> int | str:
    text = name_of(raw)
    return int(text) if text.isdecimal() and text.isascii() and str(int(text[:30])) == text else text


def _rc(raw: bytes | None) -> int | str:
    return 0 if raw is None else "0" if raw == b"0" else _number(raw)


def _raw(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"neither a number nor a string: {printable(repr(value), _SHOWN_CHARS)}")
    return _bytes(value if isinstance(value, str) else str(value) if isinstance(value, int) else repr(value))
