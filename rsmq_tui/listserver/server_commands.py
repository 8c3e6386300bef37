"""The commands of the server: INFO, CONFIG, COMMAND, DEBUG, time, databases, and those that it refuses."""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from urllib.parse import quote

from rsmq_tui.listserver.command import (
    COMMANDS,
    command,
    find,
    integer,
    keyword,
    no_such_key,
    one_of,
    options,
    real,
    syntax_error,
)
from rsmq_tui.listserver.engine import NO_REPLY, REDIS_VERSION, Client
from rsmq_tui.listserver.faults import KINDS, Fault
from rsmq_tui.listserver.resp import CommandError, Reply
from rsmq_tui.listserver.store import TYPES, SortedSet

_SIZES = {"k": 1000, "kb": 1024, "m": 1000**2, "mb": 1024**2, "g": 1000**3, "gb": 1024**3, "b": 1, "": 1}


@command("CONFIG|GET pattern...", "admin loading stale noscript")
def _config_get(client: Client, *patterns: bytes) -> Reply:
    settings = {**client.server.config, "requirepass": client.server.password, "port": str(client.server.port)}
    wanted = [pattern.lower().decode("latin-1") for pattern in patterns]
    return {
        name.encode(): value.encode("utf-8", "surrogateescape")
        for name, value in sorted(settings.items())
        if any(fnmatchcase(name, pattern) for pattern in wanted)
    }


@command("CONFIG|SET name,value...", "admin loading stale noscript")
def _config_set(client: Client, *words: bytes) -> Reply:
    server = client.server
    if len(words) % 2:
        raise syntax_error()
    for name, value in zip(words[::2], words[1::2], strict=True):
        setting, text = name.lower().decode("latin-1"), value.decode("utf-8", "surrogateescape")
        if setting == "requirepass":
            server.password = text
        elif setting not in server.config:
            raise CommandError(f"ERR Unknown option or number of arguments for CONFIG SET - '{setting}'")
        elif setting in ("proto-max-bulk-len", "client-query-buffer-limit"):
            size = _bytes(text)
            if size is None:
                raise CommandError(f"ERR CONFIG SET failed (possibly related to argument '{setting}')")
            server.config[setting] = str(size)
        else:
            server.config[setting] = text
    for each in server.clients.values():
        each.requests.bulk_limit = server.bulk_limit
    return "OK"


def _bytes(text: str) -> int | None:
    digits = text.rstrip("kmgbKMGB")
    factor = _SIZES.get(text[len(digits) :].lower())
    return int(digits) * factor if digits.isdigit() and factor else None


@command("CONFIG|RESETSTAT", "admin loading stale noscript")
def _config_resetstat(client: Client) -> Reply:
    client.server.calls.clear()
    return "OK"


