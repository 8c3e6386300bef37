"""The program in a real terminal: a pty of its own, whose other end the test holds."""

import codecs
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.hostile.emulator import Screen
from tests.waiting import SECONDS_MAX

COLUMNS, LINES = 160, 48
_ROOT = Path(__file__).parents[2]
# Opening a terminal makes it the controlling one of a session that has none.
_OPEN = 'terminal=$1; shift; exec "$@" <"$terminal" >"$terminal" 2>"$terminal"'


class Terminal:
    """Runs ``python -m rsmq_tui`` with these arguments, or ``python`` with those of ``command``, in a terminal.

    ``folder`` is the one that it works in.
    """

    def __init__(
        self,
        *arguments: str,
        settings: Path,
        command: Sequence[str] = ("-m", "rsmq_tui"),
        size: tuple[int, int] = (COLUMNS, LINES),
        environment: Mapping[str, str] | None = None,
        folder: Path = _ROOT,
    ) -> None:
        self.output = bytearray()
        self.screen = Screen(*size)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._end, inside = os.openpty()
        self._inside = inside
        self._ends = [self._end, inside]
        self.resize(*size)
        self.before = termios.tcgetattr(inside)
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", _OPEN, "sh", os.ttyname(inside), sys.executable, *command, *arguments],
            cwd=folder,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(settings),
                "XDG_CONFIG_HOME": str(settings),
                "LANG": "C.UTF-8",
                "TERM": "xterm-256color",
                **(environment or {}),
            },
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()

    def resize(self, columns: int, lines: int) -> None:
        """Change the terminal's size; the program is told by a signal."""
        self.screen.columns, self.screen.lines = columns, lines
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str | bytes) -> None:
        """Press keys."""
        os.write(self._end, keys if isinstance(keys, bytes) else keys.encode())

    def hang_up(self) -> None:
        """Close the terminal's window."""
        while self._ends:
            os.close(self._ends.pop())

    def send(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        self.process.send_signal(number)

    def wait_for(self, *words: str) -> str:
        """Read until all these words are on the screen, and return all that is."""
        return self._read_until(lambda: all(word in self.screen.text for word in words), words)

    def wait_until_gone(self, words: str) -> str:
        """Read until these words are not on the screen any more."""
        return self._read_until(lambda: words not in self.screen.text, f"the end of {words}")

    def wait_for_output(self, number: int = 1) -> None:
        """Read until so many bytes more have come."""
        wanted = len(self.output) + number
        self._read_until(lambda: len(self.output) >= wanted, "output")

    def wait_for_sequence(self, sequence: bytes) -> None:
        """Read until the program has written this."""
        self._read_until(lambda: sequence in self.output, sequence)

    def read_for(self, seconds: float) -> None:
        """Read what comes for so long, as a terminal does while nobody types."""
        deadline_s = time.monotonic() + seconds
        while (left_s := deadline_s - time.monotonic()) > 0:
            self._read(left_s)

    def wait_for_end(self) -> int:
        """Read until the program has ended, and return its exit status."""
        deadline_s = time.monotonic() + SECONDS_MAX
        while self.process.poll() is None:
            self._read(0.02)
            assert time.monotonic() < deadline_s, f"it does not end:\n{self.screen.text}"
        while self._read(0.0):
            pass
        return self.process.returncode

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal's own settings (echo, line by line …) are those from before the program."""
        return _settings(termios.tcgetattr(self._inside)) == _settings(self.before)

    def _read_until(self, condition: Callable[[], bool], what: object) -> str:
        deadline_s = time.monotonic() + SECONDS_MAX
        came = True
        while not (came and condition()):
            came = self._read(0.02)
            assert time.monotonic() < deadline_s, f"{what} did not come:\n{self.screen.text}"
            assert came or self.process.poll() is None, f"it has ended:\n{self.screen.text}"
        return self.screen.text

    def _read(self, wait_s: float) -> bool:
        if not select.select([self._end], [], [], wait_s)[0]:
            return False
        data = os.read(self._end, 1 << 16)
        self.output += data
        self.screen.write(self._decoder.decode(data))
        return True


def _settings(attributes: list[Any]) -> list[Any]:
    return [attributes[:6], attributes[6]]
