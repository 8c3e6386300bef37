"""`rsmq-tui serve` as a process, and its pages: what they show, how many, who may open them, and what ends them."""

import asyncio
import base64
import signal
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Rsmq
from rsmq_tui.tui.links import Link
from tests.cli.running import call
from tests.history.replayed import Tape, said
from tests.waiting import until
from tests.web.serving import Serving, alive, kill, serving, viewing

pytestmark = pytest.mark.slow

START_MS = 1_936_883_400_000
SECRET = "a secret of enough characters"


@pytest.fixture
def url(redis_url: str, client: Redis) -> str:
    """A server with two queues."""
    rsmq = Rsmq(client)
    for name, bodies in {"orders": ["one", "two"], "mails": ["three"]}.items():
        rsmq.create_queue(name)
        rsmq.send_messages(name, bodies)
    return redis_url


async def ask(at: Serving, path: str = "", **options: Any) -> tuple[int, dict[str, str], str]:
    """The status, headers and body of a request, without what a browser follows."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{at.base}{path}", allow_redirects=False, **options) as answer,
    ):
        return answer.status, dict(answer.headers), (await answer.read()).decode("utf-8", "replace")


async def refused(at: Serving, origin: str | None, **headers: str) -> int:
    """The status with which a WebSocket is refused."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            await session.ws_connect(f"{at.base}ws?width=80&height=24", origin=origin, headers=headers)
    return error.value.status


def time_of_polls(client: Redis, polls: int) -> float:
    """The seconds, by the server's clock, from the first to the last of so many polls."""
    times: list[float] = []
    with client.monitor() as monitor:
        for reply in monitor.listen():
            if str(reply["command"]).upper().startswith("SMEMBERS"):
                times.append(reply["time"])
            if len(times) == polls:
                break
    return times[-1] - times[0]


async def test_the_page_and_its_files_come_from_here_and_go_to_no_other_page(url: str, tmp_path: Path) -> None:
    async with serving("-r", url, "serve", "--port", "0", "--prefix", "/dash/", state=tmp_path) as at:
        status, headers, page = await ask(at)
        script = await ask(at, "static/js/textual.js")
        font = await ask(at, "static/fonts/RobotoMono-VariableFont_wght.ttf")
        outside = [
            await ask(at, f"static/{name}") for name in ("../server.py", "%2e%2e/__init__.py", "/etc/passwd", "")
        ]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{at.origin}/") as answer:
                above = answer.status
            async with session.get(f"{at.origin}/dash", allow_redirects=False) as answer:
                slash = answer.status, answer.headers["Location"]
        port = at.origin.rpartition(":")[2]
        origins = [
            None,
            "null",
            "http://evil.example",
            f"http://evil.example:{port}",
            f"https://127.0.0.1:{int(port) - 1}",
        ]
        assert [await refused(at, origin) for origin in origins] == [403] * len(origins)
        rebound = f"evil.example:{port}"
        assert (await ask(at, headers={"Host": rebound}))[0] == 421
        assert await refused(at, f"http://{rebound}", Host=rebound) == 421
        assert (await ask(at, headers={"Host": f"localhost:{port}"}))[0] == 200
        assert not at.sessions

    assert at.base.endswith("/dash/")
    assert (status, script[0], font[0], above, slash) == (200, 200, 200, 404, (308, "/dash/"))
    assert {each[0] for each in outside} == {404}
    assert "http" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_several_pages_cost_the_server_what_one_does(url: str, client: Redis, tmp_path: Path) -> None:
    """The poller of all of them rests after each poll: with one for each page, there would be twice as many."""
    async with (
        serving("-r", url, "--interval", "0.1", "serve", "--port", "0", state=tmp_path) as at,
        AsyncExitStack() as stack,
    ):
        pages = [await stack.enter_async_context(viewing(at)) for _ in range(2)]
        for page in pages:
            await page.says("orders: ")
        assert await asyncio.to_thread(time_of_polls, client, 11) >= 10 * 0.1


