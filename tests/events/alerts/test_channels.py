"""How a message is sent by the terminal and by a command."""

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.events.alerts.channels import ChannelError, notification, sender
from rsmq_tui.events.alerts.message import Affected
from rsmq_tui.profiles.alerts import Channel
from tests.events.alerts.made import message

_TITLE, _TEXT = "rsmq-tui: stalled", "prod rsmq: q0: stalled: 3 messages ready, for 1m 5s"
_OSC_9 = f"\x1b]9;{_TITLE}: {_TEXT}\x1b\\"
_OSC_777 = f"\x1b]777;notify;{_TITLE};{_TEXT}\x1b\\"
_OSC_99 = f"\x1b]99;i=ID:d=0;{_TITLE}\x1b\\\x1b]99;i=ID:p=body;{_TEXT}\x1b\\"


def notified(environment: Mapping[str, str], **values: Any) -> str:
    written = notification(Channel("desk", "terminal", **values), message(), environment)
    return re.sub("i=rsmq-tui-[0-9a-f]{16}:", "i=ID:", written)


@pytest.mark.parametrize(
    ("environment", "written"),
    [
        ({"TERM": "xterm-256color"}, "\a"),
        ({}, "\a"),
        ({"TERM": "xterm-kitty"}, _OSC_99),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, _OSC_99),
        ({"TERM": "foot-extra"}, _OSC_777),
        ({"TERM": "rxvt-unicode-256color"}, _OSC_777),
        ({"TERM": "xterm-ghostty"}, _OSC_777),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, _OSC_777),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, _OSC_9),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WarpTerminal"}, _OSC_9),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "\a"),
    ],
)
def test_the_sequence_is_chosen_by_what_the_terminal_knows(environment: Mapping[str, str], written: str) -> None:
    assert notified(environment) == written


def test_a_sequence_can_be_named() -> None:
    written = {name: notified({"TERM": "xterm"}, sequence=name) for name in ("osc9", "osc777", "osc99")}

    assert written == {"osc9": _OSC_9, "osc777": _OSC_777, "osc99": _OSC_99}


def test_a_notification_does_not_replace_the_one_before() -> None:
    channel = Channel("desk", "terminal", sequence="osc99")
    ids = [re.findall("i=([^:]+):", notification(channel, message(), {})) for _ in range(2)]
    assert [len(set(each)) for each in ids] == [1, 1]
    assert ids[0] != ids[1]


def test_through_tmux_only_where_that_is_allowed() -> None:
    inside = {"TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "TMUX": "/tmp/tmux-0/default,1,0"}

    assert notified(inside, sequence="osc9") == "\a"
    assert notified(inside, tmux=True) == "\a"
    doubled = _OSC_9.replace("\x1b", "\x1b\x1b")
    assert notified(inside, sequence="osc9", tmux=True) == f"\x1bPtmux;{doubled}\x1b\\"
    assert notified({"STY": "1.tty", "KITTY_WINDOW_ID": "1"}) == "\a"
    # Without tmux, its setting changes nothing.
    assert notified({"TERM": "xterm-kitty"}, tmux=True) == _OSC_99


@pytest.mark.parametrize("sequence", ["osc9", "osc777", "osc99"])
def test_a_name_cannot_end_the_sequence(sequence: str) -> None:
    name = "a\x1b\\\x07\x9c;b\x1b]0;title\x07\n" + "x" * 500
    hostile = message(rule=f"r;{name}", queues=(Affected(name, "stalled", 3, name),))
    written = notification(Channel("desk", "terminal", sequence=sequence), hostile, {})

    parts = written.split("\x1b\\")
    assert parts[-1] == ""
    assert all(part.startswith("\x1b]") and part[1:].isprintable() for part in parts[:-1])
    assert len(written) < 1_000
    if sequence == "osc777":
        assert written.split(";")[2].startswith("rsmq-tui: r,a")


def test_bell_and_notification_need_a_terminal() -> None:
    written: list[str] = []
    sender(Channel("bell", "bell"), written.append)(message())
    assert written == ["\a"]
    with pytest.raises(ChannelError, match="there is no terminal"):
        sender(Channel("bell", "bell"), None)(message())


def by_command(*command: str, timeout_s: float = 60.0) -> None:
    sender(Channel("pager", "command", command=command, timeout_s=timeout_s), None)(message())


def test_a_command_gets_json(tmp_path: Path) -> None:
    by_command("sh", "-c", f"cat > {tmp_path / 'got'}; echo noise")

    assert json.loads((tmp_path / "got").read_text()) == message().as_json()


def test_a_command_that_reads_nothing_is_fine() -> None:
    by_command("true")


def test_how_a_command_failed_is_told() -> None:
    with pytest.raises(ChannelError, match=r"^sh ended with status 3: no pager ␛here$"):
        by_command("sh", "-c", "echo 'no pager' >&2; printf '\\033here' >&2; exit 3")
    with pytest.raises(ChannelError, match=r"^/no/such/program cannot be run: No such file"):
        by_command("/no/such/program")
    with pytest.raises(ChannelError, match=r"status 1: password=[*]+$"):
        by_command("sh", "-c", "echo password=hunter2 >&2; exit 1")


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    # Its child keeps standard error open.
    code = f"sleep 1000 & echo $! > {pid_file}; echo waiting >&2; wait"

    begun_s = time.monotonic()
    with pytest.raises(ChannelError, match=r"^sh took longer than 1 s: waiting$"):
        by_command("sh", "-c", code, timeout_s=1.0)
    assert time.monotonic() - begun_s < 100
    assert ended(int(pid_file.read_text()))


def test_what_a_command_leaves_behind_does_not_stop_it() -> None:
    by_command("sh", "-c", "sleep 1000 & exit 0")


def ended(pid: int) -> bool:
    """Wait until a process has ended."""
    for _ in range(10_000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        status = Path(f"/proc/{pid}/stat")
        if sys.platform == "linux" and status.exists() and status.read_text().split()[2] == "Z":
            return True
        time.sleep(0.01)
    return False
