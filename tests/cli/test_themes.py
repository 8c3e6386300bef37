"""`rsmq-tui themes`: which there are, and the mistakes in theme files."""

from pathlib import Path

import pytest

from rsmq_tui.monitor import Verdict
from rsmq_tui.tui.theme import SIGNS, VARIABLES, shipped_themes
from tests.cli.conftest import Command
from tests.hostile.terminal import Terminal


@pytest.fixture
def themes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's themes."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "rsmq-tui" / "themes"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("arguments", [(), ("list", "--json")])
def test_all_themes_are_listed_as_json(anywhere: Command, themes: Path, arguments: tuple[str, ...]) -> None:
    (themes / "mine.toml").write_text('primary = "red"\ndark = false\n[variables]\nverdict-ok = "#123456"')
    (themes / "bad.toml").write_text('primary = "red"\nloud = 1')
    done = anywhere("themes", *arguments)
    assert done.status == 0
    found = {line["name"]: line for line in done.lines}
    assert found.keys() == {*(path.stem for path in shipped_themes().glob("*.toml")), "mine"}
    dark = found["rsmq-dark"]
    assert (dark["dark"], dark["ansi"], dark["included"]) == (True, False, True)
    assert dark["verdicts"] == {verdict.value: VARIABLES[f"verdict-{verdict}"] for verdict in SIGNS}
    mine = found["mine"]
    assert (mine["dark"], mine["included"], mine["description"]) == (False, False, "")
    assert mine["file"] == str(themes / "mine.toml")
    assert mine["verdicts"]["ok"] == "#123456"
    assert mine["verdicts"]["broken"] is None
    assert f"{themes / 'bad.toml'}:2: unknown: loud" in done.err


@pytest.mark.parametrize(
    ("environment", "has_colours"),
    [({"COLORTERM": "truecolor"}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "linux"}, False)],
)
def test_a_terminal_with_colours_shows_those_of_the_verdicts(
    tmp_path: Path, environment: dict[str, str], has_colours: bool
) -> None:
    with Terminal("themes", settings=tmp_path, environment=environment) as terminal:
        assert terminal.wait_for_end() == 0
        assert "tokyo-night" in terminal.screen.text
        assert (b"\x1b[38;2;255;95;126;48;2;15;20;26m" in terminal.output) is has_colours
        assert (SIGNS[Verdict.STALLED] in terminal.screen.text) is has_colours


def test_mistakes_are_printed_with_their_files_and_lines(anywhere: Command, tmp_path: Path) -> None:
    good, bad = shipped_themes() / "nord.toml", tmp_path / "bad.toml"
    bad.write_text('primary = "?"\n\n[variables]\nquiet = "\\u001b[31m"\n')
    done = anywhere("themes", "check", str(good), str(bad), str(tmp_path / "none.toml"))
    assert done.status == 1
    first, second, third = done.text.splitlines()
    assert first == f"{bad}:1: primary is not a colour: ?"
    assert second == f"{bad}:4: quiet is not a colour: ␛[31m"
    assert third.startswith(f"{tmp_path / 'none.toml'}: ")
    done = anywhere("themes", "check", str(good))
    assert (done.status, done.out) == (0, b"")
    assert anywhere("themes", "check").status == 2


def test_theme_names_are_completed(anywhere: Command, themes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (themes / "north.toml").write_text('primary = "red"')
    monkeypatch.setenv("_RSMQ_TUI_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "rsmq-tui --theme no")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert anywhere().text.split() == ["plain,nord", "plain,north"]
