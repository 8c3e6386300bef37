"""The dialog that counts the messages of a queue in groups, by a field of their JSON or by their shape."""

import json
from contextlib import aclosing, suppress
from dataclasses import dataclass

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from rsmq_tui.monitor import Filter, GroupingError, MessageGroup, MessageGroups, PeekError, Source
from rsmq_tui.monitor.filters.json_paths import JsonPath, fields_in, path_text, quoted
from rsmq_tui.monitor.filters.search import OTHER, SHAPE
from rsmq_tui.monitor.text import compact, count, duration, plural, printable, size
from rsmq_tui.tui.widgets.controls import ChoiceInput, Dialog
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column, RowTable

_CUT = "…"


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What the cells of the group table show besides their group."""

    at_ms: int
    total: int

    def share(self, group: MessageGroup) -> str:
        """Return a group's share of all messages: 12.5%."""
        return f"{100 * group.count / self.total:.1f}%" if self.total else ""


GROUP_COLUMNS: tuple[Column[MessageGroup, GroupContext], ...] = (
    Column("label", "GROUP", 10, lambda group, _: (group.label, ""), grow=True),
    Column("count", "COUNT", 7, lambda group, _: (compact(group.count), "strong"), right=True),
    Column("share", "SHARE", 6, lambda group, context: (context.share(group), ""), right=True),
    Column("bytes", "BYTES", 9, lambda group, _: (size(group.bytes), ""), drop=2, right=True),
    Column(
        "oldest", "OLDEST", 8, lambda group, context: (duration(group.age_ms(context.at_ms)), ""), drop=1, right=True
    ),
)


def term_of(label: str, path: JsonPath | None, labels: frozenset[str]) -> str | None:
    """Return the filter that matches exactly the messages of a group; None if there is no such filter.

    ``labels`` are those of all groups: an unquoted 42 also matches the text "42".
    """
    if path is None or label == OTHER:
        return None
    place = f"json{path_text(path)}"
    if label == f"(no {printable(path_text(path)).removeprefix('.')})":
        # The negated term also matches bodies that are not JSON.
        return f"!{place}" if "(not JSON)" not in labels else None
    if label[:1] in ("(", "{", "[") or label.endswith(_CUT) or label != _as_it_was(label):
        return None
    if label[:1] == label[-1:] == '"' and len(label) > 1:
        return f"{place}={quoted(label[1:-1])}"
    if not _is_json(label):
        return f"{place}={quoted(label)}"
    text_too = f'"{label}"'
    return f"{place}={label}" + (f" !{place}={text_too}" if text_too in labels else "")


def _is_json(label: str) -> bool:
    try:
        json.loads(label)
    except ValueError:
        return False
    return True


def _as_it_was(label: str) -> str:
    """Return the label, or "" if a character in it may replace an unprintable one."""
    return "" if "\\" in label or any("\u2400" <= character <= "\u2421" for character in label) else label


_GROUPS_SHOWN = 200
_FOLLOW_S = 0.2
_FIRST = "json.type"
# Fields are suggested from the first messages, without reading many to find a match.
_SAMPLE_MESSAGES, _SAMPLE_SCANNED_MAX, _SAMPLE_BYTES = 100, 10_000, 64 << 10
_FIELDS_SHOWN = 20


class GroupScreen(Dialog[str]):
    """Asks what to group by, and counts the matches; returns the filter of the chosen group, or None."""

    DEFAULT_CSS = """
    GroupScreen Vertical { width: 90; max-width: 95%; height: 80%; background: $panel; border: round $primary; }
    GroupScreen #by { border: none; padding: 0 1; background: $surface; }
    """

    def __init__(self, source: Source, queue: str, wanted: Filter) -> None:
        super().__init__()
        self.table: RowTable[MessageGroup, GroupContext] = RowTable(
            GROUP_COLUMNS, GroupContext(0, 0), id="groups", on_open=self._choose
        )
        self._entry = ChoiceInput(_FIRST, choices=(), placeholder="json.customer.type, or shape", id="by")
        self._counted = TextLine(id="counted")
        self._source, self._queue, self._wanted = source, queue, wanted
        self._groups: MessageGroups | None = None
        self._at_ms = 0
        self._words: Piece = (" enter counts", "muted")
        self._shown_total = -1

    def compose(self) -> ComposeResult:
        """The input, the progress, and the groups."""
        with Vertical():
            yield self._entry
            yield self._counted
            yield self.table

    def on_mount(self) -> None:
        """Focus the input."""
        box = self.query_one(Vertical)
        of = f" of what matches {self._wanted.text}" if self._wanted.text else ""
        box.border_title = Content(printable(f"Group {self._queue}{of} by", 80))
        self.table.empty_text = []
        self._ticking = self.set_interval(_FOLLOW_S, self._show)
        self._entry.focus()
        self._show()
        self._offer_fields()

    @work(group="group", exclusive=True)
    async def _offer_fields(self) -> None:
        """Suggest the fields of the first messages; a later count reports errors of the server."""
        bodies: list[bytes] = []
        with suppress(PeekError):
            async with aclosing(self._source.search(self._queue, self._wanted)) as found:
                async for progress in found:
                    bodies += [message.body for message in progress.messages[:_SAMPLE_MESSAGES] if message.body]
                    if bodies or progress.scanned >= _SAMPLE_SCANNED_MAX:
                        break
        if not bodies:
            return
        found_fields = fields_in(body for body in bodies if len(body) <= _SAMPLE_BYTES)[:_FIELDS_SHOWN]
        fields = {f"json{path_text(field.path)}": field.bodies for field in found_fields}
        self._entry.suggest((*fields, SHAPE), insert=self._groups is None)
        if fields:
            counts = " · ".join(f"{printable(field, 40)} {number}" for field, number in fields.items())
            self._words = (f" ↓ fields of {plural(len(bodies), 'message')}: {counts}", "muted")
            self._show()

    @on(Input.Submitted)
    def _count_by(self, event: Input.Submitted) -> None:
        try:
            groups = MessageGroups(event.value.strip())
        except GroupingError as error:
            self._words = (f" {printable(str(error), 200)}", "alarm")
            self._show()
            return
        self._groups, self._at_ms, self._shown_total = groups, 0, -1
        self._count(groups)
        self.set_focus(self.table)

    def _choose(self, group: MessageGroup) -> None:
        groups = self._groups
        if groups is None:
            return
        # All labels, not only the visible ones.
        labels = frozenset(group.label for group in groups.top(groups.total))
        term = term_of(group.label, groups.path, labels)
        if term is None:
            self.warn("no filter matches exactly this group")
        else:
            self.dismiss(term)

    @work(group="group", exclusive=True)
    async def _count(self, groups: MessageGroups) -> None:
        try:
            async with aclosing(self._source.search(self._queue, self._wanted)) as found:
                async for progress in found:
                    await groups.add_all(progress.messages, progress.at_ms)
                    self._at_ms = progress.at_ms
                    scanned = f"{count(progress.scanned)} of {count(progress.depth)}"
                    self._words = (f" {count(groups.total)} counted · scanned {scanned}", "muted")
        except PeekError as error:
            self._words = (f" {printable(str(error), 200)}", "alarm")
        else:
            self._words = (f" {count(groups.total)} counted · enter filters by a group", "muted")
        self._show()

    def _show(self) -> None:
        self._counted.show([self._words])
        groups = self._groups
        if groups is None or groups.total == self._shown_total:
            return
        self._shown_total = groups.total
        rows = groups.top(_GROUPS_SHOWN)
        self.table.show(rows, [group.label for group in rows], GroupContext(self._at_ms, groups.total))
