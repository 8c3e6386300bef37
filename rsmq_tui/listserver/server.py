"""``ListServer``: listens, and serves from one thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from rsmq_tui.listserver.engine import Client, Engine
from rsmq_tui.listserver.faults import Fault

T = TypeVar("T")

# Each enters its commands into the table.
for _group in ("collection", "key", "list", "scripting", "server", "session"):
    import_module(f"rsmq_tui.listserver.{_group}_commands")


class ListServer:
    """A server for list queues, in memory only.

    As a context manager it runs in a thread of its own::

        with ListServer() as server:
            client = redis.Redis(port=server.port)

    ``port`` 0 takes a free port; with ``path`` it also listens on a Unix socket, and with ``port`` None only there.
    Raises ``ValueError`` for an address other than loopback without a password.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", port: int | None = 0, path: Path | str = "", password: str = ""
    ) -> None:
        if not password and port is not None and host not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError(f"{host} can be reached from other machines: set a password")
        self.engine = Engine(password)
        self.engine.host, self.engine.port, self.engine.path = host, port or 0, str(path)
        self.engine.on_shutdown = self.stop
        self._listens = port is not None
        self._thread: threading.Thread | None = None
        self._end: asyncio.Event | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.engine.port

    @property
    def url(self) -> str:
        """The URL for clients, without the password."""
        host = f"[{self.engine.host}]" if ":" in self.engine.host else self.engine.host
        return f"redis://{host}:{self.port}" if self._listens else f"unix://{quote(self.engine.path)}"

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self.engine.loop is not None

    @property
    def runs_scripts(self) -> bool:
        """Whether scripts can be executed: lupa is installed."""
        return find_spec("lupa") is not None

    # Start and end.

    async def run(self, on_start: Callable[[], object] = lambda: None) -> None:
        """Listen and serve until ``stop`` is called; raises ``OSError`` if it cannot bind the address."""
        engine = self.engine
        engine.loop = loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        listeners: list[asyncio.Server] = []
        try:
            if self._listens:
                listener = await loop.create_server(lambda: Client(engine), engine.host, engine.port, backlog=4096)
                listeners.append(listener)
                engine.port = listener.sockets[0].getsockname()[1]
            if engine.path:
                listeners.append(await loop.create_unix_server(lambda: Client(engine), engine.path))
            on_start()
            await self._end.wait()
        finally:
            for listener in listeners:
                listener.close()
            for client in list(engine.clients.values()):
                client.abort()
            if engine.path and listeners:
                await loop.run_in_executor(None, partial(Path(engine.path).unlink, missing_ok=True))
            engine.loop = None

    def start(self) -> Self:
        """Serve from a thread of its own; raises ``OSError`` if it cannot bind the address."""
        started = threading.Event()
        errors: list[BaseException] = []

        def serve() -> None:
            try:
                asyncio.run(self.run(started.set))
            except BaseException as error:
                errors.append(error)
            finally:
                started.set()

        self._thread = threading.Thread(target=serve, name="listserver", daemon=True)
        self._thread.start()
        started.wait()
        if errors:
            raise errors[0]
        return self

    def stop(self) -> None:
        """Close all connections and stop; may be called from any thread."""
        loop, end = self.engine.loop, self._end
        if loop is not None and end is not None:
            loop.call_soon_threadsafe(end.set)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None

    def wait(self) -> None:
        """Wait until the thread of ``start`` has ended; returns at once if there is none."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def do(self, work: Callable[[], T]) -> T:
        """Call a function between two commands, from any thread; return what it returns."""
        loop = self.engine.loop
        if loop is None or (self._thread or threading.current_thread()) is threading.current_thread():
            return work()

        async def call() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), loop).result()

    # For tests.

    def stop_clock(self) -> None:
        """Let the server's time stand still."""
        self.do(self.engine.clock.stop)

    def advance_clock(self, seconds: float) -> None:
        """Move the server's time forward; timeouts and expired keys have taken effect when this returns."""
        self.do(lambda: self.engine.clock.advance(seconds))

    def start_clock(self) -> None:
        """Let the server's time go on."""
        self.do(self.engine.clock.start)

    @contextmanager
    def fault(self, kind: str, **limits: Any) -> Iterator[Fault]:
        """Inject a fault for the duration of a ``with`` block; the arguments are those of ``Fault``."""
        fault = Fault(kind, **limits)
        self.do(lambda: self.engine.faults.append(fault))
        try:
            yield fault
        finally:
            self.do(lambda: self.engine.end_fault(fault))
