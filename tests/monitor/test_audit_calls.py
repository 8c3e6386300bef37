"""What an audit asks of the server: never much at a time."""

import re
from dataclasses import dataclass

from redis import Redis

from rsmq_tui.protocol import Rsmq, RsmqReader
from tests.monitor.auditing import found
from tests.monitor.trouble import K
from tests.protocol.keyspace import send_old


async def test_no_call_is_wide(reader: RsmqReader, client: Redis, queues: Rsmq) -> None:
    """However deep the queue and long its bodies, each call is for a bounded number of them."""
    queues.create_queue("q", maxsize=-1)
    ids = send_old(client, "q", ["x" * 100] * 4_000)
    send_old(client, "q", ["y" * 65_536] * 40)
    client.hdel("rsmq:q:Q", *ids[:500])
    client.zrem("rsmq:q", *ids[500:1_000])
    before = client.config_get("slowlog-*")
    client.config_set("slowlog-max-len", 10_000)
    client.config_set("slowlog-log-slower-than", 0)
    client.slowlog_reset()
    try:
        kinds = {finding.kind: finding.count for finding in await found(reader)}
        calls = [Called.of(entry["command"]) for entry in client.slowlog_get(10_000)]
    finally:
        for name, value in before.items():
            client.config_set(name, value)
        client.slowlog_reset()

    assert kinds == {K.DANGLING: 500, K.LEAKED: 500}
    widest: dict[str, int] = {}
    for call in calls:
        widest[call.name] = max(widest.get(call.name, 0), call.width)
    widths = {"ZSCAN": 125, "HSCAN": 250, "SSCAN": 1_000, "SCAN": 1_000, "EVALSHA": 150, "EVAL": 150, "HMGET": 300}
    widths["ZMSCORE"] = 150
    assert {name: width for name, width in widest.items() if width > widths.get(name, 1)} == {}
    assert widest["EVALSHA"] > 100
    assert widest["ZSCAN"] == 125
    assert len(calls) > 100
    # A scan may return some more than it is asked for. Never a body.
    assert set(widest) & {"HGETALL", "HVALS", "HGET", "ZRANGE", "KEYS", "SMEMBERS"} == set()
    assert all("NOVALUES" in call.words for call in calls if call.name == "HSCAN")


@dataclass(frozen=True)
class Called:
    """A command as the server's log of slow ones has it, and how many keys, ids or names it was for."""

    name: str
    words: list[str]
    width: int

    @classmethod
    def of(cls, logged: bytes) -> "Called":
        """Read it; the log cuts off long ones, and says how much."""
        text = logged.decode("utf-8", "replace")
        words = text.split(" ")
        cut = re.search(r"\.\.\. \((\d+) more arguments\)$", text)
        length = len(words) - 4 + int(cut[1]) if cut is not None else len(words)
        name = words[0].upper()
        if "COUNT" in words:
            return cls(name, words, int(words[words.index("COUNT") + 1]))
        if name == "EVALSHA":
            return cls(name, words, length - 3 - int(words[2]))
        return cls(name, words, length - 2 if name in ("HMGET", "ZMSCORE", "DEL", "MGET") else 1)
