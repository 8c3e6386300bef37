"""Shares of one scan, for several readers at once: each message is in exactly one of them, wherever its score moves.

A server walks a table by counting its cursor up from the highest bit down (Pieter Noordhuis' way, in Redis since 2.8
and in Valkey). Read from that side cursors only rise, and a share of all positions is a share of the hashes of the ids,
whatever size the table has or gets meanwhile. So a scan may begin at any such position, and end at another. What a
server answers is checked against that, so that one which counts otherwise is noticed at its first step.
"""

from dataclasses import dataclass

from redis.exceptions import InvalidResponse

_BITS = 64
# A table with fewer buckets than a scan has parts would be walked by several of these. Servers keep at most 35
# messages in a bucket, and let a table be eight times as wide as it need be before they shrink it.
MESSAGES_PER_PART_MIN = 1_000


@dataclass(frozen=True, slots=True)
class ScanPart:
    """The part ``index`` of ``count`` of a scan; ``count`` is a power of two."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if self.count & (self.count - 1) or not 0 <= self.index < self.count:
            raise ValueError(f"there is no part {self.index} of {self.count}")

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole scan, whose cursors mean nothing to us."""
        return self.count == 1

    @property
    def first(self) -> bytes:
        """The cursor to begin with."""
        return b"%d" % _turned(self._begin)

    @property
    def next_first(self) -> bytes:
        """The cursor with which the next part begins."""
        return b"%d" % _turned(self._end)

    def has_reached_end(self, following: bytes) -> bool:
        """Tell whether a step that leads to that cursor is the last of this part."""
        return int(following) == 0 or (not self.is_whole and _turned(int(following)) >= self._end)

    def oversteps(self, following: bytes) -> bool:
        """Tell whether a step that leads to that cursor went beyond the end of this part."""
        return int(following) != 0 and not self.is_whole and _turned(int(following)) > self._end

    def check_step(self, cursor: bytes, following: bytes) -> None:
        """Raise redis-py's ``InvalidResponse`` where a server does not count as it has to for parts."""
        if self.is_whole or int(following) == 0:
            return
        if int(following) >= 1 << _BITS or _turned(int(following)) <= _turned(int(cursor)):
            raise InvalidResponse("this server's scans cannot be split into parts")

    @property
    def _begin(self) -> int:
        return self.index * (1 << _BITS) // self.count

    @property
    def _end(self) -> int:
        return (self.index + 1) * (1 << _BITS) // self.count


def has_passed(cursor: bytes, other: bytes) -> bool:
    """Tell whether a scan that is at a cursor has walked through all that lies before another."""
    return _turned(int(cursor)) >= _turned(int(other))


WHOLE = ScanPart()


def _turned(cursor: int) -> int:
    """Return the number whose bits are those of a cursor in the other direction."""
    return int(f"{cursor % (1 << _BITS):0{_BITS}b}"[::-1], 2)
