"""The user's choices in the dashboard, kept for the next start in one JSON file, which versions share.

The file is an object. A key that this version does not know stays as it is, and a value of the wrong type counts as
missing, for that key alone. So an older or newer version can use the same file.
"""

import errno
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from rsmq_tui.files import JsonError, UnfitFileError, locked, parse_json, read_bytes, reason_of, whole_file
from rsmq_tui.monitor.text import printable

T = TypeVar("T")

FILE_BYTES_MAX = 1_000_000
NAMES_MAX = 1_000
TEXT_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Choice(Generic[T]):
    """One key of the file, with its default; ``fits`` returns whether a value of the file is valid for it.

    Values are JSON values, and are never changed in place.
    """

    key: str
    default: T
    fits: Callable[[Any], bool]


def _one_of(*values: object) -> Callable[[Any], bool]:
    # 1 is True for Python, and a list cannot be in a set.
    return lambda value: any(type(value) is type(each) and value == each for each in values)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_MAX


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= NAMES_MAX and all(map(_is_text, value))


def _are_named(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a function that returns whether a value is an object whose values all fit."""
    return lambda value: (
        isinstance(value, dict)
        and len(value) <= NAMES_MAX
        and all(map(_is_text, value))
        and all(map(fits, value.values()))
    )


# The window of time of the charts, in the order of the key.
WINDOWS_MS = (60_000, 600_000, 3_600_000, 21_600_000, 86_400_000)
WINDOW_MS = Choice("window_ms", 600_000, _one_of(*WINDOWS_MS))
# How times are shown: as ages, or as clock times in UTC or in the user's time zone.
TIMES_SHOWN = ("ages", "utc", "local")
TIMES = Choice("times", "ages", _one_of(*TIMES_SHOWN))
# Empty for the default of the terminal.
THEME = Choice("theme", "", _is_text)
# Where the pane is: beside, below, closed, or empty for the best position that fits.
PANE = Choice("pane", "", _one_of("", "beside", "below", "closed"))
# The column by which the overview is sorted, empty for the order by trouble; and whether the order is reversed.
SORT = Choice("sort", "", _is_text)
REVERSE = Choice("reverse", False, _one_of(False, True))
# The columns of the overview in their order, those that are not shown with a - before; empty for the default.
COLUMNS: Choice[list[str]] = Choice("columns", [], _are_texts)
# The queues on top, as server, namespace and name.
FAVOURITES: Choice[list[list[str]]] = Choice(
    "favourites",
    [],
    lambda value: (
        isinstance(value, list)
        and len(value) <= NAMES_MAX
        and all(_are_texts(each) and len(each) == 3 for each in value)
    ),
)
# Whether queues are grouped by the prefixes of their names, and the characters with which a prefix ends.
GROUPED = Choice("grouped", False, _one_of(False, True))
SEPARATORS = Choice("separators", ":-_./", lambda value: _is_text(value) and 0 < len(value) <= 20)
# Kind of screen -> name -> filter.
FILTERS: Choice[dict[str, dict[str, str]]] = Choice("filters", {}, _are_named(_are_named(_is_text)))
# The commands that were used last, the latest first.
COMMANDS: Choice[list[str]] = Choice("commands", [], _are_texts)


class Preferences:
    """The user's choices, kept in the file at ``path`` or, if that is None, for this run.

    ``changed`` is called after each choice to be saved, and must have ``save`` called in a thread. The choices of
    several dashboards are merged one by one: ``edit`` is applied to the content of the file at that time. ``problem``
    is a sentence, if the file cannot be used.
    """

    def __init__(self, path: Path | None, changed: Callable[[], object] = lambda: None) -> None:
        self.path = path
        self._changed = changed
        self._edits: list[tuple[Choice[Any], Callable[[Any], Any]]] = []
        self._saving = threading.Lock()
        self.problem: str | None = None
        self._values: Mapping[str, Any] = {}
        if path is not None:
            try:
                self._values = _read(path)
            except (OSError, JsonError) as error:
                self.problem = f"your choices cannot be read from {path}: {printable(reason_of(error), 200)}"

    def get(self, choice: Choice[T]) -> T:
        """Return the user's choice, or the default."""
        return _of(self._values, choice)

    def set(self, choice: Choice[T], value: T) -> None:
        """Set a value; nothing is written if it does not change."""
        if value != self.get(choice):
            self.edit(choice, lambda _: value)

    def edit(self, choice: Choice[T], change: Callable[[T], T]) -> None:
        """Set the result of ``change`` for the current value; a result that does not fit is dropped."""
        self._values = _changed(self._values, choice, change)
        if self.path is not None:
            self._edits.append((choice, change))
            self._changed()

    def save(self) -> None:
        """Write the choices since the last call into the file; raises ``OSError``. It may be called in any thread."""
        path = self.path
        with self._saving:
            edits, self._edits = self._edits, []
            if path is None or not edits:
                return
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(path.with_suffix(".lock")):
                values: Mapping[str, Any]
                try:
                    values = _read(path)
                except JsonError:
                    # No version can read such a file.
                    values = {}
                except UnfitFileError:
                    # A file that is too long is replaced; a pipe or a device is not.
                    if not path.is_file():
                        raise
                    values = {}
                for choice, change in edits:
                    values = _changed(values, choice, change)
                try:
                    text = json.dumps(values)
                except RecursionError:
                    raise OSError(errno.EINVAL, "the JSON is nested too deeply") from None
                if len(text) > FILE_BYTES_MAX:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
                with whole_file(path, force=True) as write:
                    write(text)


def _of(values: Mapping[str, Any], choice: Choice[T]) -> T:
    value: T = values.get(choice.key, choice.default)
    return value if choice.fits(value) else choice.default


def _changed(values: Mapping[str, Any], choice: Choice[T], change: Callable[[T], T]) -> Mapping[str, Any]:
    value = change(_of(values, choice))
    return {**values, choice.key: value} if choice.fits(value) else values


def _read(path: Path) -> dict[str, Any]:
    """Return the content of the file, empty if there is none; raises ``OSError`` and ``JsonError``."""
    try:
        values = parse_json(read_bytes(path, FILE_BYTES_MAX))
    except FileNotFoundError:
        return {}
    if not isinstance(values, dict):
        raise JsonError("no JSON object")
    return values
