"""`rsmq-tui sql`: what a query finds is what the manifest names."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from rsmq_tui.cli.commands import recorded
from tests.cli.conftest import Command
from tests.history.analysis.made import END_MS, ORDERS, bucket, scripted

HOUR_MS = 3_600_000


def rows_of(text: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_query_sees_the_files_of_the_manifest_and_no_others(anywhere: Command, tmp_path: Path) -> None:
    made = scripted(tmp_path / "out")
    expected = sum(part.num_rows for parts in made.rows["rollup_1h"].values() for part in parts)
    name = next((tmp_path / "out").rglob("rollup_1h/*/*.parquet"))
    # Of a run that was killed.
    shutil.copy(name, name.with_name("part-1.parquet"))
    done = anywhere(
        "sql",
        "select count(*) as rows, count(distinct day) as days, utc(min(bucket_ms)) as first from rollup_1h",
        "--analysis",
        str(tmp_path / "out"),
    )

    assert (done.status, done.err) == (0, "")
    assert rows_of(done.out) == [{"rows": expected, "days": 4, "first": "2031-05-14 00:00:00"}]


def test_columns_that_older_files_lack_are_null_and_tables_that_are_not_there_are_empty(
    anywhere: Command, tmp_path: Path
) -> None:
    scripted(tmp_path)
    query = "select max(last_depth) as depth, (select count(*) from places) as n, any_value(kind) from rollup_1h"
    done = anywhere("sql", query, "--analysis", str(tmp_path))
    assert rows_of(done.out) == [{"depth": None, "n": 0, "any_value(kind)": "rsmq"}]


def test_values_are_text_that_a_terminal_and_json_can_have(anywhere: Command, tmp_path: Path) -> None:
    made = scripted(tmp_path)
    hostile = bucket(ORDERS, END_MS, HOUR_MS, depth=3.0) | {"queue": "a\x1b[31mb"}
    made.add("rollup_1h", hostile)
    made.publish("run-2")
    query = (
        r"select queue, '\x00\xFF'::blob as b, 'nan'::double as x, [1, 2] as l from rollup_1h where queue like 'a%b'"
    )
    done = anywhere("sql", query, "--analysis", str(tmp_path))
    assert rows_of(done.out) == [{"queue": "a\x1b[31mb", "b": "00ff", "x": None, "l": [1, 2]}]
    assert b"\x1b" not in done.out


def test_rows_beyond_the_limit_are_said(anywhere: Command, tmp_path: Path) -> None:
    scripted(tmp_path)
    done = anywhere("sql", "select queue from queues", "--analysis", str(tmp_path), "--limit", "2")
    assert len(rows_of(done.out)) == 2
    assert done.err == "rsmq-tui: only the first 2 rows: --limit prints more\n"


def test_a_query_that_fails_is_said_in_a_line(anywhere: Command, tmp_path: Path) -> None:
    scripted(tmp_path)
    done = anywhere("sql", "select nothing from queues", "--analysis", str(tmp_path))
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith("rsmq-tui: Binder Error: ")
    assert anywhere("sql", "select 1", "--analysis", str(tmp_path / "nowhere")).status == 2
    assert anywhere("sql", "select 1/0 as x, error('a\x1bb')", "--analysis", str(tmp_path)).err.count("\x1b") == 0


def test_the_samples_of_the_history_are_there_too(anywhere: Command, tmp_path: Path) -> None:
    scripted(tmp_path)
    history = tmp_path / "history"
    size = ("--days", "1", "--queues", "2", "--list-queues", "0", "--every", "1m")
    assert anywhere("pipeline", "generate", "--out", str(history), *size).status == 0
    query = "select count(*) > 1000 as many, count(distinct queue) as queues from samples"
    done = anywhere("sql", query, "--analysis", str(tmp_path), "--history", str(history))
    assert rows_of(done.out) == [{"many": True, "queues": 2}]


def test_a_package_that_is_missing_is_named_by_its_extra(
    anywhere: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = importlib.util.find_spec
    monkeypatch.setattr(recorded, "find_spec", lambda name: None if name == "duckdb" else honest(name))
    done = anywhere("sql", "select 1", "--analysis", str(tmp_path))
    assert done.status == 2
    assert done.err == "rsmq-tui: sql needs the packages of the extra `sql`: pip install 'rsmq-tui[sql]'\n"
