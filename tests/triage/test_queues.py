"""Changes that are about no message that is there: sending, importing, and queues made, changed and deleted."""

from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq, sent_ms
from rsmq_tui.triage.actions import CreateQueue, DeleteQueue, Import, Send, SetAttributes
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.jsonl import from_line, to_line
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything, now_ms
from tests.triage.doing import done, export, to_import, undone
from tests.triage.keyspace import ODD, lay, message


@pytest.mark.parametrize(("queue_delay_s", "delay_s", "due_s"), [(0, None, 0), (7, None, 7), (7, 0, 0), (7, 20, 20)])
async def test_what_is_sent_is_what_the_client_would_send(
    triage: ChangeService, client: Redis, queues: Rsmq, queue_delay_s: int, delay_s: int | None, due_s: int
) -> None:
    queues.create_queue("a", delay=queue_delay_s)
    sent = [b"%d" % number for number in range(30)]
    since_ms = now_ms(client)

    report = await done(triage, Send(queue="a", bodies=tuple(sent), delay_s=delay_s))

    until_ms = now_ms(client)
    assert report.sentence == "sent 30, skipped 0, failed 0"
    there = client.zrange("rsmq:a", 0, -1, withscores=True)
    assert [client.hget("rsmq:a:Q", id) for id, _ in there] == sent
    for id, score in there:
        assert since_ms <= score - due_s * 1000 <= until_ms
        at_ms = sent_ms(id.decode(), now_ms=until_ms)
        assert at_ms is not None
        assert since_ms <= at_ms <= until_ms
    assert queues.get_queue_attributes("a").totalsent == 30
    queues.change_visibility_of("a", [id.decode() for id, _ in there], 0)
    assert len(queues.receive_messages("a", 50)) == 30


