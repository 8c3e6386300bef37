"""Histories that are made up: in the recorder's layout, the same each time, and everything in them agrees."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.reading import History, RecordedSpan
from rsmq_tui.history.schema import MESSAGES, SCHEMAS
from rsmq_tui.history.synthetic import Generator, HistorySpec, Progress
from rsmq_tui.history.writer import RecordingSettings, Writer
from tests.history.made import DAY_MS, rows_of
from tests.killing import ROOT
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.slow

# The end of a day in which everything happens: an outage, a gap, a stall, growth, and a queue that is created anew.
UNTIL_MS = 20_562 * DAY_MS
HOUR_MS = 3_600_000
# One of each kind.
QUEUES = 9
EVERY_MS = 60_000


def wanted(days: float = 1, until_ms: int = UNTIL_MS, **options: Any) -> HistorySpec:
    usual: dict[str, Any] = {"queues": QUEUES, "every_ms": EVERY_MS, "messages_ms": HOUR_MS}
    return HistorySpec(until_ms - round(days * DAY_MS), until_ms, **(usual | options))


def generate(out: Path, *given: Any, **options: Any) -> Progress:
    return Generator(wanted(*given, **options), out, state=out).run()


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("day")
    generate(out, 1)
    return out


@pytest.fixture(scope="module")
def rows(day: Path) -> list[dict[str, Any]]:
    return rows_of(day)


def of_queues(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each row of a queue with the one before it, of the same recorder."""
    last: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["queue"] is not None:
            before = last.get(row["queue"])
            if before is not None and before["recorder"] == row["recorder"]:
                yield before, row
            last[row["queue"]] = row


def test_the_reader_of_histories_reads_it(day: Path) -> None:
    history = History(day, state=day)
    span = history.span()
    assert span is not None
    assert UNTIL_MS - DAY_MS <= span.from_ms < UNTIL_MS - DAY_MS + 2 * EVERY_MS
    assert UNTIL_MS - 2 * EVERY_MS <= span.to_ms < UNTIL_MS
    assert len(history.places()) == 1
    polls = list(history.polls(RecordedSpan(span.from_ms, span.from_ms + 6 * HOUR_MS)))

    assert history.problems == []
    assert {poll.rows.num_rows for poll in polls if poll.failure is None} == {QUEUES}
    assert polls[0].interval_ms is None
    assert all(before.at_ms < poll.at_ms for before, poll in pairwise(polls))


