"""The clients of a server, and which of them work on one queue: by CLIENT LIST, and by MONITOR for a moment.

MONITOR makes the server send a copy of every command of all its clients, which costs throughput, so
``clients_of_queue`` reads it for at most a second, 20,000 commands or 8 MB, and then closes the connection. Commands
that a script executes are shown after the script, with the address ``lua``, so that what a receive script did is known
without knowing the script. MONITOR shows no replies: a delete of a message that is gone counts as any other.

Commands hold message bodies. Nothing of a command is kept but its counts and the client's address.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from redis import exceptions
from redis.asyncio.connection import ConnectionPool

from rsmq_tui.protocol.connections.connect import error_of, stream_of
from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.errors import SERVER_ERRORS, failure_of
from rsmq_tui.protocol.keys import name_of
from rsmq_tui.protocol.replies import decoded, misshapen

# The server refuses client names with spaces.
_FIELD = re.compile(r"([a-z-]+)=([^ ]*)")
_CLIENTS = ("CLIENT", "LIST")


def fields_of(line: str) -> dict[str, str]:
    """Return the fields of a line of CLIENT LIST."""
    return dict(_FIELD.findall(line))


class ConnectedClient(NamedTuple):
    """A client in CLIENT LIST: the ``name`` that it has set, its ``library`` (``lib-name``), and its last command."""

    address: str
    name: str
    library: str
    command: str
    idle_s: int


class ClientGroup(NamedTuple):
    """Clients with the same name, library and last command; ``idle_s`` is that of the one that was active last."""

    name: str
    library: str
    command: str
    clients: int
    idle_s: int


def read_clients(reply: bytes, database: int) -> list[ConnectedClient]:
    """Decode a reply to CLIENT LIST: the clients of that database; raises ``InvalidResponse``."""
    return decoded(lambda raw: list(_connected(name_of(raw), database)), reply)


def _connected(text: str, database: int) -> Iterator[ConnectedClient]:
    for fields in map(fields_of, text.splitlines()):
        if fields.get("db") == str(database):
            address, name, library, command = (fields.get(key, "") for key in ("addr", "name", "lib-name", "cmd"))
            yield ConnectedClient(address, name, library, command, int(fields["idle"]))


def grouped(clients: Iterable[ConnectedClient]) -> tuple[ClientGroup, ...]:
    """Group clients, the largest group first."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for client in clients:
        groups.setdefault((client.name, client.library, client.command), []).append(client.idle_s)
    found = [ClientGroup(*key, len(idle), min(idle)) for key, idle in groups.items()]
    return tuple(sorted(found, key=lambda group: (-group.clients, group[:3])))


SECONDS_MAX = 1.0
COMMANDS_MAX = 20_000
BYTES_MAX = 8_000_000
COST = (
    "MONITOR makes the server send a copy of every command of all its clients to this connection. That may cost half "
    f"of its throughput while it lasts: at most {SECONDS_MAX:g} second, {COMMANDS_MAX:,} commands or "
    f"{BYTES_MAX // 1_000_000} MB. Message bodies are among what is sent; they are neither kept nor shown."
)
# The rest of a longer line is not kept: the key comes first, and a body may have any length.
_LINE_BYTES_MAX = 64_000
_READ_BYTES = 64_000

_LINE = re.compile(rb'\+(\d{1,12})\.(\d{6}) \[(\d{1,9}) ([^"\r\n]{1,200})\] "')
_ARGUMENT = re.compile(rb'"((?:[^"\\]++|\\.)*+)"')
_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_SHORT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}
_SCRIPTS = frozenset((b"EVAL", b"EVALSHA", b"EVAL_RO", b"EVALSHA_RO", b"FCALL", b"FCALL_RO"))
_LUA = b"lua"

Deed = Literal["sends", "receives", "deletes", "calls"]
_TOTALS: Mapping[bytes, Deed] = {b"totalsent": "sends", b"totalrecv": "receives"}
# Maps the arguments of a command, its name first, to its effect on a queue.
Rule = Callable[[Sequence[bytes]], Mapping[Deed, int]]


