"""The log of a Delta table, read as its specification says: the files that the manifest names, after every run."""

import json
import random
import re
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from rsmq_tui.history.analysis.schema import QUEUES, ROLLUP_1H, SCHEMAS, SOURCES
from rsmq_tui.history.analysis.tables import Manifest
from rsmq_tui.pipeline.delta import LOG, versions, write_logs
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.tables import names_in

DAYS = ("2031-05-14", "2031-05-15", "2031-05-16")


class Analysis:
    """An analysis whose runs write files without rows."""

    def __init__(self, folder: Path) -> None:
        self.out = Folder(str(folder), folder)
        self.folder = folder
        self.manifest: Manifest | None = None
        self._dice = random.Random(7)
        self._runs = 0

    def run(self) -> Manifest:
        """Publish a run that computed some of the days, without its logs."""
        self._runs += 1
        run = f"run-{self._runs:03}"
        before = self.manifest
        worked = self._dice.sample(DAYS, self._dice.randint(0, len(DAYS)))
        old = {} if before is None else before.tables.get(ROLLUP_1H, {})
        # Some files of a day that is computed again are kept.
        days = {day: (*self._kept(old.get(day, ())), self._file(ROLLUP_1H, run, day)) for day in worked}
        tables: dict[str, dict[str, tuple[str, ...]]] = {
            ROLLUP_1H: old | days,
            QUEUES: {"": (self._file(QUEUES, run),)},
        }
        manifest = Manifest(run, self._runs, "/history", tables=tables)
        replaced = tuple(sorted(names_in(before) - names_in(manifest)))
        manifest = Manifest(run, self._runs, "/history", tables=tables, replaced=replaced)
        self.manifest = Manifest(
            run, self._runs, "/history", tables=tables, replaced=replaced, versions=versions(manifest, before)
        )
        return self.manifest

    def log(self, manifest: Manifest) -> None:
        write_logs(self.out, manifest, self.folder / "scratch")

    def _kept(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return names[: self._dice.randint(0, min(2, len(names)))]

    def _file(self, table: str, run: str, day: str = "") -> str:
        name = f"tables/{table}/{run}/{day and f'day={day}/'}part-0.parquet"
        (self.folder / name).parent.mkdir(parents=True)
        (self.folder / name).write_bytes(b"x" * self._runs)
        return name


def replayed(folder: Path, table: str, *, from_checkpoint: bool = False) -> dict[str, dict[str, str]]:
    """The files of a table and their partition values, by its log alone."""
    top = folder / "tables" / table
    files: dict[str, dict[str, str]] = {}
    sizes: dict[str, int] = {}
    first = 0
    if from_checkpoint:
        first = json.loads((top / LOG / "_last_checkpoint").read_text())["version"] + 1
        rows = pq.read_table(top / LOG / f"{first - 1:020}.checkpoint.parquet").to_pylist()
        assert sum(row["protocol"] is not None for row in rows) == sum(row["metaData"] is not None for row in rows) == 1
        files = {unquote(row["add"]["path"]): dict(row["add"]["partitionValues"]) for row in rows if row["add"]}
        sizes = {unquote(row["add"]["path"]): row["add"]["size"] for row in rows if row["add"]}
    commits = sorted(path for path in (top / LOG).glob("*.json") if int(path.stem) >= first)
    assert [int(path.stem) for path in commits] == list(range(first, first + len(commits)))
    for path in commits:
        for line in map(json.loads, path.read_text().splitlines()):
            if "remove" in line:
                del files[unquote(line["remove"]["path"])]
            if "add" in line:
                name = unquote(line["add"]["path"])
                assert name not in files
                files[name] = line["add"]["partitionValues"]
                sizes[name] = line["add"]["size"]
    assert {name: (top / name).stat().st_size for name in files} == {name: sizes[name] for name in files}
    return files


def expected(manifest: Manifest, table: str) -> dict[str, dict[str, str]]:
    return {
        name.removeprefix(f"tables/{table}/"): {"day": day} if day else {}
        for day, names in manifest.tables.get(table, {}).items()
        for name in names
    }


def test_the_log_of_each_table_says_what_the_manifest_says(tmp_path: Path) -> None:
    analysis = Analysis(tmp_path)
    for number in range(35):
        before = analysis.manifest
        manifest = analysis.run()
        if number % 3 and before is not None:
            # The run before was killed before it wrote its log, or in the midst of that.
            analysis.log(before)
        if number % 3 != 1:
            analysis.log(manifest)
            for table in (ROLLUP_1H, QUEUES, SOURCES):
                is_long = (tmp_path / "tables" / table / LOG / "_last_checkpoint").exists()
                found = replayed(tmp_path, table, from_checkpoint=is_long)
                assert found == expected(manifest, table)
    assert (tmp_path / "tables" / QUEUES / LOG / "_last_checkpoint").exists()
    # Not many commits are kept.
    assert len(list((tmp_path / "tables" / QUEUES / LOG).iterdir())) < 30


def test_a_table_that_has_not_changed_has_no_new_commit(tmp_path: Path) -> None:
    analysis = Analysis(tmp_path)
    analysis.log(analysis.run())
    analysis.log(analysis.run())
    log = tmp_path / "tables" / SOURCES / LOG
    assert [path.name for path in log.iterdir()] == [f"{0:020}.json"]


# https://github.com/delta-io/delta/blob/master/PROTOCOL.md: the fields of each action that a reader needs, and types
# of columns.
_REQUIRED: dict[str, dict[str, type]] = {
    "protocol": {"minReaderVersion": int, "minWriterVersion": int},
    "metaData": {"id": str, "format": dict, "schemaString": str, "partitionColumns": list, "configuration": dict},
    "add": {"path": str, "partitionValues": dict, "size": int, "modificationTime": int, "dataChange": bool},
    "remove": {"path": str, "deletionTimestamp": int, "dataChange": bool},
}
_PRIMITIVE = {"string", "long", "double", "boolean", "binary", "date"}


def test_the_log_keeps_the_rules_of_the_protocol(tmp_path: Path) -> None:
    analysis = Analysis(tmp_path)
    for _ in range(25):
        analysis.log(analysis.run())
    for log in (tmp_path / "tables").glob(f"*/{LOG}"):
        ids = set()
        for path in sorted(log.glob("*.json")):
            assert re.fullmatch(r"[0-9]{20}\.json", path.name)
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            assert {len(action) for action in actions} == {1}
            for kind, fields in (item for action in actions for item in action.items()):
                assert {name: type(fields[name]) for name in _REQUIRED[kind]} == _REQUIRED[kind]
            found = {kind: [action[kind] for action in actions if kind in action] for kind in _REQUIRED}
            # The first commit has both, and no version is higher than what every reader can read.
            assert len(found["protocol"]) == (path.stem == f"{0:020}")
            for protocol in found["protocol"]:
                assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
            (metadata,) = found["metaData"]
            assert metadata["format"] == {"provider": "parquet", "options": {}}
            ids.add(metadata["id"])
            _check_schema(json.loads(metadata["schemaString"]), metadata["partitionColumns"], log.parent.name)
            paths = [file["path"] for kind in ("add", "remove") for file in found[kind]]
            # One action for each file; a relative path, as a URI, inside of the table.
            assert len(paths) == len(set(paths))
            assert not any(path.startswith("/") or ".." in path or ":" in path for path in paths)
            for file in found["add"]:
                assert set(file["partitionValues"]) == set(metadata["partitionColumns"])
                assert all(date.fromisoformat(day).isoformat() == day for day in file["partitionValues"].values())
        assert len(ids) == 1
        if (log / "_last_checkpoint").exists():
            output = json.loads((log / "_last_checkpoint").read_text())
            rows = pq.read_table(log / f"{output['version']:020}.checkpoint.parquet").to_pylist()
            assert output["size"] == len(rows)
            assert {sum(value is not None for value in row.values()) for row in rows} == {1}


def _check_schema(schema: dict[str, Any], days: list[str], table: str) -> None:
    assert schema["type"] == "struct"
    for field in schema["fields"]:
        assert set(field) == {"name", "type", "nullable", "metadata"}
        kind = field["type"]
        assert kind in _PRIMITIVE if isinstance(kind, str) else kind["elementType"] in _PRIMITIVE
    # The columns of the files, and of the folders that Spark made of days.
    assert [field["name"] for field in schema["fields"]] == [*SCHEMAS[table].names, *days]
