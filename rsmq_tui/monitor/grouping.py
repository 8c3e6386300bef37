"""What a backlog consists of: its messages counted by a place in their JSON, or by the shape of their bodies."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rsmq_tui.monitor.json_paths import (
    Absent,
    JsonPath,
    JsonPathError,
    load,
    path_text,
    read_path,
    value_at,
    value_text,
)
from rsmq_tui.monitor.wording import plural, printable
from rsmq_tui.protocol import RawMessage, name_of, sent_ms

GROUPS_MAX = 2_000
OTHER = "(other)"
SHAPE = "shape"
# Counting gives way to whatever else waits in the loop after this long.
_TURN_S = 0.005
_LABEL_MAX = 80
_KEYS_MAX = 12


class GroupingError(ValueError):
    """What cannot be grouped by; its text says what can be."""


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that have something in common: ``bytes`` of their bodies; ``oldest_ms`` is None where no id tells."""

    label: str
    count: int
    bytes: int
    oldest_ms: int | None

    def age_ms(self, at_ms: int) -> int | None:
        """Return the age of its oldest message at that server time."""
        return None if self.oldest_ms is None else at_ms - self.oldest_ms


class Groups:
    """Counts messages by ``shape``, or by a place in their JSON such as ``json.customer.type``.

    Past GROUPS_MAX groups whatever is new counts as OTHER. Labels are printable. Raises ``GroupingError`` for anything
    else to group by.
    """

    def __init__(self, by: str) -> None:
        self.by = by
        self.path: JsonPath | None = None if by == SHAPE else _path_of(by)
        self.total = 0
        self._groups: dict[str, list[Any]] = {}

    def add(self, raw: RawMessage, at_ms: int) -> str:
        """Count a message that was read with its body at that server time; returns the label of its group."""
        label = _shape(raw) if self.path is None else _value_label(raw, self.path)
        label = label if label in self._groups or len(self._groups) < GROUPS_MAX else OTHER
        sent = sent_ms(name_of(raw.id), now_ms=at_ms)
        self.total += 1
        group = self._groups.get(label)
        if group is None:
            self._groups[label] = [1, raw.size, sent]
            return label
        group[0] += 1
        group[1] += raw.size
        if sent is not None and (group[2] is None or sent < group[2]):
            group[2] = sent
        return label

    async def add_all(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Count messages, and let others work in between."""
        turn_ends_s = time.monotonic() + _TURN_S
        for message in messages:
            self.add(message, at_ms)
            if time.monotonic() > turn_ends_s:
                await asyncio.sleep(0)
                turn_ends_s = time.monotonic() + _TURN_S

    def top(self, count: int) -> tuple[Group, ...]:
        """Return the largest groups; one more, OTHER, sums up the rest where there are more."""
        ordered = sorted(
            (Group(label, *values) for label, values in self._groups.items()),
            key=lambda group: (group.label == OTHER, -group.count, group.label),
        )
        shown, rest = ordered[:count], ordered[count:]
        if rest:
            sent = [group.oldest_ms for group in rest if group.oldest_ms is not None]
            messages, size = sum(group.count for group in rest), sum(group.bytes for group in rest)
            shown.append(Group(OTHER, messages, size, min(sent, default=None)))
        return tuple(shown)


def _path_of(by: str) -> JsonPath:
    try:
        path, end = read_path(by, len("json")) if by.startswith("json") else ((), 0)
    except JsonPathError as error:
        raise GroupingError(str(error)) from error
    if not path or end < len(by):
        raise GroupingError(f"group by {SHAPE}, or by a JSON path: json.customer.type")
    return path


def _value_label(raw: RawMessage, path: JsonPath) -> str:
    if raw.body is None:
        return _without_body(raw)
    document = load(raw.body)
    if document is Absent.JSON:
        return "(not JSON)"
    value = value_at(document, path)
    if value is Absent.VALUE:
        return f"(no {printable(path_text(path), _LABEL_MAX).removeprefix('.')})"
    if isinstance(value, dict):
        return _keys(value)
    if isinstance(value, list):
        return f"[{plural(len(value), 'item')}]"
    text = value_text(value)
    # A text that reads like something else is told from it by its quotes.
    is_plain = not isinstance(value, str) or (
        text[:1] not in '([{"' and load(text.encode("utf-8", "replace")) is Absent.JSON
    )
    return printable(text if is_plain else f'"{text}"', _LABEL_MAX)


def _shape(raw: RawMessage) -> str:
    body = raw.body
    if body is None:
        return _without_body(raw)
    if not body:
        return "empty"
    document = load(body)
    if isinstance(document, dict):
        return _keys(document)
    if isinstance(document, list):
        return "[list]"
    if isinstance(document, int | float) and not isinstance(document, bool):
        return "number"
    try:
        body.decode()
    except UnicodeDecodeError:
        return "binary"
    return "binary" if b"\0" in body else "text"


def _without_body(raw: RawMessage) -> str:
    return "(too long)" if raw.size else "missing"


def _keys(document: dict[str, Any]) -> str:
    keys = sorted(document)
    shown = ", ".join(printable(key, 24) for key in keys[:_KEYS_MAX])
    return f"{{{shown}{f', … {len(keys)} keys' if len(keys) > _KEYS_MAX else ''}}}"
