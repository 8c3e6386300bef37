"""What INFO says of a server: who it is, since when it runs, and what it has evicted."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.keys import name_of

_SECTIONS = ("server", "replication", "stats")


class ServerInfo(NamedTuple):
    """The server that answers. ``uptime_s`` is how long it runs, ``evicted_keys`` a count since its start."""

    run_id: str
    uptime_s: int
    role: str
    evicted_keys: int


def info_fields(reply: Any) -> dict[str, str]:
    """Return the fields of a reply to INFO, none if it is not a text."""
    lines = name_of(reply if isinstance(reply, bytes) else b"").splitlines()
    fields = (line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))
    return {name: value.strip() for name, value in fields}


async def read_server_info(runner: ScriptRunner) -> ServerInfo:
    """Read three sections of INFO in one round trip; raises redis-py's errors. What a server omits is empty or 0."""
    fields: dict[str, str] = {}
    # Servers before Redis 7 accept one section at a time.
    for reply in await runner.ask(*(("INFO", section) for section in _SECTIONS)):
        fields |= info_fields(reply)
    return ServerInfo(
        fields.get("run_id", ""), _number(fields, "uptime_in_seconds"), fields.get("role", ""),
        _number(fields, "evicted_keys"),
    )  # fmt: skip


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
