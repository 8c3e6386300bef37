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
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.history.store import FolderStore, SealedFile
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.run import alone
from rsmq_tui.pipeline.state import PipelineError
from rsmq_tui.pipeline.tables import names_in
from tests.history.made import DAY_MS, NOON_MS
from tests.pipeline.running import DAY, DAY_AFTER, DAY_BEFORE, MIDNIGHT_MS, Workspace, read_tables, without
from tests.pipeline.test_delta import expected, replayed

STEPS = ("planned", "days written", "written", "published", "logged", "old files removed")
PUBLISHED = STEPS.index("published")


def test_runs_come_to_the_same_as_one_run_over_everything(workspace: Workspace, tmp_path: Path) -> None:
    first = workspace.record(NOON_MS, NOON_MS + 5_000)
    assert workspace.run().days == {"samples": (DAY,), "messages": ()}
    # The next day, and the recorder was started anew; then a poll of the first evening that comes late.
    workspace.record(MIDNIGHT_MS + DAY_MS + 1_000, queues=3)
    workspace.inventory(DAY_AFTER, MIDNIGHT_MS + DAY_MS + 2_000, "a")
    assert workspace.run().days == {"samples": (DAY_AFTER,), "messages": (DAY_AFTER,)}
    workspace.record(MIDNIGHT_MS + DAY_MS - 60_000)
    assert workspace.run().days == {"samples": (DAY, DAY_AFTER), "messages": ()}
    # Out of order, the same rows once more, and other versions of the schema.
    older, newer = workspace.record(NOON_MS - 10_000), workspace.record(NOON_MS - 20_000)
    without(older[0], ["poison", "highest_rc", "oldest_ready_age_ms"])
    without(newer[0], [], more_of_it=pa.string())
    shutil.copy2(first[0], first[0].with_name("again-000001.parquet"))
    workspace.inventory(DAY, NOON_MS, "b", messages=5, rc=9)
    done = workspace.run()

    assert done.days == {"samples": (DAY,), "messages": (DAY,)}
    assert done.problems == ()
    workspace.run(out=tmp_path / "full")
    assert workspace.tables() == workspace.tables(tmp_path / "full")
    counted = workspace.samples_by_hour()
    # Two polls at eleven, two at noon, by four recorders; each counts for the hour after as well. None twice or lost.
    assert [counted[NOON_MS + hour * HOUR_MS] for hour in (-1, 0, 1)] == [(2, 2), (4, 4), (2, 2)]
    # The first hour of the day after counts the minute before its midnight.
    assert counted[MIDNIGHT_MS + DAY_MS] == (2, 2, 1)
    assert len(counted) == 6
    # What was sealed on the day after counts for the day before.
    assert [(day, dict(row)["messages"]) for day, row in workspace.tables()[LIFECYCLE]] == [
        (DAY, "7"),
        (DAY_AFTER, "2"),
    ]


def test_a_full_run_that_was_killed_is_made_up_for_by_a_full_one(workspace: Workspace) -> None:
    (path,) = workspace.record(NOON_MS)
    workspace.record(NOON_MS + 5 * HOUR_MS)
    workspace.run()
    pq.write_table(SCHEMAS[SAMPLES].empty_table(), path)

    def die(name: str) -> None:
        if name == "planned":
            raise KilledError

    with pytest.raises(KilledError):
        workspace.run(steps=die, full=True)
    assert NOON_MS in workspace.samples_by_hour()
    workspace.run()
    assert NOON_MS not in workspace.samples_by_hour()


def test_a_run_with_nothing_new_changes_nothing(workspace: Workspace) -> None:
    workspace.record(NOON_MS)
    workspace.run()
    before = {path: path.stat().st_mtime_ns for path in workspace.out.rglob("*") if path.is_file()}
    again = workspace.run()

    assert (again.run, again.days, workspace.started) == (None, {}, 1)
    assert {path: path.stat().st_mtime_ns for path in workspace.out.rglob("*") if path.is_file()} == before


def test_a_file_that_came_and_went_is_nothing_new(workspace: Workspace) -> None:
    workspace.record(NOON_MS)
    workspace.run()
    before = workspace.manifest()
    for path in workspace.record(NOON_MS + 5_000):
        path.unlink()
    again = workspace.run()

    assert (again.run, workspace.started) == (None, 1)
    assert workspace.manifest() == before


def test_a_day_whose_folder_has_not_changed_is_not_listed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in workspace.record(NOON_MS, NOON_MS + DAY_MS):
        os.utime(path.parent, (NOON_MS / 1000, NOON_MS / 1000))
    workspace.run()
    listed: list[object] = []

    def files(self: FolderStore, table: str, days: Collection[str] | None = None) -> list[SealedFile]:
        listed.append(days)
        return own_files(self, table, days)

    own_files = FolderStore.files
    monkeypatch.setattr(FolderStore, "files", files)
    assert workspace.run().run is None
    assert listed == []
    workspace.record(NOON_MS + DAY_MS + 5_000)
    # Joining small files looks at the days of the last week.
    assert workspace.run(compact=False).days["samples"] == (DAY_AFTER,)
    assert [DAY] not in listed


