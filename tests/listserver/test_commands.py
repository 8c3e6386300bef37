"""The table of commands beside Valkey's, and the commands that are not of lists."""

import shlex
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.listserver.command import COMMANDS
from tests.listserver.peers import Connection

# They say of themselves what this server does with them; ZRANK takes no WITHSCORE here.
_OWN = {"DEBUG", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "PUBLISH", "WAIT", "ZRANK", "ZREVRANK", "COMMAND"}


@pytest.fixture
def both(shared_list_server: ListServer, server: EmbeddedServer) -> Iterator[tuple[Connection, Connection]]:
    opened = Connection(shared_list_server.port), Connection(server.port)
    for connection in opened:
        connection.call("FLUSHALL")
    yield opened
    for connection in opened:
        connection.close()


def test_arity_and_keys_are_those_of_valkey(both: tuple[Connection, Connection]) -> None:
    names = sorted(name for name in COMMANDS if "|" not in name and name not in _OWN)
    for ours, valkeys in zip(*(connection.call("COMMAND", "INFO", *names) for connection in both), strict=True):
        assert ours[:2] == valkeys[:2]
        assert ours[3:6] == valkeys[3:6]
        for flag in (b"write", b"readonly", b"blocking", b"noscript", b"denyoom", b"no_auth"):
            assert (flag in ours[2]) == (
                flag in [str(each).encode() if isinstance(each, str) else each for each in valkeys[2]]
            ), ours


