"""The tables of an analysis as Delta tables: a log over the files that are there, which Spark, Trino and others read.

The folder ``tables/<table>`` of each table is a Delta table. Its log is written after a run is published, and follows
from the manifest alone: ``versions`` has the version of each table, and the commit of the last one adds the files that
its run wrote, and removes those that it replaced. So a log that a killed run did not write is written by the next run.
Each tenth commit is followed by a checkpoint, which names all files; older commits are then removed.

Delta and not Iceberg: its log is plain JSON with relative paths, so the folder can be moved, and needs no library.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pyarrow as pa
import pyarrow.parquet as pq

from rsmq_tui.history.analysis.schema import COLUMNS, FILES, SCHEMAS
from rsmq_tui.history.analysis.tables import WHOLE_KEY, Manifest
from rsmq_tui.pipeline.folder import Folder, as_uri
from rsmq_tui.pipeline.tables import is_by_day, run_of, table_of

LOG = "_delta_log"
_CHECKPOINT_EVERY = 10
_TYPES = {"string": "string", "int64": "long", "double": "double", "bool": "boolean", "binary": "binary"}
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
    ]
)
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_CHECKPOINT = pa.schema(
    [
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", pa.map_(pa.string(), pa.string())),
                ]
            ),
        ),
        ("add", _ADD),
    ]
)


def versions(manifest: Manifest, before: Manifest | None) -> dict[str, int]:
    """Return the version of each table of a manifest: one more than before if its files or its schema have changed."""
    earlier = {} if before is None else before.versions
    found = {}
    for table in COLUMNS:
        is_same = before is not None and before.tables.get(table, {}) == manifest.tables.get(table, {})
        is_new = table not in earlier or not is_same or before is None or before.schema != manifest.schema
        found[table] = earlier.get(table, -1) + is_new
    return found


def write_logs(out: Folder, manifest: Manifest, scratch: Path) -> None:
    """Write the commits of a manifest that are not there yet; ``scratch`` is a path for a temporary file."""
    for table, version in manifest.versions.items():
        log = f"{FILES}/{table}/{LOG}"
        if out.store.has(f"{log}/{version:020}.json"):
            continue
        # A later version of this program may have more columns.
        lines: list[dict[str, Any]] = [{"metaData": _metadata(manifest, table)}]
        added = _files(manifest, table)
        if version == 0:
            lines.append({"protocol": _PROTOCOL})
        else:
            added = {name: day for name, day in added.items() if run_of(name) == manifest.run}
            at = {"deletionTimestamp": manifest.made_ms, "dataChange": True}
            removed = (name for name in manifest.replaced if table_of(name) == table)
            lines += [{"remove": {"path": _path(name, table), **at}} for name in removed]
        lines += [{"add": add} for add in _adds(out, manifest, table, added)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        out.store.write(f"{log}/{version:020}.json", text, scratch)
        if version and version % _CHECKPOINT_EVERY == 0:
            _write_checkpoint(out, manifest, table, version, scratch)


def _write_checkpoint(out: Folder, manifest: Manifest, table: str, version: int, scratch: Path) -> None:
    """Write all files of a table at a version, and remove the commits that are no longer needed."""
    log = f"{FILES}/{table}/{LOG}"
    metadata = _metadata(manifest, table)
    maps = {"format": {"provider": "parquet", "options": []}, "configuration": []}
    rows: list[dict[str, Any]] = [{"protocol": _PROTOCOL}, {"metaData": metadata | maps}]
    adds = _adds(out, manifest, table, _files(manifest, table))
    rows += [{"add": add | {"partitionValues": list(add["partitionValues"].items())}} for add in adds]
    with out.create(f"{log}/{version:020}.checkpoint.parquet") as opened:
        pq.write_table(pa.Table.from_pylist(rows, _CHECKPOINT), opened)
    out.sync(f"{log}/{version:020}.checkpoint.parquet")
    checkpoint = {"version": version, "size": len(rows)}
    out.store.write(f"{log}/_last_checkpoint", json.dumps(checkpoint) + "\n", scratch)
    # Readers that began before this checkpoint still find the commits since the one before it.
    oldest = f"{version - _CHECKPOINT_EVERY:020}"
    out.remove(*(name for name in out.files(log) if name.rpartition("/")[2][:20] < oldest))


def _files(manifest: Manifest, table: str) -> dict[str, str]:
    """Return the files of a table with their days."""
    return {name: day for day, names in manifest.tables.get(table, {}).items() for name in names}


def _adds(out: Folder, manifest: Manifest, table: str, files: dict[str, str]) -> Iterable[dict[str, Any]]:
    for name, day in files.items():
        yield {
            "path": _path(name, table),
            "partitionValues": {} if day == WHOLE_KEY else {"day": day},
            "size": out.size(name),
            "modificationTime": manifest.made_ms,
            "dataChange": True,
        }


def _path(name: str, table: str) -> str:
    """Return the path of a file from the folder of its table; older files are elsewhere in the analysis."""
    inside = name.removeprefix(f"{FILES}/{table}/")
    return as_uri(inside if inside != name else f"../../{name}")


def _metadata(manifest: Manifest, table: str) -> dict[str, Any]:
    fields = [{"name": field.name, "type": _type(field.type)} for field in SCHEMAS[table]]
    if is_by_day(table):
        fields.append({"name": "day", "type": "date"})
    schema = {"type": "struct", "fields": [field | {"nullable": True, "metadata": {}} for field in fields]}
    return {
        "id": str(uuid5(NAMESPACE_URL, f"{manifest.history}#{table}")),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": ["day"] if is_by_day(table) else [],
        "configuration": {},
    }


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _TYPES[str(kind.value_type)], "containsNull": True}
    return _TYPES[str(kind)]
