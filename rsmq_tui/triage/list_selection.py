"""Which items of a list queue a change is for, in the order of their places however they were found."""

from collections.abc import Iterable, Iterator
from os import SEEK_END
from typing import Literal, NamedTuple

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.lists.edits import spot_of
from rsmq_tui.triage.selection import Selection


class _Block(NamedTuple):
    first: int
    place: int


class ListSelection(Selection):
    """Items of one list queue; ``counts`` says how many of each area, ``q`` and ``p``, and ``deepest`` the last."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"q": 0, "p": 0}
        self.deepest = 0
        self._places: dict[str, list[_Block]] = {"q": [], "p": []}

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Add items that were read at that server time."""
        areas: dict[str, list[tuple[int, RawMessage]]] = {"q": [], "p": []}
        for message in messages:
            spot = spot_of(message.id)
            areas[spot.area].append((spot.position, message))
        for area, found in areas.items():
            if found:
                found.sort(key=lambda pair: pair[0])
                self._places[area].append(_Block(found[0][0], self._file.seek(0, SEEK_END)))
                self.counts[area] += len(found)
                if area == "q":
                    self.deepest = max(self.deepest, found[-1][0])
                super().add([message for _, message in found], at_ms)

    def items(self, area: Literal["q", "p"], *, from_back: bool = False) -> Iterator[RawMessage]:
        """Walk through the items of an area in order of position, or against it."""
        for _, place in sorted(self._places[area], reverse=from_back):
            block = self._block(place)
            yield from reversed(block) if from_back else block

    def _block(self, place: int) -> list[RawMessage]:
        return next(self._blocks(place))