class Rules(NamedTuple):
    """The keys of a queue, and the effects of commands on it, by their names."""

    keys: tuple[bytes, ...]
    by_name: Mapping[bytes, Rule]


def rsmq_rules(messages: bytes, attributes: bytes) -> Rules:
    """Return the effects of commands on the keys of an RSMQ queue; all clients count sends and receives in its hash."""

    def totals(arguments: Sequence[bytes]) -> Mapping[Deed, int]:
        deed = _TOTALS.get(b"".join(arguments[2:3]))
        return {} if deed is None else {deed: _number(arguments[3:])}

    return Rules(
        (messages, attributes),
        {
            b"HINCRBY": _first_key(attributes, totals),
            b"ZREM": _first_key(messages, lambda arguments: {"deletes": len(arguments) - 2}),
            b"ZRANGEBYSCORE": _first_key(messages, lambda _: {"calls": 1}),
        },
    )


def list_rules(queue: bytes, processing: bytes) -> Rules:
    """Return the effects of commands on the keys of a list queue.

    Whether a receive found an item is not known: each call counts. A pop receives and deletes.
    """

    def pop(arguments: Sequence[bytes]) -> Mapping[Deed, int]:
        number = _number(arguments[2:]) or 1
        return {"calls": 1, "receives": number, "deletes": number}

    def pop_of_several(arguments: Sequence[bytes]) -> Mapping[Deed, int]:
        return {"calls": 1, "receives": 1, "deletes": 1} if queue in arguments else {}

    def remove(arguments: Sequence[bytes]) -> Mapping[Deed, int]:
        return {"deletes": 1} if arguments[1] in (queue, processing) else {}

    push = _first_key(queue, lambda arguments: {"sends": len(arguments) - 2})
    take = _first_key(queue, lambda _: {"calls": 1, "receives": 1})
    return Rules(
        (queue, processing),
        {
            **dict.fromkeys((b"LPUSH", b"RPUSH", b"LPUSHX", b"RPUSHX"), push),
            **dict.fromkeys((b"LPOP", b"RPOP"), _first_key(queue, pop)),
            **dict.fromkeys((b"BLPOP", b"BRPOP", b"LMPOP", b"BLMPOP"), pop_of_several),
            **dict.fromkeys((b"LMOVE", b"RPOPLPUSH", b"BLMOVE", b"BRPOPLPUSH"), take),
            b"LREM": remove,
        },
    )


def _first_key(key: bytes, rule: Rule) -> Rule:
    return lambda arguments: rule(arguments) if arguments[1] == key else {}


def _number(arguments: Sequence[bytes]) -> int:
    """Return the first of these as a number; 0 if it is not a number, or not one that a client would use."""
    text = arguments[0] if arguments else b""
    return int(text) if text.isdigit() and len(text) < 8 else 0


@dataclass(slots=True)
class ClientActivity:
    """What a client did to a queue while it was watched; ``calls`` are its attempts to receive.

    ``name`` and ``library`` are empty if CLIENT LIST does not have its address.
    """

    address: str
    name: str = ""
    library: str = ""
    sends: int = 0
    receives: int = 0
    deletes: int = 0
    calls: int = 0


