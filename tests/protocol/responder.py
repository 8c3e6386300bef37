"""A server of one sentence: it answers every command with the same line, or hangs up."""

import re
import socketserver
import threading
from typing import Self


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is none."""


class FakeServer:
    """Listens on a port of this machine while it is entered, and handles each connection in a thread."""

    def __init__(self, handler: type[socketserver.BaseRequestHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Responder(FakeServer):
    """Listens on a port of this machine; ``line`` without its end answers each command, an empty one hangs up."""

    def __init__(self, line: bytes) -> None:
        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                while (data := self.request.recv(65_536)) and line:
                    commands = len(re.findall(rb"\*\d+\r\n", data)) or 1
                    self.request.sendall((line + b"\r\n") * commands)

        super().__init__(Handler)
