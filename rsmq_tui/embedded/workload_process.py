"""The demo's workload in its own process, which does not slow down the dashboard, and never outlives it."""

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
    """The output of the workload: whether it is ready, and its last lines, which are the messages of a failure."""

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
        # The process has ended and will not become ready: end the wait.
        self.heard.set()


@dataclass(frozen=True, slots=True)
class _Running(Running):
    output: _Output
    listener: threading.Thread


class WorkloadProcess(Lifetime[_Running]):
    """Producers and consumers that run as long as the ``with`` block, and never longer than this process.

    The arguments are those of ``workload.run_workload``; without ``scripts`` it runs only the queues that need none. It
    writes nothing to the terminal. The URL must hold no
    password, because it is on a command line, which other users can read.
    """

    WHAT = "workload"

    def __init__(self, url: str, *, ns: str = "rsmq", seed: int = 7, speed: float = 1.0, scripts: bool = True) -> None:
        super().__init__()
        self._command = [
            # -P: a json.py in the user's folder must not be imported in place of the standard library's.
            *(sys.executable, "-P", "-m", "rsmq_tui.embedded.workload"),
            *(() if scripts else ("--without-scripts",)),
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
        """Start the workload, unless it is running, without waiting until it is ready. Raises ``EmbeddedError``."""
        self._start(self._spawn)

    def wait_ready(self, *, timeout_s: float = 30.0) -> bool:
        """Wait until every backlog is in place; False if ``timeout_s`` seconds pass or the process ends before.

        Raises ``EmbeddedError`` if the workload was not started.
        """
        output = self._started().output
        output.heard.wait(timeout_s)
        return output.is_ready

    def _spawn(self) -> _Running:
        # The process must import the same package as this one.
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