def test_an_analysis_of_the_version_before_is_computed_again_and_says_so(workspace: Workspace, tmp_path: Path) -> None:
    workspace.record(NOON_MS - DAY_MS)
    workspace.record(NOON_MS)
    workspace.run()
    manifest = workspace.manifest()
    assert manifest is not None
    # As version 2 kept it: other folders, the settings elsewhere, and the checkpoint of a stream.
    moved = {}
    for table, days in manifest.tables.items():
        moved[table] = {day: tuple(f"runs/{name}" for name in names) for day, names in days.items()}
    shutil.move(workspace.out / "tables", workspace.out / "runs" / "tables")
    output = {"schema": 2, "run": "r", "made_ms": 1, "history": str(workspace.history), "problems": [], "tables": moved}
    (workspace.out / "_manifest.json").write_text(json.dumps(output))
    (workspace.out / "_state.json").write_text(json.dumps({"version": 2, "settings": {}, "seen": "x", "left_out": {}}))
    for name in ("_checkpoint/samples/metadata", "_notes/samples/0/part-0.json"):
        (workspace.out / name).parent.mkdir(parents=True)
        (workspace.out / name).touch()
    before = workspace.tables()
    shutil.rmtree(workspace.history / "samples" / f"day={DAY_BEFORE}")
    done = workspace.run()

    assert done.notes == (
        f"{workspace.out} was made by an earlier version: all days of the history were computed again",
    )
    assert done.days["samples"] == (DAY,)
    assert {table: rows for table, rows in workspace.tables().items() if table not in (SOURCES, RUNS)} == {
        table: rows for table, rows in before.items() if table not in (SOURCES, RUNS)
    }
    assert not (workspace.out / "_checkpoint").exists()
    assert not (workspace.out / "_notes").exists()
    assert workspace.run().run is None


def test_a_day_that_begins_while_spark_starts_is_worked(workspace: Workspace, tmp_path: Path) -> None:
    workspace.record(NOON_MS)
    workspace.run()
    workspace.record(NOON_MS + 5_000)
    early = workspace.run(starting=lambda: workspace.record(NOON_MS + DAY_MS))
    late = workspace.run()
    workspace.run(out=tmp_path / "full")

    assert (early.days["samples"], late.days["samples"]) == ((DAY,), (DAY_AFTER,))
    assert workspace.tables() == workspace.tables(tmp_path / "full")


class KilledError(Exception):
    """Stands for a process that is gone."""


def test_runs_that_die_one_after_another_at_every_step_are_made_up_for(workspace: Workspace, tmp_path: Path) -> None:
    workspace.record(NOON_MS)
    workspace.run()
    for number, step in enumerate(STEPS, 1):
        # Days of its own, so that nobody else's work makes up for it.
        noon_ms = NOON_MS + 5 * number * DAY_MS
        workspace.record(noon_ms, noon_ms + DAY_MS)
        workspace.inventory(str(date.fromisoformat(DAY) + timedelta(5 * number)), noon_ms, "a")
        before = workspace.manifest()
        taken: list[str] = []

        def die(name: str, step: str = step, taken: list[str] = taken) -> None:
            taken.append(name)
            if name == step:
                raise KilledError

        with pytest.raises(Exception, match=r"KilledError|^$"):
            workspace.run(steps=die)
        assert taken[-1] == step
        # A reader finds the run before, or this one, and all of it.
        assert (workspace.manifest() == before) == (STEPS.index(step) < PUBLISHED)
        workspace.tables()
    workspace.run()
    workspace.run(out=tmp_path / "full")

    assert workspace.tables() == workspace.tables(tmp_path / "full")
    assert len({day for day, _ in workspace.tables()[ROLLUP_1H]}) == 1 + 2 * len(STEPS)
    assert workspace.run().run is None
    # Nothing is left of those that died, but what the last one published before it did.
    manifest = workspace.manifest()
    assert manifest is not None
    there = {path.relative_to(workspace.out).as_posix() for path in (workspace.out / "tables").rglob("*.parquet")}
    assert there == names_in(manifest) | set(manifest.replaced)
    for table in manifest.tables:
        assert replayed(workspace.out, table) == expected(manifest, table)


