"""Paths that the system refuses: one sentence, without the number of the error, and exit status 2."""

from pathlib import Path

import pytest

from rsmq_tui.files import UnfitFileError, reason_of
from tests.cli.conftest import Command

TOO_LONG, THROUGH_A_FILE = "x" * 300, "file/x"
COMMANDS = {
    "replay": ("replay", "PATH"),
    "slo": ("slo", "--analysis", "PATH"),
    "sql": ("sql", "--analysis", "PATH", "select 1"),
    "report": ("report", "--analysis", "PATH", "--out", "report.html"),
    "pipeline run": ("pipeline", "run", "--history", "PATH", "--out", "out"),
    "history compact": ("history", "compact", "--history", "PATH"),
    "record": ("record", "--out", "PATH"),
    "themes check": ("themes", "check", "PATH"),
    "configuration": ("--config", "PATH", "queues", "list"),
    "send": ("messages", "send", "orders", "--file", "PATH"),
    "export": ("messages", "export", "orders", "-o", "PATH"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("path", "reason"), [(TOO_LONG, "File name too long"), (THROUGH_A_FILE, "Not a directory")], ids=["long", "file"]
)
def test_a_path_that_the_system_refuses(
    name: str, path: str, reason: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    refused = str(tmp_path / path)
    done = command(*(refused if argument == "PATH" else argument for argument in COMMANDS[name]))
    sentence = (done.err + done.text).replace(refused, "PATH").replace("\n", "")
    assert done.status == (1 if name == "themes check" else 2)
    assert sentence.removeprefix("rsmq-tui: ") in (
        f"PATH: {reason}",
        f"PATH cannot be {'written' if name == 'record' else 'read'}: {reason}",
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(36, "File name too long", "/long"), "File name too long"),
        (UnfitFileError("it is not a regular file"), "it is not a regular file"),
        (ValueError("one\ntwo"), "one"),
        (OSError(), "OSError"),
    ],
)
def test_the_reason_of_an_error(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
