"""`rsmq-tui history compact`."""

import json
import shutil
from pathlib import Path

from tests.cli.conftest import Command
from tests.history.analysis.made import scripted
from tests.history.made import sealed_one_by_one


def test_the_command_says_what_it_did(anywhere: Command, tmp_path: Path) -> None:
    history = tmp_path / "history"
    sealed_one_by_one(history)
    shutil.copytree(history, tmp_path / "before")
    done = anywhere("history", "compact", "--history", str(history))
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out) == {"history": str(history), "days": 1, "files_before": 12, "files": 2}
    # As if it had been killed before it removed the files that it had joined.
    shutil.copytree(tmp_path / "before", history, dirs_exist_ok=True)
    scripted(tmp_path / "out", str(history))
    query = "select count(*) as n from samples union all select count(*) from messages"
    found = anywhere("sql", query, "--analysis", str(tmp_path / "out"))
    assert [json.loads(line)["n"] for line in found.out.splitlines()] == [18, 24]
    # Neither option nor argument is the screen's: a folder of that name is ./compact.
    refused = anywhere("history", "compact", "--history", str(tmp_path))
    assert refused.status == 2
    assert "is not a history" in refused.err
    assert b"join the small files" in anywhere("history", "--help").out
