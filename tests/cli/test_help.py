"""`rsmq-tui help`: pages as Markdown where they are read by programs, and rendered in a terminal."""

import re
import sys
from pathlib import Path

import pytest

from rsmq_tui.cli.main import main
from rsmq_tui.docs import page, topics
from tests.cli.conftest import Command
from tests.cli.running import run
from tests.hostile.terminal import Terminal

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def test_the_topics_are_listed_one_a_line(anywhere: Command) -> None:
    done = anywhere("help")

    assert (done.status, done.err) == (0, "")
    assert [line.split(maxsplit=1) for line in done.text.splitlines()] == list(map(list, topics().items()))
    assert all(len(line) <= 80 for line in done.text.splitlines())


def test_a_page_that_is_piped_is_markdown_with_whole_commands(anywhere: Command) -> None:
    done = anywhere("help", "messages")

    assert (done.status, done.err) == (0, "")
    assert done.text.startswith("# Messages from the command line\n\n")
    assert "\x1b" not in done.text
    assert "described in `rsmq-tui help filters`, " in done.text


@pytest.mark.parametrize("topic", topics())
def test_no_page_has_a_picture_or_a_link_to_a_file(anywhere: Command, topic: str) -> None:
    assert not re.search(r"!\[|\.md\)|\.svg", anywhere("help", topic).text)


def test_what_a_terminal_has_no_character_for_is_a_question_mark() -> None:
    done = run("help", "recording", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("themse", " Did you mean 'themes'?"),
        ("record", " (Did you mean one of: 'recording', 'report'?)"),
        ("xyzzy", ""),
    ],
)
def test_a_topic_that_is_not_there(anywhere: Command, topic: str, sentence: str) -> None:
    done = anywhere("help", topic)
    assert (done.status, done.out) == (2, b"")
    assert f"Error: No such topic '{topic}'; `rsmq-tui help` lists them.{sentence}\n" in done.err


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("topic", topics())
def test_a_rendered_page_fits_and_keeps_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], topic: str, columns: int
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("gc.freeze", lambda: None)
    for name, value in {"COLUMNS": str(columns), "LINES": "9999", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    assert main(["help", topic]) == 0

    text = capsys.readouterr().out
    assert "\x1b[1m" in text
    lines = _STYLE.sub("", text).splitlines()
    blocks = re.findall(r"^```\w*\n(.*?)^```", page(topic), re.MULTILINE | re.DOTALL)
    code = [line for block in blocks for line in block.splitlines()]
    # Code is not broken, so that it can be copied.
    assert [line for line in code if f"  {line}" not in lines] == []
    assert all(len(line) <= min(columns, 100) for line in lines if line[2:] not in code)
    assert "```" not in text


def test_a_page_that_fits_the_screen_is_printed(tmp_path: Path) -> None:
    with Terminal("help", "audit", settings=tmp_path, environment={"PAGER": "false"}) as terminal:
        terminal.wait_for("Audit", "rsmq-tui audit --fix")
        assert terminal.wait_for_end() == 0


def test_a_longer_page_goes_through_the_pager(tmp_path: Path) -> None:
    pager = tmp_path / "pager.py"
    pager.write_text("import sys; lines = sys.stdin.read().splitlines(); print(len(lines), 'lines were paged')")
    environment = {"PAGER": f"'{sys.executable}' '{pager}'"}
    with Terminal("help", "lists", settings=tmp_path, size=(80, 20), environment=environment) as terminal:
        terminal.wait_for("lines were paged")
        assert terminal.wait_for_end() == 0


@pytest.mark.parametrize("pager", ["", "/no/such/pager", "'"])
def test_without_a_pager_a_longer_page_is_printed(tmp_path: Path, pager: str) -> None:
    with Terminal("help", "lists", settings=tmp_path, size=(80, 20), environment={"PAGER": pager}) as terminal:
        assert terminal.wait_for_end() == 0
        assert b"rsmq-tui help library" in terminal.output


def test_a_pager_that_is_left_early_ends_the_command(tmp_path: Path) -> None:
    environment = {"PAGER": f"'{sys.executable}' -c 'print(len(input()), chr(33))'"}
    with Terminal("help", "lists", settings=tmp_path, size=(80, 20), environment=environment) as terminal:
        assert terminal.wait_for_end() == 0
        assert re.fullmatch(rb"\d+ !\r\n", terminal.output)
