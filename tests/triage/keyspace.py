"""What lies in the server, byte for byte, and messages put there as no client would."""

from collections import Counter
from typing import Any

from redis import Redis

from rsmq_tui.protocol import RawMessage
from tests.protocol.keyspace import everything


def unordered(found: dict[bytes, Any]) -> dict[bytes, Any]:
    """The same, whatever the order of what lies in lists: each value, and how often it is there."""
    return {key: Counter(value) if isinstance(value, list) else value for key, value in found.items()}


def kept(client: Redis) -> dict[bytes, Any]:
    """Everything but what forbids calls that were given up."""
    return {key: value for key, value in everything(client).items() if b":rsmq-tui:" not in key or value != b""}


def markers(client: Redis) -> dict[bytes, bytes]:
    """What guarded changes have left; an empty value forbids a call that was given up.

    Not the witnesses beside them, which go by themselves.
    """
    found = {key: client.get(key) for key in client.scan_iter(match="*:rsmq-tui:*")}
    return {key: value for key, value in found.items() if not key.endswith(b"announced")}


def fields_of(client: Redis, id: str, queue: str = "a-dlq") -> tuple[Any, ...]:
    """Everything that a queue holds of a message."""
    fields = client.hmget(f"rsmq:{queue}:Q", id, f"{id}:rc", f"{id}:fr")
    return client.zscore(f"rsmq:{queue}", id), *fields


def message(
    id: bytes = b"one",
    *,
    score: bytes = b"1000",
    rc: bytes | None = None,
    fr: bytes | None = None,
    body: bytes | None = b"hello",
) -> RawMessage:
    return RawMessage(id, score, rc, fr, len(body or b""), body)


def lay(client: Redis, queue: str, *messages: RawMessage, ns: str = "rsmq") -> None:
    """Put messages into a queue as they are."""
    with client.pipeline(transaction=False) as asked:
        for id, score, rc, fr, _, body in messages:
            asked.execute_command("ZADD", f"{ns}:{queue}", score, id)
            for name, value in ((id, body), (id + b":rc", rc), (id + b":fr", fr)):
                if value is not None:
                    asked.hset(f"{ns}:{queue}:Q", name, value)
        asked.execute()


# Messages as other clients write them, and as no sane client does.
ODD = {
    "plain": message(),
    "received": message(rc=b"3", fr=b"1700000000000"),
    "a count with a zero before it": message(rc=b"03", fr=b"007"),
    "an empty count": message(rc=b"", fr=b""),
    "a count that is none": message(rc=b"many", fr=b"\xff\x00"),
    "a count without its time": message(rc=b"2"),
    "a time without its count": message(fr=b"2"),
    "an id that is no UTF-8": message(b"\xff\xfe\x00 id"),
    "an id with a colon": message(b"one:rc", rc=b"1", fr=b"1"),
    "an empty id": message(b""),
    "no body": message(body=None, rc=b"1"),
    "no field at all": message(body=None),
    "an empty body": message(body=b""),
    "a binary body": message(body=b"=\x00\xff\r\n"),
    "never visible": message(score=b"inf"),
    "always visible": message(score=b"-inf"),
    "a fraction": message(score=b"1.5"),
    "a negative score": message(score=b"-3"),
    "a huge score": message(score=b"1.2345678901234567e+20"),
    "a tiny score": message(score=b"1e-300"),
}
