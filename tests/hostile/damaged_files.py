"""Files as nobody meant them: whatever may lie where a file was, and bytes, types and numbers of every kind."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ENDS = (-(2**63), 2**63 - 1)
TEXT = "\x1b[2J[/foo]\u202egnp.exe\x00[red]\\x1b\x9b31m"
# A test of these ends long before: this is for those that would never.
SECONDS_MAX = 120


@contextmanager
def ending(seconds: int = SECONDS_MAX) -> Iterator[None]:
    """Fail when it takes longer, even where it waits for a pipe."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    # Its name may be longer than a socket's may be.
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _nowhere(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


# What may lie in a file's place.
INSTEAD: dict[str, Callable[[Path], object]] = {
    "a pipe": _fifo,
    "a socket": _socket,
    "a folder": Path.mkdir,
    "a link to itself": _loop,
    "a link to nothing": _nowhere,
    "a link to a device": _device,
    "nothing in it": lambda path: path.write_bytes(b""),
    "no such thing": lambda path: path.write_bytes(b"PAR1 this is not Parquet PAR1"),
    "zeros": lambda path: path.write_bytes(bytes(5_000)),
}


def put_instead(path: Path, what: str) -> None:
    """Replace a file."""
    path.unlink()
    INSTEAD[what](path)


def other_columns(path: Path, change: Callable[[str, pa.Array], pa.Array]) -> None:
    """Write a Parquet file anew, each column changed; its metadata stays."""
    with pq.ParquetFile(path) as file:
        table = file.read()
    metadata = table.schema.metadata
    columns = {name: change(name, table.column(name).combine_chunks()) for name in table.column_names}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)


def replaced(column: pa.Array, every: int, value: Any) -> pa.Array:
    """Put a value into each ``every``-th place, where its type takes it."""
    values = column.to_pylist()
    values[::every] = [value] * len(values[::every])
    try:
        return pa.array(values, column.type)
    except (pa.ArrowException, TypeError, OverflowError):
        return column


def _numbers(value: int) -> Callable[[str, pa.Array], pa.Array]:
    return lambda name, column: replaced(column, 3, value) if pa.types.is_integer(column.type) else column


def _floats(value: float) -> Callable[[str, pa.Array], pa.Array]:
    return lambda name, column: replaced(column, 2, value) if pa.types.is_floating(column.type) else column


def _outage(name: str, column: pa.Array) -> pa.Array:
    printed = {"status": "down", "failure": TEXT}
    return pa.array([printed[name]] * len(column)) if name in printed else column


def _texts(value: str) -> Callable[[str, pa.Array], pa.Array]:
    return lambda name, column: replaced(column, 2, value) if pa.types.is_string(column.type) else column


def _only(names: tuple[str, ...], value: Any) -> Callable[[str, pa.Array], pa.Array]:
    return lambda name, column: replaced(column, 4, value) if name.endswith(names) else column


# What may be in the columns of a file that is Parquet all the same.
COLUMNS: dict[str, Callable[[str, pa.Array], pa.Array]] = {
    "lowest": _numbers(ENDS[0]),
    "highest": _numbers(ENDS[1]),
    "zero": _numbers(0),
    "negative": _numbers(-1),
    "infinite": _floats(float("inf")),
    "no number": _floats(float("nan")),
    "greatest float": _floats(1.7e308),
    "texts": _texts(TEXT),
    "an outage in such words": _outage,
    "empty texts": _texts(""),
    "times of 2970": _only(("_ms",), 31_556_995_200_000),
    "times of 1970": _only(("_ms",), 1),
    "times outside the calendar": _only(("_ms",), 10**17),
    "highest times": _only(("_ms",), ENDS[1]),
    "lowest times": _only(("_ms",), ENDS[0]),
    "nulls in places": lambda name, column: replaced(column, 3, None),
    "nulls everywhere": lambda name, column: pa.nulls(len(column), column.type),
    "all texts": lambda name, column: pa.array([str(value) for value in column.to_pylist()]),
    "all floats": lambda name, column: column.cast(pa.float64()) if pa.types.is_integer(column.type) else column,
    "all lists": lambda name, column: pa.array([[value] for value in column.to_pylist()]),
    "no rows": lambda name, column: column.slice(0, 0),
}

DEEP = "[" * 200_000 + "]" * 200_000
NOT_JSON = {
    "empty": "",
    "deep": DEEP,
    "deep objects": '{"a":' * 100_000,
    "no object": "[1, 2]",
    "a number": "1e999",
    "null": "null",
    "cut": '{"schema": 1, "tab',
    "bytes": "\ufffd\x00",
}


def manifests(manifest: dict[str, Any]) -> dict[str, str]:
    """A manifest with one thing wrong in it."""
    found = dict(NOT_JSON)
    values: tuple[Any, ...] = (
        None, True, -1, 1.5, 1e300, 10**400, "x", TEXT, [], {}, [[]], {"": None}, {"2031-05-17.5": ["x"]}, {"": [1]},
        {"": ["../../../../etc/passwd"]}, {"": ["/dev/zero"]}, {"": ["runs/../../x"]}, {"9999-99-99": ["x"]}, {"": "x"},
        {"": ["x\x00y"]}, {"": [TEXT] * 3}, float("inf"), float("nan"),
    )  # fmt: skip
    for number, value in enumerate(values):
        for name in ("schema", "run", "made_ms", "history", "problems", "tables"):
            found[f"{name} {number}"] = json.dumps({**manifest, name: value})
        for table in ("queues", "rollup_1h", "episodes"):
            found[f"{table} {number}"] = json.dumps({**manifest, "tables": {**manifest["tables"], table: value}})
    for name in manifest:
        found[f"no {name}"] = json.dumps({key: value for key, value in manifest.items() if key != name})
    return found
