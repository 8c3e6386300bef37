"""A segment: a file to which rows are appended, as an Arrow stream. Its last batch may be torn, no other ever is."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

SUFFIX = ".arrows"
# A batch is small: to hand its columns out to threads takes longer than to compress them.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
# What ends a stream; ours have no end until they are sealed.
_END_BYTES = 8


class Segment:
    """A new segment, open for appending; ``table`` and ``day`` tell what is in it. Raises ``OSError``."""

    def __init__(self, path: Path, table: str, day: str, schema: pa.Schema) -> None:
        self.path = path
        self.table, self.day = table, day
        self.rows = self.bytes = 0
        self._header = bytes(schema.serialize())
        self._end = 0
        self._is_dirty = False
        # Set when the file ends in half a batch that could not be taken away: nothing may follow it.
        self.is_torn = False
        self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
        try:
            self._write(self._header)
        except OSError:
            self.close()
            with suppress(OSError):
                path.unlink()
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Write rows at the end, all or none of them; raises ``OSError``."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as stream:
            stream.write_batch(batch)
        self._write(memoryview(sink.getvalue())[len(self._header) : -_END_BYTES])
        self.rows += batch.num_rows
        self.bytes += batch.nbytes

    @property
    def file_bytes(self) -> int:
        """How long the file is; ``bytes`` is what its rows take in memory."""
        return self._end

    def sync(self) -> None:
        """Let what was appended reach the disk; raises ``OSError``."""
        if self._is_dirty:
            os.fsync(self._fd)
            self._is_dirty = False

    def close(self) -> None:
        """Close the file; it stays where it is."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write(self, data: Any) -> None:
        left = memoryview(data)
        self._is_dirty = True
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            self._take_back()
            raise
        self._end += len(data)

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._fd, self._end)
            os.lseek(self._fd, self._end, os.SEEK_SET)
        except OSError:
            self.is_torn = True


def read_segment(path: Path) -> pa.Table | None:
    """Return the rows of a segment up to its last whole batch, or None where there are none; raises ``OSError``."""
    # Read first: that the disk fails is no reason to take what cannot be read for the end.
    data = path.read_bytes()
    batches: list[pa.RecordBatch] = []
    try:
        reader = pa.ipc.open_stream(data)
        while True:
            batches.append(reader.read_next_batch())
    except StopIteration:
        pass
    except (pa.ArrowException, OSError):
        # Whoever wrote it was stopped in the middle of this batch.
        pass
    return pa.Table.from_batches(batches) if batches else None
