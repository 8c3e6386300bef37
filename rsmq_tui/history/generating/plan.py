"""What is to be made, file by file: which polls there were, when the server was down, and when nobody recorded."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.history.generating.chance import between, mixed
from rsmq_tui.history.keeping import day_of
from rsmq_tui.history.place import Place
from rsmq_tui.protocol.lists.naming import LISTS_NS

DAY_MS = 86_400_000
# A recorder seals after ten minutes, or so many rows.
FILE_MS = 600_000
_FILE_ROWS = 250_000
PLACE = Place("made", "redis://queues.example:6379/0", "rsmq")
LISTS = PLACE._replace(ns=LISTS_NS)
_FILE_SPANS_MS = (FILE_MS, 300_000, 120_000, 60_000, 30_000, 10_000)
_GAP_EVERY_MS, _GAP_MS = 5 * DAY_MS, (20 * 60_000, 90 * 60_000)
_OUTAGE_EVERY_MS, _OUTAGE_MS = 3 * DAY_MS, (2 * 60_000, 12 * 60_000)
# What each number is drawn for.
_GAPS, _OUTAGES, _LATE = 101, 102, 103


class Span(NamedTuple):
    """A span of time in ms; its end is not in it."""

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. All times are in ms; ``messages_ms`` is None for no inventories. ``lists`` are queues too.

    Whatever the span that is asked for, a moment looks the same: to ask for a later one adds to what is there.
    """

    from_ms: int
    to_ms: int
    queues: int
    every_ms: int
    messages_ms: int | None = None
    seed: int = 1
    lists: int = 0

    @property
    def file_ms(self) -> int:
        """How long the time of one file is."""
        most = self.every_ms * (_FILE_ROWS // (self.queues + self.lists + 1))
        return next((span for span in _FILE_SPANS_MS if span <= most), _FILE_SPANS_MS[-1])

    @property
    def told(self) -> dict[str, int | None]:
        """What two histories must have in common to be one."""
        return {
            "queues": self.queues,
            "every_ms": self.every_ms,
            "messages_ms": self.messages_ms,
            "seed": self.seed,
            # Without lists it is what it was before there were any.
            **({"lists": self.lists} if self.lists else {}),
        }


class Times(NamedTuple):
    """The polls of a file, oldest first: when, and how long after the one before; None where that is unknown."""

    at_ms: list[int]
    interval_ms: list[int | None]


@dataclass(frozen=True, slots=True)
class File:
    """A file of samples, and the inventories of its time: within one run of the recorder, and one day."""

    span: Span
    recorder: str
    number: int

    @property
    def day(self) -> str:
        """The day that it is of."""
        return day_of(self.span.from_ms)

    @property
    def name(self) -> str:
        """Its name within a day."""
        return f"{self.recorder}-{self.number:06d}.parquet"


class Plan:
    """The files of a history, and what is in each."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        first = -(-wanted.from_ms // wanted.file_ms)
        self._files = range(first, max(first, wanted.to_ms // wanted.file_ms))
        self._gaps: dict[int, Span] = {}
        # A file that is there is never written again, so each is whole from the start.
        self.span = Span(first * wanted.file_ms, self._files.stop * wanted.file_ms)

    def files(self) -> Iterator[File]:
        """Yield the files, oldest first."""
        file_ms = self.wanted.file_ms
        for number in self._files:
            span = Span(number * file_ms, (number + 1) * file_ms)
            for part in self._recorded(span):
                run = self._run_of(part.from_ms)
                begun = self._gap(run - 1).to_ms // file_ms
                yield File(part, self._recorder(run), number - begun + 1)

    def outages(self, span: Span) -> list[Span]:
        """Return when the server was down."""
        return [
            found
            for block in range(span.from_ms // _OUTAGE_EVERY_MS - 1, span.to_ms // _OUTAGE_EVERY_MS + 1)
            if (found := self._outage(block)).from_ms < span.to_ms and found.to_ms > span.from_ms
        ]

    def polls(self, span: Span) -> tuple[Times, list[int]]:
        """Return the polls that went well, and when the others failed, of one file."""
        every_ms = self.wanted.every_ms
        outages = self.outages(Span(span.from_ms - DAY_MS, span.to_ms))
        times, failed = Times([], []), []
        for number in range(span.from_ms // every_ms - 1, -(-span.to_ms // every_ms)):
            at_ms = self._at_ms(number)
            if not span.from_ms <= at_ms < span.to_ms:
                continue
            if self._is_down(at_ms, outages):
                failed.append(at_ms)
                continue
            before_ms = self._at_ms(number - 1)
            is_known = (
                before_ms >= self.span.from_ms
                and not self._is_down(before_ms, outages)
                and self._run_of(before_ms) == self._run_of(at_ms)
            )
            times.at_ms.append(at_ms)
            times.interval_ms.append(at_ms - before_ms if is_known else None)
        return times, failed

    def inventories(self, span: Span) -> list[int]:
        """Return when the inventories of a file's time began."""
        messages_ms = self.wanted.messages_ms
        if messages_ms is None:
            return []
        found = range(-(-span.from_ms // messages_ms) * messages_ms, span.to_ms, messages_ms)
        outages = self.outages(span)
        return [at_ms for at_ms in found if not self._is_down(at_ms, outages)]

    def _recorded(self, span: Span) -> list[Span]:
        """Return a span without the gap that may be in it."""
        found = []
        left = span
        for block in range(span.from_ms // _GAP_EVERY_MS - 1, span.to_ms // _GAP_EVERY_MS + 1):
            gap = self._gap(block)
            if gap.from_ms < left.to_ms and gap.to_ms > left.from_ms:
                if gap.from_ms > left.from_ms:
                    found.append(Span(left.from_ms, gap.from_ms))
                left = Span(min(gap.to_ms, left.to_ms), left.to_ms)
        return [*found, left] if left.to_ms > left.from_ms else found

    def _run_of(self, at_ms: int) -> int:
        """Return the number of the recorder's run: each begins with the end of a gap."""
        block = at_ms // _GAP_EVERY_MS
        return block if at_ms < self._gap(block).to_ms else block + 1

    def _recorder(self, run: int) -> str:
        told = f"{sorted(self.wanted.told.items(), key=str)}:{run}"
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def _gap(self, block: int) -> Span:
        found = self._gaps.get(block)
        if found is None:
            found = self._gaps[block] = self._drawn(block, _GAP_EVERY_MS, _GAP_MS, _GAPS)
        return found

    def _outage(self, block: int) -> Span:
        return self._drawn(block, _OUTAGE_EVERY_MS, _OUTAGE_MS, _OUTAGES)

    def _drawn(self, block: int, every_ms: int, lasts_ms: tuple[int, int], what: int) -> Span:
        seed = self.wanted.seed
        lasts = round(between(*lasts_ms, seed, what, block, 1))
        start = block * every_ms + round(between(0, every_ms - lasts, seed, what, block, 2))
        return Span(start, start + lasts)

    def _at_ms(self, number: int) -> int:
        """Return when a poll was made: a little late, as polls are."""
        late = min(15, self.wanted.every_ms // 100)
        return number * self.wanted.every_ms + mixed(self.wanted.seed, _LATE, number) % (late + 1)

    @staticmethod
    def _is_down(at_ms: int, outages: list[Span]) -> bool:
        return any(outage.from_ms <= at_ms < outage.to_ms for outage in outages)
