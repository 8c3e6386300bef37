"""The report of made-up samples: what is judged, what is only shown, and the exit status."""

import json
import sys
from collections.abc import Callable
from math import sin
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.soak.__main__ import main
from tests.soak.fit import Verdict
from tests.soak.report import judged, lines

Figures = Callable[[int], dict[str, float]]


def written(folder: Path, figures: Figures, *, minutes: int = 70, end: str = "") -> Path:
    """Write samples of so many minutes, and what comes behind them."""
    path = folder / "samples.jsonl"
    samples = [{"at_s": 60.0 * minute, "figures": figures(minute), "types": {}} for minute in range(1, minutes + 1)]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples) + end)
    return path


def flat(minute: int) -> dict[str, float]:
    return {
        # It fills in the first ten minutes, which do not count.
        "dashboard rss_kb": 70_000 + 2_000 * min(minute, 9) + 16 * (minute % 3),
        "dashboard fds": 20,
        "dashboard cpu_ms": 6_000 * minute,
        "server clients": 60 + minute,
        "server keys": 90,
        "server used_memory_kb": 900 * minute,
        "history kb": 500 * minute,
    }


def status_of(*arguments: str) -> int:
    with patch.object(sys, "argv", ["soak", *arguments]):
        return main()


def test_what_is_meant_to_grow_is_not_judged(tmp_path: Path) -> None:
    found = judged(written(tmp_path, flat))
    verdicts = {row.name: row.verdict for row in found.rows}
    assert verdicts == {
        "dashboard fds": Verdict.FLAT,
        "dashboard rss_kb": Verdict.FLAT,
        "server keys": Verdict.FLAT,
        "dashboard cpu_ms /s": None,
        "history kb": None,
        "server clients": None,
        "server used_memory_kb": None,
    }
    rows = {row.name: row for row in found.rows}
    assert rows["dashboard cpu_ms /s"].end == pytest.approx(100)
    assert rows["history kb"].slope.per_h == pytest.approx(30_000)
    assert found.status == 0


@pytest.mark.parametrize(
    ("name", "grown", "status"),
    [
        ("dashboard fds", lambda minute: 20 + minute // 9, 1),
        ("page tasks", lambda minute: 30 + minute, 1),
        ("watch rss_kb", lambda minute: 50_000 + 20 * minute, 1),
        ("server keys", lambda minute: 90 + minute // 5, 1),
        ("serve objects", lambda minute: 10_000 + 2_000 * sin(minute / 2), 3),
    ],
)
def test_what_grows_decides(tmp_path: Path, name: str, grown: Callable[[int], float], status: int) -> None:
    written(tmp_path, lambda minute: {**flat(minute), name: grown(minute)})
    assert status_of("--fit", str(tmp_path)) == status


def test_a_program_that_has_ended_is_no_success(tmp_path: Path) -> None:
    report = {"done": {"pages": 3}, "troubles": ["12:00:00 dashboard: has ended"]}
    found = judged(written(tmp_path, flat, end=json.dumps(report) + "\n"))
    assert found.status == 1
    assert [*lines(found)][-2:] == ["done: 3 pages", "trouble: 12:00:00 dashboard: has ended"]


def test_a_run_that_was_cut_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, flat, end='{"at_s": 4260.0, "figu')
    assert status_of("--fit", str(path), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["hours"] == pytest.approx(70 / 60)
    assert report["rows"][0]["figure"] == "dashboard fds"
    assert report["rows"][0]["verdict"] == "flat"


def test_without_samples_there_is_nothing_to_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("--fit", str(tmp_path)) == 2
    assert "samples.jsonl" in capsys.readouterr().err
    written(tmp_path, flat, minutes=1)
    assert status_of("--fit", str(tmp_path)) == 2
    assert "fewer than two samples" in capsys.readouterr().err
