"""The HTTP server of the pages in this process."""

import gc
import weakref

import aiohttp
import pytest

from rsmq_tui.web.access import Access
from rsmq_tui.web.server import Served, WebServer
from tests.waiting import until


class Circle:
    def __init__(self) -> None:
        self.own = self


async def test_the_garbage_of_a_session_does_not_wait_for_the_next_collection() -> None:
    failures: list[str] = []
    server = WebServer(Served(lambda link: ["--version"], {}, Access()), failures.append)
    base = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    gc.disable()
    try:
        circle = weakref.ref(Circle())
        asked = {"width": "80", "height": "24"}
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"{base}/ws", params=asked, origin=base) as socket:
                await socket.receive()
            assert circle() is not None
            await until(lambda: circle() is None, "it is collected")
    finally:
        gc.enable()
        await server.aclose()
    assert failures == []


async def test_headers_that_are_no_addresses_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    server = WebServer(Served(lambda link: ["--version"], {}, Access()), pytest.fail)
    base = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    try:
        async with aiohttp.ClientSession() as session:
            for host in ("[", "[::1", "]"):
                async with session.get(f"{base}/", headers={"Host": host}) as answer:
                    assert answer.status == 421, host
            with pytest.raises(aiohttp.WSServerHandshakeError) as error:
                await session.ws_connect(f"{base}/ws?width=80&height=24", origin="http://[")
            assert error.value.status == 403
    finally:
        await server.aclose()
    assert caplog.records == []