async def test_a_page_goes_its_own_way_and_leaves_no_process(url: str, client: Redis, tmp_path: Path) -> None:
    Rsmq(client, ns="jobs").create_queue("nightly")
    async with serving("-r", url, "serve", "--port", "0", state=tmp_path) as at, viewing(at) as one:
        await one.says("orders")
        first = at.sessions
        async with viewing(at) as other:
            await other.says("orders")
            second = at.sessions - first
            await other.type("n")
            await other.says("jobs")
            await other.type("\r")
            await other.says("nightly")
            assert "nightly" not in one.text
            await asyncio.gather(other.type("p"), one.says("live"))
            await other.says("paused")
        await until(lambda: not alive(second), "the processes of the closed page end")
        assert alive(first) == first
        # As a browser that is killed.
        assert one.socket._conn is not None
        assert one.socket._conn.transport is not None
        one.socket._conn.transport.abort()
        await until(lambda: not at.sessions, "those of the other one end too")


@pytest.mark.parametrize(("number", "pages"), [(signal.SIGTERM, 2), (signal.SIGINT, 1), (signal.SIGKILL, 1)])
async def test_the_sessions_end_with_the_server(url: str, tmp_path: Path, number: int, pages: int) -> None:
    async with serving("-r", url, "serve", "--port", "0", state=tmp_path) as at, AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(viewing(at)) for _ in range(pages)]
        for page in opened:
            await page.says("orders")
        pids = at.sessions
        kill(at.process.pid, number)
        status = await at.process.wait()
        code, _ = await opened[0].closed()
        await until(lambda: not alive(pids), "all processes end")

    assert len(pids) == pages
    assert status == {signal.SIGTERM: 0, signal.SIGINT: 130, signal.SIGKILL: -9}[signal.Signals(number)]
    assert code in (1001, 1006)


async def test_a_page_in_which_nothing_is_typed_ends(url: str, tmp_path: Path) -> None:
    arguments = ("-r", url, "serve", "--port", "0", "--idle", "2s")
    async with serving(*arguments, state=tmp_path) as at, viewing(at) as page:
        assert await page.closed() == (4002, "the session was closed because there was no input")
        await until(lambda: not at.sessions, "its process ends")


async def test_a_page_too_many_is_told_so(url: str, tmp_path: Path) -> None:
    async with (
        serving("-r", url, "serve", "--port", "0", "--sessions", "1", state=tmp_path) as at,
        viewing(at) as page,
        viewing(at) as another,
    ):
        assert await another.closed() == (4001, "1 sessions are open, which is the limit: close one")
        assert not page.is_closed


async def test_the_secret_opens_the_page_and_leaves_the_address(url: str, tmp_path: Path) -> None:
    async with serving("-r", url, "serve", "--port", "0", state=tmp_path, env={"RSMQ_TUI_SECRET": SECRET}) as at:
        without, wrong = await ask(at), await ask(at, params={"secret": "another secret of that length"})
        status, headers, _ = await ask(at, params={"secret": SECRET})
        name, _, cookie = headers["Set-Cookie"].partition(";")[0].partition("=")
        page = await ask(at, cookies={name: cookie})
        forged = await ask(at, cookies={name: SECRET})
        sockets = [await refused(at, at.origin), await refused(at, at.origin, Cookie=f"{name}=no")]
        script = await ask(at, "static/page.js")
        async with viewing(at, headers={"Cookie": f"{name}={cookie}"}) as viewer:
            await viewer.says("orders")
        assert at.process.stderr is not None
        at.process.terminate()
        reply = (await at.process.stderr.read()).decode()

    assert (without[0], wrong[0], forged[0], script[0], sockets) == (403, 403, 403, 403, [403, 403])
    assert (status, headers["Location"], page[0]) == (303, "/", 200)
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]
    assert SECRET not in cookie + at.line + reply


async def test_a_made_secret_is_in_the_printed_address(url: str, tmp_path: Path) -> None:
    async with serving("-r", url, "serve", "--port", "0", "--secret", "--host", "0.0.0.0", state=tmp_path) as at:
        async with aiohttp.ClientSession() as session, session.get(at.address, allow_redirects=False) as answer:
            assert answer.status == 303
        assert (await ask(at))[0] == 403

    assert "?secret=" in at.address


