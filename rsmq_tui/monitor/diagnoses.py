"""What a diagnosis finds: each thing that was looked at, how it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum

from rsmq_tui.monitor.wording import SENTENCE_MAX, printable


class Level(StrEnum):
    """How a thing is: ``fail`` keeps the dashboard from working, ``warn`` does not."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; ``hint`` says what to do and is empty where there is nothing to do.

    ``name`` names it for programs: an area and a word, such as ``connection.tcp``.
    """

    name: str
    level: Level
    text: str
    hint: str = ""

    @property
    def area(self) -> str:
        """The first part of the name."""
        return self.name.partition(".")[0]


def ok(name: str, text: str, hint: str = "") -> Finding:
    """Return a thing that is as it should be."""
    return _finding(name, Level.OK, text, hint)


def warn(name: str, text: str, hint: str) -> Finding:
    """Return a thing that the dashboard works in spite of."""
    return _finding(name, Level.WARN, text, hint)


def fail(name: str, text: str, hint: str) -> Finding:
    """Return a thing that keeps the dashboard from working."""
    return _finding(name, Level.FAIL, text, hint)


def _finding(name: str, level: Level, text: str, hint: str) -> Finding:
    # Both may quote a server.
    return Finding(name, level, printable(text, SENTENCE_MAX), printable(hint, SENTENCE_MAX))
