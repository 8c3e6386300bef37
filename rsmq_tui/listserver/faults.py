"""The clock, and injected faults: late, broken and missing replies, and error replies."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rsmq_tui.listserver.resp import CommandError


class Clock:
    """Unix time in milliseconds or microseconds; while it is stopped it moves only by ``advance``.

    ``on_move`` is called after each of the three methods that change it, so that timers are set again.
    """

    def __init__(self) -> None:
        self.on_move: Callable[[], object] = lambda: None
        self._offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000
        self._stopped_us: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether time stands still."""
        return self._stopped_us is not None

    def now_us(self) -> int:
        """Return the time in microseconds."""
        # The system clock may jump, which must not end a wait early.
        return self._offset_us + time.monotonic_ns() // 1000 if self._stopped_us is None else self._stopped_us

    def now_ms(self) -> int:
        """Return the time in milliseconds."""
        return self.now_us() // 1000

    def stop(self) -> None:
        """Let time stand still."""
        self._stopped_us = self.now_us()
        self.on_move()

    def advance(self, seconds: float) -> None:
        """Move the time forward, stopped or not; deadlines passed by this take effect."""
        if self._stopped_us is None:
            self._offset_us += int(seconds * 1_000_000)
        else:
            self._stopped_us += int(seconds * 1_000_000)
        self.on_move()

    def start(self) -> None:
        """Let time continue from where it stopped."""
        if self._stopped_us is not None:
            self._offset_us = self._stopped_us - time.monotonic_ns() // 1000
            self._stopped_us = None
        self.on_move()

    def sleep(self, seconds: float) -> None:
        """Block the whole server, as DEBUG SLEEP does; a stopped clock is advanced instead."""
        if self.is_stopped:
            self.advance(seconds)
        else:
            time.sleep(seconds)


ERRORS = {
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "READONLY": "READONLY You can't write against a read only replica.",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "NOAUTH": "NOAUTH Authentication required.",
}
KINDS = ("latency", "cut", "drop-before", "drop-after", "stall", *ERRORS)


@dataclass(eq=False)
class Fault:
    """One fault, and the requests that it applies to.

    ``kind`` is one of ``KINDS``: ``latency`` (the reply comes ``seconds`` later), ``cut`` (half of the reply, then the
    end of the connection), ``drop-before`` and ``drop-after`` (the connection ends before or after the command is
    executed), ``stall`` (no reply while the fault lasts; then the command is executed), or the code of an error reply;
    ``OOM`` and ``READONLY`` apply to commands that write. ``commands`` and ``client`` (a connection's
    name or id) limit it, ``times`` says how often it happens.
    """

    kind: str
    seconds: float = 0.0
    commands: frozenset[str] = frozenset()
    client: str = ""
    times: int | None = None
    happened: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is not a fault: {', '.join(KINDS)}")
        self.commands = frozenset(name.upper() for name in self.commands)

    def concerns(self, command: str, name: bytes, number: int, *, writes: bool) -> bool:
        """Return whether the fault applies to a request of the connection with that name and number."""
        return (
            (self.times is None or self.happened < self.times)
            and (not self.commands or command.partition("|")[0] in self.commands)
            and (not self.client or self.client in (name.decode("utf-8", "replace"), str(number)))
            and (writes or self.kind not in ("OOM", "READONLY"))
        )

    @property
    def error(self) -> CommandError | None:
        """The error reply of the fault, or None."""
        return CommandError(ERRORS[self.kind]) if self.kind in ERRORS else None
