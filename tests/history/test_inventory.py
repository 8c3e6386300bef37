"""Inventories of real queues: every message once, an end that says so, and nothing changed."""

from pathlib import Path
from typing import Any

from redis import Redis

from rsmq_tui.history.names import Place
from rsmq_tui.history.recorder import InventoryTaker, Recorder
from rsmq_tui.protocol import RawMessage, Rsmq, RsmqReader
from tests.history.made import NOON_MS, rows_of
from tests.protocol.keyspace import everything


async def inventory(out: Path, url: str, *queues: str, **settings: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Take one inventory, and return its rows and what was wrong."""
    recorder = Recorder(out, state=out)
    recorder.start()
    reader = RsmqReader(url)
    taken = InventoryTaker(reader, Place("prod", reader.label, "rsmq"), recorder, **settings)
    try:
        await taken.take(queues)
    finally:
        await reader.aclose()
        recorder.close()
        assert recorder.wait(100)
    return rows_of(out, "messages"), taken.problem


async def test_every_message_and_then_the_end(redis_url: str, client: Redis, tmp_path: Path) -> None:
    queues = Rsmq(client)
    for name in ("deep", "empty"):
        queues.create_queue(name, vt=60)
    ids = queues.send_messages("deep", [f"body {number:04d}" for number in range(1_500)])
    received = queues.receive_message("deep")
    assert received is not None
    before = everything(client)
    rows, problem = await inventory(tmp_path, redis_url, "deep", "empty")

    assert problem is None
    messages = [row for row in rows if row["id"] is not None]
    assert sorted(row["id"] for row in messages) == sorted(ids)
    assert {(row["size"], row["body"]) for row in messages} == {(9, None)}
    (taken,) = (row for row in messages if row["id"] == received.id)
    assert (taken["rc"], taken["fr_ms"]) == (1, received.fr_ms)
    assert taken["due_ms"] == received.fr_ms + 60_000
    assert {(row["rc"], row["fr_ms"]) for row in messages if row is not taken} == {(0, None)}
    assert all(row["sent_ms"] <= row["inventory_ms"] <= row["at_ms"] for row in messages)
    ends = {row["queue"]: row for row in rows if row["id"] is None}
    assert set(ends) == {"deep", "empty"}
    assert {row["inventory_ms"] for row in messages} == {ends["deep"]["inventory_ms"]}
    assert ends["deep"]["at_ms"] == max(row["at_ms"] for row in messages)
    assert everything(client) == before


async def test_bodies_only_when_they_are_asked_for(redis_url: str, client: Redis, tmp_path: Path) -> None:
    Rsmq(client).create_queue("a")
    Rsmq(client).send_messages("a", [b"\xff\x00", "text"])
    rows, _ = await inventory(tmp_path, redis_url, "a", bodies=True)

    assert sorted(row["body"] for row in rows if row["id"]) == [b"text", b"\xff\x00"]


async def test_an_inventory_that_is_cut_short_has_no_end(redis_url: str, client: Redis, tmp_path: Path) -> None:
    Rsmq(client).create_queue("deep")
    Rsmq(client).send_messages("deep", ["x"] * 2_000)
    rows, _ = await inventory(tmp_path, redis_url, "deep", messages_max=600)

    assert 600 <= len(rows) < 2_000
    assert None not in {row["id"] for row in rows}


async def test_an_inventory_of_which_messages_were_lost_has_no_end(tmp_path: Path) -> None:
    recorder, place = Recorder(tmp_path, state=tmp_path), Place("prod", "redis://db1:6379", "rsmq")
    recorder.start()
    message = RawMessage(b"m1", b"%d" % NOON_MS, b"1", b"%d" % NOON_MS, 1, None)
    try:
        for number, lost in enumerate((True, False)):
            begun_ms = NOON_MS + number
            recorder.add_messages(place, "deep", [message], at_ms=begun_ms, inventory_ms=begun_ms)
            # No segment can be made for such a day.
            at_ms = 1 << 60 if lost else begun_ms
            recorder.add_messages(place, "deep", [message], at_ms=at_ms, inventory_ms=begun_ms)
            recorder.end_inventory(place, "deep", at_ms=begun_ms, inventory_ms=begun_ms)
    finally:
        recorder.close()
        assert recorder.wait(100)
    rows = rows_of(tmp_path, "messages")

    assert [row["inventory_ms"] - NOON_MS for row in rows if row["id"] is None] == [1]
    assert len(rows) == 4


async def test_a_queue_that_cannot_be_read_keeps_no_other(redis_url: str, client: Redis, tmp_path: Path) -> None:
    client.set("rsmq:odd", "not a queue")
    client.zadd("rsmq:hostile", {b"\xff\x1b": 1, b"\\": float("inf")})
    rows, problem = await inventory(tmp_path, redis_url, "odd", "hostile")

    assert problem is not None
    assert problem.startswith("the messages of odd cannot be read: ")
    assert [(row["queue"], row["id"], row["due_ms"]) for row in sorted(rows, key=lambda row: str(row["id"]))] == [
        ("hostile", None, None), ("hostile", "\\\\", None), ("hostile", "\\xff\x1b", 1),
    ]  # fmt: skip
