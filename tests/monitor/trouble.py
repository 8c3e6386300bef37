"""Queues in trouble, each made by hand the way that the named client makes it."""

from collections.abc import Callable
from dataclasses import dataclass

from redis import Redis

from rsmq_tui.monitor.audit.findings import FindingKind
from rsmq_tui.protocol import Rsmq
from tests.protocol.keyspace import now_ms, plant, send_old

Make = Callable[[Redis, Rsmq], None]


@dataclass(frozen=True)
class Trouble:
    """How it is made in queue ``q``, what an audit says of it, and whether that queue works once it is fixed."""

    make: Make
    kind: FindingKind
    count: int = 1
    ids: tuple[str, ...] = ()
    works: bool = True
    fixed: bool = True
    queue: str = "q"


def _id(letter: str) -> str:
    return letter * 32


def by_crashed_create(client: Redis, queues: Rsmq) -> None:
    """Node: SADD comes after the MULTI, and the client may be gone by then."""
    queues.create_queue("q")
    queues.send_message("q", "x")
    client.srem("rsmq:QUEUES", "q")


def by_sharp_delete(client: Redis, queues: Rsmq) -> None:
    """rsmqCsharp: deleteQueue takes only the name away."""
    by_crashed_create(client, queues)


def by_expiry_of_all(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q")
    client.delete("rsmq:q:Q")


def by_grafana_delete(client: Redis, queues: Rsmq) -> None:
    """grafana/go-rsmq: deleteQueue deletes the hash alone."""
    queues.create_queue("q")
    send_old(client, "q", ["x", "y", "z"])
    client.delete("rsmq:q:Q")
    client.srem("rsmq:QUEUES", "q")


def by_ruby_expire(client: Redis, queues: Rsmq) -> None:
    """rsmq-rb: the hash expires, the name stays."""
    queues.create_queue("q")
    send_old(client, "q", ["x", "y"])
    client.delete("rsmq:q:Q")


def by_send_racing_delete(client: Redis, queues: Rsmq) -> None:
    client.zadd("rsmq:q", {_id("a"): now_ms(client)})
    client.hset("rsmq:q:Q", mapping={_id("a"): "x", "totalsent": 1})


def by_pyrsmq_set(client: Redis, queues: Rsmq) -> None:
    """PyRSMQ: setQueueAttributes on a queue that is not there."""
    client.hset("rsmq:q:Q", mapping={"vt": 30, "modified": 1_700_000_000})


def by_hand_vt(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q")
    client.hset("rsmq:q:Q", "vt", "half a minute")


def by_hdel(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q", vt=0)
    for letter in "ab":
        plant(client, "q", _id(letter), due_ms=1_700_000_000_000, body="x", rc=2, fr=1_700_000_000_000)
    plant(client, "q", _id("c"), due_ms=1_700_000_000_000, body="kept")
    client.hdel("rsmq:q:Q", _id("a"), _id("b"))


def by_ebuckley_delete(client: Redis, queues: Rsmq) -> None:
    """ebuckley/rsmq: deleteMessage forgets the body; here one that was received by another client stays whole."""
    queues.create_queue("q")
    for letter in "ab":
        client.hset("rsmq:q:Q", _id(letter), "y" * 100)
    client.hset("rsmq:q:Q", mapping={_id("b") + ":rc": 1, _id("b") + ":fr": 1_700_000_000_000, "createdby": "ersin"})


def by_pyrsmq_delete(client: Redis, queues: Rsmq) -> None:
    """PyRSMQ up to 0.6.0: ids in bytes leave rc and fr behind."""
    queues.create_queue("q")
    client.hset("rsmq:q:Q", mapping={_id("a") + ":rc": 1, _id("a") + ":fr": 1_700_000_000_000})


def by_apalis_meta(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q")
    client.hset("rsmq:q:Q", _id("a") + ":meta", '{"a": 1}')


def by_hand_note(client: Redis, queues: Rsmq) -> None:
    """Fields of somebody's own, and a counter of what nobody would take for an id."""
    queues.create_queue("q")
    mapping = {"owner": "team-a", "paused": 1, "dead-letter-queue-name": "x", "team:rc": 2, b"\xff\x00" * 16: "x"}
    client.hset("rsmq:q:Q", mapping=mapping)


def by_galadd(client: Redis, queues: Rsmq) -> None:
    client.sadd("rsmq:QUEUES", "q")
    client.hset("rsmq:q", "vt", 30)
    client.rpush("rsmq:q:Q", "x")


def by_queue_named_queues(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("other")
    client.sadd("rsmq:QUEUES", "QUEUES")
    client.hset("rsmq:QUEUES:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536, _id("a"): "lost", "totalsent": 1})


def by_old_rust(client: Redis, queues: Rsmq) -> None:
    """rsmq_async 10 to 15: ids of 30 characters, the time in ms."""
    queues.create_queue("q", vt=0)
    plant(client, "q", "loyhwt4k" + "B" * 22, due_ms=1_700_000_000_000, body="x")


def by_scala(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q", vt=0)
    plant(client, "q", "123e4567-e89b-12d3-a456-426614174000", due_ms=1_700_000_000_000, body="x", rc=1, fr=5)


def by_ruby_send(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q", vt=0)
    plant(client, "q", _id("a"), due_ms=1_700_000_000, body="x")
    plant(client, "q", _id("b"), due_ms=1_700_000_000_123, body="x")


def by_break_js_comp(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q", vt=0)
    plant(client, "q", _id("a"), due_ms=1_700_000_000_123_456, body="x")


def by_parking(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q", vt=0)
    client.execute_command("ZADD", "rsmq:q", "+inf", _id("a"))
    client.hset("rsmq:q:Q", _id("a"), "x")


def by_hand_rc(client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q", vt=0)
    plant(client, "q", _id("a"), due_ms=1_700_000_000_000, body="x", rc="007", fr=5)


def by_rust_move(client: Redis, queues: Rsmq) -> None:
    """rsmq_async before 17.4: a move forgets fr."""
    queues.create_queue("q", vt=0)
    plant(client, "q", _id("a"), due_ms=1_700_000_000_000, body="x", rc=3)


K = FindingKind
TROUBLE = {
    "a create that broke off": Trouble(by_crashed_create, K.UNLISTED),
    "C# delete": Trouble(by_sharp_delete, K.UNLISTED),
    "a name alone": Trouble(by_expiry_of_all, K.GHOST, works=False),
    "grafana delete": Trouble(by_grafana_delete, K.NO_HASH, 3, works=False),
    "Ruby EXPIRE": Trouble(by_ruby_expire, K.NO_HASH, 2, works=False),
    "a send that raced a delete": Trouble(by_send_racing_delete, K.ATTRIBUTES),
    "PyRSMQ set": Trouble(by_pyrsmq_set, K.REMAINS, works=False),
    "vt in words": Trouble(by_hand_vt, K.ATTRIBUTES),
    "HDEL by hand": Trouble(by_hdel, K.DANGLING, 2, (_id("a"), _id("b"))),
    "ebuckley delete": Trouble(by_ebuckley_delete, K.LEAKED, 2, (_id("a"), _id("b"))),
    "PyRSMQ delete": Trouble(by_pyrsmq_delete, K.STRAY, 2, (_id("a") + ":fr", _id("a") + ":rc")),
    "apalis meta": Trouble(by_apalis_meta, K.STRAY, 1, (_id("a") + ":meta",)),
    "a note by hand": Trouble(by_hand_note, K.UNKNOWN, 5, fixed=False),
    "galadd": Trouble(by_galadd, K.WRONG_TYPE, works=False, fixed=False),
    "a queue called QUEUES": Trouble(by_queue_named_queues, K.RESERVED, works=False, queue="QUEUES"),
    "old Rust ids": Trouble(by_old_rust, K.FOREIGN_ID, 1, ("loyhwt4k" + "B" * 22,)),
    "Scala ids": Trouble(by_scala, K.FOREIGN_ID, 1, ("123e4567-e89b-12d3-a456-426614174000",)),
    "Ruby scores": Trouble(by_ruby_send, K.SECONDS, 1, (_id("a"),)),
    "break-js-comp scores": Trouble(by_break_js_comp, K.MICROSECONDS, 1, (_id("a"),)),
    "a parked message": Trouble(by_parking, K.NEVER, 1, (_id("a"),)),
    "rc with zeros": Trouble(by_hand_rc, K.BAD_RC, 1, (_id("a"),)),
    "Rust move": Trouble(by_rust_move, K.NO_FR, 1, (_id("a"),)),
}
