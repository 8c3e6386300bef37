"""What the commands give the dashboard: a triage that is made late, read-only where it was asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from rsmq_tui.cli import dashboard
from rsmq_tui.cli.main import main
from rsmq_tui.monitor.tracking.memory import Memory
from rsmq_tui.protocol import Rsmq
from rsmq_tui.tui.servers import WatchedServer
from tests.cli.running import printed
from tests.hostile.terminal import Terminal


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[WatchedServer]:
    """The servers that the app was made with; it ends at once."""
    found: list[WatchedServer] = []

    class App:
        return_code = 0

        def __init__(self, servers: Sequence[WatchedServer], **values: Any) -> None:
            found.extend(servers)

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
    (server,) = given
    assert server.read_only is read_only
    assert server.triage.read_only is read_only


def test_the_journal_is_in_the_state_folder(given: list[WatchedServer], tmp_path: Path) -> None:
    main(["-r", "redis://localhost:1", "--ns", "jobs"])
    (server,) = given
    assert (server.place, server.name, server.colour) == ("", "", None)
    triage = server.triage
    assert triage.folder == tmp_path / "rsmq-tui"
    assert triage.ns == "jobs"
    assert not triage.folder.exists()


def test_each_namespace_of_each_profile_is_watched(given: list[WatchedServer], tmp_path: Path) -> None:
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
    assert [(server.place, server.name, server.colour, server.read_only) for server in given] == [
        ("prod jobs", "prod", "#ff0000", False),
        ("prod mail", "prod", "#ff0000", False),
        ("test", "test", None, True),
    ]
    assert [(server.triage.ns, server.triage.profile) for server in given] == [
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
    kept = [vars(server.source)["_memory"] for server in given]
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


def _printed(code: str, *arguments: str) -> set[str]:
    return set(printed(code, *arguments).split())


PAINTED = """
import sys
from rsmq_tui.cli import program
from rsmq_tui.cli.main import main

def shown(app):
    print(*sorted(sys.modules))
    app.exit()

def load(module, load=program.load):
    loaded = load(module)
    if module == "rsmq_tui.cli.commands":
        from rsmq_tui.cli import dashboard
        run = dashboard.RsmqApp.run
        dashboard.has_screen = lambda: True
        dashboard.RsmqApp.run = lambda app: run(app, headless=True)
        # It is called when the first numbers are painted.
        dashboard.RsmqApp._start_watching = shown
    return loaded

program.load = load
sys.exit(main(["-r", sys.argv[1]]))
"""


def test_the_first_paint_loads_only_what_it_needs(
    redis_url: str, orders: Rsmq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RSMQ_TUI_CONFIG")
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    modules = _printed(PAINTED, redis_url)
    assert {"redis.asyncio.connection", "rsmq_tui.tui.overview.screen"} <= modules
    # Of redis-py, connections alone.
    unwanted = {"redis.client", "redis.connection", "redis.asyncio.client", "redis.commands", "redis.cluster"}
    unwanted |= {"sqlite3", "email.message", "zipfile", "encodings.idna", "statistics", "shlex"}
    assert sorted(unwanted & modules) == []
    ours = ("docs", "triage", "events", "alerts", "history", "tui.widgets.controls", "tui.dialogs", "tui.replay")
    assert [name for name in sorted(modules) for each in ours if name.startswith(f"rsmq_tui.{each}")] == []


def test_nothing_that_only_changes_need_is_loaded_before_the_first_paint() -> None:
    code = "import sys, rsmq_tui.cli.dashboard; print(*sorted(sys.modules))"
    modules = _printed(code)
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
        (["-r", "redis://localhost:1", "--lists", "queue:*"], ["rsmq", "(lists)"]),
        (["-r", "redis://localhost:1", "--ns", "lists", "--lists", "queue:*"], ["lists", "(lists)"]),
        (["--profile", "one"], ["one", "one (lists)"]),
        (["--profile", "several"], ["several rsmq", "several jobs", "several (lists)"]),
        (["--profile", "one,none"], ["one", "none", "one (lists)"]),
        (["--profile", "none", "--lists", "a"], ["none", "none (lists)"]),
    ],
)
def test_the_lists_of_a_profile_are_watched(
    given: list[WatchedServer], tmp_path: Path, arguments: list[str], places: list[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[profiles.one]\nhost = "one"\nlists = ["queue:*"]\ncolour = "red"\nread_only = true\n'
        '[profiles.several]\nhost = "two"\nnamespaces = ["rsmq", "jobs"]\nlists = ["queue:*"]\n'
        '[profiles.none]\nhost = "three"\n'
    )
    assert main(["--config", str(config), *arguments]) == 0
    assert [server.place for server in given] == places
    lists = [server for server in given if server.title("(lists)") == server.place and server.place.endswith("(lists)")]
    assert len(lists) == (len(places) > 1)
    if places[0] == "one":
        assert (lists[0].name, lists[0].colour, lists[0].read_only) == ("one", given[0].colour, True)
