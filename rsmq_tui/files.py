"""Reading small files that anybody may have written: regular files only, of bounded size, and JSON of any shape."""

import json
import os
import stat
from pathlib import Path
from typing import Any

JSON_BYTES_MAX = 64_000_000


class UnfitFileError(OSError):
    """A path that must not be opened: no regular file, which may wait for ever, or one that is too long."""


class JsonError(ValueError):
    """A text that is not JSON, or JSON that is nested too deeply to be read; its text is one sentence."""


def regular_file(path: str | Path) -> os.stat_result:
    """Return what is known of a regular file, or of the one that a link leads to; raises ``OSError`` for all others."""
    known = Path(path).stat()
    if not stat.S_ISREG(known.st_mode):
        raise UnfitFileError(f"{path} is not a regular file")
    return known


def read_bytes(path: str | Path, limit: int = JSON_BYTES_MAX) -> bytes:
    """Return what a regular file holds; raises ``OSError``, also for one of more than ``limit`` bytes."""
    regular_file(path)
    # Between the look and this, a pipe may have come in its place: then nothing waits.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        found = file.read(limit + 1)
    if found is None or len(found) > limit:
        raise UnfitFileError(f"{path} is longer than {limit:,} bytes")
    return found


def parse_json(text: str | bytes) -> Any:
    """Return the value that a text holds; raises ``JsonError`` and nothing else."""
    try:
        return json.loads(text)
    except RecursionError:
        raise JsonError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise JsonError(f"not JSON: {error}") from error


def read_json(path: str | Path) -> Any:
    """Return the value that a JSON file holds; raises ``OSError`` and ``JsonError``."""
    return parse_json(read_bytes(path))
