"""A server whose clock tests control, and a connection that reads it with plain commands."""

import mmap
import os
import shutil
import socket
import struct
import subprocess
import time
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

# Takes the place of the C library's clock in the server. The time is what a file says, in microseconds, and for each
# second since then by the clock of the machine, as many seconds as the file says.
_FORMAT = "=qqq"
_CLOCK_C = """
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile struct { long long at_us, since_us, speed; } *known;
__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("TEST_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  void *mapped = file >= 0 ? mmap(NULL, sizeof *known, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  if (mapped != MAP_FAILED) known = mapped;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec real;
  clock_gettime(CLOCK_MONOTONIC, &real);
  long long us = real.tv_sec * 1000000LL + real.tv_nsec / 1000;
  if (known) us = known->at_us + (us - known->since_us) * known->speed;
  now->tv_sec = us / 1000000;
  now->tv_usec = us % 1000000;
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
    """An embedded server; with a C compiler and on Linux, its clock stands still until it is moved, or runs fast.

    ``is_clocked`` is True if so. Otherwise its time is that of the machine, and ``move`` does nothing. The clock begins
    at ``start_us``, far from the time of the machine, and runs ``speed`` times as fast.
    """

    def __init__(self, *, start_us: int = START_US, speed: int = 0) -> None:
        self.is_clocked = False
        self._us = self._start_us = start_us
        self._speed = speed
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="rsmq-tui-clock-")))
            file = folder / "clock"
            file.write_bytes(bytes(mmap.PAGESIZE))
            with file.open("r+b") as opened:
                self._clock = mmap.mmap(opened.fileno(), 0)
            self._stack.callback(self._clock.close)
            self._write()
            library = _library(folder)
            added = {} if library is None else {"LD_PRELOAD": str(library), "TEST_CLOCK": str(file)}
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
            self.url, self.port, self.pid = self._server.url, self._server.port, self._server.pid
            self._path = self._server.private_url.removeprefix("unix://").partition("?")[0]
            self.line = self.connect()
            self._stack.callback(self.line.close)
            self.is_clocked = library is not None and self._is_near()
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
        return self._due_us() if self.is_clocked else self._time_us()

    def move(self, us: int) -> None:
        """Move the server's clock, forwards or back."""
        if not self.is_clocked:
            return
        self._us = max(START_US // 2, self._due_us() + us)
        self._write()
        if abs(us) > STEP_US:
            # The server looks at its clock once in a turn of its loop; after a small step it may be a little behind.
            while not self._is_near():
                pass

    def run(self, speed: int) -> None:
        """Let the server's clock run ``speed`` times as fast as that of the machine from now on."""
        self._us = self._due_us()
        self._speed = speed
        self._write()

    def reset(self) -> None:
        """Remove all data and scripts, and set the clock back to the start."""
        self.line.ask(("FLUSHALL",), ("SCRIPT", "FLUSH"), ("CONFIG", "RESETSTAT"))
        self.move(self._start_us - self._due_us())

    def _due_us(self) -> int:
        return self._us + (_machine_us() - self._since_us) * self._speed

    def _is_near(self) -> bool:
        return abs(self._time_us() - self._due_us()) <= _NEAR_US

    def _time_us(self) -> int:
        ((seconds, microseconds),) = self.line.ask(("TIME",))
        return int(seconds) * 1_000_000 + int(microseconds)

    def _write(self) -> None:
        self._since_us = _machine_us()
        self._clock[: struct.calcsize(_FORMAT)] = struct.pack(_FORMAT, self._us, self._since_us, self._speed)


def _machine_us() -> int:
    return time.monotonic_ns() // 1000


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