# One line is what one connection calls, one command after the other.
CALLS = [
    "SET a 1 NX | SET a 2 NX | SET a 2 XX GET | GET a | SET a 1 EX 0",
    "SET a 1 EX 10 PX 10 | SET a 1 NX XX | GETSET a x | GETDEL a | GET a",
    "INCR n | INCRBY n 9 | DECR n | DECRBY n 3 | SET n x | INCR n | INCRBY n y",
    "SET n 9223372036854775807 | INCR n | INCRBYFLOAT f 1.5 | APPEND s ab | STRLEN s",
    "MSET a 1 b 2 | MGET a b c | MSET a | EXISTS a a c | DEL a c | TYPE b",
    "SET a 1 | EXPIRE a 100 | TTL a | PERSIST a | TTL a | TTL none | EXPIRE a -1 | GET a",
    "SET a 1 | EXPIRE a 100 XX | EXPIRE a 100 NX | EXPIRE a 50 GT | EXPIRE a 5 ZZ",
    "SET a 1 | EXPIREAT a 4000000000 | EXPIRETIME a | PEXPIRETIME a | SETEX b 9 v | TTL b",
    "RENAME no b | SET a 1 | RENAMENX a b | SET a 2 | RENAMENX a b | RENAME a a",
    "SET k:1 x | KEYS 'k:*' | KEYS '[^x]:?' | KEYS 'k:[0-9]' | KEYS '\\k:1' | KEYS k:",
    "HSET h a 1 b 2 | HSET h a 3 | HGET h a | HMGET h a x | HLEN h | HSET h a",
    "HSETNX h a 1 | HSETNX h a 2 | HEXISTS h a | HSTRLEN h a | HINCRBY h a 5 | HGETALL h",
    "HSET h a x | HINCRBY h a 1 | HKEYS h | HVALS h | HDEL h a b | EXISTS h | HSCAN h 0",
    "SADD s a b a | SCARD s | SISMEMBER s a | SMISMEMBER s a x | SREM s a x | SMEMBERS s",
    "ZADD z 1 a 2 b | ZADD z CH 3 a 1 c | ZRANGE z 0 -1 WITHSCORES | ZSCORE z a | ZCARD z",
    "ZADD z XX 1 a | ZADD z NX 1 a | ZADD z GT 0 a | ZADD z INCR 2.5 a | ZADD z x a | ZADD z 1",
    "ZADD z 1 a 2 b 3 c | ZCOUNT z '(1' +inf | ZRANGEBYSCORE z -inf '(3' | ZREVRANGEBYSCORE z 3 2 | ZCOUNT z x 1",
    "ZADD z 1 a 2 b 3 c | ZRANGEBYSCORE z 0 9 WITHSCORES LIMIT 1 1 | ZRANGE z 0 1 REV | ZREVRANGE z 0 0"
    " | ZRANGE z 0 1 LIMIT 0 1",
    "ZADD z 1 a 2 b 3 c | ZRANK z b | ZREVRANK z c | ZREM z a x | ZREMRANGEBYSCORE z 2 2 | ZPOPMIN z"
    " | ZPOPMAX z 2 | EXISTS z",
    "ZADD z 1 a | ZMSCORE z a x | ZINCRBY z 2 a | ZSCAN z 0 | ZADD z NX XX 1 a",
    "RPUSH l 3 1 2 | SORT l | SORT l DESC LIMIT 0 2 | SORT l STORE d | LRANGE d 0 -1 | RPUSH l x | SORT l"
    " | SORT l ALPHA",
    "WATCH a | SET a 1 | MULTI | GET a | EXEC | EXEC | DISCARD",
    "MULTI | LPUSH l | EXEC | MULTI | MULTI | EXEC | MULTI | WATCH a | DISCARD",
    "MULTI | LPUSH l a | GET l | BLPOP none 0 | EXEC | LLEN l",
    "HSET h a 1 | LPUSH h x | GET h | ZADD h 1 a | SADD h x | TYPE h | SORT h",
    "CLIENT SETNAME 'a b' | CLIENT SETNAME ab | CLIENT GETNAME | CLIENT NIX | CLIENT | CLIENT UNBLOCK 99999",
    "CLIENT KILL ID 99999 | CLIENT KILL 1.2.3.4:5 | CLIENT LIST TYPE pubsub | CLIENT SETINFO lib-name x"
    " | CLIENT REPLY ON",
    "CONFIG GET maxmemory | CONFIG SET nix 1 | SELECT 1 | SET a 1 | SELECT 0 | EXISTS a | SWAPDB 0 1"
    " | EXISTS a | SWAPDB 0 x",
    "HELLO 4 | HELLO x | HELLO 2 NIX | AUTH a | PING a b | ECHO | OBJECT NIX a | RESET",
    "COMMAND GETKEYS LMPOP 2 a b LEFT | COMMAND GETKEYS BLPOP a b 0 | COMMAND GETKEYS PING"
    " | COMMAND GETKEYS MSET a 1 b 2",
    "EVAL 'return redis.call('\"'\"'LPUSH'\"'\"', KEYS[1], ARGV[1])' 1 l x"
    " | EVAL 'return {1, 2.9, false, '\"'\"'x'\"'\"', {ok = '\"'\"'fine'\"'\"'}}' 0 | EVAL 'return 1' 2 a"
    " | EVALSHA 00 0 | EVAL 'return redis.call('\"'\"'BLPOP'\"'\"', '\"'\"'no'\"'\"', 0)' 0",
    "LPUSH l x | EVAL 'return redis.pcall('\"'\"'GET'\"'\"', KEYS[1]).err' 1 l"
    " | EVAL 'return redis.error_reply('\"'\"'OH no'\"'\"')' 0"
    " | EVAL 'return redis.status_reply('\"'\"'FINE'\"'\"')' 0 | EVAL 'return redis.sha1hex('\"'\"''\"'\"')' 0",
    "EVAL 'return 1/0' 0 | EVAL 'return 0/0' 0 | EVAL 'return -1e300' 0 | EVAL 'return {1, function() end, 2}' 0"
    " | EVAL 'return {ok = 5}' 0 | EVAL 'return {err = {}}' 0",
    "INCRBYFLOAT f inf | INCRBYFLOAT f nan | MULTI | SHUTDOWN | EXEC",
]


@pytest.mark.parametrize("calls", CALLS)
def test_replies_are_those_of_valkey(both: tuple[Connection, Connection], calls: str) -> None:
    for call in [shlex.split(line) for line in calls.split(" | ")]:
        ours, valkeys = (connection.call(*call) for connection in both)
        if isinstance(valkeys, list) and call[0] in ("SMEMBERS", "HKEYS", "HVALS", "KEYS"):
            ours, valkeys = sorted(ours), sorted(valkeys)
        assert ours == valkeys, call