class CommandLog:
    """Counts, from the lines of MONITOR, what each client does to a queue by ``rules``, in one database."""

    def __init__(self, rules: Rules, database: int) -> None:
        self.commands = 0
        self.from_us: int | None = None
        self.to_us: int | None = None
        self.by_address: dict[bytes, ClientActivity] = {}
        self._rules = rules
        self._database = b"%d" % database
        self._quoted = tuple(b'"%s"' % _escaped(key) for key in rules.keys)
        # Whose script the commands of "lua" belong to, and whether one of them was an attempt to receive.
        self._script_of: bytes | None = None
        self._has_called = False
        self._begun = b""

    def feed(self, data: bytes) -> None:
        """Process the next data of the server; it may end within a line."""
        *whole, last = data.split(b"\n")
        for part in whole:
            line = (self._begun + part)[:_LINE_BYTES_MAX]
            self._begun = b""
            if self.commands < COMMANDS_MAX:
                self._count(line)
        self._begun = (self._begun + last)[:_LINE_BYTES_MAX]

    def _count(self, line: bytes) -> None:
        head = _LINE.match(line)
        if head is None:
            return
        self.commands += 1
        at_us = int(head[1]) * 1_000_000 + int(head[2])
        self.from_us, self.to_us = self.from_us or at_us, at_us
        address, first = head[4], head.end() - 1
        if address != _LUA:
            end = line.find(b'"', first + 1)
            is_script = line[first + 1 : end].upper() in _SCRIPTS
            self._script_of, self._has_called = (address if is_script else None), False
        if head[3] != self._database or not any(key in line for key in self._quoted):
            return
        client = self._script_of if address == _LUA else address
        arguments = [_plain(match[1]) for match in _ARGUMENT.finditer(line, first)]
        rule = self._rules.by_name.get(arguments[0].upper()) if len(arguments) > 1 else None
        if rule is not None and client is not None:
            self._add(client, rule(arguments), within_script=address == _LUA)

    def _add(self, client: bytes, deeds: Mapping[Deed, int], *, within_script: bool) -> None:
        activity = self.by_address.setdefault(client, ClientActivity(name_of(client)))
        for deed, number in deeds.items():
            if deed == "calls" and within_script:
                # A script may search the queue several times for one receive.
                if self._has_called:
                    continue
                self._has_called = True
            setattr(activity, deed, getattr(activity, deed) + number)


def _escaped(key: bytes) -> bytes:
    """Return a key as MONITOR writes it."""
    named = {**{value[0]: b"\\" + name for name, value in _SHORT.items()}, 0x22: b'\\"', 0x5C: b"\\\\"}
    return b"".join(named.get(byte) or (bytes((byte,)) if 32 <= byte < 127 else b"\\x%02x" % byte) for byte in key)


def _plain(argument: bytes) -> bytes:
    return _ESCAPE.sub(_unescaped, argument) if b"\\" in argument else argument


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 16),)) if match[1] is not None else _SHORT.get(match[2], match[2])


Ended = Literal["time", "commands", "bytes", "closed"]


@dataclass(frozen=True, slots=True)
class QueueClients:
    """The clients that work on a queue, as watched by MONITOR for ``span_ms``: ``activities``, the busiest first.

    ``commands`` are those of all clients of the server, the first at ``from_us`` and the last at ``to_us`` of its
    clock. ``ended`` says what ended the look: its time, its limit of commands or bytes, or the server. If MONITOR was
    ``refused``, or was not asked for (``ended`` is None), there are only ``groups``: all clients of the database, of
    which any may work on the queue. They are None if CLIENT LIST is refused too, and ``unlisted`` says why: then no
    names and libraries of clients are known.
    """

    groups: tuple[ClientGroup, ...] | None
    activities: tuple[ClientActivity, ...] = ()
    refused: str | None = None
    ended: Ended | None = None
    span_ms: int = 0
    commands: int = 0
    from_us: int | None = None
    to_us: int | None = None
    unlisted: str | None = None

    @property
    def sentence(self) -> str:
        """How they were found, and what is missing; it may quote the server."""
        guess = "a guess: all clients of this database by name, library and last command"
        if self.groups is None:
            too = " too" if self.refused else ""
            guess = f"CLIENT LIST is refused{too} ({self.unlisted}): clients and their names are not known"
        if self.refused is not None:
            return f"MONITOR is refused ({self.refused}); {guess}"
        if self.ended is None:
            return guess
        limits = {
            "time": "",
            "commands": ", at the limit of commands",
            "bytes": ", at the limit of bytes",
            "closed": ", when the server closed the connection",
        }
        nameless = f"; no names: CLIENT LIST is refused ({self.unlisted})" if self.unlisted else ""
        watched = f"watched {self.commands:,} commands of all clients in {self.span_ms:,} ms{limits[self.ended]}"
        has_consumer = any(client.calls or client.receives for client in self.activities)
        return f"{watched}{'' if has_consumer else '; no client tried to receive from this queue'}{nameless}"


