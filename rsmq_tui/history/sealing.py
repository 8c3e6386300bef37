"""Sealing: the rows of a segment, queue by queue, as one small Parquet file.

Counters and depths are stored as differences from row to row: a few bits each, but for the step from one queue to the
next. The width of 32 differences is that of the widest, counted from the least of 128: a long way up widens 32 of them,
a long way down 128. So queues come in the order of their counters, the least first, and the rows of each from its last
to its first: every step between two queues is a short way up. That is a fifth to a third of a file's size.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rsmq_tui.history.place import Place
from rsmq_tui.history.schema import PLACES_KEY, VERSION, VERSION_KEY

_ROW_GROUP = 131_072
_PLACE, _QUEUE, _COUNTER = ("profile", "server", "ns"), "queue", "totalsent"
# What is near the row before is small as differences; few values are small as a dictionary's.
_AS_DIFFERENCES = (
    *("depth", "ready", "hidden", "oldest_ready_age_ms", "totalsent", "totalrecv", "expired"),
    *("oldest_ready_waiting_ms", "since_ms", "idle_since_ms", "pending_since_ms", "pending_until_ms", "looked_all_ms"),
    *("sent_ms", "due_ms", "fr_ms"),
)
# Neither helps with these: they are all different.
_AS_THEY_ARE = ("id", "body")
_LEVEL = 6


def write_sealed(table: pa.Table, path: Path) -> None:
    """Write a segment's rows, and let them reach the disk; raises ``OSError``."""
    write_sorted(_sorted(table), path, sorted(places_in(table)))


def write_sorted(table: pa.Table, path: Path, places: Sequence[Place]) -> None:
    """Write rows that lie as ``write_sealed`` would put them, text as dictionaries or not; raises ``OSError``."""
    differences = {name: "DELTA_BINARY_PACKED" for name in _AS_DIFFERENCES if name in table.column_names}
    left_alone = {*differences, *_AS_THEY_ARE}
    with pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=[_leaf(field) for field in table.schema if field.name not in left_alone],
        column_encoding=differences,
        # The types are plain ones; what a reader makes of dictionaries is up to it.
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=_ROW_GROUP)
        writer.add_key_value_metadata({VERSION_KEY: str(VERSION), PLACES_KEY: json.dumps(places)})
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def places_in(table: pa.Table) -> list[Place]:
    """Return the places that a table has rows of, names as they are stored."""
    found = table.select(["profile", "server", "ns"]).group_by(["profile", "server", "ns"]).aggregate([])
    return [Place(*row.values()) for row in found.to_pylist()]


def _sorted(table: pa.Table) -> pa.Table:
    """Return the rows place by place, queue by queue."""
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        # As a dictionary, text is sorted and written in a fraction of the time.
        is_text = pa.types.is_string(column.type) and name not in _AS_THEY_ARE
        columns[name] = column.dictionary_encode() if is_text else column
    key = None
    for name in (*_PLACE, _QUEUE):
        column = columns[name]
        # From 1 on, and 0 for a null.
        order = pc.rank(column.dictionary, tiebreaker="first").cast(pa.int64())
        ranks = pc.fill_null(order.take(column.indices), 0)
        key = ranks if key is None else pc.add(pc.multiply(key, len(column.dictionary) + 1), ranks)
    rows = pa.table(columns)
    if _COUNTER not in rows.column_names:
        # Messages stay in the order in which they were read.
        return rows.take(pc.sort_indices(key))
    return rows.take(_by_counter(key, len(columns[_QUEUE].dictionary) + 1, columns[_COUNTER]))


def _by_counter(key: pa.Array, queues: int, counter: pa.Array) -> pa.Array:
    """Return the order of rows, the last first, by place and then by counter; ``key`` holds place and queue."""
    found = pa.table({"key": key, "counter": counter}).group_by("key").aggregate([("counter", "min")])
    place = pc.divide(found.column("key"), queues)
    # Lists count nothing, and polls either; ties are as the names are.
    order = found.append_column("place", place).sort_by(
        [("place", "ascending"), ("counter_min", "ascending"), ("key", "ascending")]
    )
    ranks = pc.index_in(key, value_set=order.column("key").combine_chunks()).cast(pa.int64())
    last = len(key) - 1
    from_last = pc.subtract(last, pc.indices_nonzero(pa.repeat(True, len(key))).cast(pa.int64()))
    return pc.sort_indices(pc.add(pc.multiply(ranks, len(key)), from_last))


def _leaf(field: pa.Field) -> str:
    """Return the name by which Parquet knows the values of a column."""
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else str(field.name)
