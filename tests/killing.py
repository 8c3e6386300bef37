"""Work in processes that kill themselves at a step, in the middle of whatever they are doing.

The processes are forked from one that has imported everything: to import takes longer than the work.
"""

import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

ROOT = Path(__file__).parents[1]


@contextmanager
def forking_from(module: str) -> Iterator["Popen[str]"]:
    """Run a module, whose ``main`` is ``work_in_forks``, as the process from which the others are forked."""
    with Popen([sys.executable, "-m", module], cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def was_killed(process: "Popen[str]", job: dict[str, Any]) -> bool:
    """Have a job done in a fork of that process; returns whether the fork was killed before its end."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert answer in ("killed", "ended"), answer
    return bool(answer == "killed")


def work_in_forks(work: Callable[[dict[str, Any]], object]) -> None:
    """Do each job of standard input in a fork, and print how it ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(json.loads(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        answer = "killed" if killed else "ended" if status == 0 else f"failed with {status}"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def killing_after(steps: int) -> Callable[[], None]:
    """Return what is called at each step, and kills the process at the last of so many; with 0 it never does."""
    left = steps

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def stepping(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    """Return a function that calls another, which may be a coroutine function, and then makes a step."""

    async def awaited(*given: Any, **named: Any) -> Any:
        found = await call(*given, **named)
        step()
        return found

    def called(*given: Any, **named: Any) -> Any:
        found = call(*given, **named)
        step()
        return found

    return awaited if inspect.iscoroutinefunction(call) else called
