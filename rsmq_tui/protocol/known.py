"""What is known of the queues from the polls before, and which of them have to be asked about again.

Most queues are quiet from one poll to the next. One whose keys have not changed, and of which no hidden message has
become visible meanwhile, still has the row that was read last.
"""

from collections.abc import Iterable, Sequence
from math import ceil, inf

from rsmq_tui.protocol.keys import Keys, name_of
from rsmq_tui.protocol.read_scripts import Row

# What a server may fail to tell is found after so many polls: each poll also reads this part of all queues.
FULL_EVERY = 30


class KnownQueues:
    """The queues of one namespace, in the order of their names, and their rows as last read."""

    def __init__(self, keys: Keys) -> None:
        self.names: tuple[str, ...] = ()
        self.rows: list[Row] = []
        self._keys = keys
        self._raw_names: frozenset[bytes] = frozenset()
        self._pairs: list[tuple[bytes, bytes]] = []
        # Apart, since one queue's messages may be another one's attributes: those of ``a:Q`` and of ``a``.
        self._by_messages: dict[bytes, int] = {}
        self._by_attributes: dict[bytes, int] = {}
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
        if raw_names == self._raw_names:
            return
        before = dict(zip(self.names, zip(self.rows, self._from_ms, strict=True), strict=True))
        unknown: tuple[Row, float] = ([], 0)
        self._raw_names = raw_names
        self.names = tuple(name_of(name) for name in sorted(raw_names))
        known = [before.get(name, unknown) for name in self.names]
        self.rows = [row for row, _ in known]
        self._from_ms = [from_ms for _, from_ms in known]
        self._pairs = [(self._keys.messages(name), self._keys.attributes(name)) for name in self.names]
        self._by_messages = {messages: position for position, (messages, _) in enumerate(self._pairs)}
        self._by_attributes = {attributes: position for position, (_, attributes) in enumerate(self._pairs)}

    def forget(self) -> None:
        """Ask about every queue again."""
        self._from_ms = [0] * len(self.names)

    def mark_changed(self, keys: Iterable[bytes]) -> None:
        """Ask about the queues of these keys again."""
        from_ms = self._from_ms
        for key in keys:
            for positions in (self._by_messages, self._by_attributes):
                position = positions.get(key)
                if position is not None:
                    from_ms[position] = 0

    def to_ask(self, now_ms: int) -> list[int]:
        """Return the positions of the queues that have to be read at that server time, in order."""
        if now_ms < self._last_ms:
            # Messages that had become visible are hidden again.
            self.forget()
        self._last_ms = now_ms
        due = [position for position, from_ms in enumerate(self._from_ms) if from_ms <= now_ms]
        if len(due) == len(self.names):
            return due
        start = 0 if self.begins_anew else self._next
        self._next = start + ceil(len(self.names) / FULL_EVERY)
        return sorted({*due, *range(start, min(self._next, len(self.names)))})

    def keys_of(self, positions: Iterable[int]) -> list[bytes]:
        """Return the zset and the attributes hash of each of these queues."""
        return [key for position in positions for key in self._pairs[position]]

    def take(self, positions: Sequence[int], reply: list[Row], now_ms: int) -> list[bytes]:
        """Take the rows of these queues; a row that is as before stays the same object.

        Returns the keys of the queues whose rows changed although neither a message nor the time said so.
        """
        if not isinstance(reply, list) or len(reply) != len(positions):
            raise TypeError("no list of rows")
        rows, from_ms = self.rows, self._from_ms
        untold: list[bytes] = []
        for position, row in zip(positions, reply, strict=True):
            due_ms = _due_ms(row)
            if row != rows[position]:
                if from_ms[position] > now_ms:
                    untold += self._pairs[position]
                rows[position] = row
            from_ms[position] = due_ms
        return untold


def _due_ms(row: Row) -> float:
    """Take off a row's end when time alone will change it; a row that cannot be relied on is read each time."""
    if not isinstance(row, list) or len(row) not in (2, 5, 6):
        raise TypeError("no row")
    if len(row) == 5 or isinstance(row[0], bytes) or isinstance(row[1], bytes):
        del row[5:]
        return 0
    if len(row) == 2:
        return inf
    due = row.pop()
    return float(due) if due != b"" else inf
