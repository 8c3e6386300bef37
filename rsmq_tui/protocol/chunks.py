"""A chunk of queues that is read by one call, and what is known of it from the calls before.

Most queues are quiet from one poll to the next. For those the call names what it knows – depth, hidden, when modified,
and the totals – and the server answers with a 0 in place of a row when that still holds: half the work for the server,
and next to none for us. Whatever else may have changed without any of these is found by a full reading at least every
FULL_EVERY polls.
"""

from rsmq_tui.protocol.read_scripts import MICROSECONDS_FROM, SECONDS_BELOW, Row

FULL_EVERY = 10


class Chunk:
    """Some queues' keys, zset and attributes hash in turn, and their rows as last read."""

    __slots__ = ("_known", "_polls", "_rows", "keys")

    def __init__(self, keys: list[bytes], number: int) -> None:
        self.keys = keys
        # Chunks take turns at being read in full.
        self._polls = number % FULL_EVERY
        self._rows: list[Row] = [[] for _ in keys[::2]]
        self._known = [b""] * len(self._rows)

    def arguments(self, now_ms: int) -> list[bytes | str | int]:
        """Return the call's arguments; it must then be given to ``take``, or the next one starts anew."""
        self._polls += 1
        if self._polls % FULL_EVERY == 0:
            self._known = [b""] * len(self._rows)
        return [now_ms, *self._known]

    def take(self, reply: list[Row | int]) -> list[Row]:
        """Take the reply to those arguments, and return all rows; a row that did not change is the same object."""
        rows, known = self._rows, self._known
        if not isinstance(reply, list) or len(reply) != len(rows):
            raise TypeError("no list of rows")
        for number, row in enumerate(reply):
            if row == 0 and known[number]:
                continue
            if not isinstance(row, list) or len(row) not in (2, 5):
                raise TypeError("no row")
            before = rows[number]
            if row == before:
                known[number] = _fingerprint(before)
            else:
                known[number] = b""
                rows[number] = row
        return rows.copy()


def _fingerprint(row: Row) -> bytes:
    """Return what the server compares; nothing for rows in which time alone changes more than the hidden count."""
    fields, depth = row[0], row[1]
    if isinstance(fields, bytes) or isinstance(depth, bytes):
        return b""
    if depth and not SECONDS_BELOW <= float(row[3]) < MICROSECONDS_FROM:
        return b""
    return b"%d %d %b %b %b" % (depth, row[4] if depth else 0, *(field or b"" for field in fields[4:7]))
