"""Running the commands as a person does: as a process, and nothing of ours in its environment."""

import os
import subprocess
import sys
from collections.abc import Mapping

from redis import Redis

_OURS = ("REDIS_URL", "RSMQ_NS", "RSMQ_TUI_READ_ONLY", "NO_COLOR")
SECONDS_MAX = 100


def environment(**values: str) -> dict[str, str]:
    """The environment of a command: this one without what would decide for it, and with these."""
    return {name: value for name, value in os.environ.items() if name not in _OURS} | values


def run(
    *arguments: str, module: str = "rsmq_tui", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def state_of(client: Redis) -> dict[bytes, object]:
    """What all keys hold, in values that are equal when they hold the same."""
    return {key: _value(client, key) for key in sorted(client.scan_iter())}


def _value(client: Redis, key: bytes) -> object:
    match client.type(key):
        case b"hash":
            return client.hgetall(key)
        case b"zset":
            return client.zrange(key, 0, -1, withscores=True)
        case b"set":
            return client.smembers(key)
    return client.dump(key)
