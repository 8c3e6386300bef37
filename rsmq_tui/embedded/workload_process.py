"""The demo's workload in a process of its own, so that it neither slows the dashboard down nor outlives it."""

import os
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import rsmq_tui
from rsmq_tui.embedded.server import EmbeddedError, Lifetime, Running, let_go, spawn_held

_STOP_S = 3.0


@dataclass(slots=True)
class _Output:
    """What the workload has written: whether it is ready, and the last lines, which only a failure writes."""

    heard: threading.Event = field(default_factory=threading.Event)
    is_ready: bool = False
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=5))

    def listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if line == b"ready\n":
                    self.is_ready = True
                    self.heard.set()
                else:
                    self.last_lines.append(line.decode(errors="replace").rstrip())
        # It will never be ready now: whoever waits shall not wait in vain.
        self.heard.set()


@dataclass(frozen=True, slots=True)
class _Running(Running):
    output: _Output
    listener: threading.Thread


class WorkloadProcess(Lifetime[_Running]):
    """Producers and consumers that work on a server as long as the ``with`` block, and never longer than this process.

    The arguments are those of ``workload.run_workload``. Nothing of it reaches the terminal. The URL stands on a
    command line, which others can read: it must hold no password.
    """

    WHAT = "workload"

    def __init__(self, url: str, *, ns: str = "rsmq", seed: int = 7, speed: float = 1.0) -> None:
        super().__init__()
        self._command = [
            # -P: a json.py in the user's folder must not be imported in place of the standard library's.
            *(sys.executable, "-P", "-m", "rsmq_tui.embedded.workload"),
            *("--ns", ns, "--seed", str(seed), "--speed", str(speed), "--", url),
        ]

    @property
    def failure(self) -> str | None:
        """The last lines of a workload that ended by itself; None while it runs and after ``stop``."""
        running = self._running
        if running is None or running.process.poll() is None:
            return None
        running.listener.join()
        return "\n".join(running.output.last_lines) or f"exit status {running.process.returncode}"

    def start(self) -> None:
        """Start the workload, without waiting for it; a running one is left alone. Raises ``EmbeddedError``."""
        self._start(self._spawn)

    def wait_ready(self, *, timeout_s: float = 30.0) -> bool:
        """Wait until every backlog is in place; False when ``timeout_s`` seconds pass or the process ends before.

        Raises ``EmbeddedError`` when the workload was not started.
        """
        output = self._started().output
        output.heard.wait(timeout_s)
        return output.is_ready

    def _spawn(self) -> _Running:
        # Where the package was imported from, the process shall find it too.
        root = str(Path(rsmq_tui.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": path}
        try:
            process = spawn_held(self._command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            raise EmbeddedError(f"The workload could not be started: {error.strerror}.") from error
        output = _Output()
        listener = threading.Thread(target=output.listen, args=(process,), name="workload-output", daemon=True)
        listener.start()
        return _Running(process, os.getpid(), output, listener)

    def _end(self, running: _Running) -> None:
        let_go(running.process)
        try:
            running.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()
        running.listener.join()
