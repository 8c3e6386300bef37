"""`rsmq-tui sql`: what a query finds is what the manifest names."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rsmq_tui
from rsmq_tui.cli.commands import recorded
from rsmq_tui.history.analysis.sql import Database
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from tests.cli.conftest import Command
from tests.history.analysis.made import bucket, scripted
from tests.history.analysis.queues import END_MS, ORDERS

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
    anywhere: Command, analysis_folder: Path
) -> None:
    query = "select max(last_depth) as depth, (select count(*) from places) as n, any_value(kind) from rollup_1h"
    done = anywhere("sql", query, "--analysis", str(analysis_folder))
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


def test_rows_beyond_the_limit_are_said(anywhere: Command, analysis_folder: Path) -> None:
    done = anywhere("sql", "select queue from queues", "--analysis", str(analysis_folder), "--limit", "2")
    assert len(rows_of(done.out)) == 2
    assert done.err == "rsmq-tui: only the first 2 rows: --limit prints more\n"


def test_a_query_that_fails_is_said_in_a_line(anywhere: Command, analysis_folder: Path, tmp_path: Path) -> None:
    done = anywhere("sql", "select nothing from queues", "--analysis", str(analysis_folder))
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith("rsmq-tui: Binder Error: ")
    assert anywhere("sql", "select 1", "--analysis", str(tmp_path / "nowhere")).status == 2
    assert (
        anywhere("sql", "select 1/0 as x, error('a\x1bb')", "--analysis", str(analysis_folder)).err.count("\x1b") == 0
    )


def test_the_samples_of_the_history_are_there_too(anywhere: Command, analysis_folder: Path, tmp_path: Path) -> None:
    history = tmp_path / "history"
    size = ("--days", "1", "--queues", "2", "--list-queues", "0", "--every", "1m")
    assert anywhere("pipeline", "generate", "--out", str(history), *size).status == 0
    query = "select count(*) > 1000 as many, count(distinct queue) as queues from samples"
    done = anywhere("sql", query, "--analysis", str(analysis_folder), "--history", str(history))
    assert rows_of(done.out) == [{"many": True, "queues": 2}]


def test_the_recipes_of_the_documentation_find_what_they_say(analysis_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "history" / "samples" / "day=2031-05-17"
    folder.mkdir(parents=True)
    # Polled twice, then down for a minute; the other queue was created again meanwhile.
    rows = [
        {"at_ms": END_MS + at_ms, "queue": queue, "created_ms": created_ms, "totalsent": sent, "server": "db1"}
        for at_ms, queue, created_ms, sent in (
            *(
                (0, "orders", 1, 100),
                (5_000, "orders", 1, 110),
                (65_000, "orders", 1, 124),
                (65_000, "queue:a", 1, None),
            ),
            *((0, "mail", 1, 50), (5_000, "mail", 1, 53), (65_000, "mail", 2, 70), (70_000, "mail", 2, 71)),
        )
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMAS[SAMPLES]), folder / "r1-000001.parquet")
    text = (Path(rsmq_tui.__file__).parent / "docs" / "sql.md").read_text()
    recipes = text.split("## Recipes")[1].split("```")[1].removeprefix("sql\n").split(";\n")
    database = Database(str(analysis_folder), str(tmp_path / "history"), tmp_path)

    found = {}
    for recipe in filter(str.strip, recipes):
        title, query = recipe.strip().split("\n", 1)
        columns, answers = database.query(query)
        found[title] = [dict(zip(columns, row, strict=True)) for row in answers]

    (sent,) = (rows for title, rows in found.items() if title.startswith("-- Messages sent since the first poll"))
    assert [(row["queue"], row["sent"]) for row in sent] == [("orders", 24), ("mail", 3), ("mail", 1)]
    assert len(found) == 6


def test_a_package_that_is_missing_is_named_by_its_extra(
    anywhere: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = importlib.util.find_spec
    monkeypatch.setattr(recorded, "find_spec", lambda name: None if name == "duckdb" else honest(name))
    done = anywhere("sql", "select 1", "--analysis", str(tmp_path))
    assert done.status == 2
    assert done.err == "rsmq-tui: sql needs the packages of the extra `sql`: pip install 'rsmq-tui[sql]'\n"


def test_the_queries_of_the_dashboard_find_what_its_panels_show(
    anywhere: Command, analysis_folder: Path, tmp_path: Path
) -> None:
    board = json.loads(anywhere("sql", "--print-dashboard").out)
    variables = {one["name"]: one for one in board["templating"]["list"]}
    queries = {panel["title"]: panel["targets"][0] for panel in board["panels"]}
    assert len(queries) == len(board["panels"]) == 14
    database = Database(str(analysis_folder), None, tmp_path)

    def asked(query: str, days: int = 1) -> list[dict[str, object]]:
        # As Grafana does; DuckDB's extension that reads Delta tables is not there for tests.
        values = {"${__to}": str(END_MS), "${__from}": str(END_MS - days * 24 * HOUR_MS)}
        values |= {f"${{{name}:sqlstring}}": ", ".join(map(repr, chosen)) for name, chosen in chose.items()}
        for name, value in values.items():
            query = query.replace(name, value)
        query = re.sub(r"delta_scan\('\$\{analysis\}/tables/(\w+)'\)", r"\1", query)
        assert "$" not in query
        columns, rows = database.query(query)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    chose: dict[str, list[object]] = {}
    for name in ("server", "ns", "queue"):
        assert variables[name]["definition"] == variables[name]["query"]
        chose[name] = [row[name] for row in asked(variables[name]["query"])]
    assert chose["queue"] == ["emails", "invoices", "orders", "webhooks"]
    for days, buckets in ((1, 24 * 60), (4, 4 * 24)):
        lines = asked(queries["Depth"]["rawSql"], days)
        assert (set(lines[0]), queries["Depth"]["format"]) == ({"time", "metric", "value"}, 0)
        assert len([row for row in lines if row["metric"] == "jobs:webhooks"]) == buckets
    for title in ("Age of the first ready message", "Sent", "Deleted", "Forecasts", "Visibility timeouts"):
        assert asked(queries[title]["rawSql"]), title
    assert {row["queue"] for row in asked(queries["Unusual hours"]["rawSql"])} == {"orders"}
    found = [asked(queries[title]["rawSql"]) for title in ("Incidents", "Poison messages", "Last run")]
    assert found == [[{"incidents": 0}], [{"messages": 2}], [{"run": None}]]
    assert all(
        next(iter(asked(queries[title]["rawSql"])[0].values())) for title in ("Messages sent", "Oldest ready message")
    )
    # These tables are empty.
    assert asked(queries["Causes"]["rawSql"]) == asked(queries["Runs"]["rawSql"]) == []
    chose["queue"] = ["orders"]
    assert {row["metric"] for row in asked(queries["Depth"]["rawSql"])} == {"rsmq:orders"}


def test_no_query_is_a_usage_error(anywhere: Command) -> None:
    done = anywhere("sql")
    assert (done.status, "no query given" in done.err) == (2, True)
