"""Read-only: no key changes anything, and a user of the server who may only read is all that it takes."""

import re
import shlex
from contextlib import aclosing
from itertools import cycle
from pathlib import Path

import pytest
import redis
from textual.pilot import Pilot

from rsmq_tui.docs import page
from rsmq_tui.monitor.audit.rsmq import audit
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.protocol.server.diagnosis import Diagnosis
from rsmq_tui.tui.keys import KEYS, Where, keys_of
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from tests.triage.keyspace import kept
from tests.tui.changing import ask_change, changing, on_queue
from tests.tui.driving import opened, play, press, says, until
from tests.tui.reading import app_of, names_in, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

SCREENS: dict[type, tuple[Where, ...]] = {
    OverviewScreen: OverviewScreen.WHERE,
    QueueScreen: QueueScreen.WHERE,
    MessageScreen: MessageScreen.WHERE,
}
# These end the dashboard.
_LEAVING = {"q", "ctrl+c"}


def acl_lines() -> list[str]:
    """The rules of the users that the page on read-only says how to make."""
    lines = page("read-only").replace("\\\n", " ").splitlines()
    found = [" ".join(shlex.split(line)[4:]) for line in lines if line.startswith("redis-cli ACL SETUSER ")]
    assert len(found) == 2
    return found


@pytest.fixture
def filled(client: redis.Redis) -> Rsmq:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=600)
    rsmq.create_queue("empty")
    rsmq.send_messages("orders", [f'{{"order": {number}}}' for number in range(40)])
    rsmq.receive_messages("orders", 5)
    Rsmq(client, ns="rsmq-mail").create_queue("letters")
    return rsmq


def _reader(client: redis.Redis, url: str, rules: str) -> str:
    rules = re.sub(r">\S+", ">secret", rules)
    client.execute_command("ACL", "SETUSER", "viewer", "reset", *rules.split())
    return url.replace("redis://", "redis://viewer:secret@")


async def _back(pilot: Pilot[None], to: type) -> None:
    """Close whatever a key has opened."""
    for _ in range(5):
        if isinstance(pilot.app.screen, to):
            return
        await pilot.press("escape")
        await pilot.pause(0.02)
    raise AssertionError(f"no way back to {to.__name__} from {pilot.app.screen}")


async def _to(pilot: Pilot[None], screen: type) -> None:
    """From the overview to a screen, or stay."""
    if screen is not OverviewScreen:
        await on_queue(pilot, "orders")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "the queue opens")
        await until(pilot, lambda: len(names_in(pilot)) > 5, "its messages are shown")
    if screen is MessageScreen:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, MessageScreen), "the message opens")


async def _press_everything(pilot: Pilot[None], screen: type) -> None:
    """Press every key that there is, whether the screen has it or not, and see that one can go on."""
    await _to(pilot, screen)
    for pressed in dict.fromkeys(name for key in KEYS for name in key.keys.split(",")):
        if pressed in _LEAVING:
            continue
        await pilot.press(pressed)
        await pilot.pause(0.02)
        if not isinstance(pilot.app.screen, screen):
            while len(pilot.app.screen_stack) > 1:
                pilot.app.pop_screen()
            await pilot.pause()
            await _to(pilot, screen)


@pytest.mark.parametrize(("screen", "rules"), list(zip(SCREENS, cycle(acl_lines()), strict=False)))
async def test_a_user_who_may_only_read_sees_everything_and_changes_nothing(
    client: redis.Redis,
    redis_url: str,
    filled: Rsmq,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    screen: type,
    rules: str,
) -> None:
    url = _reader(client, redis_url, rules)
    before = kept(client)
    client.execute_command("ACL", "LOG", "RESET")
    monkeypatch.chdir(tmp_path)
    async with changing(url, tmp_path / "state", read_only=True) as pilot:
        assert "read-only" in text_of(app_of(pilot))
        await _press_everything(pilot, screen)
        dashboard = app_of(pilot).dashboard
        await until(pilot, lambda: dashboard.snapshot and not dashboard.snapshot.connection.failure, "it is live")
        assert app_of(pilot).dashboard.snapshot is not None
        assert not app_of(pilot).dashboard.snapshot.connection.failure
    assert kept(client) == before
    assert not (tmp_path / "state").exists()
    log = client.execute_command("ACL", "LOG")
    # Whether scripts may be used is found out by trying.
    tried = set() if "evalsha" in rules else {b"evalsha", b"eval"}
    # The server screen says what it may not read.
    tried |= {b"info", b"config|get", b"slowlog|get", b"latency|latest"}
    assert {entry[b"object"] for entry in log} <= tried, "the server refused something"