async def test_a_user_and_a_password_of_the_configuration(url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[web]\nuser = "ops"\npassword_env = "DASH"\n')
    arguments = ("-r", url, "--config", str(config), "serve", "--port", "0")
    async with serving(*arguments, state=tmp_path, env={"DASH": "päss"}) as at:
        asked = await ask(at)
        given = []
        for words in ("ops:päss", "ops:pass", "admin:päss", "ops"):
            header = base64.b64encode(words.encode()).decode()
            given.append((await ask(at, headers={"Authorization": f"Basic {header}"}))[0])
        nonsense = await ask(at, headers={"Authorization": "Basic \xff"})

    assert (asked[0], "Basic" in asked[1]["WWW-Authenticate"]) == (401, True)
    assert given == [200, 401, 401, 401]
    assert nonsense[0] in (400, 401)


def test_an_address_for_others_needs_a_secret_or_a_password(tmp_path: Path) -> None:
    reply = call("serve", "--host", "0.0.0.0", "--port", "0", env={"HOME": str(tmp_path)})

    assert reply.returncode == 2
    assert "--secret" in reply.stderr
    assert "nginx or Caddy serve https" in reply.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("doctor",), "serve shows the dashboard, or one of demo, replay, history"),
        (("demo", "--headless"), "takes no --headless"),
        (("replay",), "Missing argument"),
        (("replay", "/nowhere/at/all"), "/nowhere/at/all is not a history"),
        (("history", "/nowhere/at/all"), "/nowhere/at/all is not an analysis"),
        (("--prefix", "/a b"), "is not a path"),
        (("--prefix", "/.."), "is not a path"),
        (("--sessions", "0"), "not a whole number"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    reply = call("serve", *arguments, env={"HOME": str(tmp_path)})

    assert reply.returncode == 2
    assert words in reply.stderr


def test_a_folder_for_temporary_files_with_a_path_too_long_for_a_socket(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    reply = call("-r", url, "serve", "--port", "0", env={"HOME": str(tmp_path)})

    assert reply.returncode == 2
    assert "AF_UNIX path too long; TMPDIR can name another folder" in reply.stderr


@pytest.mark.parametrize("what", ["demo", "replay", "history"])
def test_the_help_of_what_is_served_is_that_of_its_command(what: str, tmp_path: Path) -> None:
    reply = call("serve", what, "--help", env={"HOME": str(tmp_path)})

    assert reply.returncode == 0
    assert reply.stdout == call(what, "--help", env={"HOME": str(tmp_path)}).stdout


async def test_a_link_opens_a_queue_with_its_filter(url: str, tmp_path: Path) -> None:
    async with serving("-r", url, "serve", "--port", "0", state=tmp_path) as at:
        async with viewing(at, "queue/orders?filter=body%3Atwo") as page:
            await page.says("orders", "body:two")
            await page.type("Y")
            await page.says("copied the address")
            copied = base64.b64encode(f"{at.base}#/queue/orders?filter=body%3Atwo".encode())
            await until(lambda: b"\x1b]52;c;" + copied in page.output, "the address is in the clipboard")
        for link, words in {
            "queue/%1b%5d0;x%07?server=nowhere": "the link is for nowhere",
            "queue/[/none]": "is not part of a link",
        }.items():
            async with viewing(at, link) as page:
                if "part of" in words:
                    code, why = await page.closed()
                    assert (code, words in why) == (4004, True)
                else:
                    await page.says(words)
                assert b"\x1b]0;" not in page.output


async def test_what_needs_this_machine_is_not_on_a_page(url: str, tmp_path: Path) -> None:
    async with (
        serving("-r", url, "serve", "--port", "0", "--allow-changes", state=tmp_path) as at,
        viewing(at, "queue/orders") as page,
    ):
        await page.says("two", "delete")
        # Export, edit in $EDITOR and known trouble; then what is there.
        await page.type("EVN")
        await page.type("x")
        await page.says("Delete")
    assert "queues can be changed" in at.line


async def test_a_page_takes_keys_and_nothing_that_is_no_message(url: str, tmp_path: Path) -> None:
    async with serving("-r", url, "serve", "--port", "0", state=tmp_path) as at, viewing(at) as page:
        await page.says("orders", "mails", "read-only", "live")
        nonsense: list[Any] = [
            5, [], ["stdin"], ["stdin", 5], ["resize", {"width": -1, "height": 9}], ["resize", {"width": "x"}],
            ["resize", {"width": 10**9, "height": 10**9}], ["resize", 3], ["quit"], {"a": 1}, None, ["ping", 3],
        ]  # fmt: skip
        for each in nonsense:
            await page.socket.send_json(each)
        await page.socket.send_str("[" * 5000)
        await page.socket.send_bytes(b"D\xff\xff\xff\xff")
        await page.socket.send_json(["ping", "7"])
        await until(lambda: ["pong", "7"] in page.messages, "it answers")
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{at.base}ws?width=0&height=5", headers={"Origin": at.origin}) as answer,
        ):
            assert answer.status == 400
        await page.type("/mails\r")
        await page.says("mails: ")
        await page.socket.send_json(["resize", {"width": 100, "height": 24}])
        before = len(page.output)
        await until(lambda: len(page.output) > before, "it is drawn in its new size")
        await page.type("q")
        assert (await page.closed())[0] == 4003
        await until(lambda: not at.sessions, "its process ends")


async def test_an_outage_of_the_server_is_shown(tmp_path: Path) -> None:
    with EmbeddedServer() as server:
        async with serving("-r", server.url, "serve", "--port", "0", state=tmp_path) as at, viewing(at) as page:
            await page.says("live")
            server.stop()
            await page.says("refused")


async def test_the_demo_is_one_for_all(tmp_path: Path) -> None:
    async with serving("serve", "--port", "0", "demo", "--scenario", "healthy", state=tmp_path) as at:
        own = at.sessions
        async with viewing(at, size=(160, 40)) as one, viewing(at, size=(160, 40)) as two:
            await one.says("queue:webhooks-out", "emails")
            await two.says("queue:webhooks-out", "emails")
            assert len(at.sessions - own) == 2
        at.process.send_signal(signal.SIGINT)
        assert await at.process.wait() == 130
        await until(lambda: not alive(own), "the demo ends")


async def test_a_replay_opens_at_the_moment_of_a_link(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "history")
    for minute in range(60):
        tape.poll(START_MS + minute * 60_000, said("ok", depth=minute))
    tape.seal()
    at_ms = START_MS + 30 * 60_000
    link = str(Link("orders", at_ms=at_ms))
    async with serving("serve", "--port", "0", "replay", str(tmp_path / "history"), state=tmp_path) as at:
        async with viewing(at, link) as page:
            await page.says("◀ orders", "30", "paused")
            await page.type("Y")
            await page.says("copied the address")
            copied = base64.b64encode(f"{at.base}#/{link}".encode())
            await until(lambda: b"\x1b]52;c;" + copied in page.output, "the address is in the clipboard")
        async with viewing(at, "at/1999-01-01T00:00:00Z") as page:
            await page.says("ok")


async def test_the_history_screen(analysis_folder: Path, tmp_path: Path) -> None:
    async with (
        serving("serve", "--port", "0", "history", str(analysis_folder), state=tmp_path) as at,
        viewing(at, "queue/orders") as page,
    ):
        await page.says("Incidents")


async def test_pages_of_several_servers(url: str, client: Redis, tmp_path: Path) -> None:
    Rsmq(client, ns="mails").create_queue("orders")
    config = tmp_path / "config.toml"
    config.write_text(
        f'[profiles.live]\nurl = "{url}"\nnamespaces = ["rsmq", "mails"]\n'
        '[profiles.dead]\nurl = "redis://127.0.0.1:1/0"\npassword_env = "DEAD"\n'
    )
    arguments = ("--config", str(config), "--profile", "live,dead", "serve", "--port", "0")
    async with (
        serving(*arguments, state=tmp_path, env={"DEAD": "hunter2"}) as at,
        viewing(at, "queue/orders?server=live%20mails", size=(160, 40)) as page,
    ):
        await page.says("orders", "live mails")
        await page.type("q")
        await page.says("dead", "live rsmq", "live mails")
        assert "hunter2" not in page.text
