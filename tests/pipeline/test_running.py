"""Runs of the pipeline: what is new is worked, and comes to the same as one run over everything."""

import json
import os
import shutil
from collections.abc import Collection
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rsmq_tui.history.analysis.schema import LIFECYCLE, ROLLUP_1H, RUNS, SOURCES
from rsmq_tui.history.moments import HOUR_MS
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.history.store import FolderStore, SealedFile
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.run import alone
from rsmq_tui.pipeline.state import PipelineError
from rsmq_tui.pipeline.tables import names_in
from tests.history.made import DAY_MS, NOON_MS
from tests.pipeline.running import DAY, DAY_AFTER, DAY_BEFORE, MIDNIGHT_MS, Desk, read_tables, without
from tests.pipeline.test_delta import expected, replayed

STEPS = ("planned", "days written", "written", "published", "logged", "old files removed")
PUBLISHED = STEPS.index("published")


def test_runs_come_to_the_same_as_one_run_over_everything(desk: Desk, tmp_path: Path) -> None:
    first = desk.record(NOON_MS, NOON_MS + 5_000)
    assert desk.run().days == {"samples": (DAY,), "messages": ()}
    # The next day, and the recorder was started anew; then a poll of the first evening that comes late.
    desk.record(MIDNIGHT_MS + DAY_MS + 1_000, queues=3)
    desk.inventory(DAY_AFTER, MIDNIGHT_MS + DAY_MS + 2_000, "a")
    assert desk.run().days == {"samples": (DAY_AFTER,), "messages": (DAY_AFTER,)}
    desk.record(MIDNIGHT_MS + DAY_MS - 60_000)
    assert desk.run().days == {"samples": (DAY, DAY_AFTER), "messages": ()}
    # Out of order, the same rows once more, and other versions of the schema.
    older, newer = desk.record(NOON_MS - 10_000), desk.record(NOON_MS - 20_000)
    without(older[0], ["poison", "highest_rc", "oldest_ready_age_ms"])
    without(newer[0], [], more_of_it=pa.string())
    shutil.copy2(first[0], first[0].with_name("again-000001.parquet"))
    desk.inventory(DAY, NOON_MS, "b", messages=5, rc=9)
    done = desk.run()

    assert done.days == {"samples": (DAY,), "messages": (DAY,)}
    assert done.problems == ()
    desk.run(out=tmp_path / "full")
    assert desk.tables() == desk.tables(tmp_path / "full")
    counted = desk.samples_by_hour()
    # Two polls at eleven, two at noon, by four recorders; each counts for the hour after as well. None twice or lost.
    assert [counted[NOON_MS + hour * HOUR_MS] for hour in (-1, 0, 1)] == [(2, 2), (4, 4), (2, 2)]
    # The first hour of the day after counts the minute before its midnight.
    assert counted[MIDNIGHT_MS + DAY_MS] == (2, 2, 1)
    assert len(counted) == 6
    # What was sealed on the day after counts for the day before.
    assert [(day, dict(row)["messages"]) for day, row in desk.tables()[LIFECYCLE]] == [(DAY, "7"), (DAY_AFTER, "2")]


def test_a_full_run_that_was_killed_is_made_up_for_by_a_full_one(desk: Desk) -> None:
    (path,) = desk.record(NOON_MS)
    desk.record(NOON_MS + 5 * HOUR_MS)
    desk.run()
    pq.write_table(SCHEMAS[SAMPLES].empty_table(), path)

    def die(name: str) -> None:
        if name == "planned":
            raise KilledError

    with pytest.raises(KilledError):
        desk.run(steps=die, full=True)
    assert NOON_MS in desk.samples_by_hour()
    desk.run()
    assert NOON_MS not in desk.samples_by_hour()


def test_a_run_with_nothing_new_changes_nothing(desk: Desk) -> None:
    desk.record(NOON_MS)
    desk.run()
    before = {path: path.stat().st_mtime_ns for path in desk.out.rglob("*") if path.is_file()}
    again = desk.run()

    assert (again.run, again.days, desk.started) == (None, {}, 1)
    assert {path: path.stat().st_mtime_ns for path in desk.out.rglob("*") if path.is_file()} == before


def test_a_file_that_came_and_went_is_nothing_new(desk: Desk) -> None:
    desk.record(NOON_MS)
    desk.run()
    before = desk.manifest()
    for path in desk.record(NOON_MS + 5_000):
        path.unlink()
    again = desk.run()

    assert (again.run, desk.started) == (None, 1)
    assert desk.manifest() == before


