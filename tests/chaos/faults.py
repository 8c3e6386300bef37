"""The faults of cheap rounds, by name: what happens when an operator reaches a point.

``COMMAND`` faults are about one command of an operator: whether it is executed, and what comes back. ``ANY`` faults
happen at any point, and the command goes on as usual.
"""

import errno
import os
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.chaos.operators import Operator, Request, Wire

if TYPE_CHECKING:
    from tests.chaos.rounds import Round

_DAY_US = 86_400_000_000
_NONSENSE = (
    b"\x00\xff\r\n garbage *$:\r\n",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"*3\r\n$5\r\nab\r\n\r\n",
    b"$-7\r\n",
)
_OTHERS = (b"+OK\r\n", b":7\r\n", b"$-1\r\n", b"*0\r\n", b"$3\r\nzzz\r\n", b"*2\r\n:1\r\n$-1\r\n")
_ERRORS = (
    b"-LOADING Redis is loading the dataset in memory\r\n",
    b"-READONLY You can't write against a read only replica.\r\n",
    b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
    b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
    b"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.\r\n",
    b"-NOPERM this user has no permissions to run the command\r\n",
)


def _reset() -> ConnectionResetError:
    # A new one each time: an exception keeps the frames that it went through.
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


def _cut_before(round_: "Round", wire: Wire, request: Request) -> None:
    wire.cut(_reset())


def _cut_after(round_: "Round", wire: Wire, request: Request) -> None:
    round_.executed(wire, request)
    wire.cut(_reset())


def _cut_half(round_: "Round", wire: Wire, request: Request) -> None:
    reply = round_.executed(wire, request)
    wire.answer(reply[: round_.chance.randrange(len(reply))])
    wire.cut()


def _late(round_: "Round", wire: Wire, request: Request) -> None:
    round_.delay(wire, request)
    wire.cut(_reset())


def _hang(round_: "Round", wire: Wire, request: Request) -> None:
    wire.is_hung = True
    round_.delay(wire, request)


def _slow(round_: "Round", wire: Wire, request: Request) -> None:
    reply = round_.executed(wire, request)
    wire.operator.loop.call_later(round_.chance.choice((0.5, 3.0, 4.9, 5.1, 30.0)), wire.answer, reply)


def _refused(round_: "Round", wire: Wire, request: Request) -> None:
    if round_.chance.random() < 0.5:
        round_.executed(wire, request)
    wire.operator.refusals = round_.chance.choice((1, 2, 5, 30))
    for other in wire.operator.wires:
        other.cut(_reset())


def _garbled(round_: "Round", wire: Wire, request: Request) -> None:
    round_.executed(wire, request)
    wire.answer(round_.chance.choice(_NONSENSE))


def _lie(round_: "Round", wire: Wire, request: Request) -> None:
    round_.executed(wire, request)
    wire.answer(round_.chance.choice(_OTHERS))


def _error(round_: "Round", wire: Wire, request: Request) -> None:
    wire.answer(round_.chance.choice(_ERRORS))


def _pushes(round_: "Round", wire: Wire, request: Request) -> None:
    wire.answer(b">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n" * 50 + round_.executed(wire, request))


def _kill_after(round_: "Round", wire: Wire, request: Request) -> None:
    round_.executed(wire, request)
    wire.operator.kill()


def _kill_late(round_: "Round", wire: Wire, request: Request) -> None:
    round_.delay(wire, request)
    wire.operator.kill()


def _kill(round_: "Round", operator: Operator) -> None:
    operator.kill()


def _escape(round_: "Round", operator: Operator) -> None:
    operator.stop()


def _interrupt(round_: "Round", operator: Operator) -> None:
    if operator.task is not None:
        operator.task.cancel()


def _script_flush(round_: "Round", operator: Operator) -> None:
    round_.server.line.ask(("SCRIPT", "FLUSH"))


def _flush(round_: "Round", operator: Operator) -> None:
    round_.world.flush()
    round_.lose_accounts()