def test_its_files_are_those_of_a_recorder(day: Path) -> None:
    names = sorted((day / "samples").rglob("*.parquet"))
    file = pq.ParquetFile(names[len(names) // 2])

    assert json.loads((day / "_schema.json").read_text())["schema"] == 1
    assert file.schema_arrow.equals(SCHEMAS["samples"])
    assert {file.metadata.row_group(0).column(number).compression for number in range(26)} == {"ZSTD"}
    assert file.metadata.metadata[b"rsmq_schema"] == b"1"
    for name in names:
        recorder, number = name.stem.split("-")
        assert len(recorder) == 12
        assert len(number) == 6
        assert pq.read_table(name, columns=["recorder"]).column(0).unique().to_pylist() == [recorder]
    assert not (day / "_generating").exists()


def test_the_numbers_of_a_row_agree(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["queue"] is None:
            continue
        assert row["depth"] == row["ready"] + row["hidden"]
        assert min(row["ready"], row["hidden"], row["totalsent"], row["totalrecv"]) >= 0
        assert (row["oldest_ready_age_ms"] is None) == (row["ready"] == 0)
        assert row["created_ms"] < row["at_ms"]
        assert row["problems"] == []
        is_poison = row["poison"] > 0
        assert is_poison == (row["highest_rc"] >= 5)
        if row["verdict"] == "aged":
            assert row["oldest_ready_age_ms"] >= 600_000
        assert row["verdict"] in ("ok", "aged", "poisoned", "growing", "stalled")
        assert (row["since_ms"] is None) == (row["verdict"] == "ok")
        assert row["since_ms"] is None or row["since_ms"] <= row["at_ms"]
        assert (row["drain"] == "empty") == (row["ready"] == 0)
        assert (row["drain"] == "growing") == (row["verdict"] == "growing")


def test_counters_fall_only_where_a_queue_is_created_anew(rows: list[dict[str, Any]]) -> None:
    anew = set()
    for before, row in of_queues(rows):
        if row["created_ms"] != before["created_ms"]:
            anew.add(row["queue"])
            assert row["totalsent"] < before["totalsent"]
            continue
        assert row["totalsent"] >= before["totalsent"]
        assert row["totalrecv"] >= before["totalrecv"]
        # What left was there.
        assert row["totalsent"] - before["totalsent"] >= row["depth"] - before["depth"]
    assert anew == {"payments-0007"}


def test_something_of_everything_is_in_it(rows: list[dict[str, Any]]) -> None:
    verdicts = {row["verdict"] for row in rows}
    assert verdicts == {None, "ok", "aged", "poisoned", "growing", "stalled"}
    polls = [row for row in rows if row["queue"] is None]
    down = [row for row in polls if row["status"] == "down"]
    assert down
    assert {row["failure"] for row in down} == {"connection refused"}
    # Whoever recorded was away once: another run of it goes on.
    assert len({row["recorder"] for row in polls}) >= 2
    assert any(row["at_ms"] - before["at_ms"] > 15 * EVERY_MS for before, row in pairwise(polls))


def test_an_interval_is_the_time_since_the_row_before_or_unknown(rows: list[dict[str, Any]]) -> None:
    polls = [row for row in rows if row["queue"] is None]
    for before, row in pairwise(polls):
        is_known = before["recorder"] == row["recorder"] and before["status"] == row["status"] == "ok"
        assert row["interval_ms"] == (row["at_ms"] - before["at_ms"] if is_known else None)


def test_a_stall_is_seen_in_the_counters(rows: list[dict[str, Any]]) -> None:
    seen = 0
    for before, row in of_queues(rows):
        if before["verdict"] == row["verdict"] == "stalled" and row["queue"] == "emails-0001":
            assert row["totalrecv"] == before["totalrecv"]
            assert row["oldest_ready_age_ms"] > before["oldest_ready_age_ms"]
            seen += 1
    assert seen > 5


def test_messages_are_the_same_in_every_inventory(day: Path) -> None:
    seen: dict[str, dict[str, Any]] = {}
    ends, again = 0, 0
    for row in rows_of(day, MESSAGES):
        if row["id"] is None:
            ends += 1
            continue
        assert row["sent_ms"] <= row["at_ms"]
        assert (row["fr_ms"] is None) == (row["rc"] == 0)
        before = seen.setdefault(row["id"], row)
        again += before is not row
        assert (before["queue"], before["sent_ms"], before["size"]) == (row["queue"], row["sent_ms"], row["size"])
        assert before["rc"] <= row["rc"]
    # At 24 times of a day, but when the server was down or nobody was there.
    assert QUEUES * 20 <= ends <= QUEUES * 24
    assert again > 100


def test_an_inventory_holds_about_as_many_messages_as_the_poll_says(day: Path, rows: list[dict[str, Any]]) -> None:
    found: dict[tuple[str, int], int] = {}
    for row in rows_of(day, MESSAGES):
        if row["id"] is not None:
            found[row["queue"], row["inventory_ms"] // EVERY_MS] = (
                found.get((row["queue"], row["inventory_ms"] // EVERY_MS), 0) + 1
            )
    depths = {(row["queue"], row["at_ms"] // EVERY_MS): row["depth"] for row in rows if row["queue"] is not None}
    deep = {key: depth for key, depth in depths.items() if key in found and depth > 500}
    assert deep
    for key, depth in deep.items():
        assert abs(found[key] - depth) < 0.2 * depth


def test_the_same_options_make_the_same_files(tmp_path: Path) -> None:
    done = generate(tmp_path / "a", 0.125)
    generate(tmp_path / "b", 0.125)
    generate(tmp_path / "c", 0.125, seed=2)

    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a").keys() != contents(tmp_path / "c").keys()
    assert done.files == done.of == 18


def test_a_later_end_adds_to_what_is_there(tmp_path: Path) -> None:
    generate(tmp_path / "a", 0.125)
    before = contents(tmp_path / "a")
    more = generate(tmp_path / "a", 0.125 + 1 / 24, UNTIL_MS + HOUR_MS)
    generate(tmp_path / "b", 0.125 + 1 / 24, UNTIL_MS + HOUR_MS)

    assert before.items() <= contents(tmp_path / "a").items()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert (more.kept, more.of) == (18, 24)
    assert more.rows == 60 * (QUEUES + 1)


def test_what_was_stopped_goes_on(tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.files == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Generator(wanted(0.125), tmp_path / "a", state=tmp_path).run(stop)
    done = generate(tmp_path / "a", 0.125)
    generate(tmp_path / "b", 0.125)

    assert 5 <= done.kept < 18
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_another_history_is_left_alone(tmp_path: Path) -> None:
    recorded = Writer(str(tmp_path / "recorded"), tmp_path, RecordingSettings())
    recorded.open()
    recorded.close()
    with pytest.raises(HistoryError, match="contains a recorded history"):
        generate(tmp_path / "recorded")
    generate(tmp_path / "generated", 0.02)
    with pytest.raises(HistoryError, match="generated with other options"):
        generate(tmp_path / "generated", 0.02, seed=2)


def test_two_do_not_make_one_history_at_once(tmp_path: Path) -> None:
    def meanwhile(_: Progress) -> None:
        with pytest.raises(HistoryError, match="is already being generated"):
            generate(tmp_path / "a", 0.02)

    made = Generator(wanted(0.02), tmp_path / "a", state=tmp_path).run(meanwhile)
    assert made.files == made.of > 0
    assert not (tmp_path / "a" / "_generating").exists()


def test_inventories_may_come_more_often_than_files(tmp_path: Path) -> None:
    generate(tmp_path / "a", 0.02, messages_ms=120_000)
    begun = {row["inventory_ms"] // 120_000 for row in rows_of(tmp_path / "a", MESSAGES)}

    assert len(begun) == 10
    assert len(list((tmp_path / "a" / "messages").rglob("*.parquet"))) == 2


def test_the_command_can_be_stopped_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rsmq_tui", "pipeline", "generate", "--out", str(tmp_path / "h"), "--days", "0.5"]
    command += ["--queues", "60", "--every", "30s", "--until", "2026-05-17T12:00"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: list((tmp_path / "h" / "samples").rglob("*.parquet")))
        process.send_signal(signal.SIGINT)
        _, known = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, known) == (130, "rsmq-tui: stopped; the same command continues from here\n")

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "were there\n" in done.stderr
    span = History(tmp_path / "h", state=tmp_path).span()
    assert span is not None
    assert 1_779_019_200_000 - 30_000 <= span.to_ms < 1_779_019_200_000


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ("--days 0", "'0' is not a number of days from 0.01 to 10,000"),
        ("--queues 0", "'0' is not a number of queues from 1 to 100,000"),
        ("--until noon", "'noon' is not a time such as 2031-05-17 or 2031-05-17T12:00"),
        ("--every 5", "'5': a duration has a unit"),
        ("--seed -", "'-' is not a whole number from 0 to 999,999,999,999,999"),
    ],
)
def test_what_cannot_be_made_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: str, known: str
) -> None:
    from rsmq_tui.cli.main import main

    assert main(["pipeline", "generate", "--out", str(tmp_path), *arguments.split()]) == 2
    assert known in capsys.readouterr().err


def test_lists_are_a_place_of_their_own(tmp_path: Path) -> None:
    generate(tmp_path, 0.5, lists=4, messages_ms=None, every_ms=2 * EVERY_MS)
    found = rows_of(tmp_path)
    lists = [row for row in found if row["ns"] == "(lists)"]
    queues = [row for row in found if row["ns"] == "rsmq"]

    assert len(lists) - len(queues) == (4 - QUEUES) * len(
        [row for row in queues if row["queue"] is None and row["status"] == "ok"]
    )
    assert {row["kind"] for row in lists if row["queue"]} == {"list"}
    assert {row["queue"][:6] for row in lists if row["queue"]} == {"queue:"}
    assert {row["expired"] for row in lists if row["queue"]} == {0}
    for name in ("totalsent", "totalrecv", "oldest_ready_age_ms", "vt_s", "poison", "created_ms"):
        assert {row[name] for row in lists} == {None}
    assert {"ok", "growing"} <= {row["verdict"] for row in lists if row["queue"]} <= {"ok", "stalled", "growing"}
    assert {row["status"] for row in lists} == {"ok", "down"}
    assert all(row["depth"] == row["ready"] + row["hidden"] for row in lists if row["queue"])
    assert [place.ns for place in History(tmp_path, state=tmp_path).places()] == ["(lists)", "rsmq"]


def test_lists_change_nothing_of_the_queues_beside_them(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    generate(tmp_path, 0.25, lists=2, messages_ms=None)
    beside = [row for row in rows_of(tmp_path) if row["ns"] == "rsmq" and row["queue"] is not None]
    known = {(row["at_ms"], row["queue"]): row["verdict"] for row in rows}

    assert beside
    assert all(known[row["at_ms"], row["queue"]] == row["verdict"] for row in beside)
