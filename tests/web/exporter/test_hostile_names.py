"""Both formats as the official parsers read them, whatever queues and namespaces are called and count."""

import pytest
from redis import Redis

from rsmq_tui.protocol.lists.naming import LISTS_NS
from tests.web.exporter.scraping import exporting

_NAMES = (
    b"", b"orders", b"a\nb", b'quote"', b"back\\slash", b"caf\xc3", b"\xff\xfe", b"\x1b[2J", b"{}", b"# EOF",
    b"x" * 5_000, "\u202e订单 🚀".encode(), b"rsmq_up", b'",queue="other', b"\x00", b"NaN", b" ",
)  # fmt: skip
_TOTALS = (
    b"-5", b"-9223372036854775808", b"9223372036854775807", b"99999999999999999999999999", b"NaN", b"Infinity",
    b"1e400", b"", b"\xff", b"0x10", b"1.5", b"-0", b" 7",
)  # fmt: skip
_PLAIN, _OPEN = "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"


@pytest.mark.parametrize("accept", [_PLAIN, _OPEN])
async def test_every_sample_can_be_read_and_none_is_there_twice(client: Redis, redis_url: str, accept: str) -> None:
    spaces = ("rsmq", LISTS_NS, r"\x28lists)", "a\nb")
    queues = [*_NAMES, *(b"total%d" % number for number in range(len(_TOTALS)))]
    for ns in spaces:
        client.sadd(f"{ns}:QUEUES", *queues)
        for number, name in enumerate(queues):
            total = _TOTALS[number % len(_TOTALS)]
            fields = dict.fromkeys(("vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv"), total)
            client.hset(ns.encode() + b":" + name + b":Q", mapping=fields)
            client.zadd(ns.encode() + b":" + name, {"x" * 32: "-inf", "y" * 32: 1e300, "z": 5})
    client.rpush("orders", "a")
    async with exporting(redis_url, namespaces=spaces, lists=("orders",)) as exporter:
        answer = await exporter.get(Accept=accept)
    samples = answer.samples
    series = {(sample.name, frozenset(sample.labels.items())) for sample in samples}
    assert len(series) == len(samples)
    assert len({sample.labels["ns"] for sample in samples if sample.name == "rsmq_up"}) == len(spaces) + 1
    assert all(value == 1 for value in answer.values("rsmq_up"))
    for ns in spaces[1:]:
        assert len(answer.values("rsmq_queues", ns=ns)) <= 1
    sent = answer.values("rsmq_queue_sent_messages_total")
    assert sent
    assert min(sent) >= 0
    assert answer.value("rsmq_queue_depth_messages", ns=LISTS_NS, kind="list", queue="orders") == 1
