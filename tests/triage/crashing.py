"""Changes made by a process that kills itself at a step, in the middle of whatever it was doing.

Run as a program it is the process from which those are forked: importing everything takes longer than a change.
"""

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rsmq_tui.monitor.audit import rsmq as rsmq_audit
from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.editor import QueueEditor
from rsmq_tui.triage import execute
from rsmq_tui.triage.actions import (
    Action,
    Copy,
    CreateQueue,
    Delete,
    DeleteQueue,
    Fix,
    Hide,
    Import,
    Move,
    Redrive,
    Requeue,
    Send,
    SetAttributes,
)
from rsmq_tui.triage.journal import AuditLog, Journal
from rsmq_tui.triage.lists import select as list_select
from rsmq_tui.triage.rsmq import plan
from rsmq_tui.triage.service import ChangeService
from tests.triage.list_doing import list_changes

ROOT = Path(__file__).parents[2]

# Three walks through the messages, then one through the fields.
_MENDED = (FindingKind.DANGLING, FindingKind.BAD_RC, FindingKind.NEVER, FindingKind.FOREIGN_ID, FindingKind.LEAKED)

CHANGES: dict[str, Callable[[Path], Action]] = {
    "delete": lambda folder: Delete(queue="a"),
    "hide": lambda folder: Hide(queue="a", seconds=100),
    "move": lambda folder: Move(queue="a", target="b"),
    "move to a queue that is made": lambda folder: Move(queue="a", target="new", create=True),
    "copy": lambda folder: Copy(queue="a", target="b"),
    "redrive": lambda folder: Redrive(queue="a", target="b"),
    "send": lambda folder: Send(queue="b", bodies=(b"1", b"2", b"3", b"4", b"5")),
    "import": lambda folder: Import(queue="a", path=folder / "export.jsonl"),
    "delete the queue": lambda folder: DeleteQueue(queue="a"),
    "create": lambda folder: CreateQueue(queue="new"),
    "set": lambda folder: SetAttributes(queue="a", vt=5),
    "fix": lambda folder: Fix(queue="a", findings=tuple(Finding(kind, "a") for kind in _MENDED)),
}
# The same of list queues.
LIST_CHANGES: dict[str, Callable[[Path], Action]] = {
    "list: delete": lambda folder: Delete(queue="queue:a"),
    "list: move": lambda folder: Move(queue="queue:a", target="queue:b"),
    "list: to RSMQ": lambda folder: Move(queue="queue:a", target="rsmq:b"),
    "list: requeue": lambda folder: Requeue(queue="queue:a"),
}

# What a change leaves outside its process: after each of these calls the process may end, and so before the next.
_STEPS = (
    *((Journal, name) for name in ("begin", "write", "record", "finish", "audit")),
    *((editor, name) for editor in (QueueEditor, ListEditor) for name in ("apply", "settle", "forget")),
    (AuditLog, "write"),
)


class Crasher:
    """Makes changes that are killed; ``kill_at`` says after how many steps."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, folder: Path) -> None:
        self._process = process
        self._url, self._folder = url, folder

    def run(self, what: str, kill_at: int, *, lists: bool = False) -> bool:
        """Make a change, or "undo" the last one, or "recover"; returns whether it was killed before its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {"url": self._url, "folder": str(self._folder), "what": what, "kill_at": kill_at, "lists": lists}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer in ("killed", "ended"), answer
        return bool(answer == "killed")


@contextmanager
def mother() -> Iterator["subprocess.Popen[str]"]:
    """The process that makes and buries those who are killed."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.triage.crashing"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def _work(job: dict[str, Any]) -> None:
    # Few messages, and yet several groups of several batches.
    plan.CHUNK_MESSAGES = plan.MOVE_MESSAGES = 2
    list_select.MAX_ITEMS = 4
    execute.GROUP_BATCHES = 2
    rsmq_audit.SETTLING_S = 0
    folder = Path(job["folder"])
    is_list = job["what"] in LIST_CHANGES or job["lists"]
    triage = list_changes(job["url"], ListNames(), folder) if is_list else ChangeService(job["url"], "rsmq", folder)
    if job["what"] == "recover":
        _arm(job["kill_at"])
        await triage.recover()
    elif job["what"] == "undo":
        preview = await triage.preview_undo()
        _arm(job["kill_at"])
        await triage.run(preview).to_end()
    else:
        preview = await triage.preview((CHANGES | LIST_CHANGES)[job["what"]](folder))
        _arm(job["kill_at"])
        await triage.run(preview).to_end()
    await triage.aclose()


def _arm(kill_at: int) -> None:
    left = kill_at

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for owner, name in _STEPS:
        setattr(owner, name, _stepping(getattr(owner, name), step))


def _stepping(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    async def awaited(*given: Any, **named: Any) -> Any:
        found = await call(*given, **named)
        step()
        return found

    def called(*given: Any, **named: Any) -> Any:
        found = call(*given, **named)
        step()
        return found

    return awaited if inspect.iscoroutinefunction(call) else called


def _main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                asyncio.run(_work(json.loads(line)))
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


if __name__ == "__main__":
    _main()
