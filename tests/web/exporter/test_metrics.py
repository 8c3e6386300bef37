"""What is exposed: each queue's numbers, in Prometheus' units and names, and counters that are the queues' own."""

import math
import re
from itertools import pairwise

import pytest
import redis

from rsmq_tui import __version__
from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import Thresholds, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import Rsmq, make_id
from rsmq_tui.web.exporter.metrics import label_value
from tests.hostile.payloads import SNIPPETS, plant_queue
from tests.monitor.test_hostile_names import NAMES
from tests.protocol.keyspace import plant
from tests.web.exporter.scraping import Answer, exporting

pytestmark = pytest.mark.slow

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


async def scraped(redis_url: str, *, accept: str = "", namespaces: tuple[str, ...] = ("rsmq",)) -> Answer:
    async with exporting(redis_url, namespaces=namespaces) as exporter:
        # The first poll looks at receive counts behind its rows.
        await exporter.get()
        return await exporter.get(Accept=accept)


async def test_a_queue_in_numbers(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=45, delay=3, maxsize=2048)
    rsmq.send_message("orders", "a", delay=0)
    for _ in range(6):
        message = rsmq.receive_message("orders", vt=0)
    assert message is not None
    rsmq.change_message_visibility("orders", message.id, 600)
    rsmq.send_messages("orders", ["b", "c"], delay=0)
    rsmq.send_message("orders", "d", delay=900)
    answer = await scraped(redis_url)
    server = redis_url.split("/")[2]
    labels = {"profile": "s0", "server": f"redis://{server}/0", "ns": "rsmq", "queue": "orders"}

    def value(name: str) -> float:
        return answer.value(f"rsmq_queue_{name}", **labels)

    assert [value(f"{name}_messages") for name in ("depth", "ready", "hidden", "poison")] == [4, 2, 2, 1]
    assert [value(f"{name}_messages_total") for name in ("sent", "received")] == [4, 6]
    assert [value("vt_seconds"), value("delay_seconds"), value("maxsize_bytes")] == [45, 3, 2048]
    assert value("highest_receives") >= 5
    assert value("problems") == 0
    assert 0 <= value("oldest_ready_age_seconds") < 600
    assert 0 <= value("oldest_ready_waiting_seconds") < 600
    created_s = client.time()[0] - value("created_timestamp_seconds")
    assert 0 <= created_s < 600
    assert value("modified_timestamp_seconds") == value("created_timestamp_seconds")
    assert answer.verdicts() == {"orders": "poisoned"}
    assert len(answer.values("rsmq_queue_verdict", **labels)) == len(Verdict)


