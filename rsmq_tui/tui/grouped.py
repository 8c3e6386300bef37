"""Groups of messages on the screen: their columns, and the filter that finds those of a group."""

import json
from dataclasses import dataclass

from rsmq_tui.monitor import Group
from rsmq_tui.monitor.grouping import OTHER
from rsmq_tui.monitor.json_paths import JsonPath, path_text, quoted
from rsmq_tui.monitor.wording import compact, duration, printable, size
from rsmq_tui.tui.widgets.row_table import Column

_CUT = "…"


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What the cells of the group table need besides their group."""

    at_ms: int
    total: int

    def share(self, group: Group) -> str:
        """Say how much of the whole a group is: 12.5%."""
        return f"{100 * group.count / self.total:.1f}%" if self.total else ""


GROUP_COLUMNS: tuple[Column[Group, GroupContext], ...] = (
    Column("label", "GROUP", 10, lambda group, _: (group.label, ""), grow=True),
    Column("count", "COUNT", 7, lambda group, _: (compact(group.count), "strong"), right=True),
    Column("share", "SHARE", 6, lambda group, context: (context.share(group), ""), right=True),
    Column("bytes", "BYTES", 9, lambda group, _: (size(group.bytes), ""), drop=2, right=True),
    Column(
        "oldest", "OLDEST", 8, lambda group, context: (duration(group.age_ms(context.at_ms)), ""), drop=1, right=True
    ),
)


def term_of(label: str, path: JsonPath | None, labels: frozenset[str]) -> str | None:
    """Return the filter that finds the messages of a group; None where none does exactly that.

    ``labels`` are those of all groups: unquoted, 42 finds the text "42" too.
    """
    if path is None or label == OTHER:
        return None
    place = f"json{path_text(path)}"
    if label == f"(no {printable(path_text(path)).removeprefix('.')})":
        # What is not JSON has no such place either.
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
    """Return the label without what may stand for something that cannot be shown."""
    return "" if "\\" in label or any("\u2400" <= character <= "\u2421" for character in label) else label