def test_a_day_whose_folder_has_not_changed_is_not_listed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in desk.record(NOON_MS, NOON_MS + DAY_MS):
        os.utime(path.parent, (NOON_MS / 1000, NOON_MS / 1000))
    desk.run()
    listed: list[object] = []

    def files(self: FolderStore, table: str, days: Collection[str] | None = None) -> list[SealedFile]:
        listed.append(days)
        return own_files(self, table, days)

    own_files = FolderStore.files
    monkeypatch.setattr(FolderStore, "files", files)
    assert desk.run().run is None
    assert listed == []
    desk.record(NOON_MS + DAY_MS + 5_000)
    # Joining small files looks at the days of the last week.
    assert desk.run(compact=False).days["samples"] == (DAY_AFTER,)
    assert [DAY] not in listed


def test_an_analysis_of_the_version_before_is_computed_again_and_says_so(desk: Desk, tmp_path: Path) -> None:
    desk.record(NOON_MS - DAY_MS)
    desk.record(NOON_MS)
    desk.run()
    manifest = desk.manifest()
    assert manifest is not None
    # As version 2 kept it: other folders, the settings elsewhere, and the checkpoint of a stream.
    moved = {}
    for table, days in manifest.tables.items():
        moved[table] = {day: tuple(f"runs/{name}" for name in names) for day, names in days.items()}
    shutil.move(desk.out / "tables", desk.out / "runs" / "tables")
    output = {"schema": 2, "run": "r", "made_ms": 1, "history": str(desk.history), "problems": [], "tables": moved}
    (desk.out / "_manifest.json").write_text(json.dumps(output))
    (desk.out / "_state.json").write_text(json.dumps({"version": 2, "settings": {}, "seen": "x", "left_out": {}}))
    for name in ("_checkpoint/samples/metadata", "_notes/samples/0/part-0.json"):
        (desk.out / name).parent.mkdir(parents=True)
        (desk.out / name).touch()
    before = desk.tables()
    shutil.rmtree(desk.history / "samples" / f"day={DAY_BEFORE}")
    done = desk.run()

    assert done.notes == (f"{desk.out} was made by an earlier version: all days of the history were computed again",)
    assert done.days["samples"] == (DAY,)
    assert {table: rows for table, rows in desk.tables().items() if table not in (SOURCES, RUNS)} == {
        table: rows for table, rows in before.items() if table not in (SOURCES, RUNS)
    }
    assert not (desk.out / "_checkpoint").exists()
    assert not (desk.out / "_notes").exists()
    assert desk.run().run is None


def test_a_day_that_begins_while_spark_starts_is_worked(desk: Desk, tmp_path: Path) -> None:
    desk.record(NOON_MS)
    desk.run()
    desk.record(NOON_MS + 5_000)
    early = desk.run(starting=lambda: desk.record(NOON_MS + DAY_MS))
    late = desk.run()
    desk.run(out=tmp_path / "full")

    assert (early.days["samples"], late.days["samples"]) == ((DAY,), (DAY_AFTER,))
    assert desk.tables() == desk.tables(tmp_path / "full")


class KilledError(Exception):
    """Stands for a process that is gone."""


def test_runs_that_die_one_after_another_at_every_step_are_made_up_for(desk: Desk, tmp_path: Path) -> None:
    desk.record(NOON_MS)
    desk.run()
    for number, step in enumerate(STEPS, 1):
        # Days of its own, so that nobody else's work makes up for it.
        noon_ms = NOON_MS + 5 * number * DAY_MS
        desk.record(noon_ms, noon_ms + DAY_MS)
        desk.inventory(str(date.fromisoformat(DAY) + timedelta(5 * number)), noon_ms, "a")
        before = desk.manifest()
        taken: list[str] = []

        def die(name: str, step: str = step, taken: list[str] = taken) -> None:
            taken.append(name)
            if name == step:
                raise KilledError

        with pytest.raises(Exception, match=r"KilledError|^$"):
            desk.run(steps=die)
        assert taken[-1] == step
        # A reader finds the run before, or this one, and all of it.
        assert (desk.manifest() == before) == (STEPS.index(step) < PUBLISHED)
        desk.tables()
    desk.run()
    desk.run(out=tmp_path / "full")

    assert desk.tables() == desk.tables(tmp_path / "full")
    assert len({day for day, _ in desk.tables()[ROLLUP_1H]}) == 1 + 2 * len(STEPS)
    assert desk.run().run is None
    # Nothing is left of those that died, but what the last one published before it did.
    manifest = desk.manifest()
    assert manifest is not None
    there = {path.relative_to(desk.out).as_posix() for path in (desk.out / "tables").rglob("*.parquet")}
    assert there == names_in(manifest) | set(manifest.replaced)
    for table in manifest.tables:
        assert replayed(desk.out, table) == expected(manifest, table)


