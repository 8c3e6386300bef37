"""Terminals and folders: what is fit for the dashboard, and what to do where it is not."""

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.monitor.doctor import Terminal, folder_results, terminal_results
from rsmq_tui.monitor.server import CheckLevel, CheckResult


def found(
    *, is_terminal: bool = True, size: tuple[int, int] = (120, 36), encoding: str = "utf-8", **environment: Any
) -> dict[str, CheckResult]:
    terminal = Terminal(is_terminal, *size, encoding, {"TERM": "xterm-256color", **environment})
    return {result.name: result for result in terminal_results(terminal)}


def test_a_good_terminal() -> None:
    assert {result.level for result in found(COLORTERM="truecolor").values()} == {CheckLevel.OK}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"COLORTERM": "truecolor"}, "24-bit colour"),
        ({}, "256 colours"),
        ({"TERM": "xterm"}, "16 colours: --theme rsmq-ansi"),
        ({"NO_COLOR": "1", "COLORTERM": "truecolor"}, "no colours, because NO_COLOR is set"),
    ],
)
def test_colours(environment: dict[str, Any], words: str) -> None:
    assert words in found(**environment)["terminal.kind"].text


@pytest.mark.parametrize(
    ("name", "terminal"),
    [
        ("terminal.tty", found(is_terminal=False)),
        ("terminal.size", found(size=(79, 24))),
        ("terminal.size", found(size=(80, 23))),
        ("terminal.kind", found(TERM="dumb")),
        ("terminal.kind", found(TERM="")),
        ("terminal.encoding", found(encoding="ANSI_X3.4-1968")),
        ("terminal.encoding", found(TERM="linux")),
        ("terminal.clipboard", found(TERM="screen-256color")),
    ],
)
def test_what_is_a_warning(name: str, terminal: dict[str, CheckResult]) -> None:
    assert [each.name for each in terminal.values() if each.level is not CheckLevel.OK] == [name]
    assert terminal[name].hint


def test_tmux_is_told_how_to_copy() -> None:
    clipboard = found(TERM="screen-256color", TMUX="/tmp/tmux-0/default,1,0")["terminal.clipboard"]
    assert (clipboard.level, "set-clipboard on" in clipboard.hint) == (CheckLevel.OK, True)


def test_hostile_environments_print_harmlessly() -> None:
    for each in found(TERM="\x1b]0;x\x07", encoding="\x1b[2J").values():
        assert (each.text + each.hint).isprintable()


def test_folders_that_need_not_exist_yet_are_not_made(tmp_path: Path) -> None:
    state, config = tmp_path / "a" / "state", tmp_path / "b" / "config"
    assert {each.level for each in folder_results(state, config)} == {CheckLevel.OK}
    assert list(tmp_path.iterdir()) == []


def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for state in (tmp_path / "file", tmp_path / "file" / "state"):
        levels = {each.name: each.level for each in folder_results(state, tmp_path)}
        assert levels == {"folders.state": CheckLevel.WARN, "folders.config": CheckLevel.OK}


def test_a_state_folder_without_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        result = next(folder_results(tmp_path, tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.level is CheckLevel.WARN
    assert f"{tmp_path} cannot be written (File too large): changes will be refused" in result.text
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.R_OK)
    assert [each.level for each in folder_results(tmp_path, tmp_path)] == [CheckLevel.OK, CheckLevel.WARN]
