"""What the commands give the dashboard: a triage that is made late, read-only where it was asked for."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.cli import dashboard
from rsmq_tui.cli.main import main


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the app was made with; it ends at once."""
    found: dict[str, Any] = {}

    class App:
        return_code = 0

        def __init__(self, source: object, **values: Any) -> None:
            found.update(values)

        def run(self) -> None:
            return None

    monkeypatch.setattr(dashboard, "RsmqApp", App)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("RSMQ_TUI_READ_ONLY", raising=False)
    return found


@pytest.mark.parametrize(
    ("arguments", "value", "read_only"),
    [([], None, False), (["--read-only"], None, True), ([], "1", True), ([], "0", False)],
)
def test_read_only_by_option_and_by_environment(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, arguments: list[str], value: str | None, read_only: bool
) -> None:
    if value is not None:
        monkeypatch.setenv("RSMQ_TUI_READ_ONLY", value)
    assert main(["-r", "redis://localhost:1", *arguments]) == 0
    assert given["read_only"] is read_only
    assert given["triage"]().read_only is read_only


def test_the_journal_is_in_the_state_folder(given: dict[str, Any], tmp_path: Path) -> None:
    main(["-r", "redis://localhost:1", "--ns", "jobs"])
    triage = given["triage"]()
    assert triage.folder == tmp_path / "rsmq-tui"
    assert triage.ns == "jobs"
    assert not triage.folder.exists()


def test_nothing_that_only_changes_need_is_loaded_before_the_first_paint() -> None:
    code = "import sys, rsmq_tui.cli.dashboard; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    modules = set(loaded.stdout.split())
    assert "rsmq_tui.tui.app" in modules
    assert (
        not {"sqlite3", "rsmq_tui.triage.desk", "rsmq_tui.tui.screens.confirm", "rsmq_tui.tui.change_forms"} & modules
    )
