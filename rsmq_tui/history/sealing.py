"""Sealing: the rows of a segment, sorted by queue and then by time, as one small Parquet file."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rsmq_tui.history.place import Place
from rsmq_tui.history.schema import PLACES_KEY, VERSION, VERSION_KEY

_ROW_GROUP = 131_072
_SORTED_BY = ("profile", "server", "ns", "queue")
# What grows from row to row is small as differences; few values are small as a dictionary's.
_AS_DIFFERENCES = ("oldest_ready_age_ms", "totalsent", "totalrecv", "sent_ms", "due_ms", "fr_ms")
# Neither helps with these: they are all different.
_AS_THEY_ARE = ("id", "body")
_LEVEL = 6


def write_sealed(table: pa.Table, path: Path) -> None:
    """Write a segment's rows, and let them reach the disk; raises ``OSError``."""
    table = _sorted(table)
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
        places = sorted(places_in(table))
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
    """Return the rows place by place, queue by queue; those of one stay in the order in which they were written."""
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        # As a dictionary, text is sorted and written in a fraction of the time.
        is_text = pa.types.is_string(column.type) and name not in _AS_THEY_ARE
        columns[name] = column.dictionary_encode() if is_text else column
    key = None
    for name in _SORTED_BY:
        column = columns[name]
        # From 1 on, and 0 for a null.
        order = pc.rank(column.dictionary, tiebreaker="first").cast(pa.int64())
        ranks = pc.fill_null(order.take(column.indices), 0)
        key = ranks if key is None else pc.add(pc.multiply(key, len(column.dictionary) + 1), ranks)
    return pa.table(columns).take(pc.sort_indices(key))


def _leaf(field: pa.Field) -> str:
    """Return the name by which Parquet knows the values of a column."""
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else str(field.name)
