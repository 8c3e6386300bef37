"""A terminal for one program: a real pty that keeps what was written, answers what terminals answer, and times it."""

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

COLUMNS, LINES = 160, 48
_ROOT = Path(__file__).parents[2]
# Modern terminals know synchronized output (2026) and few know in-band resizing (2048).
_ANSWERS = {b"\x1b[?2026$p": b"\x1b[?2026;2$y", b"\x1b[?2048$p": b"\x1b[?2048;0$y"}
_LONGEST_QUESTION = max(map(len, _ANSWERS))
_TIMEOUT_S = 60.0


class Terminal:
    """Runs ``python -m module arguments`` in a terminal of 160 x 48 until the end of the ``with`` block.

    With ``channel`` the program gets two more arguments, the numbers of a file descriptor that it is told lines on, and
    of one that it tells lines on; see ``peers.channel``.
    """

    def __init__(self, module: str, *arguments: str, channel: bool = False) -> None:
        self.written = bytearray()
        self._settings = tempfile.TemporaryDirectory(prefix="rsmq-tui-bench-")
        self._found = bytearray()
        lines_read, self._tell = os.pipe() if channel else (-1, -1)
        self._heard, lines_write = os.pipe() if channel else (-1, -1)
        numbers = (str(lines_read), str(lines_write)) if channel else ()
        command = [sys.executable, "-m", module, *arguments, *numbers]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self._settings.name,
            "XDG_CONFIG_HOME": self._settings.name,
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        self.started_s = time.perf_counter()
        self._pid, self._pty = pty.fork()
        if self._pid == 0:
            _become(command, environment, (lines_read, lines_write) if channel else ())
        for ours in (lines_read, lines_write) if channel else ():
            os.close(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # It may be in the middle of some work, none of which is needed any more.
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        for descriptor in (self._pty, self._tell, self._heard):
            if descriptor >= 0:
                os.close(descriptor)
        self._settings.cleanup()

    def wait_for(self, *texts: bytes, since: int = 0) -> float:
        """Return the seconds from the start until all these texts had been written after the first ``since`` bytes."""
        missing, looked, deadline_s = list(texts), since, time.monotonic() + _TIMEOUT_S
        longest = max(map(len, texts))
        while True:
            missing = [text for text in missing if self.written.find(text, max(since, looked - longest)) < 0]
            if not missing:
                return time.perf_counter() - self.started_s
            looked = len(self.written)
            if not self._read(deadline_s):
                raise RuntimeError(f"{missing[0]!r} was not written; the last words: {bytes(self.written[-400:])!r}")

    def wait_until_quiet(self, for_s: float) -> int:
        """Wait until nothing has been written for that long, and return how many bytes came meanwhile."""
        before, end_s = len(self.written), time.monotonic() + _TIMEOUT_S
        while self._read(min(end_s, time.monotonic() + for_s)):
            pass
        return len(self.written) - before

    def tell(self, line: str) -> None:
        """Tell the program a line."""
        os.write(self._tell, line.encode() + b"\n")

    def hear(self) -> str:
        """Return the next line that the program tells, reading what it writes meanwhile."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while b"\n" not in self._found:
            if not self._read(deadline_s):
                raise RuntimeError(f"the program told nothing; it last wrote {bytes(self.written[-400:])!r}")
        line, _, rest = bytes(self._found).partition(b"\n")
        self._found[:] = rest
        return line.decode()

    def _read(self, deadline_s: float) -> bool:
        """Wait for output or a told line and take it; False at the deadline or the end of the program."""
        wanted = [descriptor for descriptor in (self._pty, self._heard) if descriptor >= 0]
        ready, _, _ = select.select(wanted, [], [], max(0.0, deadline_s - time.monotonic()))
        if self._pty in ready:
            try:
                data = os.read(self._pty, 1 << 16)
            except OSError as error:
                # This is how Linux says that the other end is gone.
                if error.errno != errno.EIO:
                    raise
                return False
            self._answer(data)
        if self._heard in ready:
            self._found += os.read(self._heard, 1 << 16)
        return bool(ready)

    def _answer(self, data: bytes) -> None:
        start = max(0, len(self.written) - _LONGEST_QUESTION + 1)
        self.written += data
        recent = bytes(self.written[start:])
        for question, answer in _ANSWERS.items():
            if question in recent and recent.rindex(question) + len(question) > len(recent) - len(data):
                os.write(self._pty, answer)


def _become(command: Sequence[str], environment: dict[str, str], inherited: Sequence[int]) -> None:
    """Turn the forked child into the program; never returns."""
    try:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        os.chdir(_ROOT)
        os.execve(command[0], [*command], environment)
    finally:
        os._exit(127)