async def test_taking_a_send_back_leaves_the_total_of_others(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("a")
    await done(triage, Send(queue="a", bodies=(b"ours", b"ours")))
    queues.send_message("a", "theirs")

    report = await undone(triage)

    assert (report.tally.done, report.tally.skipped) == (2, {})
    assert client.hget("rsmq:a:Q", "totalsent") == b"1"
    assert client.zcard("rsmq:a") == 1


async def test_a_total_of_nought_stays_one(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")
    client.hset("rsmq:a:Q", "totalsent", "0")
    before = everything(client)

    await done(triage, Send(queue="a", bodies=(b"x",)))
    await undone(triage)

    assert everything(client) == before


async def test_a_body_that_is_too_long_sends_nothing(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a", maxsize=2048)
    send = Send(queue="a", bodies=(b"x", b"x" * 1025))
    preview = await triage.preview(send)
    queues.set_queue_attributes("a", maxsize=1024)
    before = everything(client)

    with pytest.raises(TriageError, match=r"the longest body has 1,025 characters .* accepts 1,024: .* a --maxsize N"):
        await triage.preview(send)
    run = triage.run(preview)
    async for _ in run:
        pass

    report = run.report
    assert report is not None
    assert report.stopped == "Message too long"
    assert not report.undoable
    assert everything(client) == before
    for delay_s in (-1, 10_000_000):
        with pytest.raises(TriageError, match="delay must be between"):
            await triage.preview(Send(queue="a", bodies=(b"x",), delay_s=delay_s))


async def test_what_is_imported_is_what_was_exported(
    triage: ChangeService, client: Redis, queues: Rsmq, tmp_path: Path
) -> None:
    queues.create_queue("a")
    lay(client, "a", message(b"one 0", body=b"other", rc=b"7"))
    path = export(tmp_path / "export.jsonl")
    preview = await triage.preview(Import(queue="a", path=path))
    assert dict(preview.rows)["undo"].startswith("removes them again, except for those received meanwhile")
    preview.close()

    report = await done(triage, Import(queue="a", path=path))

    assert report.tally.done == len(ODD)
    assert dict(report.tally.failed) == {"its id is already in use there": 1}
    assert client.hget("rsmq:a:Q", "one 0") == b"other"
    assert client.hget("rsmq:a:Q", "totalsent") is None
    scores = dict(client.zrange("rsmq:a", 0, -1, withscores=True))
    for number, odd in enumerate(ODD.values()):
        id = b"%d " % number + odd.id
        assert scores[id] == float(odd.score)
        assert client.hmget("rsmq:a:Q", id, id + b":rc", id + b":fr") == [odd.body, odd.rc, odd.fr]


@pytest.mark.parametrize("odd", ODD)
def test_a_line_holds_every_byte(odd: str) -> None:
    there = ODD[odd]._replace(id=b"id " + ODD[odd].id)

    assert from_line(to_line(there, 0)) == there
    assert to_line(there, 0).isascii()


@pytest.fixture
def empty(client: Redis, queues: Rsmq) -> dict[bytes, Any]:
    """What lies on the server with an empty queue ``a``."""
    queues.create_queue("a")
    return everything(client)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "1",
        '{"id": "x"}',
        '{"score": 1}',
        '{"id": 5, "score": 1}',
        '{"id": "x", "score": true}',
        '{"id": "x", "score": "nan"}',
        '{"id": "x", "score": NaN}',
        '{"id": "x", "score": " 12"}',
        '{"id": "x", "score": "1_0"}',
        '{"id": "x", "score": "0x10"}',
        '{"id": "x", "score": "\\u0661"}',
        '{"id": "x", "score": []}',
        '{"id": "x", "score": 1, "rc": []}',
        '{"id": "x", "score": 1, "rc": true}',
        '{"id": "x", "score": 1, "body": 5}',
        '{"id": "x", "score": 1, "body_base64": "?"}',
        '{"id": "x", "score": 1, "body_base64": 5}',
        '{"id": "\\ud83d", "score": 1}',
        '{"id": "x", "score": 1' + "0" * 500 + "}",
        '{"id": "x", "score": 1' + "0" * 5000 + "}",
        "[" * 100_000,
    ],
)
async def test_a_line_that_is_none_is_named_and_imports_nothing(
    triage: ChangeService, client: Redis, empty: dict[bytes, Any], tmp_path: Path, line: str
) -> None:
    path = to_import(tmp_path, f'{{"id": "fine", "score": 1}}\n\n{line}\n')

    with pytest.raises(TriageError, match=r"export\.jsonl, line 3: "):
        await triage.preview(Import(queue="a", path=path))

    assert everything(client) == empty


@pytest.mark.parametrize("score", ["1e3", "1.5", "-inf", "+inf", "1e400", "12.", "-0"])
async def test_scores_may_be_written_in_many_ways(
    triage: ChangeService, client: Redis, empty: dict[bytes, Any], tmp_path: Path, score: str
) -> None:
    path = to_import(tmp_path, f'{{"id": "x", "score": "{score}"}}\n')

    report = await done(triage, Import(queue="a", path=path))

    # What the server takes for no number is refused as a whole.
    if report.stopped is None:
        assert client.zscore("rsmq:a", "x") == float(score)
        await undone(triage)
    assert everything(client) == empty


async def test_a_file_that_cannot_be_imported_is_told(triage: ChangeService, queues: Rsmq, tmp_path: Path) -> None:
    queues.create_queue("a")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")

    for path, words in ((tmp_path / "none.jsonl", "No such file"), (tmp_path, "Is a directory"), (empty, "no message")):
        with pytest.raises(TriageError, match=words):
            await triage.preview(Import(queue="a", path=path))
    with pytest.raises(TriageError, match="Queue not found"):
        await triage.preview(Import(queue="nowhere", path=export(tmp_path / "export.jsonl")))


async def test_a_queue_is_made(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    report = await done(triage, CreateQueue(queue="new", vt=5, delay=6, maxsize=2048))

    made = queues.get_queue_attributes("new")
    assert report.tally.done == 1
    assert (made.vt, made.delay, made.maxsize, made.totalsent, made.totalrecv) == (5, 6, 2048, 0, 0)
    seconds = client.time()[0]
    assert made.created == made.modified
    assert made.created is not None
    assert seconds - 60 <= made.created <= seconds
    assert queues.list_queues() == ["new"]
    with pytest.raises(TriageError, match="Queue exists"):
        await triage.preview(CreateQueue(queue="new"))


async def test_a_queue_that_is_made_meanwhile_is_left_alone(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    preview = await triage.preview(CreateQueue(queue="new"))
    queues.create_queue("new", vt=99)
    before = everything(client)

    report = await triage.run(preview).to_end()

    assert report.stopped == "Queue exists"
    assert report.tally.done == 0
    assert everything(client) == before


@pytest.mark.parametrize("use", ["send", "send and pop"])
async def test_a_queue_that_is_used_is_not_taken_back(
    triage: ChangeService, client: Redis, queues: Rsmq, use: str
) -> None:
    await done(triage, CreateQueue(queue="new"))
    queues.send_message("new", "x")
    if use == "send and pop":
        queues.pop_message("new")
    before = everything(client)

    report = await undone(triage)

    assert (report.tally.done, report.tally.skipped.total()) == (0, 1)
    (note,) = report.tally.notes
    assert note.startswith("queue new, which the change created, was kept: it ")
    assert everything(client) == before


async def test_attributes_are_set(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")
    queues.send_message("a", "x")

    await done(triage, SetAttributes(queue="a", delay=3, maxsize=-1))

    now = queues.get_queue_attributes("a")
    assert (now.vt, now.delay, now.maxsize, now.msgs) == (30, 3, -1, 1)
    for action, words in (
        (SetAttributes(queue="a"), "nothing to change: give a vt, a delay or a maxsize"),
        (SetAttributes(queue="a", vt=-1), "vt must be between"),
        (SetAttributes(queue="a", maxsize=5), "maxsize must be between"),
        (SetAttributes(queue="nowhere", vt=1), "Queue not found"),
    ):
        with pytest.raises(TriageError, match=words):
            await triage.preview(action)


async def test_previews_of_attributes_have_units(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    assert (await triage.preview(CreateQueue(queue="a", vt=3600, maxsize=-1))).what == (
        "vt 3,600 s, delay 0 s, maxsize no limit"
    )
    queues.create_queue("a")
    client.hset("rsmq:a:Q", mapping={"vt": "15.5", "delay": "9" * 5_000, "maxsize": "-1"})
    assert (await triage.preview(SetAttributes(queue="a", vt=30, delay=0, maxsize=2048))).what == (
        "vt 15.5 -> 30 s, delay 9999999999999999999… -> 0 s, maxsize no limit -> 2,048 characters"
    )


async def test_attributes_that_somebody_sets_after_us_stay(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")
    await done(triage, SetAttributes(queue="a", vt=3))
    queues.set_queue_attributes("a", vt=4)
    before = everything(client)

    report = await undone(triage)

    assert (report.tally.done, report.tally.skipped.total()) == (0, 1)
    assert everything(client) == before


@pytest.mark.parametrize("strays", [0, 2, 1_500])
@pytest.mark.parametrize("messages", [0, 3])
async def test_a_queue_goes_with_all_that_is_in_its_keys(
    triage: ChangeService, client: Redis, queues: Rsmq, strays: int, messages: int
) -> None:
    queues.create_queue("a")
    queues.create_queue("b")
    queues.send_messages("a", ["x"] * messages)
    if strays:
        client.hset("rsmq:a:Q", mapping={b"\xff%d" % number: b"\x00" for number in range(strays)})
    before = everything(client)

    preview = await triage.preview(DeleteQueue(queue="a"))
    report = await triage.run(preview).to_end()

    assert report.tally.done == preview.count == messages + 1
    assert {key for key in everything(client) if b":a" in key} == set()
    assert queues.list_queues() == ["b"]
    back = await undone(triage)
    assert back.tally.done == messages + 1
    # The queue is one of those that were put back.
    assert back.tally.notes == []
    assert everything(client) == before


@pytest.mark.parametrize("broken", ["no vt", "not listed", "listed only", "no hash"])
async def test_a_broken_queue_can_be_deleted(triage: ChangeService, client: Redis, queues: Rsmq, broken: str) -> None:
    queues.create_queue("a")
    queues.send_message("a", "x")
    match broken:
        case "no vt":
            client.hdel("rsmq:a:Q", "vt")
        case "not listed":
            client.srem("rsmq:QUEUES", "a")
        case "listed only":
            client.delete("rsmq:a", "rsmq:a:Q")
        case "no hash":
            client.delete("rsmq:a:Q")
    before = everything(client)

    report = await done(triage, DeleteQueue(queue="a"))

    assert report.stopped is None
    assert everything(client) == {}
    await undone(triage)
    assert everything(client) == before
