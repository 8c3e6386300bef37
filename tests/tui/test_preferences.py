"""The file of the user's choices: what is in it, what is not read from it, and two dashboards that write at once."""

import json
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rsmq_tui.tui.preferences import (
    COLUMNS,
    COMMANDS,
    FAVOURITES,
    FILE_BYTES_MAX,
    FILTERS,
    REVERSE,
    SORT,
    WINDOW_MS,
    Choice,
    Preferences,
)


def test_choices_are_found_again_and_keys_of_other_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "state" / "dashboard.json"
    path.parent.mkdir()
    path.write_text(
        '{"colour of tomorrow": {"deep": [1, null]}, "reverse": 1, "columns": ["ready", 7], "sort": "depth"}'
    )
    one = Preferences(path)
    # A value of the wrong type counts as missing, for that key alone; 1 is no truth value.
    assert (one.get(REVERSE), one.get(COLUMNS), one.get(SORT)) == (False, [], "depth")
    one.set(WINDOW_MS, 3_600_000)
    one.edit(FAVOURITES, lambda known: [*known, ["cache", "rsmq", "na\udc80me\x1b[2J"]])
    one.edit(FILTERS, lambda known: {**known, "overview": {"mine": "orders"}})
    # What does not fit is dropped.
    one.set(SORT, "x" * 5_000)
    assert one.get(SORT) == "depth"
    one.save()

    assert json.loads(path.read_text()) == {
        "colour of tomorrow": {"deep": [1, None]},
        "reverse": 1,
        "columns": ["ready", 7],
        "sort": "depth",
        "window_ms": 3_600_000,
        "favourites": [["cache", "rsmq", "na\udc80me\x1b[2J"]],
        "filters": {"overview": {"mine": "orders"}},
    }
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Preferences(path)
    assert again.problem is None
    assert again.get(FAVOURITES) == [["cache", "rsmq", "na\udc80me\x1b[2J"]]
    assert again.get(WINDOW_MS) == 3_600_000


def test_dashboards_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "dashboard.json"

    def write(number: int) -> None:
        own = Preferences(path)
        own.edit(COMMANDS, lambda known: [*known, f"both {number}"])
        own.set(Choice(f"own {number}", -1, lambda value: isinstance(value, int)), number)
        own.save()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(40)))
    found = json.loads(path.read_text())
    assert sorted(found.pop("commands")) == sorted(f"both {number}" for number in range(40))
    assert found == {f"own {number}": number for number in range(40)}


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000, " " * (FILE_BYTES_MAX + 1)])
def test_a_file_that_no_version_can_read_is_told_once_and_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dashboard.json"
    path.write_text(text)
    one = Preferences(path)
    assert one.problem is not None
    assert one.problem.startswith(f"your choices cannot be read from {path}: ")
    assert one.get(WINDOW_MS) == 600_000
    one.set(WINDOW_MS, 60_000)
    one.save()
    assert json.loads(path.read_text()) == {"window_ms": 60_000}


def test_what_cannot_be_written_is_an_error_and_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rsmq_tui.files.LOCK_WAIT_S", 0.01)
    path = tmp_path / "dashboard.json"
    path.mkdir()
    folder = Preferences(path)
    assert folder.problem is not None
    folder.set(WINDOW_MS, 60_000)
    with pytest.raises(OSError, match="not a regular file"):
        folder.save()
    # The choice holds for this run, and is not tried again.
    assert folder.get(WINDOW_MS) == 60_000
    folder.save()

    path.rmdir()
    path.write_text(json.dumps({"of another version": "x" * (FILE_BYTES_MAX - 40)}))
    full = Preferences(path)
    full.edit(COMMANDS, lambda known: [*known, *(f"command {number}" for number in range(100))])
    with pytest.raises(OSError, match="too large"):
        full.save()
    assert "commands" not in json.loads(path.read_text())
