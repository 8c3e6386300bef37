"""The content of the server, read with plain commands and shown as redis-cli prints it."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from redis import Redis

from rsmq_tui.protocol import make_id

_READ: dict[bytes, Callable[[Redis, bytes], Any]] = {
    b"hash": Redis.hgetall,
    b"set": Redis.smembers,
    b"string": Redis.get,
    b"list": lambda client, key: client.lrange(key, 0, -1),
    b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
}


def now_ms(client: Redis) -> int:
    seconds, microseconds = client.time()
    return seconds * 1000 + microseconds // 1000


def everything(client: Redis) -> dict[bytes, Any]:
    """Every key with its value; no encodings, which nobody can put back."""
    keys = list(client.scan_iter())
    with client.pipeline(transaction=False) as asked:
        for key in keys:
            asked.type(key)
        for key, kind in zip(keys, asked.execute(), strict=True):
            _READ.get(kind, Redis.dump)(asked, key)
        return dict(zip(keys, asked.execute(), strict=True))


def scripts_run(client: Redis) -> int:
    """How many EVALSHA and EVAL the server has got in this test."""
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


def plant(client: Redis, queue: str, id: str, *, due_ms: int, ns: str = "rsmq", **fields: bytes | str | int) -> None:
    """Put a message there by hand: ``body``, ``rc`` and ``fr`` where given, and nothing else."""
    client.zadd(f"{ns}:{queue}", {id: due_ms})
    for name, value in fields.items():
        client.hset(f"{ns}:{queue}:Q", id if name == "body" else f"{id}:{name}", value)


def send_old(client: Redis, queue: str, bodies: Sequence[str]) -> list[str]:
    """Put messages there as if they had been sent an hour ago; returns their ids in the order of these."""
    at_ms = now_ms(client) - 3_600_000
    ids = [make_id(at_ms * 1000 + number) for number in range(len(bodies))]
    client.zadd(f"rsmq:{queue}", dict.fromkeys(ids, at_ms))
    client.hset(f"rsmq:{queue}:Q", mapping=dict(zip(ids, bodies, strict=True)))
    return ids


def printed(reply: Any) -> str:
    """Print a reply as redis-cli does."""
    if isinstance(reply, set):
        reply = sorted(reply)
    if isinstance(reply, dict):
        reply = [part for pair in reply.items() for part in pair]
    if not isinstance(reply, list):
        return _quoted(reply)
    if not reply:
        return "(empty array)"
    width = len(str(len(reply)))
    return "\n".join(f"{number:>{width}}) {_quoted(part)}" for number, part in enumerate(reply, 1))


def base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


# What redis-cli prints of the attributes of a new queue, with its times masked.
NEW_ATTRIBUTES = """\
 1) "vt"
 2) "30"
 3) "delay"
 4) "0"
 5) "maxsize"
 6) "65535"
 7) "created"
 8) "<s>"
 9) "modified"
10) "<s>"
"""


def masked(text: str) -> str:
    """Hide what differs from run to run: ids, and times in ms and in s."""
    text = re.sub(r"\b[a-zA-Z0-9]{32}\b", "<id>", text)
    text = re.sub(r"\b1\d{12}\b", "<ms>", text)
    return re.sub(r"\b1\d{9}\b", "<s>", text)


def _quoted(value: bytes | float) -> str:
    text = value.decode() if isinstance(value, bytes) else f"{value:.17g}"
    return f'"{text}"'