def test_a_reader_finds_one_whole_run_at_every_step(workspace: Workspace) -> None:
    workspace.record(NOON_MS)
    workspace.run()
    old_manifest, old = workspace.manifest(), workspace.tables()
    workspace.record(NOON_MS + 60_000)
    found: dict[str, Any] = {}
    workspace.run(steps=lambda name: found.setdefault(name, workspace.tables()))

    new = workspace.tables()
    assert new != old
    assert found == dict.fromkeys(STEPS[:PUBLISHED], old) | dict.fromkeys(STEPS[PUBLISHED:], new)
    # Who still holds the old manifest reads on; after one more run it is gone.
    assert old_manifest is not None
    assert read_tables(workspace.out, old_manifest) == old
    workspace.record(NOON_MS + 120_000)
    workspace.run()
    with pytest.raises(FileNotFoundError):
        read_tables(workspace.out, old_manifest)


def test_full_works_all_that_is_held_and_keeps_what_is_not(workspace: Workspace) -> None:
    workspace.record(NOON_MS - DAY_MS)
    workspace.record(NOON_MS)
    workspace.run()
    before = workspace.tables()
    shutil.rmtree(workspace.history / "samples" / f"day={DAY_BEFORE}")
    done = workspace.run(full=True)

    assert done.days == {"samples": (DAY,), "messages": ()}
    assert workspace.tables() == before


def test_other_settings_work_anew_what_depends_on_them(workspace: Workspace) -> None:
    workspace.record(NOON_MS)
    workspace.inventory(DAY, NOON_MS, "a", rc=3)
    workspace.run()
    assert workspace.run(depth_limit=7).days == {"samples": (), "messages": ()}
    assert workspace.run(depth_limit=7).run is None
    assert workspace.run(depth_limit=7, poison_rc=3).days == {"samples": (), "messages": (DAY,)}
    assert [dict(row)["poison"] for _, row in workspace.tables()[LIFECYCLE]] == ["2"]
    expected = {"prod": Expected(("a*",), ((1, 2),)).as_lists()}
    assert workspace.run(poison_rc=3, expected=expected).run is not None
    assert workspace.run(poison_rc=3, expected=expected).run is None


def test_settings_whose_run_died_when_it_had_published_are_not_taken_for_the_old_ones(workspace: Workspace) -> None:
    workspace.inventory(DAY, NOON_MS, "a", rc=3)
    workspace.record(NOON_MS)
    workspace.run()

    def die(name: str) -> None:
        if name == "published":
            raise KilledError

    with pytest.raises(KilledError):
        workspace.run(steps=die, poison_rc=3)
    assert [dict(row)["poison"] for _, row in workspace.tables()[LIFECYCLE]] == ["2"]
    workspace.run()
    assert [dict(row)["poison"] for _, row in workspace.tables()[LIFECYCLE]] == ["0"]


def test_a_run_that_died_while_it_claimed_its_folder_leaves_it_to_the_next(workspace: Workspace) -> None:
    workspace.record(NOON_MS)
    workspace.out.mkdir()
    for name in ("_lock", "_state.json.new"):
        (workspace.out / name).touch()
    assert workspace.run().days["samples"] == (DAY,)


def test_a_table_that_has_lost_a_file_is_told_and_made_anew_by_a_full_run(workspace: Workspace) -> None:
    workspace.record(NOON_MS)
    workspace.run()
    before, manifest = workspace.tables(), workspace.manifest()
    assert manifest is not None
    (lost,) = manifest.files(ROLLUP_1H)
    (workspace.out / lost).unlink()

    with pytest.raises(PipelineError, match=f"{lost} is missing: run the pipeline with --full"):
        workspace.run()
    workspace.run(full=True)
    assert workspace.tables() == before


def test_two_runs_at_once_are_one_too_many(workspace: Workspace) -> None:
    workspace.record(NOON_MS)
    workspace.run()
    with (
        alone(Folder(str(workspace.out), workspace.state)),
        pytest.raises(PipelineError, match="another run is writing"),
    ):
        workspace.run()


def test_a_folder_that_cannot_be_used_is_refused_in_a_sentence(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"is not a history: rsmq-tui record --out"):
        workspace.run(history=tmp_path / "nowhere")
    workspace.record(NOON_MS)
    with pytest.raises(PipelineError, match="is inside the history"):
        workspace.run(out=workspace.history / "samples" / "analysis")
    with pytest.raises(PipelineError, match="is not empty and not an analysis"):
        workspace.run(out=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="cannot be written"):
        workspace.run(out=tmp_path / "file" / "out")
    workspace.run()
    other = Workspace(workspace._spark, tmp_path / "other")
    other.record(NOON_MS)
    with pytest.raises(PipelineError, match=f"is the analysis of {workspace.history}: name another --out"):
        workspace.run(history=other.history)
    (workspace.out / "_manifest.json").write_text("{")
    with pytest.raises(PipelineError, match=r"is damaged \(.*\): run the pipeline with --full"):
        workspace.run()
    assert workspace.run(full=True).days["samples"] == (DAY,)


def test_a_history_without_a_row_is_no_analysis_yet(workspace: Workspace) -> None:
    workspace.record()
    with pytest.raises(PipelineError, match="has no rows yet: a recorder seals a file"):
        workspace.run()