def test_a_reader_finds_one_whole_run_at_every_step(desk: Desk) -> None:
    desk.record(NOON_MS)
    desk.run()
    old_manifest, old = desk.manifest(), desk.tables()
    desk.record(NOON_MS + 60_000)
    found: dict[str, Any] = {}
    desk.run(steps=lambda name: found.setdefault(name, desk.tables()))

    new = desk.tables()
    assert new != old
    assert found == dict.fromkeys(STEPS[:PUBLISHED], old) | dict.fromkeys(STEPS[PUBLISHED:], new)
    # Who still holds the old manifest reads on; after one more run it is gone.
    assert old_manifest is not None
    assert read_tables(desk.out, old_manifest) == old
    desk.record(NOON_MS + 120_000)
    desk.run()
    with pytest.raises(FileNotFoundError):
        read_tables(desk.out, old_manifest)


def test_full_works_all_that_is_held_and_keeps_what_is_not(desk: Desk) -> None:
    desk.record(NOON_MS - DAY_MS)
    desk.record(NOON_MS)
    desk.run()
    before = desk.tables()
    shutil.rmtree(desk.history / "samples" / f"day={DAY_BEFORE}")
    done = desk.run(full=True)

    assert done.days == {"samples": (DAY,), "messages": ()}
    assert desk.tables() == before


def test_other_settings_work_anew_what_depends_on_them(desk: Desk) -> None:
    desk.record(NOON_MS)
    desk.inventory(DAY, NOON_MS, "a", rc=3)
    desk.run()
    assert desk.run(depth_limit=7).days == {"samples": (), "messages": ()}
    assert desk.run(depth_limit=7).run is None
    assert desk.run(depth_limit=7, poison_rc=3).days == {"samples": (), "messages": (DAY,)}
    assert [dict(row)["poison"] for _, row in desk.tables()[LIFECYCLE]] == ["2"]
    expected = {"prod": Expected(("a*",), ((1, 2),)).as_lists()}
    assert desk.run(poison_rc=3, expected=expected).run is not None
    assert desk.run(poison_rc=3, expected=expected).run is None


def test_settings_whose_run_died_when_it_had_published_are_not_taken_for_the_old_ones(desk: Desk) -> None:
    desk.inventory(DAY, NOON_MS, "a", rc=3)
    desk.record(NOON_MS)
    desk.run()

    def die(name: str) -> None:
        if name == "published":
            raise KilledError

    with pytest.raises(KilledError):
        desk.run(steps=die, poison_rc=3)
    assert [dict(row)["poison"] for _, row in desk.tables()[LIFECYCLE]] == ["2"]
    desk.run()
    assert [dict(row)["poison"] for _, row in desk.tables()[LIFECYCLE]] == ["0"]


def test_a_run_that_died_while_it_claimed_its_folder_leaves_it_to_the_next(desk: Desk) -> None:
    desk.record(NOON_MS)
    desk.out.mkdir()
    for name in ("_lock", "_state.json.new"):
        (desk.out / name).touch()
    assert desk.run().days["samples"] == (DAY,)


def test_a_table_that_has_lost_a_file_is_told_and_made_anew_by_a_full_run(desk: Desk) -> None:
    desk.record(NOON_MS)
    desk.run()
    before, manifest = desk.tables(), desk.manifest()
    assert manifest is not None
    (lost,) = manifest.files(ROLLUP_1H)
    (desk.out / lost).unlink()

    with pytest.raises(PipelineError, match=f"{lost} is missing: run the pipeline with --full"):
        desk.run()
    desk.run(full=True)
    assert desk.tables() == before


def test_two_runs_at_once_are_one_too_many(desk: Desk) -> None:
    desk.record(NOON_MS)
    desk.run()
    with alone(Folder(str(desk.out), desk.state)), pytest.raises(PipelineError, match="another run is writing"):
        desk.run()


def test_a_folder_that_cannot_be_used_is_refused_in_a_sentence(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"is not a history: rsmq-tui record --out"):
        desk.run(history=tmp_path / "nowhere")
    desk.record(NOON_MS)
    with pytest.raises(PipelineError, match="is inside the history"):
        desk.run(out=desk.history / "samples" / "analysis")
    with pytest.raises(PipelineError, match="is not empty and not an analysis"):
        desk.run(out=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="cannot be written"):
        desk.run(out=tmp_path / "file" / "out")
    desk.run()
    other = Desk(desk._spark, tmp_path / "other")
    other.record(NOON_MS)
    with pytest.raises(PipelineError, match=f"is the analysis of {desk.history}: name another --out"):
        desk.run(history=other.history)
    (desk.out / "_manifest.json").write_text("{")
    with pytest.raises(PipelineError, match=r"is damaged \(.*\): run the pipeline with --full"):
        desk.run()
    assert desk.run(full=True).days["samples"] == (DAY,)


def test_a_history_without_a_row_is_no_analysis_yet(desk: Desk) -> None:
    desk.record()
    with pytest.raises(PipelineError, match="has no rows yet"):
        desk.run()
