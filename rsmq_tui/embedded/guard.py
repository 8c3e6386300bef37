"""Child processes that never outlive this one, however it ends.

This process alone holds the write end of a pipe, so that the kernel closes it whatever happens here, SIGKILL and a
crash included. Whoever reads the other end learns of it as an end of file. A server knows nothing of that pipe, so a
small ``sh`` reads it in the server's place; our own workload reads it itself.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from weakref import WeakSet

# The shell starts the guard in the background and then becomes the server, which is thus our own child: its pid, its
# exit status and its end are known without asking anybody. $$ stays the server's pid in the subshell.
# A line on the pipe says that the server is gone and that its pid may belong to somebody else by now.
# The guard ignores signals because its end must be our end: nothing else would be left to stop the server.
# The second rm is for a server that was creating its socket when it was killed.
_SCRIPT = """
folder=$1
shift
exec 3<&0
(
  trap '' HUP INT QUIT TERM
  cd /
  server=$$
  while read -r line; do server=; done
  if [ -n "$server" ]; then kill -KILL "$server"; fi
  rm -rf "$folder" || { sleep 1; rm -rf "$folder"; }
) <&3 3<&- &
exec "$@" </dev/null 3<&-
"""

_held: WeakSet[subprocess.Popen[bytes]] = WeakSet()


def spawn_guarded(command: Sequence[str], *, folder: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, to be killed and its folder removed when this process is gone.

    Its output goes to ``log``. On Windows it is a plain child. Raises ``OSError`` when no process can be made.
    """
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
        devnull = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=folder, stdin=devnull, stdout=log, stderr=subprocess.STDOUT, creationflags=flags
        )
    # The guard needs rm and sleep even where PATH holds only the user's own folders.
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), os.defpath)))
    return spawn_held(
        ["/bin/sh", "-c", _SCRIPT, "rsmq-tui-guard", str(folder), *command],
        folder=folder,
        env={**os.environ, "PATH": path},
        stdout=log,
        stderr=log,
    )


def spawn_held(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    env: dict[str, str] | None = None,
    stdout: BinaryIO | int,
    stderr: BinaryIO | int,
) -> subprocess.Popen[bytes]:
    """Start a process whose standard input ends when this process is gone; it is deaf to the terminal's Ctrl+C.

    Raises ``OSError`` when no process can be made.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        bufsize=0,
        start_new_session=True,
    )
    _held.add(process)
    return process


def tell_gone(process: subprocess.Popen[bytes]) -> None:
    """Tell the guard that the server has been reaped or is being killed: from now on it only removes the folder."""
    if process.stdin is not None:
        # A guard that somebody killed kills nobody either; a ValueError says that another thread has just let go.
        with suppress(BrokenPipeError, ValueError):
            process.stdin.write(b"\n")


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Close this process's end of the pipe."""
    _held.discard(process)
    if process.stdin is not None:
        process.stdin.close()


def _let_go_in_forked_child() -> None:
    # A fork()ed child, such as one of multiprocessing, would otherwise hold the pipe open after its parent's death.
    for process in list(_held):
        let_go(process)
        # It is not this process's child: there is nothing to wait for, or to warn about at exit.
        process.returncode = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_forked_child)
