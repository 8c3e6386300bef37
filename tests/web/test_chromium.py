"""The page in a real Chromium: keys, mouse, size, clipboard, and how it ends."""

import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.waiting import until
from tests.web.chromium import Chromium, Page, chromium
from tests.web.serving import Serving, alive, kill, serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

_ENTER = ("Enter", 13)


@pytest.fixture
async def browser() -> AsyncIterator[Chromium]:
    async with chromium() as running:
        yield running


@pytest.fixture
async def at(redis_url: str, client: Redis, tmp_path: Path) -> AsyncIterator[Serving]:
    """A server with some queues, and pages of it."""
    rsmq = Rsmq(client)
    for name, bodies in {"orders": ["one", "two"], "mails": ["three"]}.items():
        rsmq.create_queue(name)
        rsmq.send_messages(name, bodies)
    async with serving("-r", redis_url, "serve", "--port", "0", "--prefix", "/dash", state=tmp_path) as running:
        yield running


def check_requests(page: Page, at: Serving) -> None:
    """No request has left the address of the server."""
    hosts = {urlsplit(address).netloc for address in page.requests if urlsplit(address).scheme != "data"}
    assert hosts == {urlsplit(at.base).netloc}


def check_problems(page: Page) -> None:
    """Nothing of the page has failed."""
    failed = [reply for reply in page.problems if "WebGL" not in reply]
    assert failed == []


async def press_enter(page: Page) -> None:
    await page.press(*_ENTER, text="\r")


async def test_it_opens_and_takes_keys_without_a_click(browser: Chromium, at: Serving) -> None:
    page = await browser.page(at.address)
    await page.says("orders", "mails", "read-only", "? help")
    await page.type("/mails")
    await press_enter(page)
    await page.says("mails: ")
    fonts = await page.evaluate("[...document.fonts].filter(font => font.status === 'loaded').length")
    picture = await page.picture()

    check_requests(page, at)
    check_problems(page)
    assert fonts == 2
    assert any(address.endswith("/dash/static/fonts/RobotoMono-VariableFont_wght.ttf") for address in page.requests)
    assert picture.startswith(b"\x89PNG")


async def test_the_whole_terminal_is_in_sight(browser: Chromium, at: Serving) -> None:
    """With another font than at its measurement, the last lines would be below the window."""
    page = await browser.page(at.address, (1000, 600))
    await page.says("? help")
    screen = "document.querySelector('.xterm-screen').getBoundingClientRect()"

    assert await page.evaluate(f"{screen}.bottom") <= 600
    assert await page.evaluate(f"{screen}.bottom") > 560
    assert await page.evaluate(f"{screen}.right") <= 1000


async def test_the_mouse(browser: Chromium, at: Serving) -> None:
    page = await browser.page(at.address)
    await page.says("orders: ")
    lines = (await page.text()).splitlines()
    row = next(y for y, line in enumerate(lines) if re.match(r" \S \w+ +mails ", line))
    height = await page.evaluate("document.querySelector('.xterm-screen').getBoundingClientRect().height")
    shown = sum(1 for address in page.requests if "/ws?" in address)
    rows = int(page.requests[-1].rpartition("height=")[2].partition("&")[0])
    await page.click(60, (row + 0.5) * height / rows)
    await page.says("mails: ")

    assert shown == 1


async def test_a_window_of_another_size(browser: Chromium, at: Serving) -> None:
    page = await browser.page(at.address, (1400, 700))
    await page.says("First 2 of 2 messages")
    await page.resize(700, 400)
    await page.until(lambda: _is_narrow(page), "the pane leaves the narrow screen")
    await page.resize(1400, 700)
    await page.says("First 2 of 2 messages")


async def _is_narrow(page: Page) -> bool:
    text = await page.text()
    return "? help" in text and "First 2" not in text