async def clients_of_queue(
    pool: ConnectionPool, runner: ScriptRunner, rules: Rules, *, seconds: float | None
) -> QueueClients:
    """Find out who works on a queue, by MONITOR for at most ``seconds``, and by CLIENT LIST alone if that is None.

    Raises redis-py's errors.
    """
    database = int(pool.connection_kwargs.get("db") or 0)
    before, unlisted = await _listed(runner, database)
    if seconds is None:
        return QueueClients(None if before is None else grouped(before), unlisted=unlisted)
    log = CommandLog(rules, database)
    try:
        ended, span_ms = await _watch(pool, log, min(seconds, SECONDS_MAX))
    except exceptions.ResponseError as error:
        return QueueClients(None if before is None else grouped(before), refused=_why(error), unlisted=unlisted)
    # A client may have come or gone meanwhile.
    after, unlisted = await _listed(runner, database)
    by_address = {each.address: each for each in (*(before or ()), *(after or ()))}
    for activity in log.by_address.values():
        known = by_address.get(activity.address)
        if known is not None:
            activity.name, activity.library = known.name, known.library
    did = [each for each in log.by_address.values() if each.sends or each.receives or each.deletes or each.calls]
    did.sort(key=lambda each: (-(each.receives + each.deletes + each.sends), -each.calls, each.address))
    groups = None if after is None else grouped(after)
    return QueueClients(groups, tuple(did), None, ended, span_ms, log.commands, log.from_us, log.to_us, unlisted)


async def _listed(runner: ScriptRunner, database: int) -> tuple[list[ConnectedClient] | None, str | None]:
    """Return the clients of a database; or None and the reason, if the server refuses."""
    (reply,) = await runner.commands(_CLIENTS)
    return (None, _why(reply)) if isinstance(reply, Exception) else (read_clients(reply, database), None)


def _why(error: Exception) -> str:
    failure = failure_of(error)
    return "this user may not run it" if failure.kind == "noperm" else failure.sentence


async def _watch(pool: ConnectionPool, log: CommandLog, seconds: float) -> tuple[Ended, int]:
    """Read MONITOR into the log, and return what ended it and how long it took, in ms.

    Raises an error reply of the server, and redis-py's errors if it does not answer in time.
    """
    loop = asyncio.get_running_loop()
    connection: Any = pool.connection_class(**pool.connection_kwargs)
    ended: Ended = "time"
    left_bytes = BYTES_MAX
    try:
        await connection.connect()
        async with asyncio.timeout(connection.socket_timeout):
            await connection.send_packed_command(connection.pack_command("MONITOR"), check_health=False)
            stream = stream_of(connection)
            # The connection's own parser would search a long line again and again.
            answer = await stream.readuntil(b"\n")
        if answer.startswith(b"-"):
            raise error_of(connection, answer[1:].rstrip(b"\r\n"))
        if answer.rstrip(b"\r\n") != b"+OK":
            raise misshapen("in reply to MONITOR")
        begun_s = loop.time()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while log.commands < COMMANDS_MAX and left_bytes > 0:
                    data = await stream.read(min(_READ_BYTES, left_bytes))
                    if not data:
                        ended = "closed"
                        break
                    left_bytes -= len(data)
                    log.feed(data)
                else:
                    ended = "bytes" if log.commands < COMMANDS_MAX else "commands"
        return ended, round((loop.time() - begun_s) * 1000)
    except TimeoutError as error:
        raise exceptions.TimeoutError("the server does not answer MONITOR") from error
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise exceptions.ConnectionError("the connection was closed in reply to MONITOR") from error
    finally:
        with suppress(*SERVER_ERRORS):
            await connection.disconnect(nowait=True)
