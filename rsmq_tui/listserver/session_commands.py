"""The commands of a connection: HELLO, AUTH, SELECT, transactions and CLIENT."""

from collections.abc import Callable
from functools import partial
from hmac import compare_digest
from typing import Any
from urllib.parse import quote

from rsmq_tui.listserver.blocking import ListKey, Waiter
from rsmq_tui.listserver.command import command, integer, one_of, options, syntax_error, wrong_number
from rsmq_tui.listserver.engine import NO_REPLY, REDIS_VERSION, Client
from rsmq_tui.listserver.resp import NO_ARRAY, CommandError, Reply


@command("PING [message]", "fast")
def _ping(client: Client, *message: bytes) -> Reply:
    if len(message) > 1:
        raise wrong_number("ping")
    return message[0] if message else "PONG"


# Each of these is one expression.
for _syntax, _flags, _call in (
    ("ECHO message", "fast loading stale", lambda client, message: message),
    ("CLIENT|ID", "fast loading stale noscript", lambda client: client.id),
    ("CLIENT|GETNAME", "fast loading stale noscript", lambda client: client.name or None),
    ("CLIENT|INFO", "loading stale noscript", lambda client: _described([client])),
    ("ACL|WHOAMI", "loading stale noscript", lambda client: b"default"),
    ("ACL|USERS", "admin loading stale noscript", lambda client: [b"default"]),
):
    command(_syntax, _flags)(_call)


@command("QUIT [word...]", "fast loading stale noscript no_auth allow_busy")
def _quit(client: Client, *words: bytes) -> Reply:
    client.reply("OK")
    client.close()
    return NO_REPLY


@command("SELECT index:int", "fast loading stale")
def _select(client: Client, index: int) -> Reply:
    if not 0 <= index < len(client.server.databases):
        raise CommandError("ERR DB index is out of range")
    client.index = index
    return "OK"


def _log_in(client: Client, password: bytes, user: bytes = b"default") -> None:
    wanted = client.server.password.encode("utf-8", "surrogateescape")
    if (wanted and not compare_digest(password, wanted)) or user != b"default":
        raise CommandError("WRONGPASS invalid username-password pair or user is disabled.")
    client.requests.is_trusted = True


@command("AUTH password...", "fast loading stale noscript no_auth allow_busy")
def _auth(client: Client, *words: bytes) -> Reply:
    if len(words) > 2:
        raise syntax_error()
    if len(words) == 1 and not client.server.password:
        raise CommandError(
            "ERR AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?"
        )
    _log_in(client, words[-1], *words[:-1])
    return "OK"


@command("HELLO [word...]", "fast loading stale noscript no_auth allow_busy")
def _hello(client: Client, *words: bytes) -> Reply:
    version = client.version
    if words:
        version = integer(words[0], "Protocol version is not an integer or out of range")
        if version not in (2, 3):
            raise CommandError("NOPROTO unsupported protocol version")
    unknown = "Syntax error in HELLO option '{}'"
    given = options(words[1:], unknown=unknown, AUTH=(bytes, bytes), SETNAME=_checked_name)
    if "AUTH" in given:
        _log_in(client, *reversed(given["AUTH"]))
    if not client.requests.is_trusted:
        raise CommandError(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> "
            "AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version "
            "at the same time"
        )
    client.version, client.name = version, given.get("SETNAME", client.name)
    return {
        b"server": b"listserver",
        b"version": REDIS_VERSION.encode(),
        b"proto": version,
        b"id": client.id,
        b"mode": b"standalone",
        b"role": b"master",
        b"modules": [],
    }


@command("RESET", "fast loading stale noscript no_auth allow_busy")
def _reset(client: Client) -> Reply:
    client.queue = None
    client.server.unwatch(client)
    client.index, client.version, client.name, client.reply_mode = 0, 2, b"", "ON"
    client.requests.is_trusted = not client.server.password
    return "RESET"


# Transactions.


@command("MULTI", "fast loading stale noscript no_multi allow_busy")
def _multi(client: Client) -> Reply:
    client.queue, client.queue_failed = [], False
    return "OK"


@command("DISCARD", "fast loading stale noscript allow_busy")
def _discard(client: Client) -> Reply:
    if client.queue is None:
        raise CommandError("ERR DISCARD without MULTI")
    client.queue = None
    client.server.unwatch(client)
    return "OK"


