"""Proof that reading changes nothing: every key is unchanged, and no command was called that could change one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis

from tests.protocol.keyspace import everything


@contextmanager
def untouched(admin: Redis) -> Iterator[None]:
    """Check that the block leaves every key unchanged, and calls no command that could change one."""
    before = _state(admin)
    admin.config_resetstat()
    yield
    assert writes(admin) == {}
    assert _state(admin) == before, "keys were changed"


def _state(admin: Redis) -> dict[bytes, tuple[Any, ...]]:
    """Every key with its value, encoding and time to live."""
    return {key: (value, admin.object("encoding", key), admin.pttl(key)) for key, value in everything(admin).items()}


def writes(admin: Redis) -> dict[str, int]:
    """How often each command was called since the last reset that is able to write, publish or administer."""
    able: set[str] = set()
    for category in ("write", "pubsub", "dangerous", "transaction", "blocking"):
        able |= {name.decode().lower() for name in admin.execute_command("ACL", "CAT", category)}
    called = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in admin.info("commandstats").items()}
    ours = {"config|resetstat", "info", "acl|cat"}
    return {name: calls for name, calls in called.items() if name in able - ours and calls}
