"""Findings from a server's status, each with a level, a sentence and a hint.

The dashboard's server screen and ``rsmq-tui doctor`` show the same results.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from rsmq_tui.monitor.model import Snapshot
from rsmq_tui.monitor.text import SENTENCE_MAX, ago, count, duration, plural, printable, rate, size
from rsmq_tui.monitor.tracking.forecast import KNOWN_MS, time_left
from rsmq_tui.protocol import Failure
from rsmq_tui.protocol.server.status import LatencyEvent, ServerStatus, SlowCommand


class CheckLevel(StrEnum):
    """The result of one check: ``fail`` prevents the dashboard from working, ``warn`` does not."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check; ``hint`` says what to do, and is empty if nothing needs to be done.

    ``name`` is for programs: an area and a word, such as ``connection.tcp``.
    """

    name: str
    level: CheckLevel
    text: str
    hint: str = ""


def _result(level: CheckLevel, name: str, text: str, hint: str = "") -> CheckResult:
    # Both may quote a server.
    return CheckResult(name, level, printable(text, SENTENCE_MAX), printable(hint, SENTENCE_MAX))


ok, warn, fail = (
    partial(_result, CheckLevel.OK),
    partial(_result, CheckLevel.WARN),
    partial(_result, CheckLevel.FAIL),
)

# Field of INFO -> the server that has it. Most of them report a Redis version too, for compatibility.
_KINDS = {
    "valkey_version": "Valkey",
    "dragonfly_version": "Dragonfly",
    "garnet_version": "Garnet",
    "keydb_version": "KeyDB",
    "kvrocks_version": "Kvrocks",
    "redict_version": "Redict",
    "redis_version": "Redis",
}
# The first release of each series in which a Lua script cannot run code on the server (CVE-2025-49844). Sources:
# github.com/docker-library/official-images/pull/20011, github.com/valkey-io/valkey/releases/tag/8.1.4.
_LUA_FIXED = {
    ("Redis", 6, 2): 20,
    ("Redis", 7, 2): 11,
    ("Redis", 7, 4): 6,
    ("Redis", 8, 0): 4,
    ("Redis", 8, 2): 2,
    ("Valkey", 8, 1): 4,
}
_NEARLY_FULL = 0.9
_MEMORY_HINT = "raise maxmemory, or find the queue that grows"
# A replica reports to its primary every second.
_REPLICA_LAG_S = 10
_REPLICAS_SHOWN = 10
_WORD_MAX = 40
_WORDS_SHOWN = 3


def status_results(
    status: ServerStatus, earlier: ServerStatus | None = None, polled: Snapshot | None = None
) -> Iterator[CheckResult]:
    """Yield results from the status of one server.

    ``earlier`` is its previous status, for rates; ``polled`` a poll of it, for the time until its memory is full.
    """
    if isinstance(status.info, Failure):
        words = "this user may not read the version, role, memory and disk of the server (INFO)"
        if status.at_ms is None:
            yield warn("server.kind", f"this node cannot be read: {status.info.sentence}", status.info.hint)
            return
        yield warn("server.kind", words, "the dashboard works without it; grant +info to have them checked")
    else:
        yield from server_results(status.info, status.saves, status.at_ms, polled)
        yield from _evictions(status, status.info, earlier)
    yield from _slow(status.slow, status.at_ms)
    yield from _latency(status.latency, status.at_ms)


def server_results(
    info: Mapping[str, str], saves: str | None, at_ms: int | None = None, polled: Snapshot | None = None
) -> Iterator[CheckResult]:
    """Yield results from INFO; ``saves`` is the server's setting of ``save``, None if it cannot be read.

    ``at_ms`` is the server's time; ``polled`` as in ``status_results``.
    """
    uptime_s = _number(info, "uptime_in_seconds")
    kind, version = _kind(info)
    yield ok("server.kind", server_kind(info) + ("" if uptime_s is None else f", up for {duration(uptime_s * 1000)}"))
    yield from _version(kind, version, info)
    yield from _role(info)
    yield from _memory(info)
    if polled is not None:
        yield from _memory_limit(info, polled)
    yield from _clients(info)
    yield from _disk(info, saves, at_ms)


def server_kind(info: Mapping[str, str]) -> str:
    """Return the server's name, version and mode."""
    kind, version = _kind(info)
    words = f"{kind} {version}".strip() if kind != "unknown" else "a server that does not report its version"
    mode = info.get("redis_mode") or info.get("server_mode") or ""
    return f"{words}, {mode}" if mode else words


