"""The columns of tables of messages, and their cells."""

from collections.abc import Set
from dataclasses import replace
from typing import NamedTuple

from rsmq_tui.monitor import MessageRow, MessageState
from rsmq_tui.monitor.messages.peek import NO_BODY
from rsmq_tui.monitor.text import UNKNOWN, count, duration, short_clock, size
from rsmq_tui.tui.theme import MESSAGE_TOKENS
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import CLOCK_WIDTH, Column


class MessageContext(NamedTuple):
    """What the cells of the message table show besides their message.

    ``ranged`` are in the open range, ``gone`` have left the queue since they were found, and ``unknown`` were not found
    again, but may still be in the queue.
    """

    at_ms: int
    poison_rc: int
    clock_times: bool = False
    marked: Set[str] = frozenset()
    ranged: Set[str] = frozenset()
    all_marked: bool = False
    gone: Set[str] = frozenset()
    unknown: Set[str] = frozenset()


def _mark(row: MessageRow, context: MessageContext) -> Piece:
    if context.all_marked or row.id in context.marked:
        return "●", "strong"
    if row.id in context.ranged:
        return "○", "strong"
    return "", ""


def _state(row: MessageRow, context: MessageContext) -> Piece:
    if row.id in context.gone:
        return "gone", "muted"
    if row.id in context.unknown:
        return UNKNOWN, "muted"
    state = row.state_at(context.at_ms)
    return state.value, MESSAGE_TOKENS[state]


def _due(row: MessageRow, context: MessageContext) -> Piece:
    if row.id in context.gone or row.id in context.unknown:
        return UNKNOWN, "muted"
    if row.due_ms is None and row.is_item:
        return ("now", "") if row.state is MessageState.READY else (UNKNOWN, "muted")
    if row.due_ms is None:
        return "never", "alarm"
    if context.clock_times:
        return short_clock(row.due_ms, context.at_ms), ""
    wait_ms = row.due_ms - context.at_ms
    return (f"in {duration(wait_ms)}", "") if wait_ms > 0 else (f"{duration(-wait_ms)} ago", "")


def age(sent_ms: int | None, at_ms: int, *, clock_times: bool) -> Piece:
    """Return the age of a message at that time, or with ``clock_times`` when it was sent."""
    if sent_ms is None:
        return UNKNOWN, "muted"
    if clock_times:
        return short_clock(sent_ms, at_ms), ""
    return duration(max(0, at_ms - sent_ms)), ""


def first_line(start: bytes) -> str:
    """Return the first line with text of the start of a body."""
    return start.decode("utf-8", "surrogateescape").lstrip().split("\n", 1)[0]


def _age(row: MessageRow, context: MessageContext) -> Piece:
    return age(row.sent_ms, context.at_ms, clock_times=context.clock_times)


def _body(row: MessageRow, _: MessageContext) -> Piece:
    if row.preview is None:
        return NO_BODY, "alarm"
    if not row.preview and row.size:
        return f"{size(row.size)}: enter shows it", "muted"
    return first_line(row.preview), ""


MESSAGE_COLUMNS: tuple[Column[MessageRow, MessageContext], ...] = (
    Column("mark", "", 1, _mark),
    Column("id", "ID", 16, lambda row, _: (row.id, "muted"), drop=4),
    Column("state", "STATE", 9, _state),
    Column("due", "DUE", 12, _due, right=True),
    Column("age", "AGE", 8, _age, drop=1, right=True),
    Column(
        "rc",
        "RC",
        5,
        lambda row, context: (count(row.rc), "verdict-poisoned" if (row.rc or 0) >= context.poison_rc else ""),
        drop=2,
        right=True,
    ),
    Column("size", "SIZE", 9, lambda row, _: (size(row.size), ""), drop=3, right=True),
    Column("body", "BODY", 12, _body, grow=True),
)


def message_columns(*, clock_times: bool = False) -> tuple[Column[MessageRow, MessageContext], ...]:
    """Return the columns of the message table; with ``clock_times``, the age is shown as the time of sending."""
    if not clock_times:
        return MESSAGE_COLUMNS
    return tuple(
        replace(column, title="SENT", width=CLOCK_WIDTH) if column.id == "age" else column for column in MESSAGE_COLUMNS
    )
