"""`rsmq-tui keys`: the commands of the dashboard, and the mistakes in the keys of the user."""

from pathlib import Path

import pytest

from rsmq_tui.tui.keys import COMMANDS, FIXED
from tests.cli.conftest import Command
from tests.hostile.terminal import Terminal

_KEYS = '[keys]\ndelete = "d"\nsend = ["a", "f2"]\ndown = ["ctrl+j", "down"]\ndecoded = "f5"\n'


def test_all_commands_are_listed_and_those_of_the_user_marked(anywhere: Command, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(_KEYS)
    done = anywhere("keys", "--config", str(config))
    assert (done.status, done.err) == (0, "")
    found = {line["name"]: line for line in done.lines}
    assert found.keys() == COMMANDS.keys() - FIXED
    assert {name for name, line in found.items() if line["yours"]} == {"delete", "send", "down", "decoded"}
    assert found["delete"]["keys"] == ["d"]
    assert found["delete"]["default"] == ["x"]
    assert found["delete"]["where"] == ["overview", "queue", "search", "message"]
    assert found["send"]["keys"] == ["a", "f2"]
    assert found["minute_back"]["keys"] == [","]


def test_a_terminal_shows_a_table(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(_KEYS)
    with Terminal("keys", "--config", str(config), settings=tmp_path) as terminal:
        assert terminal.wait_for_end() == 0
    assert b"yours" in terminal.output
    # As it is written in the file.
    assert b" pagedown " in terminal.output


def test_mistakes_are_printed_and_the_status_says_so(anywhere: Command, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[keys]\ndelete = "d"\npause = "nokey"\n')
    done = anywhere("keys", "--config", str(config))
    assert done.status == 1
    assert done.err.splitlines() == [
        f"rsmq-tui: {config}: pause: nokey is no key, write a character, or a name such as f5, ctrl+x, shift+down or "
        "space",
        f"rsmq-tui: {config}: delete: d is already the key of decoded",
    ]
    assert not any(line["yours"] for line in done.lines)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("keys = 1", 'config.toml:1: keys must be a table: [keys], and then lines such as delete = "f8"'),
        ("[keys]\ndelete = 1", 'config.toml:2: delete must be a key such as "f8", or a list of keys: ["x", "f8"]'),
        ("[keys]\ndelete = []", "config.toml:2: delete must be a key"),
        ('[keys]\ndelete = ["d", 1]', "config.toml:2: delete must be a key"),
        ('[keys.down]\nmore = "x"', "down must be a key"),
    ],
)
def test_what_is_no_key_at_all_is_a_mistake_in_the_file(
    anywhere: Command, tmp_path: Path, text: str, problem: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    done = anywhere("keys", "--config", str(config))
    assert done.status == 2
    assert problem in done.err
