"""A password in the URL stays there: not on the screen, in errors, in the list of processes, or in a traceback."""

import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
from redis import Redis

from rsmq_tui.cli.main import main
from tests.hostile.proxy import Proxy
from tests.hostile.terminal import Terminal
from tests.hostile.watching import dashboard, open_message, open_queue, press, until
from tests.web.exporter.scraping import exporting

SECRET = "Tr0ub4dor&3-correct"
# Each would have to be percent-encoded in a URL, which nobody remembers.
UNQUOTED = (
    "Tr0ub/dor", "Tr0ub#dor", "Tr0ub?dor", "Tr0ub[dor]", "Tr0ub]dor", "Tr0ub%dor", "Tr0ub@dor", "Tr0ub dor",
    "1234#dor", "1234/dor", "1234?dor", "Tr0ub\\dor", "Tr0ub\u2100dor",
)  # fmt: skip


def with_secret(url: str) -> str:
    return url.replace("://", f"://ann:{quote(SECRET)}@")


def assert_hidden(text: str) -> None:
    """Nothing of the secret is there, quoted or not."""
    for part in (SECRET, quote(SECRET), SECRET[:6], SECRET[-7:], quote(SECRET)[-7:]):
        assert part not in text, part


async def test_no_screen_shows_it(orders: Redis, redis_url: str) -> None:
    orders.acl_setuser("ann", enabled=True, passwords=[f"+{SECRET}"], keys="*", commands=["+@all"])
    async with dashboard(with_secret(redis_url)) as pilot:
        assert_hidden(await until(pilot, "● live", "orders"))
        assert_hidden(await press(pilot, "?"))
        await press(pilot, "escape")
        assert_hidden(await open_queue(pilot, "orders"))
        assert_hidden(await open_message(pilot))
        # A password that was changed.
        orders.acl_setuser("ann", reset_passwords=True, passwords=["+another"])
        orders.execute_command("CLIENT", "KILL", "USER", "ann")
        assert_hidden(await until(pilot, "✗ stale", "the server refused the user name or password"))


@pytest.mark.parametrize(
    "answer",
    [
        b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        b"-NOAUTH Authentication required.\r\n",
        f"-ERR unknown command 'AUTH', with args beginning with: 'ann' '{SECRET}'\r\n".encode(),
        f"-ERR unknown command `AUTH`, with args beginning with: `ann`, `{SECRET}`, \r\n".encode(),
        f"-NOPERM user ann:{SECRET} has no permissions\r\n".encode(),
        f"-ERR cannot log in as ann with {SECRET}\r\n".encode(),
        f'-ERR AUTH ann "{quote(SECRET)}"\r\n'.encode(),
        f"-ERR {b64encode(SECRET.encode()).decode()}\r\n".encode(),
        f"-ERR AUTH was cut off after 'ann' '{SECRET[:12]}\r\n".encode(),
        f"-{SECRET}\r\n".encode(),
        f"-WRONGTYPE {SECRET}\r\n".encode(),
        f"{SECRET}\r\n".encode(),
        b"+OK\r\n",
        b"*1\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
    ],
    ids=lambda answer: answer[:30].decode(),
)
async def test_no_failure_repeats_it(proxy: Proxy, answer: bytes) -> None:
    proxy.answer(answer)
    async with dashboard(with_secret(proxy.url), timeout_s=5) as pilot:
        assert_hidden(await until(pilot, "✗ no data yet", "Try: "))
        assert quote(SECRET).encode() not in proxy.asked
        assert SECRET.encode() in proxy.asked
        await press(pilot, "n")
        assert_hidden(await until(pilot, "Namespaces on this server"))


@pytest.mark.parametrize(
    "command",
    [
        ("snapshot",),
        ("check",),
        ("doctor",),
        ("queues", "list"),
        ("messages", "list", "orders"),
        ("audit",),
        ("journal",),
    ],
    ids=" ".join,
)
def test_no_command_repeats_what_a_server_says_of_it(
    proxy: Proxy, command: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    for words in ("cannot log in as ann with {}", "WRONGTYPE {}", "NOPERM no '{}'", "unknown command EVAL {}"):
        proxy.answer(f"-{words.format(SECRET)}\r\n".encode())
        assert main(["-r", with_secret(proxy.url), *command]) in {0, 1, 2, 3}
        printed = capfd.readouterr()
        assert_hidden(printed.out + printed.err)


async def test_the_exporter_repeats_nothing_of_it(proxy: Proxy) -> None:
    proxy.answer(f"-{SECRET} ann:{SECRET}\r\n".encode())
    async with exporting(with_secret(proxy.url), timeout_s=1.0) as exporter:
        metrics, health = await exporter.get(), await exporter.get("/healthz")
    assert metrics.value("rsmq_up") == 0
    assert health.status == 503
    assert_hidden(metrics.text + health.text)


@pytest.mark.parametrize("place", ["?password=", "?username=ann&password="])
async def test_nor_one_among_the_options_of_the_url(client: Redis, redis_url: str, place: str) -> None:
    async with dashboard(f"{redis_url}{place}{quote(SECRET)}") as pilot:
        assert_hidden(await until(pilot, lambda: "connecting …" not in str(pilot.app.title), "redis://127.0.0.1"))


@pytest.mark.parametrize("command", [[], ["snapshot"]], ids=["dashboard", "snapshot"])
@pytest.mark.parametrize("password", UNQUOTED)
def test_a_url_that_cannot_be_read_is_refused_without_repeating_it(
    password: str, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A URL that can be read after all would open the dashboard.
    monkeypatch.setattr(
        "rsmq_tui.tui.app.RsmqApp.run", lambda app: sys.stdout.write(app.dashboard.servers[0].source._last.server)
    )
    assert main([*command, "-r", f"redis://ann:{password}@127.0.0.1:1/0"]) in ({0, 2} if not command else {2})

    printed = capsys.readouterr()
    for part in (password, password[:4], password[-3:]):
        assert part not in printed.out + printed.err
    assert "Traceback" not in printed.err
    assert printed.out + printed.err


def test_the_list_of_processes_does_not_tell_it(orders: Redis, redis_url: str, tmp_path: Path) -> None:
    orders.acl_setuser("ann", enabled=True, passwords=[f"+{SECRET}"], keys="*", commands=["+@all"])
    with Terminal(settings=tmp_path, environment={"REDIS_URL": with_secret(redis_url)}) as terminal:
        terminal.wait_for("● live", "orders", "? help")
        processes = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,args="], check=True, capture_output=True, text=True
        ).stdout
        assert str(terminal.process.pid) in processes
        assert_hidden(processes)
        terminal.type("q")
        terminal.wait_for_end()
        assert_hidden(terminal.output.decode())
