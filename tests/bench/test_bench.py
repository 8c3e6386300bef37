"""The bench works: its rows are the table's, and a row gives what the contract asks for. No time is judged here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.row import Measured, Row, Sense
from tests.bench.rows import ROWS, chosen

_ROOT = Path(__file__).parents[2]
_KEYS = ["row", "ours", "other", "unit", "ratio", "target", "ok"]


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.bench", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=60, check=False)


def _main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tests.bench", *arguments])
    return main()


def test_list_names_every_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(monkeypatch, "--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ROWS)
    assert all(line.startswith(row.name) for line, row in zip(lines, ROWS, strict=True))


def test_a_row_prints_the_keys_of_the_contract() -> None:
    run = _bench("--json", "--quick", "--only", "DELETE one by one, against a bare")
    assert run.returncode == 0, run.stderr
    (result,) = json.loads(run.stdout)
    assert list(result) == _KEYS
    assert result["target"] == "<= 1.15"
    assert result["ours"] > 0
    assert result["other"] > 0
    assert isinstance(result["ok"], bool)


@pytest.mark.slow
def test_what_a_change_of_one_cell_writes_is_measured_in_a_terminal() -> None:
    run = _bench("--json", "--quick", "--only", "bytes when one cell")
    (result,) = json.loads(run.stdout)
    assert result["ours"], run.stderr


def test_an_unknown_word_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(monkeypatch, "--only", "no such row") == 2
    assert "no such row" in capsys.readouterr().err


def test_words_choose_rows_whatever_their_case() -> None:
    assert [row.name for row in chosen(["PEEK"])] == ["peek page 500,000 deep in a queue of 1,000,000"]
    assert chosen([]) == list(ROWS)


@pytest.mark.parametrize(
    ("sense", "target", "ratio", "ok"),
    [
        (Sense.TIMES_LESS, 2.0, 2.0, True),
        (Sense.TIMES_LESS, 2.001, 2.0, False),
        (Sense.AT_MOST, 0.5, 0.5, True),
        (Sense.AT_MOST, 0.499, 0.5, False),
    ],
)
def test_ok_is_exactly_the_target(sense: Sense, target: float, ratio: float, ok: bool) -> None:
    row = Row("name", "peer", "ms", sense, target, lambda _: Measured(1, 2))
    result = row.result(Measured(1, 2))
    assert (result["ratio"], result["ok"]) == (ratio, ok)


def test_a_row_that_could_not_be_measured_is_not_ok() -> None:
    result = ROWS[0].result(None)
    assert result["ok"] is False
    assert result["ours"] is result["ratio"] is None