@command("INFO [section...]", "loading stale")
def _info(client: Client, *sections: bytes) -> Reply:
    server = client.server
    now_ms = server.clock.now_ms()
    blocked = sum(bool(each.blocked or each.is_postponed) for each in server.clients.values())
    parts = {
        "server": {
            "redis_version": REDIS_VERSION,
            "server_name": "listserver",
            "redis_mode": "standalone",
            "process_id": str(os.getpid()),
            "run_id": f"{id(server) & 0xFFFFFFFF:08x}{server.started_ms:032x}",
            "tcp_port": str(server.port),
            "server_time_usec": str(server.clock.now_us()),
            "uptime_in_seconds": str((now_ms - server.started_ms) // 1000),
        },
        "clients": {"connected_clients": str(len(server.clients)), "blocked_clients": str(blocked)},
        "memory": {"maxmemory": "0"},
        "persistence": {"loading": "0", "rdb_changes_since_last_save": str(server.changes)},
        "stats": {
            "total_connections_received": str(server.connections),
            "total_commands_processed": str(sum(calls.number for calls in server.calls.values())),
        },
        "replication": {"role": "master", "connected_slaves": "0"},
        "waiting": {
            "waiting_clients": str(server.blocking.clients),
            "waiting_lists": str(len(server.blocking.queues)),
            **{
                f"waiting{number}": f"key={quote(key)},db={index},clients={clients},first_ms={now_ms - since_ms}"
                for number, ((index, key), clients, since_ms) in enumerate(server.blocking.waiting())
            },
        },
        "commandstats": {
            f"cmdstat_{name.lower()}": f"calls={calls.number},usec={calls.duration_ns // 1000},"
            f"usec_per_call={calls.duration_ns / 1000 / calls.number:.2f},rejected_calls=0,failed_calls={calls.failed}"
            for name, calls in server.calls.items()
        },
        "keyspace": {
            f"db{index}": f"keys={len(database.names())},expires={len(database.expires_ms)},avg_ttl=0"
            for index, database in enumerate(server.databases)
            if database.values
        },
    }
    wanted = {section.lower().decode("latin-1") for section in sections} or {"default"}
    if wanted & {"all", "everything"}:
        wanted = set(parts)
    elif "default" in wanted:
        wanted |= set(parts) - {"commandstats"}
    return "\r\n".join(
        f"# {name.capitalize()}\r\n" + "".join(f"{field}:{value}\r\n" for field, value in fields.items())
        for name, fields in parts.items()
        if name in wanted
    ).encode()


# COMMAND, and those without effect or of one expression.


@command("COMMAND|INFO [name...]", "loading stale")
@command("COMMAND [subcommand...]", "loading stale")
def _command(client: Client, *names: bytes) -> Reply:
    found = [COMMANDS.get(keyword(name)) for name in names] if names else COMMANDS.values()
    return [each.info() if each else None for each in found]


@command("COMMAND|GETKEYS command...", "loading stale")
def _command_getkeys(client: Client, *words: bytes) -> Reply:
    keys: list[Reply] = list(find(list(words)).keys_of(list(words)))
    if not keys:
        raise CommandError("ERR The command has no key arguments")
    return keys


for _syntax, _flags, _call in (
    ("COMMAND|COUNT", "loading stale", lambda client: len(COMMANDS)),
    ("COMMAND|LIST", "loading stale", lambda client: [name.lower().encode() for name in COMMANDS]),
    (
        "COMMAND|DOCS [name...]",
        "loading stale",
        lambda client, *names: {name.lower(): {} for name in names if keyword(name) in COMMANDS},
    ),
    ("DBSIZE", "readonly fast", lambda client: len(client.db.names())),
    ("LASTSAVE", "fast loading stale", lambda client: client.server.started_ms // 1000),
    # There are no replicas and no subscribers: the reply is their number.
    ("WAIT replicas:int timeout:int", "blocking", lambda client, replicas, timeout: 0),
    ("PUBLISH channel message", "fast loading stale", lambda client, channel, message: 0),
    (
        "DEBUG|SLEEP seconds:float",
        "admin loading stale noscript",
        lambda client, s: client.server.clock.sleep(max(0.0, s)) or "OK",
    ),
    ("DEBUG|RELOAD [word...]", "admin noscript", lambda client, *words: "OK"),
    ("DEBUG|SET-ACTIVE-EXPIRE word", "admin noscript", lambda client, word: "OK"),
    ("DEBUG|QUICKLIST-PACKED-THRESHOLD word", "admin noscript", lambda client, word: "OK"),
    ("DEBUG|JMAP", "admin noscript", lambda client: "OK"),
):
    command(_syntax, _flags)(_call)


@command("SUBSCRIBE channel...", "noscript")
@command("PSUBSCRIBE pattern...", "noscript")
@command("SSUBSCRIBE channel...", "noscript")
def _subscribe(client: Client, *channels: bytes) -> Reply:
    raise CommandError("ERR this server does not support pub/sub")


# Databases and time.


@command("FLUSHDB [mode]", "write")
def _flushdb(client: Client, *mode: bytes, every: bool = False) -> Reply:
    if len(mode) > 1:
        raise syntax_error()
    if mode:
        one_of(mode[0], "SYNC", "ASYNC")
    for database in client.server.databases if every else (client.db,):
        database.clear()
    return "OK"


command("FLUSHALL [mode]", "write")(partial(_flushdb, every=True))


@command("SWAPDB index index", "write fast")
def _swapdb(client: Client, first: bytes, second: bytes) -> Reply:
    indexes = integer(first, "invalid first DB index"), integer(second, "invalid second DB index")
    if not all(0 <= index < len(client.server.databases) for index in indexes):
        raise CommandError("ERR DB index is out of range")
    client.server.swap(*indexes)
    return "OK"


@command("TIME", "fast loading stale")
def _time(client: Client) -> Reply:
    seconds, rest_us = divmod(client.server.clock.now_us(), 1_000_000)
    return [b"%d" % seconds, b"%d" % rest_us]


@command("OBJECT|ENCODING key", "readonly")
def _object_encoding(client: Client, key: bytes) -> Reply:
    value = client.db.get(key)
    if value is None:
        raise no_such_key()
    names = {"string": b"raw", "list": b"quicklist", "hash": b"hashtable", "set": b"hashtable", "zset": b"skiplist"}
    return names[TYPES[type(value)]]


@command("MEMORY|USAGE key [options...]", "readonly")
def _memory_usage(client: Client, key: bytes, *options: bytes) -> Reply:
    value = client.db.get(key)
    if value is None:
        return None
    match value:
        case bytes():
            elements: Iterable[bytes] = [value]
        case dict():
            elements = chain.from_iterable(value.items())
        case SortedSet():
            elements = value.scores
        case _:
            elements = value
    return 64 + sum(16 + len(element) for element in elements)


# DEBUG.


@command("DEBUG|CLOCK action [seconds:float]", "admin loading stale noscript")
def _debug_clock(client: Client, action: bytes, *seconds: float) -> Reply:
    """``DEBUG CLOCK STOP | START | ADVANCE seconds``: what the methods of ``ListServer`` do."""
    clock = client.server.clock
    match one_of(action, "STOP", "START", "ADVANCE"):
        case "ADVANCE" if len(seconds) == 1:
            client.server.later(partial(clock.advance, *seconds))
        case "STOP" if not seconds:
            clock.stop()
        case "START" if not seconds:
            clock.start()
        case _:
            raise syntax_error()
    return "OK"


@command("DEBUG|FAULT kind [options...]", "admin loading stale noscript")
def _debug_fault(client: Client, *words: bytes) -> Reply:
    """``DEBUG FAULT kind [SECONDS s] [COMMAND name] [CLIENT name] [TIMES n]``, or ``DEBUG FAULT CLEAR``."""
    server = client.server
    if words[0].upper() == b"CLEAR":
        for fault in server.faults:
            server.later(partial(server.end_fault, fault))
        return "OK"
    kinds = {kind.upper(): kind for kind in KINDS}
    kind, commands = kinds[one_of(words[0], *kinds)], set[str]()
    given = options(
        words[1:],
        SECONDS=real,
        COMMAND=lambda word: commands.add(keyword(word)),
        CLIENT=lambda word: word.decode("utf-8", "replace"),
        TIMES=partial(integer, least=1),
    )
    limits = {name.lower(): value for name, value in given.items() if name != "COMMAND"}
    server.faults.append(Fault(kind, commands=frozenset(commands), **limits))
    return "OK"


@command("SHUTDOWN [mode...]", "admin loading stale noscript no_multi")
def _shutdown(client: Client, *mode: bytes) -> Reply:
    client.server.on_shutdown()
    return NO_REPLY
