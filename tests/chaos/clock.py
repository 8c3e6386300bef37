"""A server whose clock and data the rounds control, and a connection that reads it with plain commands."""

import mmap
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import hiredis

from rsmq_tui.cli.demo import EmbeddedServer

Word = str | int | float | bytes | memoryview
START_US = 1_800_000_000_000_000
STEP_US = 1_000
_NEAR_US = 1_000_000
_READ_BYTES = 1 << 16
_NOT_YET = object()

# Takes the place of the C library's clock in the server: the time is what a file says, in microseconds.
_CLOCK_C = """
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
static volatile long long *at_us;
__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file >= 0) at_us = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  now->tv_sec = at_us ? *at_us / 1000000 : 0;
  now->tv_usec = at_us ? *at_us % 1000000 : 0;
  return 0;
}
"""


def _packed(request: Sequence[Word]) -> bytes:
    # Its stub takes a tuple of one word.
    words: Any = tuple(request)
    return bytes(hiredis.pack_command(words))


class Line:
    """A blocking connection of plain commands; an error reply is a value."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._reader = hiredis.Reader(notEnoughData=_NOT_YET, errors=None)

    def raw(self, request: Sequence[Word]) -> bytes:
        """Send one command, and return the bytes of its reply, with the pushes before it."""
        self._socket.sendall(_packed(request))
        found = b""
        while True:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionError("the server has closed the connection")
            found += data
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not _NOT_YET:
                if not isinstance(reply, hiredis.PushNotification):
                    return found

    def ask(self, *requests: Sequence[Word]) -> list[Any]:
        """Send commands in one round trip, and return their replies."""
        self._socket.sendall(b"".join([_packed(request) for request in requests]))
        replies: list[Any] = []
        while len(replies) < len(requests):
            while (reply := self._reader.gets()) is not _NOT_YET and len(replies) < len(requests):
                replies.append(reply)
            if len(replies) < len(requests):
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    raise ConnectionError("the server has closed the connection")
                self._reader.feed(data)
        return replies

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class ClockedServer:
    """An embedded server; with a C compiler and on Linux, its clock stands still until it is moved.

    ``is_clocked`` is True if so. Otherwise its time is that of the machine, and ``move`` does nothing.
    """

    def __init__(self) -> None:
        self.is_clocked = False
        self._us = START_US
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="rsmq-tui-chaos-")))
            file = folder / "clock"
            file.write_bytes(bytes(mmap.PAGESIZE))
            with file.open("r+b") as opened:
                self._clock = mmap.mmap(opened.fileno(), 0)
            self._stack.callback(self._clock.close)
            self._write()
            library = _library(folder)
            added = {} if library is None else {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(file)}
            before = {name: os.environ.get(name) for name in added}
            os.environ.update(added)
            try:
                self._server = self._stack.enter_context(EmbeddedServer())
            finally:
                for name, value in before.items():
                    if value is None:
                        del os.environ[name]
                    else:
                        os.environ[name] = value
            self.url, self.port = self._server.url, self._server.port
            self._path = self._server.private_url.removeprefix("unix://").partition("?")[0]
            self.line = self.connect()
            self._stack.callback(self.line.close)
            self.is_clocked = library is not None and self._time_us() // 10_000_000 == START_US // 10_000_000
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def connect(self) -> Line:
        """Return another connection; close it."""
        return Line(self._path)

    @property
    def at_us(self) -> int:
        """The server's time in microseconds."""
        return self._us if self.is_clocked else self._time_us()

    def move(self, us: int) -> None:
        """Move the server's clock, forwards or back."""
        if not self.is_clocked:
            return
        self._us = max(START_US // 2, self._us + us)
        self._write()
        if abs(us) > STEP_US:
            # The server looks at its clock once in a turn of its loop; after a small step it may be a little behind.
            while abs(self._time_us() - self._us) > _NEAR_US:
                pass

    def reset(self) -> None:
        """Remove all data and scripts, and set the clock back to the start."""
        self.line.ask(("FLUSHALL",), ("SCRIPT", "FLUSH"), ("CONFIG", "RESETSTAT"))
        self.move(START_US - self._us)

    def _time_us(self) -> int:
        ((seconds, microseconds),) = self.line.ask(("TIME",))
        return int(seconds) * 1_000_000 + int(microseconds)

    def _write(self) -> None:
        self._clock[:8] = struct.pack("=q", self._us)


def _library(folder: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None or not Path("/proc/self/maps").exists():
        return None
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_CLOCK_C)
    with suppress(OSError):
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], capture_output=True, check=False
        )
        return library if made.returncode == 0 else None
    return None