@command("EXEC", "loading stale noscript skip_slowlog")
def _exec(client: Client) -> Reply:
    queue, failed = client.queue, client.queue_failed
    if queue is None:
        raise CommandError("ERR EXEC without MULTI")
    server = client.server
    # A watched key that has expired since is found here, and counts as changed.
    for index, key in list(client.watched):
        server.databases[index].get(key)
    is_dirty = client.is_dirty
    client.queue = None
    server.unwatch(client)
    if failed:
        raise CommandError("EXECABORT Transaction discarded because of previous errors.")
    if is_dirty:
        return NO_ARRAY
    client.is_atomic = True
    try:
        return [client.call(queued, words) for queued, words in queue]
    finally:
        client.is_atomic = False


@command("WATCH key...", "fast loading stale noscript no_multi allow_busy")
def _watch(client: Client, *keys: bytes) -> Reply:
    for key in keys:
        client.db.get(key)
        client.watched.add((client.index, key))
        client.server.watchers.setdefault((client.index, key), set()).add(client)
    return "OK"


@command("UNWATCH", "fast loading stale noscript allow_busy")
def _unwatch(client: Client) -> Reply:
    client.server.unwatch(client)
    return "OK"


# CLIENT.


@command("CLIENT|SETNAME name", "fast loading stale noscript")
def _client_setname(client: Client, name: bytes) -> Reply:
    client.name = _checked_name(name)
    return "OK"


@command("CLIENT|SETINFO attribute value", "fast loading stale noscript")
def _client_setinfo(client: Client, attribute: bytes, value: bytes) -> Reply:
    name = attribute.lower().decode("latin-1")
    if name not in client.library:
        raise CommandError(f"ERR Unrecognized option '{attribute.decode('utf-8', 'surrogateescape')}'")
    client.library[name] = _checked_name(value, f"{name} cannot contain spaces, newlines or special characters.")
    return "OK"


def _checked_name(
    name: bytes, error: str = "Client names cannot contain spaces, newlines or special characters."
) -> bytes:
    if any(not 0x21 <= byte <= 0x7E for byte in name):
        raise CommandError(f"ERR {error}")
    return name


@command("CLIENT|LIST [options...]", "loading stale noscript")
def _client_list(client: Client, *words: bytes) -> Reply:
    clients = list(client.server.clients.values())
    if words:
        match one_of(words[0], "ID", "TYPE"):
            case "ID" if len(words) > 1:
                ids = [integer(word, "Invalid client ID") for word in words[1:]]
                clients = [client.server.clients[number] for number in ids if number in client.server.clients]
            case "TYPE" if len(words) == 2:
                if one_of(words[1], "NORMAL", "MASTER", "REPLICA", "SLAVE", "PUBSUB") != "NORMAL":
                    clients = []
            case _:
                raise syntax_error()
    return _described(clients)


def _described(clients: list[Client]) -> bytes:
    """Return a line for each connection."""
    places = clients[0].server.blocking.places(clients) if clients else {}
    return b"".join(_line(each, places) + b"\n" for each in clients)


def _line(client: Client, places: dict[tuple[Waiter, ListKey], int]) -> bytes:
    """Return the line of a connection in CLIENT LIST; ``wait-keys`` and the fields after it exist only here."""
    now_ms = client.server.clock.now_ms()
    is_in_transaction = client.queue is not None
    flags = ("b" if client.blocked or client.is_postponed else "") + ("x" if is_in_transaction else "")
    fields: dict[str, object] = {
        "id": client.id,
        "addr": client.address,
        "laddr": client.local_address,
        "name": client.name.decode(),
        "age": (now_ms - client.created_ms) // 1000,
        "idle": (now_ms - client.last_ms) // 1000,
        "flags": flags + ("d" if client.is_dirty else "") or "N",
        "db": client.index,
        "sub": 0,
        "psub": 0,
        "ssub": 0,
        "multi": len(client.queue or ()) if is_in_transaction else -1,
        "watch": len(client.watched),
        "qbuf": client.requests.size,
        "omem": client.unsent,
        "cmd": client.last_command or "NULL",
        "user": "default",
        "resp": client.version,
        **{name: value.decode() for name, value in client.library.items()},
        "tot-cmds": client.calls,
    }
    if client.blocked:
        keys = client.blocked.keys
        fields["wait-keys"] = ",".join(quote(key) for key in keys)
        fields["wait-places"] = ",".join(str(places[client, (client.index, key)]) for key in keys)
        fields["wait-ms"] = now_ms - client.blocked.since_ms
    return " ".join(f"{name}={value}" for name, value in fields.items()).encode()


