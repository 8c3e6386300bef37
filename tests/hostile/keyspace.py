"""Proof that looking changes nothing: every key as it was, and no command called that could do otherwise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis

_READ: dict[bytes, Callable[[Redis, bytes], Any]] = {
    b"hash": lambda admin, key: admin.hgetall(key),
    b"set": lambda admin, key: admin.smembers(key),
    b"zset": lambda admin, key: admin.zrange(key, 0, -1, withscores=True),
}


@contextmanager
def untouched(admin: Redis) -> Iterator[None]:
    """What happens inside leaves every key as it is, and calls no command that is able to do otherwise."""
    before = everything(admin)
    admin.config_resetstat()
    yield
    assert writes(admin) == {}
    assert everything(admin) == before, "keys were changed"


def everything(admin: Redis) -> dict[bytes, tuple[Any, ...]]:
    """Every key with its type, encoding, value and time to live; a DUMP of a large hash differs from call to call."""
    found = {}
    for key in admin.scan_iter():
        kind = admin.type(key)
        value = _READ.get(kind, Redis.dump)(admin, key)
        found[key] = kind, admin.object("encoding", key), value, admin.pttl(key)
    return found


def writes(admin: Redis) -> dict[str, int]:
    """How often each command was called since the last reset that is able to write, publish or administer."""
    able: set[str] = set()
    for category in ("write", "pubsub", "dangerous", "transaction", "blocking"):
        able |= {name.decode().lower() for name in admin.execute_command("ACL", "CAT", category)}
    called = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in admin.info("commandstats").items()}
    ours = {"config|resetstat", "info", "acl|cat"}
    return {name: calls for name, calls in called.items() if name in able - ours and calls}
