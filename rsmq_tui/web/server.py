"""The HTTP server: the page, its scripts and fonts, and one WebSocket for each session."""

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from rsmq_tui.heap import give_back
from rsmq_tui.web.access import Access, Answer, is_same_origin
from rsmq_tui.web.sessions import Session, Size, size_of

# The only files used of the package textual-serve: xterm.js in one script, its style and a font.
_PACKAGE = "textual_serve"
_STATIC = {
    "css/xterm.css": "text/css",
    "js/textual.js": "text/javascript",
    "fonts/RobotoMono-VariableFont_wght.ttf": "font/ttf",
    "fonts/RobotoMono-Italic-VariableFont_wght.ttf": "font/ttf",
}
_OWN = {"page.css": "text/css", "page.js": "text/javascript"}
_HEADERS = {
    # xterm.js adds styles to the page.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_MESSAGE_BYTES_MAX = 1_000_000
_LINK_CHARACTERS_MAX = 4_000
_HEARTBEAT_S = 20.0
_PLACE_S = 5.0
_STATUS_USAGE = 2
# The maximum of a WebSocket's close frame.
_REASON_BYTES_MAX = 120
_CLOSE_S = 2.0
# After the end of a session, when nothing refers to it any more.
_COLLECT_S = 1.0
# Our own close codes; the page shows the reason.
CLOSE_FULL, CLOSE_IDLE, CLOSE_ENDED, CLOSE_FAILED = 4001, 4002, 4003, 4004


@dataclass(frozen=True, slots=True)
class Served:
    """The served program: its ``arguments`` for a link, and additions to the environment of a session.

    ``prefix`` precedes all paths; it is empty, or such as ``/dash``. A session ends after ``idle_s`` without input.
    """

    arguments: Callable[[str], Sequence[str]]
    environment: Mapping[str, str]
    access: Access
    prefix: str = ""
    sessions_max: int = 10
    idle_s: float = 1_800.0


class WebServer:
    """Serves the page on an address until ``aclose``; ``failed`` gets the reason why a session could not start."""

    def __init__(self, served: Served, failed: Callable[[str], None]) -> None:
        self._served = served
        self._failed = failed
        self._pages: set[web.WebSocketResponse] = set()
        self._places = asyncio.Semaphore(served.sessions_max)
        self._all_ended = asyncio.Event()
        self._all_ended.set()
        self._runner: web.AppRunner | None = None
        self._is_closing = False
        package = files(_PACKAGE) / "static"
        own = files("rsmq_tui.web") / "page"
        # Read once, by a list of names: the path of a request is never used as the path of a file.
        self._files = {name: (package.joinpath(name).read_bytes(), kind) for name, kind in _STATIC.items()}
        self._files |= {name: (own.joinpath(name).read_bytes(), kind) for name, kind in _OWN.items()}
        self._page = own.joinpath("index.html").read_bytes()
        self._locked = own.joinpath("locked.html").read_bytes()

    @property
    def sessions(self) -> int:
        """The number of open sessions."""
        return len(self._pages)

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; raises ``OSError``."""
        prefix = self._served.prefix
        app = web.Application(middlewares=[self._guard], client_max_size=1024)
        app.add_routes([web.get(f"{prefix}/", self._show), web.get(f"{prefix}/ws", self._run)])
        app.add_routes([web.get(f"{prefix}/static/{{name:.+}}", self._file)])
        if prefix:
            app.add_routes([web.get(prefix, self._add_slash)])
        app.on_response_prepare.append(_add_headers)
        # Requests are not logged, because their addresses may contain the secret.
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        address: Any = self._runner.addresses[0]
        return int(address[1])

    async def aclose(self) -> None:
        """End all sessions with their processes, and stop listening."""
        self._is_closing = True
        going = (page.close(code=WSCloseCode.GOING_AWAY, message=b"the server has ended") for page in list(self._pages))
        await asyncio.gather(*going)
        await self._all_ended.wait()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        access = self._served.access
        if not access.is_host(request.host):
            return web.Response(status=421, text="this address is for another host\n")
        answer = access.judge(request.query.get("secret"), request.cookies, request.headers.get("Authorization"))
        if answer is Answer.ALLOWED:
            return await handler(request)
        if answer is Answer.ASK:
            return web.Response(
                status=401,
                headers={"WWW-Authenticate": 'Basic realm="rsmq-tui", charset="UTF-8"'},
                text="a user and a password are required\n",
            )
        if answer is Answer.REFUSED or not request.path.endswith("/"):
            return web.Response(status=403, body=self._locked, content_type="text/html", charset="utf-8")
        # Browsers keep the fragment; the secret is removed.
        response = web.Response(status=303, headers={"Location": f"{self._served.prefix}/"})
        is_secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
        response.set_cookie(
            *access.cookie,
            path=f"{self._served.prefix}/",
            httponly=True,
            samesite="Strict",
            secure=is_secure,
        )
        return response

    async def _add_slash(self, _: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": f"{self._served.prefix}/"})

    async def _show(self, _: web.Request) -> web.Response:
        return web.Response(body=self._page, content_type="text/html", charset="utf-8")

    async def _file(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["name"])
        if found is None:
            return web.Response(status=404, text="there is no such file\n")
        body, kind = found
        response = web.Response(body=body, content_type=kind)
        response.headers["Cache-Control"] = "private, max-age=3600"
        return response

    async def _run(self, request: web.Request) -> web.StreamResponse:
        """Run one session over a WebSocket, until its page is closed or the dashboard ends."""
        origin = request.headers.get("Origin")
        if not is_same_origin(origin, request.host):
            return web.Response(status=403, text="this is not the page of this server\n")
        size = size_of(request.query.get("width"), request.query.get("height"))
        link = request.query.get("link", "")
        if size is None or len(link) > _LINK_CHARACTERS_MAX or not link.isprintable():
            return web.Response(status=400, text="the page sent an invalid request\n")
        page = web.WebSocketResponse(
            timeout=_CLOSE_S, heartbeat=_HEARTBEAT_S, max_msg_size=_MESSAGE_BYTES_MAX, compress=False
        )
        await page.prepare(request)
        served = self._served
        try:
            # When a page is reloaded, its last session may not have ended yet.
            async with asyncio.timeout(_PLACE_S):
                await self._places.acquire()
        except TimeoutError:
            words = f"{served.sessions_max} sessions are open, which is the limit: close one"
            await page.close(code=CLOSE_FULL, message=words.encode())
            return page
        self._pages.add(page)
        self._all_ended.clear()
        try:
            if not (self._is_closing or page.closed):
                await self._run_session(page, link, size, f"{origin}{served.prefix}/")
        finally:
            self._pages.discard(page)
            self._places.release()
            if not self._pages:
                self._all_ended.set()
            # A session leaves garbage in circles. Little else here makes any, so it would wait for half an hour.
            asyncio.get_running_loop().call_later(_COLLECT_S, _collect)
        return page

    async def _run_session(self, page: web.WebSocketResponse, link: str, size: Size, address: str) -> None:
        served = self._served
        environment = {**served.environment, "RSMQ_TUI_ADDRESS": address}
        session = await Session.start(served.arguments(link), size, environment)
        try:
            await self._connect(page, session)
        finally:
            # Even if the server is cancelled meanwhile: no process outlives its page.
            await asyncio.shield(session.aclose())

    async def _connect(self, page: web.WebSocketResponse, session: Session) -> None:
        """Pass on messages of the page and the session, until one of them ends, or there was no input for too long."""
        idle_s, clock = self._served.idle_s, asyncio.get_running_loop().time

        async def read_page(deadline: asyncio.Timeout) -> None:
            async for message in page:
                if message.type is WSMsgType.TEXT and await _pass_on(message.data, page, session):
                    deadline.reschedule(clock() + idle_s)

        async def read_session() -> None:
            with suppress(ConnectionError, RuntimeError):
                async for data in session.output():
                    await page.send_bytes(data)

        writing = asyncio.create_task(read_session())
        reading: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(idle_s) as deadline:
                reading = asyncio.create_task(read_page(deadline))
                await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            has_ended = writing.done()
        except TimeoutError:
            await page.close(code=CLOSE_IDLE, message=b"the session was closed because there was no input")
            has_ended = False
        finally:
            tasks = [task for task in (reading, writing) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if has_ended:
            await self._close_page(page, session)

    async def _close_page(self, page: web.WebSocketResponse, session: Session) -> None:
        await session.aclose()
        if session.status in (0, None) or not session.errors:
            await page.close(code=CLOSE_ENDED, message=b"the session has ended")
            return
        errors = session.errors.decode("utf-8", "replace")
        self._failed(errors)
        # A usage error concerns the link or the options; other errors are not shown on the page.
        why = errors.strip().splitlines()[-1] if session.status == _STATUS_USAGE else ""
        words = why or "the session has failed: the server's output says why"
        reason = words.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
        await page.close(code=CLOSE_FAILED, message=reason.encode())


def _collect() -> None:
    gc.collect()
    # A session begins with a snapshot in full, which takes much for a moment.
    give_back()


async def _pass_on(text: str, page: web.WebSocketResponse, session: Session) -> bool:
    """Pass on a message of the page, and return whether it is user input; invalid messages are ignored."""
    try:
        kind, *rest = json.loads(text)
        given: Any = rest[0] if rest else None
        if kind == "stdin" and isinstance(given, str):
            await session.write(given.encode("utf-8", "replace"))
            return True
        if kind == "resize" and isinstance(given, dict) and (size := size_of(given.get("width"), given.get("height"))):
            await session.resize(size)
        elif kind in ("focus", "blur"):
            await session.focus(has_focus=kind == "focus")
        elif kind == "ping" and isinstance(given, str):
            await page.send_json(["pong", given[:100]])
    except (ValueError, TypeError, RecursionError):
        pass
    return False


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
