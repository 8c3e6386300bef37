"""One table of a configuration file: its keys read one by one, and every mistake told with its line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rsmq_tui.monitor.wording import printable
from rsmq_tui.profiles.lines import Place
from rsmq_tui.profiles.values import ElementError, Read, meant


class ConfigError(ValueError):
    """A configuration file that cannot be used: file, line, what is wrong and what is allowed."""


@dataclass(slots=True)
class Mistakes:
    """What is wrong with a file; the first in it is told."""

    path: Path
    lines: Mapping[Place, int]
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, place: Place, sentence: str) -> None:
        """Note what is wrong at a place, or at the nearest one around it that has a line."""
        while place and place not in self.lines:
            place = place[:-1]
        self.found.append((self.lines.get(place, 1), sentence))

    def tell(self) -> None:
        """Raise ``ConfigError`` if anything is wrong."""
        if self.found:
            line, sentence = min(self.found, key=lambda each: each[0])
            raise ConfigError(f"{self.path}:{line}: {printable(sentence)}")


@dataclass(frozen=True, slots=True)
class Value:
    """A value that was read, and where it stands; it may be a password, and is not shown."""

    value: Any = field(repr=False)
    place: Place


def read_table(table: Any, place: Place, keys: Mapping[str, Read], mistakes: Mistakes) -> dict[str, Value]:
    """Read the keys of a table; what cannot be read is noted, and left out."""
    if not isinstance(table, dict):
        mistakes.add(place, f"{_called(place)} must be a table, [{_called(place)}]")
        return {}
    values = {}
    for key, value in table.items():
        here = (*place, key)
        if key not in keys:
            where = f"in [{_called(place)}]" if place else "at the top of the file"
            told = meant(key, keys) or "; known keys: " + ", ".join(keys)
            mistakes.add(here, f"unknown key {key} {where}{told}")
            continue
        try:
            values[key] = Value(keys[key](value), here)
        except ElementError as error:
            mistakes.add((*here, error.number), f"{key} {error}")
        except ValueError as error:
            mistakes.add(here, f"{key} {error}")
    return values


def _called(place: Place) -> str:
    return ".".join(str(each) for each in place)
