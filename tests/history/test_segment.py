"""Segments: whatever is cut off, the batches before it are there, and a failed write leaves no trace."""

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rsmq_tui.history.writer import Segment, read_segment

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def batch(number: int, rows: int = 40) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number] * rows), pa.array([f"{number}"] * rows)], schema=SCHEMA)


def numbers(path: Path) -> list[int]:
    table = read_segment(path)
    return [] if table is None else sorted(set(table.column("n").to_pylist()))


def test_every_whole_batch_of_a_segment_that_is_cut_off_anywhere(tmp_path: Path) -> None:
    segment = Segment(tmp_path / "a", "samples", "day", SCHEMA)
    ends = [segment.path.stat().st_size]
    for number in range(3):
        segment.append(batch(number))
        ends.append(segment.path.stat().st_size)
    segment.sync()
    segment.close()
    whole = segment.path.read_bytes()
    cut = tmp_path / "cut"
    for length in range(0, len(whole) + 1, 7):
        cut.write_bytes(whole[:length])
        assert numbers(cut) == list(range(sum(end <= length for end in ends[1:])))
    assert len(ends) == 4


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 64, bytes(range(256)) * 8])
def test_what_a_crash_of_the_machine_leaves_behind_the_last_batch(tmp_path: Path, tail: bytes) -> None:
    segment = Segment(tmp_path / "a", "samples", "day", SCHEMA)
    segment.append(batch(0))
    segment.close()
    with segment.path.open("ab") as file:
        file.write(tail)

    assert numbers(segment.path) == [0]


@pytest.mark.parametrize("written", [0, 1, 100])
def test_a_write_that_fails_half_way_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    segment = Segment(tmp_path / "a", "samples", "day", SCHEMA)
    segment.append(batch(0))
    write, calls = os.write, []

    def fail(fd: int, data: Any) -> int:
        calls.append(fd)
        if len(calls) == 1 and written:
            return write(fd, bytes(data[:written]))
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        with pytest.raises(OSError, match="No space"):
            segment.append(batch(1))
    assert not segment.is_torn
    assert numbers(segment.path) == [0]
    segment.append(batch(2))
    segment.close()

    assert numbers(segment.path) == [0, 2]


def test_a_half_batch_that_cannot_be_taken_back_is_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = Segment(tmp_path / "a", "samples", "day", SCHEMA)
    segment.append(batch(0))

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        patched.setattr(os, "ftruncate", fail)
        with pytest.raises(OSError, match="Input"):
            segment.append(batch(1))
    segment.close()

    assert segment.is_torn
    assert numbers(segment.path) == [0]


def test_a_disk_that_cannot_be_read_is_not_taken_for_the_end(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        read_segment(tmp_path)


def test_no_segment_without_a_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space"):
        Segment(tmp_path / "a", "samples", "day", SCHEMA)
    assert list(tmp_path.iterdir()) == []
