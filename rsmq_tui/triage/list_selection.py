"""Which items of a list queue a change is for, in the order of their places however they were found."""

from collections.abc import Iterable, Iterator
from os import SEEK_END
from typing import NamedTuple

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.lists.item_ids import Area, area_of, position_of
from rsmq_tui.triage.selection import Selection


class _Block(NamedTuple):
    first: int
    place: int


class ListSelection(Selection):
    """Items of one list queue; ``counts`` says how many of each area, ``q`` and ``p``, and ``deepest`` the last.

    ``ready`` is how many items the queue held when they were found, for their ids count from the one that is taken
    next, and ``newest`` the SHA1 of the one that was pushed last, in 20 bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[Area, int] = {"q": 0, "p": 0}
        self.deepest = 0
        self.ready = 0
        self.newest = b""
        self._places: dict[Area, list[_Block]] = {"q": [], "p": []}

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Add items that were read at that server time."""
        areas: dict[Area, list[tuple[int, RawMessage]]] = {"q": [], "p": []}
        for message in messages:
            areas[area_of(message.id)].append((position_of(message.id), message))
        for area, found in areas.items():
            if found:
                found.sort(key=lambda pair: pair[0])
                self._places[area].append(_Block(found[0][0], self._file.seek(0, SEEK_END)))
                self.counts[area] += len(found)
                if area == "q":
                    self.deepest = max(self.deepest, found[-1][0])
                super().add([message for _, message in found], at_ms)

    def items(self, area: Area) -> Iterator[RawMessage]:
        """Walk through the items of an area in order of position."""
        for _, place in sorted(self._places[area]):
            yield from next(self._blocks(place))
