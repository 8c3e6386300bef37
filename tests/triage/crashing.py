"""Changes that are killed at a step; run as a program, the process from which those are forked."""

import asyncio
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rsmq_tui.monitor.audit import rsmq as rsmq_audit
from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.triage import actions, execute
from rsmq_tui.triage.journal.audit_log import AuditLog
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.lists import select as list_select
from rsmq_tui.triage.rsmq import plan
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Named
from rsmq_tui.triage.service import ChangeService
from tests.killing import killing_after, stepping, was_killed, work_in_forks
from tests.triage.list_doing import list_changes

# Three walks through the messages, then one through the fields.
_MENDED = (FindingKind.DANGLING, FindingKind.BAD_RC, FindingKind.NEVER, FindingKind.FOREIGN_ID, FindingKind.LEAKED)

CHANGES: dict[str, Callable[[Path], actions.Action]] = {
    "delete": lambda folder: actions.Delete(queue="a"),
    "hide": lambda folder: actions.Hide(queue="a", seconds=100),
    "move": lambda folder: actions.Move(queue="a", target="b"),
    "move to a queue that is made": lambda folder: actions.Move(queue="a", target="new", create=True),
    "send": lambda folder: actions.Send(queue="b", bodies=(b"1", b"2", b"3", b"4", b"5")),
    "import": lambda folder: actions.Import(queue="a", path=folder / "export.jsonl"),
    "delete the queue": lambda folder: actions.DeleteQueue(queue="a"),
    "fix": lambda folder: actions.Fix(queue="a", findings=tuple(Finding(kind, "a") for kind in _MENDED)),
}
# The same of list queues.
LIST_CHANGES: dict[str, Callable[[Path], actions.Action]] = {
    "list: delete": lambda folder: actions.Delete(queue="queue:a"),
    "list: move": lambda folder: actions.Move(queue="queue:a", target="queue:b"),
    "list: to RSMQ": lambda folder: actions.Move(queue="queue:a", target="rsmq:b"),
    "list: requeue": lambda folder: actions.Requeue(queue="queue:a"),
}

# What a change leaves outside its process: after each of these calls the process may end, and so before the next.
_STEPS = (
    *((Journal, name) for name in ("begin", "write", "record", "finish", "audit")),
    *((editor, name) for editor in (RsmqEditor, ListEditor) for name in ("apply", "settle", "forget")),
    (AuditLog, "write"),
)


class Crasher:
    """Makes changes that are killed; ``kill_at`` says after how many steps."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, folder: Path) -> None:
        self._process = process
        self._url, self._folder = url, folder

    def run(self, what: str, kill_at: int) -> bool:
        """Make a change, or "recover"; returns whether it was killed before its end."""
        return self._was_killed(what, kill_at)

    def undo(self, what: str, kill_at: int, part: Sequence[str] = ()) -> bool:
        """Make a change, to its end, and undo it, or a part of it; returns whether the undo was killed before its end.

        The part are the ids of its messages.
        """
        return self._was_killed(what, 0, undo_kill_at=kill_at, part=part)

    def _was_killed(self, what: str, kill_at: int, **undo: int | Sequence[str]) -> bool:
        job = {"url": self._url, "folder": str(self._folder), "what": what, "kill_at": kill_at, **undo}
        return was_killed(self._process, job)


async def _work(job: dict[str, Any]) -> None:
    # Few messages, and yet several groups of several batches.
    plan.CHUNK_MESSAGES = plan.MOVE_MESSAGES = plan.PUT_MESSAGES = 2
    list_select.ITEMS_MAX = 4
    execute.GROUP_BATCHES = 2
    rsmq_audit.SETTLING_S = 0
    folder, what = Path(job["folder"]), job["what"]
    triage = _desk(job, folder)
    if what == "recover":
        _arm(job["kill_at"])
        await triage.recover()
    else:
        preview = await triage.preview((CHANGES | LIST_CHANGES)[what](folder))
        _arm(job["kill_at"])
        await triage.run(preview).to_end()
    await triage.aclose()
    if "undo_kill_at" in job:
        # As the next start of the program does.
        triage = _desk(job, folder)
        preview = await triage.preview_undo(scope=Named(tuple(job["part"])) if job["part"] else None)
        _arm(job["undo_kill_at"])
        await triage.run(preview).to_end()
        await triage.aclose()


def _desk(job: dict[str, Any], folder: Path) -> ChangeService:
    if job["what"] in LIST_CHANGES:
        return list_changes(job["url"], ListNames(), folder)
    return ChangeService(RsmqBackend(job["url"], "rsmq"), folder)


def _arm(kill_at: int) -> None:
    step = killing_after(kill_at)
    for owner, name in _STEPS:
        setattr(owner, name, stepping(getattr(owner, name), step))


if __name__ == "__main__":
    work_in_forks(lambda job: asyncio.run(_work(job)))
