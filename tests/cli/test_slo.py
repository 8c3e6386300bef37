"""`rsmq-tui slo` as it is called."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

pytestmark = pytest.mark.slow

CONFIG = """\
[[defaults.slo]]
target = "answering"
objective = 99.9
[profiles.prod]
host = "db1"
[[profiles.prod.slo]]
target = "answering"
objective = 99
[[profiles.prod.slo]]
target = "stalled < 1m"
objective = 99
queues = ["e*"]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def test_it_prints_how_each_objective_was_kept_and_its_status_says_if_one_is_missed(
    anywhere: Command, analysis_folder: Path, config: Path
) -> None:
    done = anywhere("slo", "--analysis", str(analysis_folder), "--config", str(config), "--json")
    levels = [json.loads(line) for line in done.out.decode().splitlines()]
    printed = {(one["server"], one["queue"], one["target"]): one for one in levels}
    assert list(printed) == [
        ("redis://db1:6379/0", "emails", "stalled < 1m"),
        ("redis://db1:6379/0", None, "answering"),
        ("redis://eu:6379/0", None, "answering"),
    ]
    emails = printed["redis://db1:6379/0", "emails", "stalled < 1m"]
    assert (emails["objective"], emails["bad_ms"], emails["is_met"]) == (99, 3_600_000, False)
    assert [(one["verdict"], one["bad_ms"]) for one in emails["incidents"]] == [("stalled", 3_600_000)]
    server = printed["redis://db1:6379/0", None, "answering"]
    assert (server["bad_ms"], server["is_met"], server["week_before"]) == (1_200_000, True, None)
    assert done.status == 1


def test_an_earlier_end_and_one_queue(anywhere: Command, analysis_folder: Path, config: Path) -> None:
    usual = ("slo", "--analysis", str(analysis_folder), "--config", str(config), "--json")
    done = anywhere(*usual, "--queue", "emails", "--to", "2031-05-17 10:00")
    assert done.status == 0
    assert {json.loads(line)["bad_ms"] for line in done.out.splitlines()} == {0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no objectives: write them as [[profiles.NAME.slo]]"),
        (("--queue", "gone"), "the analysis has no queue gone"),
        (("--to", "soon"), "'soon' is not a time"),
        (("--analysis", "/nowhere"), "/nowhere is not an analysis"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    anywhere: Command, analysis_folder: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    done = anywhere("slo", "--analysis", str(analysis_folder), "--config", str(empty), *arguments)
    assert (done.status, done.out) == (2, b"")
    assert words in done.err