def _restart(round_: "Round", operator: Operator) -> None:
    round_.world.flush()
    round_.lose_accounts()
    round_.server.line.ask(("SCRIPT", "FLUSH"), ("CONFIG", "RESETSTAT"))
    round_.cut_all(_reset)


def _failover(round_: "Round", operator: Operator) -> None:
    round_.world.rewind()
    round_.lose_accounts()
    round_.late.clear()
    round_.cut_all(_reset)


def _server_clock(round_: "Round", operator: Operator) -> None:
    jump_us = round_.chance.choice((-_DAY_US, -3_600_000_000, -20_000_000, 20_000_000, 3_600_000_000, 8 * _DAY_US))
    round_.server.move(jump_us)
    round_.world.changed()
    if jump_us > 7 * _DAY_US:
        # The markers of calls have expired: who did what is as unknown as on a server that has lost its data.
        round_.lose_accounts()


def _local_clock(round_: "Round", operator: Operator) -> None:
    round_.local_ms += round_.chance.choice((-_DAY_US, -3_600_000_000, 3_600_000_000, 30 * _DAY_US)) // 1000


def _rush(round_: "Round", operator: Operator) -> None:
    for _ in range(10):
        round_.acts()


def _recreate(round_: "Round", operator: Operator) -> None:
    round_.world.recreate()


def _full_disk(round_: "Round", operator: Operator) -> None:
    round_.full_for = round_.chance.randrange(1, 12)
    set_file_limit(round_.chance.choice((0, 4_096, 40_960)))


COMMAND: dict[str, Callable[["Round", Wire, Request], None]] = {
    "cut-before": _cut_before,
    "cut-after": _cut_after,
    "cut-half": _cut_half,
    "late": _late,
    "hang": _hang,
    "slow": _slow,
    "refused": _refused,
    "garbled": _garbled,
    "lie": _lie,
    "error": _error,
    "pushes": _pushes,
    "kill-after": _kill_after,
    "kill-late": _kill_late,
}
ANY: dict[str, Callable[["Round", Operator], None]] = {
    "kill": _kill,
    "escape": _escape,
    "interrupt": _interrupt,
    "script-flush": _script_flush,
    "flush": _flush,
    "restart": _restart,
    "failover": _failover,
    "server-clock": _server_clock,
    "local-clock": _local_clock,
    "rush": _rush,
    "recreate": _recreate,
    "full-disk": _full_disk,
}
WORDS = {
    "cut-before": "the connection ends before a command is executed",
    "cut-after": "the connection ends after a command was executed, without its reply",
    "cut-half": "the connection ends within a reply",
    "late": "the connection ends, and its commands are executed later",
    "hang": "a connection stays open and silent, and its commands are executed later",
    "slow": "a reply comes late, perhaps after the timeout",
    "refused": "all connections end, and new ones are refused for a while",
    "garbled": "nonsense comes instead of a reply",
    "lie": "a reply of another type comes instead of a reply",
    "error": "the server refuses a command: loading, read-only, out of memory, busy, …",
    "pushes": "push messages come before a reply",
    "kill-after": "an operator is killed when a command was executed",
    "kill-late": "an operator is killed, and its last commands are executed later",
    "kill": "an operator is killed at a command, or before work on the journal",
    "escape": "an operator stops a change",
    "interrupt": "an operator's work is cancelled, as by Ctrl+C",
    "script-flush": "the server forgets all scripts",
    "flush": "the server loses all data",
    "restart": "the server restarts without its data",
    "failover": "a replica takes over that has not got the last writes",
    "server-clock": "the server's clock jumps",
    "local-clock": "the clock of this machine jumps",
    "rush": "consumers and producers do ten things at once",
    "recreate": "another client deletes a queue and creates it anew",
    "full-disk": "the disk of the journal is full for a while",
}
# The server has lost data, or has lied about them: the accounts are those of another server.
LOSSY = {"flush", "restart", "failover", "lie", "recreate"}


def set_file_limit(size: int | None) -> None:
    """Let no file of this process grow over that size; None removes the limit."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