async def test_paste_and_copy(browser: Chromium, at: Serving) -> None:
    page = await browser.page("about:blank")
    await page.grant(at.origin, "clipboardReadWrite", "clipboardSanitizedWrite")
    await page.open(f"{at.address}#/queue/orders?filter=body%3Atwo")
    await page.says("body:two")
    await page.type("Y")
    await page.says("copied the address")
    wanted = f"{at.base}#/queue/orders?filter=body%3Atwo"
    await page.until(lambda: _has_copied(page, wanted), "the address is in the clipboard")
    await page.open("about:blank")
    await page.open(at.address)
    await page.says("orders: ")
    await page.type("/")
    await page.evaluate(
        """{
        const data = new DataTransfer();
        data.setData("text/plain", "mails");
        const event = new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true});
        document.querySelector(".xterm-helper-textarea").dispatchEvent(event);
        }"""
    )
    await page.says("mails: ")


async def _has_copied(page: Page, text: str) -> bool:
    return bool(await page.evaluate("navigator.clipboard.readText()") == text)


async def test_two_viewers_and_a_reload(browser: Chromium, at: Serving) -> None:
    one = await browser.page(at.address)
    two = await browser.page(f"{at.address}#/queue/mails")
    await one.says("orders: ")
    await two.says("three")
    first = at.sessions
    assert len(first) == 2
    await two.open("about:blank")
    await until(lambda: len(at.sessions) == 1, "its session ends")
    await two.open(f"{at.address}#/queue/orders")
    await two.says("two")
    # Another link in the same page.
    await two.evaluate("void (location.hash = '#/queue/mails')")
    two.screen = type(two.screen)(200, 60)
    await two.says("three")
    await until(lambda: len(at.sessions) == 2, "the session before the link ends")
    await two.aclose()
    await until(lambda: len(at.sessions) == 1, "a closed page leaves no process")
    assert at.sessions <= first


async def test_a_server_that_is_gone(browser: Chromium, at: Serving) -> None:
    page = await browser.page(at.address)
    await page.says("orders: ")
    pids = at.sessions
    kill(at.process.pid, signal.SIGKILL)

    assert await page.ended() == "The connection to the server is lost."
    await until(lambda: not alive(pids), "the session ends")


async def test_a_session_that_ends_can_be_opened_again(browser: Chromium, at: Serving) -> None:
    page = await browser.page(at.address)
    await page.says("orders: ")
    await page.type("q")
    assert await page.ended() == "the session has ended"
    page.screen = type(page.screen)(200, 60)
    await page.evaluate("document.getElementById('again').click()")
    await page.says("orders: ")


async def test_a_secret_in_the_address(browser: Chromium, redis_url: str, client: Redis, tmp_path: Path) -> None:
    Rsmq(client).create_queue("orders")
    async with serving("-r", redis_url, "serve", "--port", "0", "--secret", state=tmp_path) as at:
        page = await browser.page(f"{at.base}?secret=wrong")
        await page.until(
            lambda: page.evaluate("document.body?.innerText.includes('contains its secret')"), "it is refused"
        )
        assert at.sessions == set()
        await page.open(f"{at.address}#/queue/orders")
        await page.says("orders", "no messages")
        assert await page.evaluate("location.href") == f"{at.base}#/queue/orders"
        # The cookie is not for scripts, and the page opens without the secret now.
        assert await page.evaluate("document.cookie") == ""
        await page.open("about:blank")
        await page.open(at.base)
        await page.says("orders: ")
        check_requests(page, at)


async def test_a_user_and_a_password(browser: Chromium, redis_url: str, client: Redis, tmp_path: Path) -> None:
    Rsmq(client).create_queue("orders")
    config = tmp_path / "config.toml"
    config.write_text('[web]\nuser = "ops"\npassword_env = "DASH"\n')
    arguments = ("-r", redis_url, "--config", str(config), "serve", "--port", "0")
    async with serving(*arguments, state=tmp_path, env={"DASH": "open sesame"}) as at:
        page = await browser.page(at.base.replace("http://", "http://ops:open%20sesame@"))
        await page.says("orders: ")
        # The WebSocket has the password from the browser.
        assert len(at.sessions) == 1