def test_a_scan_returns_each_key_that_stays(own: Connection) -> None:
    names = {b"key:%d" % number for number in range(500)}
    for name in names:
        own.call("SET", name, "x")
    found: list[bytes] = []
    cursor: bytes | None = None
    while cursor != b"0":
        cursor, page = own.call("SCAN", cursor or 0, "MATCH", "key:*", "COUNT", 20, "TYPE", "string")
        found += page
        own.call("DEL", b"key:1")
        own.call("SET", b"other:" + cursor, "x")
    assert names - {b"key:1"} <= set(found) <= names


def test_a_cursor_that_is_not_known_begins_again(own: Connection) -> None:
    own.call("MSET", "a", 1, "b", 2)
    assert sorted(own.call("SCAN", 12345)[1]) == [b"a", b"b"]


def test_a_pause_holds_writes_up_until_it_ends(shared_list_server: ListServer, own: Connection) -> None:
    other = Connection(shared_list_server.port)
    own.call("CLIENT", "PAUSE", 60_000, "WRITE")
    other.send("LPUSH", "queue", "a")
    assert own.call("LLEN", "queue") == 0
    while b"blocked_clients:1" not in own.call("INFO", "clients"):
        pass
    assert own.call("CLIENT", "UNPAUSE") == b"OK"
    assert other.read() == 1
    other.close()


def test_replies_can_be_left_out(own: Connection) -> None:
    for words in (["CLIENT", "REPLY", "SKIP"], ["SET", "a", "1"], ["CLIENT", "REPLY", "OFF"], ["SET", "b", "1"]):
        own.send(*words)
    assert own.call("CLIENT", "REPLY", "ON") == b"OK"
    assert own.call("EXISTS", "a", "b") == 2


def test_subscribing_is_refused_in_a_sentence(own: Connection) -> None:
    assert own.call("SUBSCRIBE", "channel").startswith("ERR this server does not support pub/sub")


def test_a_script_that_does_not_end_is_ended(list_server: ListServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rsmq_tui.listserver.scripting_commands.SCRIPT_S_MAX", 0.25)
    with closing(Connection(list_server.port)) as own:
        assert "Script ran for more than 0.25 s" in own.call("EVAL", "while true do end", 0)
        assert own.call("PING") == b"PONG"


def test_info_counts_calls_and_keys(shared_list_server: ListServer, own: Connection) -> None:
    own.call("CONFIG", "RESETSTAT")
    own.call("LPUSH", "queue", "a")
    own.call("LPUSH", "queue")
    with redis.Redis(port=shared_list_server.port) as client:
        info = client.info("everything")
    assert info["cmdstat_lpush"]["calls"] == 1
    assert info["db0"]["keys"] == 1
    assert info["server_name"] == "listserver"


def test_a_script_that_fails_or_replies_with_nonsense_ends_no_connection(own: Connection) -> None:
    texts = ["local t = {} t[1] = t return t", "error()", "error(5)", "error({})", "error({err = 5})"]
    assert [str(own.call("EVAL", text, 0)).partition(" script: ")[0] for text in texts] == [
        *("ERR reached lua stack limit", "ERR nil", "ERR user_script:1: 5", "ERR nil", "5")
    ]
    assert own.call("DEBUG", "SLEEP", "-1") == b"OK"


def test_a_password_of_any_bytes() -> None:
    with ListServer() as server:
        admin, other = Connection(server.port), Connection(server.port)
        assert admin.call("CONFIG", "SET", "requirepass", b"\xff\xfe") == b"OK"
        assert admin.call("CONFIG", "GET", "requirepass") == [b"requirepass", b"\xff\xfe"]
        other.call("RESET")
        assert str(other.call("AUTH", b"\xff")).startswith("WRONGPASS")
        assert other.call("AUTH", b"\xff\xfe") == b"OK"
        admin.close()
        other.close()


def test_keys_that_expire_and_are_never_read_again_take_no_memory() -> None:
    with ListServer() as server, redis.Redis(port=server.port) as client:
        server.stop_clock()
        client.set("stays", "1", ex=1_000_000)
        for batch in range(10):
            with client.pipeline(transaction=False) as pipeline:
                for number in range(1_000):
                    pipeline.set(f"lock:{batch}:{number}", "1", ex=30)
                pipeline.execute()
            server.advance_clock(31)

        database = server.engine.databases[0]
        assert len(database.values) == len(database.expires_ms) <= 2_000
        assert client.get("stays") == b"1"