@command("CLIENT|KILL word...", "admin loading stale noscript")
def _client_kill(client: Client, *words: bytes) -> Reply:
    clients = client.server.clients.values()
    if len(words) == 1:
        found = [each for each in clients if each.address.encode() == words[0]]
        if not found:
            raise CommandError("ERR No such client")
        _end(client, found)
        return "OK"
    now_ms = client.server.clock.now_ms()
    given = options(
        words,
        ID=partial(integer, error="client-id should be greater than 0", least=1),
        MAXAGE=integer,
        SKIPME=lambda word: one_of(word, "YES", "NO"),
        ADDR=bytes,
        LADDR=bytes,
        USER=bytes,
        TYPE=bytes,
    )
    matches: dict[str, Callable[[Client, Any], bool]] = {
        "ID": lambda each, number: each.id == number,
        "ADDR": lambda each, address: each.address.encode() == address,
        "LADDR": lambda each, address: each.local_address.encode() == address,
        "USER": lambda each, user: user == b"default",
        "TYPE": lambda each, kind: kind.upper() == b"NORMAL",
        "MAXAGE": lambda each, age_s: each.created_ms <= now_ms - 1000 * age_s,
        "SKIPME": lambda each, skips: skips == "NO" or each is not client,
    }
    given.setdefault("SKIPME", "YES")
    found = [each for each in clients if all(matches[option](each, value) for option, value in given.items())]
    _end(client, found)
    return len(found)


def _end(client: Client, clients: list[Client]) -> None:
    for each in clients:
        if each is client:
            # It gets its reply first.
            client.is_closing = True
            client.server.later(client.close)
        else:
            each.abort()


@command("CLIENT|UNBLOCK id [reason]", "admin loading stale noscript")
def _client_unblock(client: Client, number: bytes, *reason: bytes) -> Reply:
    is_error = bool(reason) and one_of(reason[0], "TIMEOUT", "ERROR") == "ERROR"
    if len(reason) > 1:
        raise syntax_error()
    found = client.server.clients.get(integer(number))
    if found is None or not found.blocked:
        return 0
    client.server.blocking.forget(found)
    found.unblock(CommandError("UNBLOCKED client unblocked via CLIENT UNBLOCK") if is_error else NO_ARRAY)
    return 1


@command("CLIENT|PAUSE timeout [mode]", "admin loading stale noscript")
def _client_pause(client: Client, timeout: bytes, *mode: bytes) -> Reply:
    if len(mode) > 1:
        raise syntax_error()
    all_commands = not mode or one_of(mode[0], "ALL", "WRITE") == "ALL"
    timeout_ms = integer(timeout, "timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise CommandError("ERR timeout is negative")
    client.server.pause(client.server.clock.now_ms() + timeout_ms, all_commands=all_commands)
    return "OK"


@command("CLIENT|UNPAUSE", "admin loading stale noscript")
def _client_unpause(client: Client) -> Reply:
    client.server.later(lambda: client.server.pause(0, all_commands=False))
    return "OK"


@command("CLIENT|REPLY mode", "loading stale noscript")
def _client_reply(client: Client, mode: bytes) -> Reply:
    match one_of(mode, "ON", "OFF", "SKIP"):
        case "ON":
            client.reply_mode = "ON"
            return "OK"
        case "OFF":
            client.reply_mode = "OFF"
        case _ if client.reply_mode == "ON":
            client.reply_mode = "SKIP NEXT"
    return NO_REPLY


@command("CLIENT|NO-EVICT mode", "admin loading stale noscript")
@command("CLIENT|NO-TOUCH mode", "loading stale noscript")
def _client_no(client: Client, mode: bytes) -> Reply:
    one_of(mode, "ON", "OFF")
    return "OK"
