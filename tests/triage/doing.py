"""Makes changes as users do, preview first, and reads the records of them."""

import json
from pathlib import Path
from typing import Any

from redis import Redis

from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage import actions
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.jsonl import to_line
from rsmq_tui.triage.scope import Scope
from rsmq_tui.triage.service import ChangeService
from tests.triage.keyspace import ODD, lay, message

PER_QUEUE = 620
# What is wrong with queue a, as far as mending it takes something away.
MENDED = {FindingKind.DANGLING: 2, FindingKind.BAD_RC: 3, FindingKind.LEAKED: 1, FindingKind.STRAY: 1}


async def done(triage: ChangeService, action: actions.Action, scope: Scope | None = None) -> ChangeReport:
    return await triage.run(await triage.preview(action, scope)).to_end()


def message_actions(queue: str, target: str) -> dict[str, actions.Action]:
    """Every action on messages of a queue; what carries them elsewhere carries them to the target."""
    return {
        "delete": actions.Delete(queue=queue),
        "hide": actions.Hide(queue=queue, seconds=1000),
        "release": actions.Release(queue=queue),
        "move": actions.Move(queue=queue, target=target),
        "copy": actions.Copy(queue=queue, target=target),
        "redrive": actions.Redrive(queue=queue, target=target),
    }


async def undone(triage: ChangeService, change: int | None = None) -> ChangeReport:
    return await triage.run(await triage.preview_undo(change)).to_end()


def audit_lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / "audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def fill(client: Redis) -> None:
    """Queues in every condition: with more than one batch of messages, odd ones among them, received and not."""
    queues = Rsmq(client)
    for name in ("a", "b", "a-dlq"):
        queues.create_queue(name, vt=1000)
    queues.send_messages("a", [f"a {number}" for number in range(PER_QUEUE)])
    queues.send_messages("a", ["late"] * 3, delay=1000)
    queues.receive_messages("a", 30)
    queues.send_messages("a-dlq", ["dead", "letters"])
    queues.receive_messages("a-dlq", 1, vt=0)
    for number, odd in enumerate(ODD.values()):
        lay(client, "a", odd._replace(id=odd.id + b" %d" % number))
    client.hset("rsmq:a:Q", mapping={"stray": "x", b"\xff:rc": b"\x00", "s" * 32: b"\xff", "t" * 32 + ":rc": 1})


def export(path: Path) -> Path:
    """Write a file to import: odd messages, and one whose id queue a knows."""
    lines = [to_line(odd._replace(id=b"%d " % number + odd.id), 0) for number, odd in enumerate(ODD.values())]
    path.write_text("\n".join([*lines, to_line(message(b"one 0"), 0)]) + "\n")
    return path


def to_import(folder: Path, text: str) -> Path:
    """Write a file to import, line by line as it is given."""
    path = folder / "export.jsonl"
    path.write_text(text)
    return path


# Every action, and how it is asked for. What each needs is in the queues of ``fill``.
ACTIONS = {
    "delete": lambda path: actions.Delete(queue="a"),
    "purge": lambda path: actions.Purge(queue="a"),
    "hide": lambda path: actions.Hide(queue="a", seconds=100),
    "release": lambda path: actions.Release(queue="a"),
    "move": lambda path: actions.Move(queue="a", target="b"),
    "move to a queue that is made": lambda path: actions.Move(queue="a", target="new", create=True),
    "copy": lambda path: actions.Copy(queue="a", target="b"),
    "copy to a queue that is made": lambda path: actions.Copy(queue="a", target="new", create=True),
    "copy within": lambda path: actions.Copy(queue="a", target="a"),
    "redrive by name": lambda path: actions.Redrive(queue="a-dlq"),
    "redrive to a target": lambda path: actions.Redrive(queue="a-dlq", target="b"),
    "send": lambda path: actions.Send(queue="b", bodies=(b"x", b"", b"\xff")),
    "send to a queue that counts": lambda path: actions.Send(queue="a", bodies=(b"x",), delay_s=5),
    "create": lambda path: actions.CreateQueue(queue="new", vt=5, delay=6, maxsize=2048),
    "set": lambda path: actions.SetAttributes(queue="a", vt=5, maxsize=-1),
    "fix": lambda path: actions.Fix(
        queue="a", findings=tuple(Finding(kind, "a", count) for kind, count in MENDED.items())
    ),
    "delete the queue": lambda path: actions.DeleteQueue(queue="a"),
    "import": lambda path: actions.Import(queue="a", path=export(path / "export.jsonl")),
}
