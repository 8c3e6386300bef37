"""List queues to make changes to, and every change that can be made to them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from redis import Redis

from rsmq_tui.monitor.filters.json_paths import JsonPath
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage import actions
from rsmq_tui.triage.jsonl import to_line
from rsmq_tui.triage.lists.backend import ListBackend
from rsmq_tui.triage.service import ChangeService
from tests.triage.keyspace import message

A, B = "queue:a", "queue:b"
WORKING, LEASES = "queue:a:processing", "queue:a:leases"
NAMES = {"right": ListNames(), "left": ListNames(take_from="left")}
# More than one batch, with items of equal bytes, of none, and of all bytes.
ITEMS = [
    *(b"item %d" % number for number in range(40)),
    b"",
    b"\x00\xff\r\n=",
    b"same",
    b"same",
    *(b"item %d" % number for number in range(30)),
]


def lay(client: Redis, names: ListNames, key: str, items: list[bytes]) -> None:
    """Put items into a list so that the first of them is taken first; in processing, so that it is the oldest."""
    if items:
        client.rpush(key, *(items if _is_left(names, key) else items[::-1]))


def read(client: Redis, names: ListNames, key: str) -> list[bytes]:
    """Return what lies in a list, what is taken first at first; of what is in processing, the oldest."""
    found = client.lrange(key, 0, -1)
    return found if _is_left(names, key) else found[::-1]


def _is_left(names: ListNames, key: str) -> bool:
    # Whichever end items are taken from, they are pushed to processing at the left.
    return names.take_from == "left" and key != WORKING


def take(client: Redis, names: ListNames, key: str, count: int = 1) -> list[bytes]:
    """Take items as consumers do."""
    return [client.lpop(key) if names.take_from == "left" else client.rpop(key) for _ in range(count)]


def send(client: Redis, names: ListNames, key: str, *items: bytes) -> None:
    """Send items as producers do."""
    for item in items:
        (client.rpush if names.take_from == "left" else client.lpush)(key, item)


def lease(token: str, item: bytes) -> bytes:
    return token.ljust(22, "x").encode() + b":" + item


def fill(client: Redis, names: ListNames) -> None:
    """List queues in every condition, one of RSMQ beside them."""
    lay(client, names, A, ITEMS)
    lay(client, names, B, [b"b 0", b"b 1"])
    lay(client, names, WORKING, [b"w 1", b"w 2", b"w 1", b"nobody's", b"expired"])
    deadlines = {lease("one", b"w 1"): 2**41, lease("two", b"w 2"): 2**41 + 1, lease("~three", b"w 1"): 2**41 + 2}
    client.zadd(LEASES, {**deadlines, lease("old", b"expired"): 1000})
    queues = Rsmq(client)
    queues.create_queue("x", vt=1000)
    queues.send_messages("x", ["message 1", b"\xff", "message 3"])
    queues.receive_message("x")


def exported(path: Path) -> Path:
    """Write a file to import."""
    lines = [to_line(message(b"q:%d" % number, body=body), 0) for number, body in enumerate((b"1", b"\xff", b""))]
    path.write_text("\n".join(lines) + "\n")
    return path


# Every action, and how it is asked for. What each needs is in the queues of ``fill``.
ACTIONS: dict[str, Callable[[Path], actions.Action]] = {
    "delete": lambda path: actions.Delete(queue=A),
    "purge": lambda path: actions.Purge(queue=A),
    "purge with what is in processing": lambda path: actions.PurgeList(queue=A, processing=True),
    "pop": lambda path: actions.Pop(queue=A, count=5),
    "trim to the newest": lambda path: actions.Trim(queue=A, keep=7),
    "trim to the oldest": lambda path: actions.Trim(queue=A, keep=7, keep_oldest=True),
    "requeue": lambda path: actions.Requeue(queue=A),
    "requeue to the back": lambda path: actions.Requeue(queue=A, to_back=True),
    "release": lambda path: actions.Release(queue=A),
    "hide": lambda path: actions.Hide(queue=A, seconds=100),
    "ack": lambda path: actions.Ack(queue=A),
    "move": lambda path: actions.Move(queue=A, target=B),
    "copy": lambda path: actions.Copy(queue=A, target="list:" + B),
    "copy within": lambda path: actions.Copy(queue=A, target=A),
    "send": lambda path: actions.Send(queue=A, bodies=(b"x", b"", b"\xff")),
    "send to the front": lambda path: actions.Push(queue=A, bodies=(b"x", b"y"), first=True),
    "send to a list that is made": lambda path: actions.Send(queue="queue:new", bodies=(b"x",)),
    "import": lambda path: actions.Import(queue=A, path=exported(path / "export.jsonl")),
    "move to RSMQ": lambda path: actions.Move(queue=A, target="rsmq:x"),
    "copy to RSMQ": lambda path: actions.Copy(queue=A, target="rsmq:rsmq/x"),
}
# The same from a queue of RSMQ.
FROM_RSMQ: dict[str, actions.Move] = {
    "move to a list": actions.Move(queue="x", target="list:" + A),
    "copy to a list": actions.Copy(queue="x", target="list:queue:new"),
}


def list_changes(
    server: str,
    names: ListNames,
    folder: Path,
    *,
    patterns: Sequence[str] = (),
    ns: str = "rsmq",
    age: JsonPath | None = None,
    **options: Any,
) -> ChangeService:
    """Return what changes the list queues of a server; ``options`` are of ``ChangeService``."""
    return ChangeService(ListBackend(server, names, ns, patterns, age), folder, **options)
