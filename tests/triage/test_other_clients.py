"""What other clients write: texts that take more bytes than characters, other units of time, names that are none."""

import json

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq, sent_ms
from rsmq_tui.protocol.keys import another_id
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.triage.actions import Copy, DeleteQueue, Hide, MessageAction, Move, Redrive, Release, Send
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq.plan import STRAY_BYTES, strays
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything, now_ms
from tests.triage.doing import done, undone
from tests.triage.keyspace import lay, message

LONGEST = ["ñ" * 1024, "€" * 1024, "😀" * 512, "x" * 1024]
TOO_LONG = {"longer than the target's maxsize": 5}


@pytest.mark.parametrize(
    "action",
    [
        Move(queue="a", target="b"),
        Copy(queue="a", target="b"),
        Redrive(queue="a", target="b"),
        Redrive(queue="b-dlq"),
    ],
)
async def test_the_longest_that_a_queue_takes_is_measured_as_the_protocol_does(
    triage: ChangeService, client: Redis, queues: Rsmq, action: MessageAction
) -> None:
    queues.create_queue("b", maxsize=1024)
    queues.create_queue(action.queue, maxsize=-1)
    queues.send_messages(action.queue, [*LONGEST, *(f"{text}x" for text in LONGEST), b"\xff" * 1025])

    report = await done(triage, action)

    assert (report.tally.done, dict(report.tally.failed)) == (4, TOO_LONG)
    there = {client.hget("rsmq:b:Q", id).decode() for id in client.zrange("rsmq:b", 0, -1)}
    assert there == set(LONGEST)


async def test_what_is_sent_is_measured_as_the_protocol_does(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("b", maxsize=1024)

    report = await done(triage, Send(queue="b", bodies=tuple(text.encode() for text in LONGEST)))
    with pytest.raises(TriageError, match="the body has 1,025 characters"):
        await triage.preview(Send(queue="b", bodies=(f"{LONGEST[0]}x".encode(),)))

    assert report.tally.done == 4


@pytest.mark.parametrize("named", ["b:Q", "\ud800", "b\0", "QUEUES", "", "x" * 200, "broken"])
async def test_a_name_that_is_none_stops_no_others(
    triage: ChangeService, client: Redis, queues: Rsmq, named: str
) -> None:
    queues.create_queue("b")
    queues.create_queue("dead")
    queues.send_messages("dead", [json.dumps({"from": name}) for name in ("b", named, "b")])
    queues.send_message("b", "x")
    client.set("rsmq:broken", "a text")

    report = await done(triage, Redrive(queue="dead", origin="from"))

    assert report.stopped is None
    assert (report.tally.done, dict(report.tally.failed)) == (2, {"the target is not a queue": 1})
    assert (client.zcard("rsmq:b"), client.zcard("rsmq:dead")) == (3, 1)


async def test_bodies_that_do_not_tell_are_not_read(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")
    queues.create_queue("a-dlq")
    queues.send_messages("a-dlq", ["x" * 60_000] * 30)
    preview = await triage.preview(Redrive(queue="a-dlq"))
    read = triage._editor.traffic.bytes_received

    await triage.run(preview).to_end()

    assert triage._editor.traffic.bytes_received - read < 60_000


@pytest.mark.parametrize(("per_s", "unit"), [(1, "seconds"), (1_000_000, "microseconds")])
@pytest.mark.parametrize(
    ("action", "due_s"),
    [(Hide(queue="a", seconds=500), 500), (Release(queue="a"), 0), (Copy(queue="a", target="a"), 0)],
)
async def test_scores_keep_their_unit(
    triage: ChangeService, client: Redis, queues: Rsmq, action: MessageAction, due_s: int, per_s: int, unit: str
) -> None:
    queues.create_queue("a")
    since_s = now_ms(client) // 1000
    lay(client, "a", message(b"odd", score=b"%d" % ((since_s + 30) * per_s)), message(b"plain", score=b"inf"))
    before = everything(client)

    preview = await triage.preview(action)
    await triage.run(preview).to_end()

    assert f"The scores of 1 message are in {unit}: the new ones use the same unit." in preview.notes
    new = [score for id, score in everything(client)[b"rsmq:a"] if (id, score) not in before[b"rsmq:a"]]
    assert len(new) == 2
    for score in new:
        scale = per_s if (score > 1e14) == (per_s > 1) and (score < 1e11) == (per_s == 1) else 1000
        assert since_s <= score / scale - due_s <= now_ms(client) / 1000
    assert sorted(score > 1e14 or score < 1e11 for score in new) == [False, True]
    await undone(triage)
    assert everything(client) == before


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Move(queue="a", target="b"), "they are not converted"),
        (Copy(queue="a", target="b"), "the copies are in milliseconds"),
        (Redrive(queue="a", target="b"), "in the target queue they are in milliseconds"),
    ],
)
async def test_scores_elsewhere(
    triage: ChangeService, client: Redis, queues: Rsmq, action: MessageAction, words: str
) -> None:
    queues.create_queue("a")
    queues.create_queue("b")
    lay(client, "a", message(score=b"1700000000"))
    since_ms = now_ms(client)

    preview = await triage.preview(action)
    await triage.run(preview).to_end()

    assert f"The scores of 1 message are in seconds: {words}." in preview.notes
    assert ("The copies are visible at once." in preview.notes) == isinstance(action, Copy)
    score = client.zscore("rsmq:b", "one")
    assert score == 1_700_000_000 if action.name == "move" else since_ms <= score <= now_ms(client)


async def test_a_queue_goes_with_the_bodies_that_no_message_has(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("a")
    for number in range(200):
        client.hset("rsmq:a:Q", f"orphan {number}", "x" * 60_000)
    before = everything(client)
    client.config_resetstat()

    report = await done(triage, DeleteQueue(queue="a"))

    # Twelve megabytes are read and deleted a few at a time, so that no call is long.
    stats = client.info("commandstats")
    assert stats["cmdstat_hmget"]["calls"] >= 200 * 60_000 // 1_000_000
    assert stats["cmdstat_evalsha"]["calls"] >= 200 * 60_000 // STRAY_BYTES
    assert report.tally.done == 1
    assert everything(client) == {}
    await undone(triage)
    assert everything(client) == before


@pytest.mark.parametrize("length", [32, 42, 30, 28])
def test_another_id_is_of_the_same_time_and_kind(length: int) -> None:
    time = {32: "0gvsok9jm8", 42: "0gvsok9jm8", 30: "loyw3v28", 28: "s44we8"}[length]
    id = time.ljust(length, "A").encode()
    at_ms = sent_ms(id.decode(), now_ms=2_000_000_000_000)

    other = another_id(id)

    assert len(other) == length
    assert other != id
    assert sent_ms(other.decode(), now_ms=2_000_000_000_000) == at_ms


def test_another_id_of_no_known_kind() -> None:
    assert len(another_id(b"odd")) == 25


async def test_heavy_fields_go_a_few_at_a_time(client: Redis, redis_url: str) -> None:
    client.hset("rsmq:a:Q", mapping={b"%d" % number: b"x" * 100_000 for number in range(4)} | {b"light": b""})
    editor = RsmqEditor(redis_url)
    try:
        parts = [part async for part in strays(editor, "a")]
    finally:
        await editor.aclose()

    assert sorted(name for part in parts for name in part) == [b"0", b"1", b"2", b"3", b"light"]
    heavy = [sum(value != b"" for value in part.values()) for part in parts]
    assert heavy == [2, 2]
