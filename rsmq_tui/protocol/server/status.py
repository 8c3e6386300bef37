"""The status of a server: INFO, the ``save`` setting, the slow log and latency events. It only reads."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rsmq_tui.protocol.connections.pool import ConnectionManager, ServerConnection
from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.errors import SERVER_ERRORS, Failure, failure_of
from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.replies import Command, clock_ms, decoded

SLOW_COMMANDS = 5
# The sections of INFO that identify the server, and show how full it is.
_SECTIONS = ("server", "replication", "stats", "memory")
# The uptime of INFO is in whole seconds.
_UPTIME_SLACK_MS = 2_000
# Servers have fewer kinds of events.
_EVENTS_MAX = 30
COMMANDS: tuple[Command, ...] = (
    ("TIME",),
    ("INFO",),
    ("CONFIG", "GET", "save"),
    ("SLOWLOG", "GET", SLOW_COMMANDS),
    ("LATENCY", "LATEST"),
)


STALE_REPLICA = "the replica has lost its primary, so its data is old; check the primary and the network to it"


class ServerInfo(NamedTuple):
    """The server that answered at its time ``at_ms``.

    ``uptime_s`` is how long it runs, ``evicted_keys`` a count since its start. ``used_memory`` and ``maxmemory`` are in
    bytes; 0 for unknown, and a ``maxmemory`` of 0 is no limit. ``is_stale`` is True for a replica without its
    primary. ``maxmemory_policy`` says what it evicts when its memory is full, empty for unknown.
    """

    run_id: str
    uptime_s: int
    role: str
    evicted_keys: int
    used_memory: int = 0
    maxmemory: int = 0
    at_ms: int = 0
    is_stale: bool = False
    maxmemory_policy: str = ""

    @property
    def refuses_messages(self) -> bool:
        """True if its memory is full and it makes no room: it then refuses all that needs memory."""
        return self.maxmemory_policy == "noeviction" and 0 < self.maxmemory <= self.used_memory


class ServerChange(NamedTuple):
    """Another process answers for a server, since a time from ``from_ms`` to ``until_ms``: it was restarted, or not."""

    is_restart: bool
    from_ms: int
    until_ms: int

    @property
    def words(self) -> str:
        """What happened."""
        return "the server was restarted" if self.is_restart else "another server took over"


def server_change(before: ServerInfo | None, info: ServerInfo | None) -> ServerChange | None:
    """Compare the INFO of a server with an earlier one; None if the same process answers, or if that is not known."""
    if before is None or info is None or not before.run_id or not info.run_id or info.run_id == before.run_id:
        return None
    started_ms = info.at_ms - info.uptime_s * 1000
    # A server that was already running while the previous one still answered is another server, not a restarted one.
    if started_ms + _UPTIME_SLACK_MS < before.at_ms:
        return ServerChange(False, before.at_ms, info.at_ms)
    return ServerChange(True, max(before.at_ms, started_ms - _UPTIME_SLACK_MS), started_ms + _UPTIME_SLACK_MS)


class SlowCommand(NamedTuple):
    """An entry of the slow log: when it ran, how long it took, and its words, which the server may have cut."""

    at_ms: int
    took_us: int
    words: tuple[str, ...]


class LatencyEvent(NamedTuple):
    """The latest time at which an event of the latency monitor took long, and the longest time that it took."""

    name: str
    at_ms: int
    latest_ms: int
    longest_ms: int


class ServerStatus(NamedTuple):
    """The status of one server at its time ``at_ms``; a part that its user may not read is a ``Failure``.

    ``node`` names the node of a cluster, and is empty for a single server. ``at_ms`` is None, and every part a
    ``Failure``, for a node that cannot be read. ``saves`` is the ``save`` setting, empty for never, None if it may not
    be read.
    """

    node: str
    at_ms: int | None
    info: Mapping[str, str] | Failure
    saves: str | None
    slow: Sequence[SlowCommand] | Failure
    latency: Sequence[LatencyEvent] | Failure

    @property
    def is_refused(self) -> bool:
        """Whether the user may read none of the parts."""
        parts = (self.info, self.slow, self.latency)
        return self.at_ms is not None and all(isinstance(part, Failure) for part in parts)


def status_of(replies: Sequence[Any], node: str = "") -> ServerStatus:
    """Decode the replies to ``COMMANDS``; raises redis-py's errors, except for commands that are not allowed."""
    clock, info, saves, slow, latency = replies
    found = _part(info, _info)
    return ServerStatus(
        node,
        clock_ms(clock),
        found,
        None if isinstance(saves, Exception) else decoded(_save_setting, saves),
        _part(slow, _slow_commands),
        _part(latency, _latency_events),
    )


async def read_server_info(runner: ScriptRunner) -> ServerInfo:
    """Read four sections of INFO in one round trip; raises redis-py's errors. What a server omits is empty or 0."""
    fields: dict[str, str] = {}
    # Servers before Redis 7 accept one section at a time.
    clock, *sections = await runner.ask(("TIME",), *(("INFO", section) for section in _SECTIONS))
    for reply in sections:
        fields |= decoded(_info, reply)
    return ServerInfo(
        fields.get("run_id", ""), _number(fields, "uptime_in_seconds"), fields.get("role", ""),
        _number(fields, "evicted_keys"), _number(fields, "used_memory"), _number(fields, "maxmemory"), clock_ms(clock),
        fields.get("master_link_status") == "down", fields.get("maxmemory_policy", ""),
    )  # fmt: skip


async def read_statuses(connections: ConnectionManager) -> tuple[ServerStatus, ...]:
    """Read the status of the server, or of each node of a cluster that holds keys; raises redis-py's errors.

    A node of a cluster that cannot be read has a status too.
    """
    return tuple(await asyncio.gather(*map(_status, await connections.everywhere())))


async def _status(connection: ServerConnection) -> ServerStatus:
    node = "" if connection.node is None else str(connection.node)
    try:
        return status_of(await connection.runner.commands(*COMMANDS), node)
    except SERVER_ERRORS as error:
        if connection.node is None:
            raise
        failure = failure_of(error)
        return ServerStatus(node, None, failure, None, failure, failure)


def _part(reply: Any, read: Any) -> Any:
    if not isinstance(reply, Exception):
        return decoded(read, reply)
    failure = failure_of(reply)
    # Not allowed, or no command of this server.
    if failure.kind in ("noperm", "error"):
        return failure
    raise reply


def _info(reply: bytes) -> dict[str, str]:
    """Return the fields of a reply to INFO."""
    lines = name_of(reply).splitlines()
    fields = (line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))
    return {name: value.strip() for name, value in fields}


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def _save_setting(reply: list[bytes]) -> str | None:
    return name_of(reply[1]) if len(reply) > 1 else None


def _slow_commands(reply: list[Any]) -> tuple[SlowCommand, ...]:
    return tuple(
        SlowCommand(int(at_s) * 1000, int(took_us), tuple(map(name_of, words)))
        for _, at_s, took_us, words, *_ in reply[:SLOW_COMMANDS]
    )


def _latency_events(reply: list[Any]) -> tuple[LatencyEvent, ...]:
    return tuple(
        LatencyEvent(name_of(name), int(at_s) * 1000, int(latest_ms), int(longest_ms))
        for name, at_s, latest_ms, longest_ms, *_ in reply[:_EVENTS_MAX]
    )