@pytest.mark.parametrize("rules", acl_lines())
@pytest.mark.parametrize(
    "command",
    [
        ("DEL", "rsmq:orders"), ("ZADD", "rsmq:orders", "1", "x"), ("HSET", "rsmq:orders:Q", "vt", "1"),
        ("FLUSHALL",), ("CONFIG", "SET", "maxmemory", "1"), ("CLIENT", "KILL", "TYPE", "normal"), ("KEYS", "*"),
        ("EVAL", "return redis.call('DEL', KEYS[1])", "1", "rsmq:orders"), ("GET", "elsewhere"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_that_user_can_do_nothing_else(
    client: redis.Redis, redis_url: str, filled: Rsmq, rules: str, command: tuple[str, ...]
) -> None:
    client.set("elsewhere", "x")
    before = client.dbsize()
    with (
        redis.Redis.from_url(_reader(client, redis_url, rules)) as viewer,
        pytest.raises(redis.exceptions.RedisError, match=r"(?i)permission|NOPERM"),
    ):
        viewer.execute_command(*command)
    assert client.dbsize() == before


@pytest.mark.parametrize("screen", SCREENS)
async def test_no_key_changes_anything_even_where_the_server_would_let_it(
    client: redis.Redis, redis_url: str, filled: Rsmq, tmp_path: Path, screen: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = kept(client)
    async with changing(redis_url, tmp_path / "state", read_only=True) as pilot:
        await _press_everything(pilot, screen)
    assert kept(client) == before
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("triage", [None, ScriptedTriage(read_only=True)], ids=["none", "read-only"])
async def test_keys_that_change_something_are_gone(source: ScriptedSource, triage: ScriptedTriage | None) -> None:
    async with opened(source, [queue_of("orders", ready=3)], triage=triage) as pilot:
        changing_keys = [key for key in keys_of("overview") if key.changes]
        assert changing_keys
        for key in changing_keys:
            await press(pilot, *key.keys.split(","))
            assert isinstance(pilot.app.screen, OverviewScreen)
        active = {binding.binding.id for binding in pilot.app.active_bindings.values()}
        assert not active & {key.id for key in changing_keys}
        assert ("read-only" in text_of(app_of(pilot))) == (triage is not None)


@pytest.mark.parametrize("width", [60, 80, 140])
async def test_a_narrow_line_says_read_only_too_and_a_key_says_why_it_does_nothing(
    source: ScriptedSource, width: int
) -> None:
    triage = ScriptedTriage(read_only=True)
    async with opened(source, triage=triage, size=(width, 24), notifications=True) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=3)]))
        app = app_of(pilot)
        header = text_of(app).splitlines()[0]
        assert " read-only " in header
        assert header.endswith("● live ")
        for screen in (OverviewScreen, QueueScreen):
            assert isinstance(app.screen, screen)
            for pressed in ("x", "equals_sign"):
                app.clear_notifications()
                await until(pilot, lambda: "read-only: nothing" not in text_of(app), "none is left")
                await press(pilot, pressed)
                await until(pilot, lambda: "read-only: nothing" in text_of(app), "it is told")
            app.clear_notifications()
            # Letters in a filter, and keys that do something, are no changes.
            await press(pilot, "slash", "x", "escape", "s", "enter")
            await pilot.pause()
            assert "read-only: nothing" not in text_of(app)
        assert triage.asked == []


async def test_what_asks_past_the_keys_is_refused(source: ScriptedSource) -> None:
    triage = ScriptedTriage(read_only=True)
    async with opened(source, [queue_of("orders", ready=3)], triage=triage, notifications=True) as pilot:
        app = app_of(pilot)
        ask_change(app, "purge", "orders")
        app.dashboard.changes.undo(app.dashboard.servers[0], None)
        await until(pilot, lambda: "read-only: nothing" in text_of(app), "it is told")
        assert isinstance(app.screen, OverviewScreen)
        assert triage.asked == []


async def test_an_export_only_reads(
    client: redis.Redis, redis_url: str, filled: Rsmq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = kept(client)
    async with changing(redis_url, tmp_path / "state", read_only=True) as pilot:
        await on_queue(pilot, "orders")
        await pilot.press("E")
        await until(pilot, lambda: pilot.app.screen.query("#file"), "the form opens")
        await pilot.press("enter")
        await says(pilot, "exported 40 messages")
    assert len((tmp_path / "orders.jsonl").read_text().splitlines()) == 40
    assert kept(client) == before


@pytest.mark.parametrize("rules", acl_lines())
async def test_that_user_can_audit_and_the_doctor_lacks_nothing(
    client: redis.Redis, redis_url: str, filled: Rsmq, rules: str
) -> None:
    client.hset("rsmq:orders:Q", "s" * 32, "leaked")
    url = _reader(client, redis_url, rules)
    client.execute_command("ACL", "LOG", "RESET")
    reader = RsmqReader(url)
    async with aclosing(audit(reader)) as steps:
        found = [step async for step in steps]
    await reader.aclose()
    refused = {entry[b"object"].decode() for entry in client.execute_command("ACL", "LOG")}

    assert found[-1].listed == 2
    scripts = set() if "evalsha" in rules else {"evalsha", "eval"}
    assert refused <= scripts
    diagnosis = Diagnosis(url)
    assert [step.failure async for step in diagnosis.connect()][-1] is None
    shown = await diagnosis.permissions("orders")
    await diagnosis.aclose()
    lacking = {command.name for command, _ in shown.refused if not command.writes}
    assert lacking <= scripts
