"""Commands on a server that lies: a sentence and an exit status, no traceback, and an end."""

import json
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.main import main
from rsmq_tui.cli.rsmqctl.main import main as rsmqctl
from rsmq_tui.protocol import Rsmq
from tests.hostile.liar import LIES, Liar
from tests.hostile.proxy import Proxy
from tests.hostile.test_lying_servers import CHANGES

pytestmark = pytest.mark.slow

_COMMANDS = {
    "snapshot": ("snapshot",),
    "snapshot of lists": ("--lists", "jobs*", "snapshot"),
    "check": ("check", "--timeout", "2"),
    "check of lists": ("--lists", "jobs", "check", "--timeout", "2"),
    "doctor": ("doctor", "--timeout", "0.5"),
    "queues": ("queues", "list"),
    "set": ("queues", "set", "orders", "--vt", "30", "--yes"),
    "messages": ("messages", "list", "orders"),
    "message": ("messages", "get", "orders", "x" * 32),
    "search": ("messages", "list", "orders", "--filter", "body:a"),
    "delete": ("messages", "delete", "orders", "--filter", "rc>=0", "--yes"),
    "audit": ("audit",),
    "audit of lists": ("--lists", "jobs", "audit"),
    "send": ("messages", "send", "orders", "hello"),
    "undo": ("undo", "1"),
    "record": ("record", "--out", "history", "--every", "100ms", "--for", "300ms"),
    "record of lists": ("--lists", "jobs*", "record", "--out", "history", "--every", "100ms", "--for", "300ms"),
}
# Each of these answers at once; what takes the whole time is tried with one command.
_SLOW = ("pushes", "drip", "half", "nothing", "line without end", "terabyte in an array", "garbage", "terabyte")
_STATUSES = {0, 1, 2, 3}


@pytest.fixture(autouse=True)
def _folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)


def _printed(capfd: pytest.CaptureFixture[str], status: int, what: str) -> None:
    out, err = capfd.readouterr()
    assert status in _STATUSES, (what, status, err)
    assert "Traceback" not in out + err, (what, err)
    assert "defect" not in out + err, (what, err)
    assert "\x1b" not in out + err, what


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_ends_in_a_sentence(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    # A third of the lies for each command, and a third of the commands for each lie.
    for lie in sorted(set(LIES) - set(_SLOW))[list(_COMMANDS).index(name) % 3 :: 3]:
        with Liar(lie) as liar:
            _printed(capfd, main(["-r", liar.url, *_COMMANDS[name]]), f"{name}: {lie}")


@pytest.mark.parametrize("lie", _SLOW)
def test_lies_without_an_end_have_one(lie: str, capfd: pytest.CaptureFixture[str]) -> None:
    with Liar(lie) as liar:
        _printed(capfd, main(["-r", liar.url, "check", "--timeout", "1"]), lie)


def test_rsmqctl_ends_in_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    for lie in sorted(set(LIES) - set(_SLOW)):
        with Liar(lie) as liar:
            host = liar.url.removeprefix("redis://").partition("/")[0]
            for action in (("queue", "list"), ("queue", "describe", "-n", "q"), ("message", "receive", "-n", "q")):
                _printed(capfd, rsmqctl(["-r", f"redis://{host}", *action]), f"{action}: {lie}")


@pytest.mark.parametrize("change", CHANGES)
def test_a_server_that_begins_to_lie_between_two_commands(
    proxy: Proxy, orders: Redis, change: str, capfd: pytest.CaptureFixture[str]
) -> None:
    deleted = main(["-r", proxy.url, "messages", "delete", "orders", "--filter", "rc>=0", "--yes", "--json"])
    number = json.loads(capfd.readouterr().out.splitlines()[-1])["change"]
    assert deleted == 0
    Rsmq(orders).send_message("orders", "one more")
    proxy.change(CHANGES[change]())
    for name in ("snapshot", "check", "doctor", "messages", "search", "audit"):
        _printed(capfd, main(["-r", proxy.url, *_COMMANDS[name]]), f"{name}: {change}")
    _printed(capfd, main(["-r", proxy.url, "undo", str(number), "--yes"]), f"undo: {change}")
    _printed(capfd, main(["-r", proxy.url, *_COMMANDS["delete"]]), f"delete: {change}")
