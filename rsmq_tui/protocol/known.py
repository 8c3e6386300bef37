"""What is known of the queues from the polls before, and which of them have to be asked about again.

Most queues are quiet from one poll to the next. One whose keys have not changed, and of which time alone changes
nothing, still has the row that was read last.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Protocol

from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.read_scripts import Row
from rsmq_tui.protocol.replies import misshapen
from rsmq_tui.protocol.running import Call, ScriptRunner
from rsmq_tui.protocol.scripts import Script

# What a server may fail to tell is found after so many polls: each poll also reads this part of all queues.
FULL_EVERY = 30

QueueKeys = tuple[bytes, ...]


class Layout(Protocol):
    """How the queues of one kind lie in Redis, and how their rows are read."""

    @property
    def script(self) -> Script:
        """What reads the rows of many queues at once."""
        ...

    def keys(self, name: str) -> QueueKeys:
        """Return the keys of a queue, as many for each."""
        ...

    def calls(self, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int) -> Sequence[Call]:
        """Return the calls of the script that read these queues; their replies, lists of rows, are joined."""
        ...

    async def read_plainly(
        self, runner: ScriptRunner, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int
    ) -> list[Row]:
        """Read the rows of these queues by plain commands, as the script does."""
        ...

    def settle(self, name: str, row: Row, before: Row, now_ms: int) -> float:
        """Take off a row what does not belong to it, and return when, in ms, time alone will change it.

        0 is for a row that has to be read each time. ``before`` is the row of that queue until now, empty for none.
        Raises ``InvalidResponse`` for what is no row.
        """
        ...

    def is_row(self, row: Row) -> bool:
        """Tell whether a settled row holds what it has to hold."""
        ...


class KnownQueues:
    """The queues of one layout, in the order of their names, and their rows as last read."""

    def __init__(self, layout: Layout) -> None:
        self.names: tuple[str, ...] = ()
        self.rows: list[Row] = []
        self._layout = layout
        self._raw_names: frozenset[bytes] = frozenset()
        self._keys: list[QueueKeys] = []
        # Apart, since one queue's messages may be another one's attributes: those of ``a:Q`` and of ``a``.
        self._by_key: list[dict[bytes, int]] = []
        # When a row has to be read again, in ms: 0 is now, whatever the time.
        self._from_ms: list[float] = []
        self._next = 0
        self._last_ms = 0

    @property
    def begins_anew(self) -> bool:
        """Whether all queues have been read in full since this was last so."""
        return self._next >= len(self.names)

    def keep(self, raw_names: frozenset[bytes]) -> None:
        """Know these queues and no others."""
        if raw_names is self._raw_names or raw_names == self._raw_names:
            return
        before = dict(zip(self.names, zip(self.rows, self._from_ms, strict=True), strict=True))
        unknown: tuple[Row, float] = ([], 0)
        self._raw_names = raw_names
        self.names = tuple(name_of(name) for name in sorted(raw_names))
        known = [before.get(name, unknown) for name in self.names]
        self.rows = [row for row, _ in known]
        self._from_ms = [from_ms for _, from_ms in known]
        self._keys = [self._layout.keys(name) for name in self.names]
        columns = zip(*self._keys, strict=True)
        self._by_key = [{key: position for position, key in enumerate(column)} for column in columns]

    def forget(self) -> None:
        """Ask about every queue again."""
        self._from_ms = [0] * len(self.names)

    def mark_changed(self, keys: Iterable[bytes]) -> None:
        """Ask about the queues of these keys again."""
        from_ms = self._from_ms
        for key in keys:
            for positions in self._by_key:
                position = positions.get(key)
                if position is not None:
                    from_ms[position] = 0

    def to_ask(self, now_ms: int) -> list[int]:
        """Return the positions of the queues that have to be read at that server time, in order."""
        if now_ms < self._last_ms:
            # What time had brought about is undone.
            self.forget()
        self._last_ms = now_ms
        due = [position for position, from_ms in enumerate(self._from_ms) if from_ms <= now_ms]
        if len(due) == len(self.names):
            return due
        start = 0 if self.begins_anew else self._next
        self._next = start + ceil(len(self.names) / FULL_EVERY)
        return sorted({*due, *range(start, min(self._next, len(self.names)))})

    def names_of(self, positions: Iterable[int]) -> list[str]:
        """Return the names of these queues."""
        return [self.names[position] for position in positions]

    def keys_of(self, positions: Iterable[int]) -> list[QueueKeys]:
        """Return the keys of each of these queues."""
        return [self._keys[position] for position in positions]

    def take(self, positions: Sequence[int], reply: list[Row], now_ms: int) -> list[bytes]:
        """Take the rows of these queues; a row that is as before stays the same object.

        Returns the keys of the queues whose rows changed although neither a message nor the time said so.
        """
        if len(reply) != len(positions):
            raise misshapen("other rows than those asked for")
        rows, from_ms, names, settle = self.rows, self._from_ms, self.names, self._layout.settle
        untold: list[bytes] = []
        for position, row in zip(positions, reply, strict=True):
            before = rows[position]
            due_ms = settle(names[position], row, before, now_ms)
            if row != before:
                if not self._layout.is_row(row):
                    raise misshapen("in the row of a queue")
                if from_ms[position] > now_ms:
                    untold += self._keys[position]
                rows[position] = row
            from_ms[position] = due_ms
        return untold
