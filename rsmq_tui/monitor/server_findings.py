"""What a server's own words about itself mean for queues: which server it is, its role, memory and disk."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from rsmq_tui.monitor.diagnoses import Finding, ok, warn
from rsmq_tui.monitor.wording import duration, size

# A field of INFO that only one kind of server has -> its name. Most of them say a version of Redis too, for clients.
_KINDS = {
    "valkey_version": "Valkey",
    "dragonfly_version": "Dragonfly",
    "garnet_version": "Garnet",
    "keydb_version": "KeyDB",
    "kvrocks_version": "Kvrocks",
    "redict_version": "Redict",
    "redis_version": "Redis",
}
_NEARLY_FULL = 0.9


def server_findings(info: Mapping[str, str], saves: str | None) -> Iterator[Finding]:
    """Yield what INFO says; ``saves`` is when the server saves by itself, None where it does not say."""
    yield ok("server.kind", server_kind(info))
    yield from _role(info)
    yield from _memory(info)
    yield from _disk(info, saves)


def server_kind(info: Mapping[str, str]) -> str:
    """Say which server it is, in which version."""
    kind, version = next(((kind, info[field]) for field, kind in _KINDS.items() if field in info), ("unknown", ""))
    # KeyDB says Redis' version for its own.
    if kind == "Redis" and "mvcc_depth" in info:
        kind = "KeyDB"
    told = f"{kind} {version}".strip() if kind != "unknown" else "a server that does not report its version"
    mode = info.get("redis_mode") or info.get("server_mode") or ""
    return f"{told}, {mode}" if mode else told


def _role(info: Mapping[str, str]) -> Iterator[Finding]:
    match info.get("role"):
        case "master":
            yield ok("server.role", "the primary: changes are possible")
        case "slave":
            primary = f"{info.get('master_host', '')}:{info.get('master_port', '')}"
            words = f"a replica of {primary}: it can be watched, and changes will fail"
            yield warn("server.role", words, "connect to the primary to change something")
            if info.get("master_link_status") == "down":
                since_s = _number(info, "master_link_down_since_seconds")
                words = f"the replica has lost its primary{f' for {duration(since_s * 1000)}' if since_s else ''}"
                yield warn(
                    "server.replication", f"{words}: its data is stale", "check the primary and the network to it"
                )
    if info.get("loading") not in (None, "0"):
        yield warn("server.loading", "the server is loading its data into memory", "wait until loading has finished")


def _memory(info: Mapping[str, str]) -> Iterator[Finding]:
    policy, limit, used = info.get("maxmemory_policy"), _number(info, "maxmemory"), _number(info, "used_memory")
    if policy is None:
        return
    if not limit:
        yield ok("server.memory", f"no memory limit (maxmemory 0, policy {policy})")
    elif policy != "noeviction":
        words = f"maxmemory-policy {policy} evicts keys when {size(limit)} are full, including whole queues"
        yield warn("server.memory", words, "CONFIG SET maxmemory-policy noeviction, and in the server's configuration")
    elif used is not None and used > _NEARLY_FULL * limit:
        words = f"{size(used)} of {size(limit)} memory in use: the server refuses messages when it is full"
        yield warn("server.memory", words, "raise maxmemory, or find the queue that grows")
    else:
        yield ok("server.memory", f"{size(used)} of {size(limit)} memory in use, nothing is dropped when it is full")


def _disk(info: Mapping[str, str], saves: str | None) -> Iterator[Finding]:
    if "ok" not in (last := info.get("rdb_last_bgsave_status", "ok")):
        yield warn("server.disk", f"the last save to disk failed ({last})", "check the server's log: is the disk full?")
    if info.get("aof_enabled") == "1":
        if (last := info.get("aof_last_write_status", "ok")) != "ok":
            yield warn("server.aof", f"the append-only file cannot be written ({last})", "check the server's log")
        else:
            yield ok("server.persistence", "an append-only file: messages outlive a restart")
    elif "aof_enabled" in info:
        if saves:
            words = f"snapshots only ({saves}): a crash loses the messages since the last one"
        elif saves is None:
            words = "no append-only file: a crash loses the messages since the last snapshot, if there are any"
        else:
            words = "nothing is saved to disk: a restart loses every message"
        yield warn("server.persistence", words, "CONFIG SET appendonly yes, unless the messages may be lost")


def _number(info: Mapping[str, str], name: str) -> int | None:
    with suppress(KeyError, ValueError):
        return int(info[name])
    return None
