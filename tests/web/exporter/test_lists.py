"""List queues as metrics: what is known of them under the names of all queues, and nothing of what nobody counts."""

import redis

from rsmq_tui.monitor import Verdict
from rsmq_tui.protocol import Rsmq
from tests.protocol.keyspace import now_ms
from tests.web.exporter.scraping import exporting

OF_RSMQ_ALONE = (
    *("rsmq_queue_sent_messages_total", "rsmq_queue_received_messages_total", "rsmq_queue_poison_messages"),
    *("rsmq_queue_highest_receives", "rsmq_queue_vt_seconds", "rsmq_queue_delay_seconds", "rsmq_queue_maxsize_bytes"),
    *("rsmq_queue_created_timestamp_seconds", "rsmq_queue_modified_timestamp_seconds"),
)


async def test_a_list_queue_in_numbers(redis_url: str, client: redis.Redis) -> None:
    at_ms = now_ms(client)
    client.lpush("queue:mail", "a", "b", "c")
    client.lpush("queue:mail:processing", "d", "e")
    client.zadd("queue:mail:leases", {"t" * 22 + ":d": at_ms - 1000, "u" * 22 + ":e": at_ms + 600_000})
    async with exporting(redis_url, lists=("queue:*",)) as exporter:
        answer = await exporter.get()
    labels = {"profile": "s0", "ns": "(lists)", "queue": "queue:mail", "kind": "list"}

    assert [answer.value(f"rsmq_queue_{name}_messages", **labels) for name in ("depth", "ready", "hidden")] == [5, 3, 2]
    assert answer.value("rsmq_queue_expired_leases", **labels) == 1
    assert answer.value("rsmq_queue_problems", **labels) == 0
    assert answer.value("rsmq_queue_verdict", **labels, verdict="watching") == 1
    assert len(answer.values("rsmq_queue_verdict", **labels)) == len(Verdict)
    assert [answer.value(name, ns="(lists)") for name in ("rsmq_up", "rsmq_queues")] == [1, 1]


async def test_what_nothing_counts_is_no_series(redis_url: str, client: redis.Redis) -> None:
    client.lpush("queue:mail", "a")
    client.set("queue:broken:processing", "no list")
    client.lpush("queue:broken", "a")
    async with exporting(redis_url, lists=("queue:mail", "queue:broken", "queue:empty")) as exporter:
        answer = await exporter.get()

    for name in OF_RSMQ_ALONE:
        assert answer.values(name, ns="(lists)") == []
    # The items do not tell when they were made; of an empty list nothing waits.
    assert answer.values("rsmq_queue_oldest_ready_age_seconds", queue="queue:mail") == []
    assert answer.value("rsmq_queue_oldest_ready_age_seconds", queue="queue:empty") == 0
    for name in ("depth_messages", "hidden_messages", "expired_leases"):
        assert answer.values(f"rsmq_queue_{name}", queue="queue:broken") == []
    assert answer.verdicts()["queue:broken"] == "broken"


async def test_series_of_rsmq_queues_stay_what_they_were(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("orders")
    client.lpush("queue:mail", "a")
    async with exporting(redis_url, lists=("queue:mail",)) as exporter:
        answer = await exporter.get()
    ours = [sample for sample in answer.samples if sample.labels.get("queue") == "orders"]

    assert len(ours) >= 12
    assert {frozenset(sample.labels) - {"verdict"} for sample in ours} == {
        frozenset(("profile", "server", "ns", "queue"))
    }
    assert answer.values("rsmq_queue_expired_leases", queue="orders") == []