def _kind(info: Mapping[str, str]) -> tuple[str, str]:
    kind, version = next(((kind, info[field]) for field, kind in _KINDS.items() if field in info), ("unknown", ""))
    # KeyDB reports its version as Redis' version.
    return "KeyDB" if kind == "Redis" and "mvcc_depth" in info else kind, version


def _version(kind: str, version: str, info: Mapping[str, str]) -> Iterator[CheckResult]:
    if found := re.match(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", version, re.ASCII):
        major, minor, patch = map(int, found.groups())
        fixed = _LUA_FIXED.get((kind, major, minor))
        if fixed is not None and patch < fixed:
            words = "in this version, a user who may run scripts can run code on the server (CVE-2025-49844)"
            hint = f"{kind} {major}.{minor}.{fixed} fixes it; packages of a distribution may have the fix without it"
            yield warn("server.version", words, hint)
    if info.get("arch_bits") == "32":
        yield warn("server.arch", "a 32-bit build: it can use less than 4 GiB of memory", "install a 64-bit build")


def _role(info: Mapping[str, str]) -> Iterator[CheckResult]:
    match info.get("role"):
        case "master":
            yield ok("server.role", "the primary: changes are possible")
            yield from _replicas(info)
        case "slave":
            primary = f"{info.get('master_host', '')}:{info.get('master_port', '')}"
            words = f"a replica of {primary}: it can be watched, and changes will fail"
            yield warn("server.role", words, "connect to the primary to change something")
            yield from _primary_link(info)
    if info.get("loading") not in (None, "0"):
        yield warn("server.loading", "the server is loading its data into memory", "wait until loading has finished")


def _replicas(info: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield how far each replica is behind its primary."""
    number, offset = _number(info, "connected_slaves"), _number(info, "master_repl_offset")
    if number is None:
        return
    if number == 0:
        yield ok("server.replicas", "no replica is connected")
    for index in range(min(number, _REPLICAS_SHOWN)):
        fields = dict(part.split("=", 1) for part in info.get(f"slave{index}", "").split(",") if "=" in part)
        reached, lag_s = _number(fields, "offset"), _number(fields, "lag")
        behind = [] if offset is None or reached is None else [f"{size(max(0, offset - reached))} behind"]
        behind += [] if lag_s is None else [f"last heard {ago(lag_s * 1000)}"]
        state = fields.get("state", "in an unknown state")
        where = f"{fields.get('ip', '?')}:{fields.get('port', '?')}"
        words, name = ", ".join([f"replica {where} {state}", *behind]), f"server.replica_{index}"
        if state != "online" or (lag_s or 0) > _REPLICA_LAG_S:
            yield warn(name, words, "check the replica and the network to it: a failover loses what it does not have")
        else:
            yield ok(name, words)
    if number > _REPLICAS_SHOWN:
        yield ok("server.replicas", f"{number - _REPLICAS_SHOWN} more replicas are connected")


def _primary_link(info: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield how a replica is connected to its primary."""
    name, hint = "server.replication", "check the primary and the network to it"
    if info.get("master_sync_in_progress") == "1":
        left = _number(info, "master_sync_left_bytes")
        rest = f", {size(left)} left" if left is not None and left >= 0 else ""
        yield warn(name, f"the replica is copying all data from its primary{rest}: its data is stale", "wait for it")
    elif info.get("master_link_status") == "down":
        since_s = _number(info, "master_link_down_since_seconds")
        lasted = f" for {duration(since_s * 1000)}" if since_s is not None and since_s > 0 else ""
        words = f"the replica has lost its primary{lasted}"
        yield warn(name, f"{words}: its data is stale", hint)
    elif (heard_s := _number(info, "master_last_io_seconds_ago")) is not None:
        read, applied = _number(info, "slave_read_repl_offset"), _number(info, "slave_repl_offset")
        waiting = None if read is None or applied is None else max(0, read - applied)
        rest = "" if waiting is None else f", {size(waiting)} received and not yet applied"
        words = f"connected to the primary, last heard {ago(heard_s * 1000)}{rest}"
        yield warn(name, words, hint) if heard_s > _REPLICA_LAG_S else ok(name, words)


def _memory(info: Mapping[str, str]) -> Iterator[CheckResult]:
    policy, limit, used = info.get("maxmemory_policy"), _number(info, "maxmemory"), _number(info, "used_memory")
    if policy is None:
        return
    peak = _number(info, "used_memory_peak")
    most = "" if peak is None else f", at most {size(peak)} so far"
    if not limit:
        use = "" if used is None else f"{size(used)} memory in use{most}, "
        yield ok("server.memory", f"{use}no memory limit (maxmemory 0, policy {policy})")
        return
    use = f"{size(used)} of {size(limit)} memory in use" + ("" if used is None else f" ({used / limit:.0%}){most}")
    if _may_evict_queues(policy):
        words = f"maxmemory-policy {policy} evicts keys when {size(limit)} are full, including whole queues: {use}"
        yield warn("server.memory", words, "CONFIG SET maxmemory-policy noeviction, and in the server's configuration")
    elif used is not None and used > _NEARLY_FULL * limit:
        words = f"{use}: the server refuses messages when it is full"
        yield warn("server.memory", words, _MEMORY_HINT)
    elif policy == "noeviction":
        yield ok("server.memory", f"{use}, nothing is evicted when it is full")
    else:
        words = f"{use}, {policy} evicts only keys that expire when it is full: queues do not expire"
        yield ok("server.memory", words)


def _memory_limit(info: Mapping[str, str], polled: Snapshot) -> Iterator[CheckResult]:
    """Yield when the memory will be full; the nodes of a cluster that are not polled have no forecast."""
    if polled.info is None or not polled.info.maxmemory or polled.info.run_id != info.get("run_id", ""):
        return
    name, limit = "server.memory_full", polled.memory_limit
    if limit is None:
        words = f"unknown: it is not filling within a day, or has been polled for less than {duration(KNOWN_MS)}"
        yield ok(name, words)
    elif limit.latest_ms is not None and limit.latest_ms <= polled.at_ms:
        yield warn(name, "its limit is reached", _MEMORY_HINT)
    else:
        words = f"in {time_left(limit, polled.at_ms)}, at the rates of the last ten minutes"
        yield warn(name, words, _MEMORY_HINT)


def _may_evict_queues(policy: str) -> bool:
    """Return whether a policy may evict keys that do not expire; an unknown policy may."""
    return policy != "noeviction" and not policy.startswith("volatile-")


def _evictions(status: ServerStatus, info: Mapping[str, str], earlier: ServerStatus | None) -> Iterator[CheckResult]:
    evicted = _number(info, "evicted_keys")
    if evicted is None:
        return
    if not evicted:
        yield ok("server.evictions", "no key was evicted since the server started")
        return
    words = f"{plural(evicted, 'key')} evicted since the server started"
    before = None if earlier is None or isinstance(earlier.info, Failure) else _number(earlier.info, "evicted_keys")
    elapsed_ms = 0 if earlier is None else (status.at_ms or 0) - (earlier.at_ms or 0)
    if before is not None and elapsed_ms > 0:
        words += f", now {rate(max(0, evicted - before) * 1000 / elapsed_ms)} a second"
    if _may_evict_queues(info.get("maxmemory_policy", "")):
        hint = "queues that disappeared may have been evicted: CONFIG SET maxmemory-policy noeviction"
        yield warn("server.evictions", f"{words}: whole queues may be among them", hint)
    else:
        yield ok("server.evictions", words)


def _clients(info: Mapping[str, str]) -> Iterator[CheckResult]:
    clients, most = _number(info, "connected_clients"), _number(info, "maxclients")
    if clients is not None:
        words = plural(clients, "client") + ("" if most is None else f" of at most {count(most)}")
        blocked, refused = _number(info, "blocked_clients"), _number(info, "rejected_connections")
        words += "" if blocked is None else f", {count(blocked)} blocked"
        words += f", {plural(refused, 'connection')} refused since the server started" if refused else ""
        if most and clients > _NEARLY_FULL * most:
            hint = "raise maxclients, or find what opens so many connections (CLIENT LIST)"
            yield warn("server.clients", f"{words}: more are refused", hint)
        else:
            yield ok("server.clients", words)
    commands = _number(info, "instantaneous_ops_per_sec")
    if commands is not None:
        flows = [
            (_kilobytes(info, "instantaneous_input_kbps"), "in"),
            (_kilobytes(info, "instantaneous_output_kbps"), "out"),
        ]
        words = ", ".join(f"{size(flow)} a second {way}" for flow, way in flows if flow is not None)
        yield ok("server.commands", f"{plural(commands, 'command')} a second{f': {words}' if words else ''}")


def _disk(info: Mapping[str, str], saves: str | None, at_ms: int | None) -> Iterator[CheckResult]:
    if "ok" not in (last := info.get("rdb_last_bgsave_status", "ok")):
        yield warn("server.disk", f"the last save to disk failed ({last})", "check the server's log: is the disk full?")
    saved_s, unsaved = _number(info, "rdb_last_save_time"), _number(info, "rdb_changes_since_last_save")
    if saved_s is not None and at_ms is not None and saves != "":
        running = "; a save is running" if info.get("rdb_bgsave_in_progress") == "1" else ""
        changes = "" if unsaved is None else f", {plural(unsaved, 'change')} since then"
        # The time is that of the start if nothing was saved since.
        yield ok("server.saved", f"saved to disk, or started, {ago(at_ms - saved_s * 1000)}{changes}{running}")
    if info.get("aof_enabled") == "1":
        if (last := info.get("aof_last_write_status", "ok")) != "ok":
            yield warn("server.aof", f"the append-only file cannot be written ({last})", "check the server's log")
        else:
            yield ok("server.persistence", "an append-only file: messages outlive a restart")
        if (last := info.get("aof_last_bgrewrite_status", "ok")) != "ok":
            words = f"the last rewrite of the append-only file failed ({last}): the file keeps growing"
            yield warn("server.aof_rewrite", words, "check the server's log: is the disk full?")
    elif "aof_enabled" in info:
        if saves:
            words = f"snapshots only ({saves}): a crash loses the messages since the last one"
        elif saves is None:
            words = "no append-only file: a crash loses the messages since the last snapshot, if there are any"
        else:
            words = "nothing is saved to disk: a restart loses every message"
        yield warn("server.persistence", words, "CONFIG SET appendonly yes, unless the messages may be lost")


def _slow(slow: Sequence[SlowCommand] | Failure, at_ms: int | None) -> Iterator[CheckResult]:
    if isinstance(slow, Failure):
        yield ok("server.slow", "the slow log may not be read (SLOWLOG)")
    elif not slow:
        yield ok("server.slow", "the slow log is empty")
    else:
        for index, entry in enumerate(slow):
            words = [printable(word, _WORD_MAX) for word in entry.words[:_WORDS_SHOWN]]
            words += ["…"] * (len(entry.words) > _WORDS_SHOWN)
            took = f"{entry.took_us / 1000:,.1f} ms"
            yield ok(f"server.slow_{index}", f"{took}, {ago(_age_ms(entry.at_ms, at_ms))}: {' '.join(words)}")


def _latency(events: Sequence[LatencyEvent] | Failure, at_ms: int | None) -> Iterator[CheckResult]:
    if isinstance(events, Failure):
        yield ok("server.latency", "latency events may not be read (LATENCY)")
    elif not events:
        yield ok("server.latency", "no latency event is recorded (latency-monitor-threshold 0 records none)")
    else:
        for index, event in enumerate(events):
            words = (
                f"{count(event.latest_ms)} ms {ago(_age_ms(event.at_ms, at_ms))}, at most {count(event.longest_ms)} ms"
            )
            yield ok(f"server.latency_{index}", f"latency of {printable(event.name, _WORD_MAX)}: {words}")


def _age_ms(then_ms: int, at_ms: int | None) -> int | None:
    # The slow log has whole seconds.
    return None if at_ms is None else max(0, at_ms - then_ms)


def _number(info: Mapping[str, str], name: str) -> int | None:
    with suppress(KeyError, ValueError):
        # The counters of servers have 64 bits.
        return number if abs(number := int(info[name])) < 1 << 63 else None
    return None


def _kilobytes(info: Mapping[str, str], name: str) -> int | None:
    with suppress(KeyError, ValueError, OverflowError):
        return round(float(info[name]) * 1024)
    return None
