"""A real Chromium, driven over its DevTools protocol."""

import asyncio
import base64
import codecs
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from tests.hostile.emulator import Screen
from tests.waiting import SECONDS_MAX, until

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--hide-scrollbars",
)
# The text of the terminal is on a canvas: this keeps what the page got from its session.
_SPY = """
window.received = [];
const Real = window.WebSocket;
window.WebSocket = class extends Real {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", (event) => {
      if (typeof event.data !== "string") window.received.push(...new Uint8Array(event.data));
    });
  }
};
"""


class Page:
    """One page of the browser; ``requests`` are the addresses of all that it asked for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.screen = Screen(200, 60)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._reading = asyncio.create_task(self._read())

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._number += 1
        future = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(SECONDS_MAX):
            answer = await future
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def open(self, address: str) -> None:
        """Go to an address, or to the same one again."""
        self.screen = Screen(200, 60)
        await self.call("Page.navigate", url=address)

    async def text(self) -> str:
        """Return the words on the screen of the terminal that the page shows."""
        part = bytes(await self.evaluate("(window.received || []).splice(0)"))
        self.screen.write(self._decoder.decode(part))
        return self.screen.text

    async def says(self, *words: str) -> None:
        """Wait until words are on the screen."""

        async def holds() -> bool:
            text = await self.text()
            return all(each in text for each in words)

        try:
            await self.until(holds, str(words))
        except AssertionError as error:
            raise AssertionError(f"{error}; on the screen is\n{self.screen.text}") from None

    async def ended(self) -> str:
        """Wait until the page says that its session has ended, and return why."""
        await self.until(lambda: self.evaluate("!document.getElementById('ended').hidden"), "the session ends")
        return str(await self.evaluate("document.getElementById('why').textContent"))

    async def type(self, text: str) -> None:
        """Press the keys of a text."""
        for character in text:
            await self.call("Input.dispatchKeyEvent", type="keyDown", text=character, key=character)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=character)

    async def press(self, key: str, code: int, modifiers: int = 0, **more: Any) -> None:
        """Press a key that is no character; ``code`` is its number in Windows."""
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers, **more}
        await self.call("Input.dispatchKeyEvent", type="rawKeyDown", **pressed)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def click(self, x: float, y: float) -> None:
        """Click a point of the page."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def resize(self, width: int, height: int) -> None:
        """Give the window another size; what is drawn anew is for a screen that is empty."""
        self.screen = Screen(200, 60)
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def grant(self, origin: str, *permissions: str) -> None:
        """Grant pages of an origin the permissions that browsers ask their user for."""
        await self.call("Browser.grantPermissions", origin=origin, permissions=list(permissions))

    async def picture(self) -> bytes:
        """Return a picture of the page, as PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])

    async def until(self, holds: Callable[[], Awaitable[object]], what: str) -> None:
        """Wait until a condition holds."""
        try:
            await until(holds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.problems}") from None

    async def aclose(self) -> None:
        """Close the page."""
        with suppress(ConnectionError, AssertionError, TimeoutError):
            await self.call("Page.close")
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            reply = json.loads(message.data)
            if "id" in reply:
                self._waiting.pop(reply["id"]).set_result(reply)
            elif reply["method"] == "Network.requestWillBeSent":
                self.requests.append(reply["params"]["request"]["url"])
            elif reply["method"] == "Network.webSocketCreated":
                self.requests.append(reply["params"]["url"])
            elif reply["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(json.dumps(reply["params"]))
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the page is closed"))


class Chromium:
    """A browser with an empty profile."""

    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self._address = address
        self._session = session
        self._pages: list[Page] = []

    async def page(self, address: str, size: tuple[int, int] = (1200, 700)) -> Page:
        """Open an address on a new page."""
        async with self._session.put(f"http://{self._address}/json/new?about:blank") as answer:
            target = await answer.json()
        page = Page(await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0))
        self._pages.append(page)
        for domain in ("Page", "Network", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=_SPY)
        await page.resize(*size)
        await page.open(address)
        return page

    async def aclose(self) -> None:
        """Close all pages."""
        await asyncio.gather(*(page.aclose() for page in self._pages), return_exceptions=True)


def _port(folder: str) -> str:
    """The port of the DevTools, empty while they do not listen."""
    path = Path(folder, "DevToolsActivePort")
    first, _, rest = path.read_text().partition("\n") if path.exists() else ("", "", "")
    return first if rest else ""


@asynccontextmanager
async def chromium() -> AsyncIterator[Chromium]:
    """Start a browser, and end it with all its processes."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "there is no Chromium: apt install chromium"
    with TemporaryDirectory(prefix="rsmq-chromium-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            program,
            *_ARGUMENTS,
            f"--user-data-dir={folder}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await until(lambda: _port(folder), "Chromium listens")
            async with aiohttp.ClientSession() as session:
                browser = Chromium(f"127.0.0.1:{_port(folder)}", session)
                try:
                    yield browser
                finally:
                    await browser.aclose()
        finally:
            process.terminate()
            await process.wait()