async def test_a_queue_that_approaches_a_limit(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("full")
    Rsmq(client).send_messages("full", ["a", "b", "c"])
    Rsmq(client).create_queue("empty")
    async with exporting(redis_url, thresholds=Thresholds(depth_limit=3)) as exporter:
        answer = await exporter.get()
    assert answer.value("rsmq_queue_limit_seconds", queue="full") == 0
    assert answer.values("rsmq_queue_limit_seconds", queue="empty") == []


@pytest.mark.parametrize("names", [("*-dead",), ("rsmq:*-dead", "list:mail-dead")])
async def test_a_queue_whose_trouble_is_expected(redis_url: str, client: redis.Redis, names: tuple[str, ...]) -> None:
    for queue in ("orders", "orders-dead"):
        Rsmq(client).create_queue(queue)
    client.lpush("mail-dead", "x")
    async with exporting(redis_url, lists=("mail-dead",), expected=Expected(names)) as exporter:
        answer = await exporter.get()
    found = [sample for sample in answer.samples if sample.name == "rsmq_queue_expected"]
    assert {(sample.labels["queue"], sample.value) for sample in found} == {("orders-dead", 1), ("mail-dead", 1)}
    # Rules compare it with other series of the queue.
    depths = [sample.labels for sample in answer.samples if sample.name == "rsmq_queue_depth_messages"]
    assert all(sample.labels in depths for sample in found)


async def test_how_long_things_take(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("busy", vt=600)
    Rsmq(client).create_queue("idle")
    received_ms = client.time()[0] * 1000 - 40_000
    for waited_s in range(1, 21):
        id = make_id((received_ms - waited_s * 1000) * 1000)
        plant(client, "busy", id, due_ms=received_ms + 600_000, body="x")
        client.hset("rsmq:busy:Q", mapping={f"{id}:rc": 1, f"{id}:fr": received_ms})
    answer = await scraped(redis_url)

    def quantiles(name: str) -> list[float]:
        return [answer.value(f"rsmq_queue_{name}_seconds", queue="busy", quantile=share) for share in ("0.5", "0.95")]

    assert quantiles("wait") == [10, 19]
    p50_s, p95_s = quantiles("work")
    assert 40 <= p50_s == p95_s < 600
    assert answer.values("rsmq_queue_wait_seconds", queue="idle") == []


async def test_the_memory_of_the_server() -> None:
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        async with exporting(server.url) as exporter:
            # INFO is read with the second poll.
            await exporter.get()
            answer = await exporter.get()
        assert answer.value("rsmq_server_used_memory_bytes") > 100_000
        assert answer.values("rsmq_server_maxmemory_bytes") == answer.values("rsmq_server_memory_full_seconds") == []
        client.config_set("maxmemory", 1_000)
        async with exporting(server.url) as exporter:
            await exporter.get()
            answer = await exporter.get()
    assert answer.value("rsmq_server_maxmemory_bytes") == 1_000
    assert answer.value("rsmq_server_memory_full_seconds") == 0


async def test_a_target_in_numbers(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("orders")
    Rsmq(client, ns="other").create_queue("a")
    Rsmq(client, ns="other").create_queue("b")
    answer = await scraped(redis_url, namespaces=("rsmq", "other"))

    assert [answer.value("rsmq_up", ns=ns) for ns in ("rsmq", "other")] == [1, 1]
    assert [answer.value("rsmq_queues", ns=ns) for ns in ("rsmq", "other")] == [1, 2]
    assert abs(answer.value("rsmq_last_poll_timestamp_seconds", ns="rsmq") - client.time()[0]) < 600
    assert answer.value("rsmq_poll_duration_seconds_count", ns="rsmq") >= 2
    assert answer.value("rsmq_poll_duration_seconds_sum", ns="rsmq") > 0
    assert 0 < answer.value("rsmq_poll_round_trip_seconds", ns="rsmq") < 600
    assert answer.value("rsmq_poll_bytes_total", ns="rsmq") > 100
    assert answer.value("rsmq_poll_commands_total", ns="rsmq") >= 6
    assert answer.values("rsmq_poll_failures_total", ns="rsmq") == [0, 0, 0]
    assert answer.value("rsmq_exporter_build_info", version=__version__) == 1
    assert answer.value("process_resident_memory_bytes") > 1e6


async def test_what_is_not_there_is_no_number(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("idle", maxsize=-1)
    client.sadd("rsmq:QUEUES", "gone")
    plant_queue(client, b"garbled", totalsent="many", created="never")
    answer = await scraped(redis_url)

    assert answer.value("rsmq_queue_oldest_ready_age_seconds", queue="idle") == 0
    assert answer.value("rsmq_queue_maxsize_bytes", queue="idle") == math.inf
    assert answer.verdicts() == {"idle": "ok", "gone": "broken", "garbled": "ok"}
    assert answer.value("rsmq_queue_problems", queue="gone") == 1
    for name in ("ready_messages", "vt_seconds", "sent_messages_total", "oldest_ready_age_seconds", "poison_messages"):
        assert answer.values(f"rsmq_queue_{name}", queue="gone") == []
    assert answer.values("rsmq_queue_sent_messages_total", queue="garbled") == []
    assert answer.values("rsmq_queue_created_timestamp_seconds", queue="garbled") == []
    assert answer.value("rsmq_queue_received_messages_total", queue="garbled") == 0


async def test_names_and_units_are_those_of_the_conventions(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("orders")
    answer = await scraped(redis_url)
    ours = [family for family in answer.families if family.name.startswith("rsmq_")]

    assert len(ours) >= 20
    for family in ours:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", family.name)
        assert family.documentation.endswith(".")
        assert not re.search("_(ms|us|min|kb|mb|millis|percent|count)$", family.name)
        # The text parser names a counter without its suffix, and its samples with it.
        assert all(sample.name.endswith("_total") == (family.type == "counter") for sample in family.samples)
        assert family.type in ("counter", "gauge", "summary")


@pytest.mark.parametrize("accept", ["", OPENMETRICS, "text/plain; version=1.0.0; escaping=allow-utf-8"])
async def test_hostile_names_break_no_format(redis_url: str, client: redis.Redis, accept: str) -> None:
    names = {*NAMES.values(), *SNIPPETS.values()}
    # And queues that are called what others are shown as.
    for shown in (printable, label_value):
        names |= {shown(name.decode("utf-8", "surrogateescape")).encode() for name in names}
    for name in names:
        plant_queue(client, name)
    answer = await scraped(redis_url, accept=accept)
    depths = [sample.labels for sample in answer.samples if sample.name == "rsmq_queue_depth_messages"]

    assert len({labels["queue"] for labels in depths}) == len(depths) == len(names)
    assert "caf\\xc3" in {labels["queue"] for labels in depths}
    assert all(line.isprintable() for line in answer.text.split("\n"))
    series = [(sample.name, frozenset(sample.labels.items())) for sample in answer.samples]
    assert len(set(series)) == len(series)
    assert answer.value("rsmq_queues") == len(names)


async def test_a_hostile_namespace_is_a_label_too(redis_url: str, client: redis.Redis) -> None:
    evil = b'\x1b[31m\xff"\n'
    client.sadd(evil + b":QUEUES", b"q")
    answer = await scraped(redis_url, namespaces=(evil.decode("utf-8", "surrogateescape"),))

    assert answer.value("rsmq_queues", ns='\\x1b[31m\\xff"\\x0a') == 1


class TestCounters:
    async def test_never_fall_whatever_happens_to_messages(self, redis_url: str, client: redis.Redis) -> None:
        rsmq = Rsmq(client)
        rsmq.create_queue("q")
        seen: list[list[float]] = []
        async with exporting(redis_url) as exporter:
            for change in (
                lambda: rsmq.send_messages("q", ["x"] * 3),
                lambda: rsmq.receive_messages("q", 2, vt=0),
                lambda: rsmq.pop_message("q"),
                lambda: rsmq.set_queue_attributes("q", vt=5),
                lambda: rsmq.send_message("q", "y"),
                lambda: client.zremrangebyrank("rsmq:q", 0, -1),
            ):
                change()
                answer = await exporter.get()
                seen.append([sample.value for sample in answer.samples if sample.name.endswith("_total")])

        for before, after in pairwise(seen):
            assert all(earlier <= later for earlier, later in zip(before, after, strict=True))
        assert [answer.value(f"rsmq_queue_{name}_messages_total") for name in ("sent", "received")] == [4, 3]

    async def test_go_on_where_they_were_for_another_exporter(self, redis_url: str, client: redis.Redis) -> None:
        rsmq = Rsmq(client)
        rsmq.create_queue("q")
        rsmq.send_messages("q", ["x"] * 3)
        first = await scraped(redis_url)
        second = await scraped(redis_url)

        assert [each.value("rsmq_queue_sent_messages_total") for each in (first, second)] == [3, 3]

    async def test_begin_anew_with_a_queue_that_was_made_again(self, redis_url: str, client: redis.Redis) -> None:
        rsmq = Rsmq(client)
        rsmq.create_queue("q")
        rsmq.send_messages("q", ["x"] * 3)
        async with exporting(redis_url) as exporter:
            before = await exporter.get()
            rsmq.delete_queue("q")
            between = await exporter.get()
            rsmq.create_queue("q")
            rsmq.send_message("q", "x")
            after = await exporter.get()

        assert before.value("rsmq_queue_sent_messages_total") == 3
        assert [name for name in {sample.name for sample in between.samples} if name.startswith("rsmq_queue_")] == []
        assert after.value("rsmq_queue_sent_messages_total") == 1
