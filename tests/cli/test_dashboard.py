"""What the commands give the dashboard: a triage that is made late, read-only where it was asked for."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from rsmq_tui.cli import dashboard
from rsmq_tui.cli.main import main
from rsmq_tui.monitor.tracking.memory import Memory
from rsmq_tui.protocol import Rsmq
from rsmq_tui.tui.overview.servers import WatchedServer
from tests.hostile.terminal import Terminal


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[WatchedServer]:
    """The sites that the app was made with; it ends at once."""
    found: list[WatchedServer] = []

    class App:
        return_code = 0

        def __init__(self, sites: Sequence[WatchedServer], **values: Any) -> None:
            found.extend(sites)

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
    given: list[WatchedServer],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    value: str | None,
    read_only: bool,
) -> None:
    if value is not None:
        monkeypatch.setenv("RSMQ_TUI_READ_ONLY", value)
    assert main(["-r", "redis://localhost:1", *arguments]) == 0
    (site,) = given
    assert site.read_only is read_only
    assert site.triage.read_only is read_only


def test_the_journal_is_in_the_state_folder(given: list[WatchedServer], tmp_path: Path) -> None:
    main(["-r", "redis://localhost:1", "--ns", "jobs"])
    (site,) = given
    assert (site.place, site.name, site.colour) == ("", "", None)
    triage = site.triage
    assert triage.folder == tmp_path / "rsmq-tui"
    assert triage.ns == "jobs"
    assert not triage.folder.exists()


def test_each_namespace_of_each_profile_is_a_site(given: list[WatchedServer], tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("""
        [profiles.prod]
        url = "redis://localhost:1"
        namespaces = ["jobs", "mail"]
        colour = "#ff0000"
        [profiles.test]
        url = "redis://localhost:2"
        read_only = true
    """)
    assert main(["--config", str(config), "--profile", "prod,test"]) == 0
    assert [(site.place, site.name, site.colour, site.read_only) for site in given] == [
        ("prod jobs", "prod", "#ff0000", False),
        ("prod mail", "prod", "#ff0000", False),
        ("test", "test", None, True),
    ]
    assert [(site.triage.ns, site.triage.profile) for site in given] == [
        ("jobs", "prod"),
        ("mail", "prod"),
        ("rsmq", "test"),
    ]


@pytest.mark.parametrize(
    ("arguments", "setting", "is_kept"),
    [([], "", True), (["--no-memory"], "", False), ([], "memory = false", False), ([], "memory = true", True)],
)
def test_the_last_hour_is_kept_beside_the_journal(
    given: list[WatchedServer], tmp_path: Path, arguments: list[str], setting: str, *, is_kept: bool
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"""
        [profiles.a]
        url = "redis://me:secret@localhost:1"
        lists = ["queue:*"]
        {setting}
        [profiles.b]
        host = "localhost"
        port = 1
        {setting}
    """)
    config.chmod(0o600)
    main(["--config", str(config), "--profile", "a,b", *arguments])
    kept = [vars(site.source)["_memory"] for site in given]
    folder = tmp_path / "rsmq-tui" / "memory"

    assert not folder.exists()
    if is_kept:
        # One for each user, and for each kind of queue.
        assert {memory.path.parent for memory in kept} == {folder}
        assert len({memory.path for memory in kept}) == len(kept) == 3
    else:
        assert kept == [None] * 3


def test_the_next_start_knows_the_last_one(tmp_path: Path, orders: Rsmq, redis_url: str) -> None:
    folder = tmp_path / "state" / "rsmq-tui" / "memory"
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    for arguments, polls in ((["--no-memory"], 0), ([], 1), ([], 3)):
        with Terminal("-r", redis_url, *arguments, settings=tmp_path, environment=state) as terminal:
            terminal.wait_for("● live", "orders")
            terminal.type("q")
            assert terminal.wait_for_end() == 0
        files = list(folder.iterdir()) if folder.exists() else []
        assert len(files) == min(polls, 1)
        for file in files:
            past = _memory_at(file).load()
            assert past is not None
            assert {"orders", "spare"} <= set(past.names)
            assert len(past.last.totals) >= polls


def _memory_at(path: Path) -> Memory:
    memory = Memory(path.parent)
    memory.path = path
    return memory


def test_what_is_polled_is_recorded(tmp_path: Path, orders: Rsmq, redis_url: str) -> None:
    out = tmp_path / "history"
    with Terminal("-r", redis_url, "--record", str(out), "--interval", "0.2", settings=tmp_path) as terminal:
        terminal.wait_for("● live", "REC", "orders")
        terminal.type("q")
        assert terminal.wait_for_end() == 0
    rows = pyarrow.dataset.dataset(out / "samples", partitioning="hive").to_table().to_pylist()
    assert {row["queue"] for row in rows} >= {None, "orders", "spare"}


def test_a_folder_that_cannot_be_recorded_into_is_one_sentence(
    given: list[WatchedServer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["-r", "redis://localhost:1", "--record", str(tmp_path / "file")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rsmq-tui: ")


def test_nothing_that_only_changes_need_is_loaded_before_the_first_paint() -> None:
    code = "import sys, rsmq_tui.cli.dashboard; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    modules = set(loaded.stdout.split())
    assert "rsmq_tui.tui.app" in modules
    assert not {"rsmq_tui.docs", "textual.widgets._markdown"} & modules
    assert (
        not {"sqlite3", "rsmq_tui.triage.service", "rsmq_tui.tui.changes.confirm", "rsmq_tui.tui.changes.forms"}
        & modules
    )


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (["-r", "redis://localhost:1"], [""]),
        (["-r", "redis://localhost:1", "--lists", "queue:*"], ["rsmq", "lists"]),
        (["-r", "redis://localhost:1", "--ns", "lists", "--lists", "queue:*"], ["lists", "(lists)"]),
        (["--profile", "one"], ["one", "one lists"]),
        (["--profile", "several"], ["several rsmq", "several jobs", "several lists"]),
        (["--profile", "one,none"], ["one", "none", "one lists"]),
        (["--profile", "none", "--lists", "a"], ["none", "none lists"]),
    ],
)
def test_the_lists_of_a_profile_are_a_site(
    given: list[WatchedServer], tmp_path: Path, arguments: list[str], places: list[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[profiles.one]\nhost = "one"\nlists = ["queue:*"]\ncolour = "red"\nread_only = true\n'
        '[profiles.several]\nhost = "two"\nnamespaces = ["rsmq", "jobs"]\nlists = ["queue:*"]\n'
        '[profiles.none]\nhost = "three"\n'
    )
    assert main(["--config", str(config), *arguments]) == 0
    assert [site.place for site in given] == places
    lists = [
        site for site in given if site.title("(lists)") == site.place and site.place.endswith(("lists", "(lists)"))
    ]
    assert len(lists) == (len(places) > 1)
    if places[0] == "one":
        assert (lists[0].name, lists[0].colour, lists[0].read_only) == ("one", given[0].colour, True)
