"""Exports messages to a file. Nothing on the server changes."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from rsmq_tui.protocol import RawMessage
from rsmq_tui.triage.jsonl import to_line
from rsmq_tui.triage.scope import ScanProgress


class Exported(NamedTuple):
    """The progress of an export: how many messages were written and left out.

    ``cut`` counts those whose bodies are too long to read, ``gone`` those that left the queue meanwhile, and
    ``unsearched`` those that could not be matched because their bodies are too long. ``is_incomplete`` is True if a
    list changed too fast to read all of it.
    """

    progress: ScanProgress
    written: int
    cut: int
    gone: int
    unsearched: int
    is_incomplete: bool = False

    def and_then(self, other: "Exported") -> "Exported":
        """Return the progress of two exports, one after the other."""
        progress = ScanProgress(*map(sum, zip(self.progress, other.progress, strict=True)))
        written, cut, gone = self.written + other.written, self.cut + other.cut, self.gone + other.gone
        unsearched, is_incomplete = self.unsearched + other.unsearched, self.is_incomplete or other.is_incomplete
        return Exported(progress, written, cut, gone, unsearched, is_incomplete)


class Exporting(ABC):
    """Passes messages as lines to ``write``; iterate over it for its progress.

    ``written``, ``cut``, ``gone``, ``unsearched`` and ``is_incomplete`` are those of ``Exported``. Raises what the
    server, the search and ``write`` raise.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self.written = self.cut = self.gone = self.unsearched = 0
        self.is_incomplete = False
        self._write = write

    @abstractmethod
    def __aiter__(self) -> AsyncGenerator[ScanProgress, None]:
        """Write the messages, and yield the progress."""

    def exported(self, progress: ScanProgress) -> Exported:
        """Return the progress with the counts so far."""
        return Exported(progress, self.written, self.cut, self.gone, self.unsearched, self.is_incomplete)

    def _take(self, message: RawMessage, at_ms: int) -> None:
        self._write(to_line(message, at_ms) + "\n")
        self.written += 1
