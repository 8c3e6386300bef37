"""What a key of the dashboard is, and where it has a use."""

from dataclasses import dataclass
from typing import Literal

Where = Literal[
    "app", "change", "table", "lines", "overview", "queue", "message", "audit", "history", "replay", "diff", "modal",
    "dialog", "choice"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Usable:
    """Which keys have a use on a screen: whether queues may be changed, whether it is live, and what kinds it shows."""

    changes: bool = True
    live: bool = True
    kinds: frozenset[str] = frozenset({"rsmq", "list"})


ALL_KEYS = Usable()
NO_CHANGES = Usable(changes=False)


@dataclass(frozen=True, slots=True)
class Key:
    """What one key does.

    ``id`` names it in key files. ``hint`` is its word at the bottom, where none means that only the help tells it, and
    ``face`` the keys shown before that word, where one hint stands for a pair. Hints stand in the order of the keys,
    and those that do not fit are left out, but for a ``pinned`` one. ``changes`` is set for what changes a queue: where
    nothing may be changed, there is no such key. ``live`` is set for what a replay has no use for, ``kind`` for what
    only one kind of queue has.
    """

    id: str
    keys: str
    action: str
    help: str
    where: Where
    hint: str = ""
    face: str = ""
    priority: bool = False
    changes: bool = False
    pinned: bool = False
    live: bool = False
    kind: Literal["", "rsmq", "list"] = ""

    def is_among(self, usable: Usable) -> bool:
        """Tell whether the key has a use there."""
        return (
            (usable.changes or not self.changes)
            and (usable.live or not self.live)
            and (not self.kind or self.kind in usable.kinds)
        )

    @property
    def shown(self) -> str:
        """The keys as people write them."""
        return " ".join(_SHOWN.get(key, key) for key in self.keys.split(","))


_SHOWN = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "at": "@",
    "comma": ",",
    "full_stop": ".",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
    "plus": "+",
    "minus": "-",
    "asterisk": "*",
    "equals_sign": "=",
    "pagedown": "pgdn",
    "pageup": "pgup",
}
