"""Changes by filter beside consumers: what still matches is changed, whoever received it, and undone as it was."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from rsmq_tui.monitor import Filter, parse_filter
from rsmq_tui.monitor.filters.matching import Term
from rsmq_tui.protocol import RawMessage, Rsmq, make_id
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, MessageBatch
from rsmq_tui.triage.actions import Copy, Delete, DeleteQueue, Move, Purge, Redrive
from rsmq_tui.triage.scope import Everything, Marked, Matching, Named, Scope, Shown, still_matching
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.consuming import consuming
from tests.triage.doing import message_actions, undone
from tests.triage.keyspace import fields_of

pytestmark = pytest.mark.slow

ACTIONS = {**message_actions("a-dlq", "a"), "purge": Purge(queue="a-dlq"), "redrive": Redrive(queue="a-dlq")}
POISON = Matching(parse_filter("state:poison"))
LOOSE: dict[str, Callable[[list[str]], Scope]] = {
    "filter": lambda ids: POISON,
    "everything": lambda ids: Everything(),
    "a body": lambda ids: Matching(parse_filter("body")),
    "ids": lambda ids: Named(tuple(ids), even_if_received=True),
    "marks": lambda ids: Marked(tuple(Shown(id, "0", 0) for id in ids), even_if_received=True),
}


@pytest.fixture
def ids(client: Redis, queues: Rsmq) -> list[str]:
    """Twelve messages that were received five times, and are ready."""
    queues.create_queue("a")
    queues.create_queue("a-dlq", vt=0)
    ids = queues.send_messages("a-dlq", [f"body {number}" for number in range(12)])
    for _ in range(5):
        queues.receive_messages("a-dlq", 12, vt=0)
    return ids


@pytest.mark.parametrize("which", LOOSE)
@pytest.mark.parametrize("name", ACTIONS)
async def test_what_was_received_meanwhile_is_changed_and_comes_back_as_it_was(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], name: str, which: str
) -> None:
    preview = await triage.preview(ACTIONS[name], LOOSE[which](ids))
    assert preview.count == 12
    queues.receive_messages("a-dlq", 5, vt=100)
    queues.change_message_visibility("a-dlq", ids[6], 500)
    queues.delete_message("a-dlq", ids[7])
    before = everything(client)
    left = [id for id in ids if id != ids[7]]
    were = {id: fields_of(client, id) for id in left}

    report = await triage.run(preview).to_end()

    assert (report.tally.done, dict(report.tally.skipped)) == (11, {"gone meanwhile": 1})
    assert report.stopped is None
    assert not report.tally.failed
    if name in ("delete", "purge", "move", "redrive"):
        assert client.zcard("rsmq:a-dlq") == 0
        assert client.hkeys("rsmq:a-dlq:Q").count(ids[0].encode()) == 0
    if name == "move":
        assert {id: fields_of(client, id, "a") for id in left} == were
    if name == "redrive":
        assert [fields_of(client, id, "a")[1:] for id in left] == [(were[id][1], None, None) for id in left]
    if name in ("hide", "release"):
        assert [fields_of(client, id)[1:] for id in left] == [were[id][1:] for id in left]
    back = await undone(triage)
    assert (back.tally.done, back.tally.skipped.total(), back.tally.failed.total()) == (11, 0, 0)
    assert everything(client) == before


@pytest.mark.parametrize("name", ["delete", "move", "redrive"])
async def test_undo_after_the_reply_was_lost_knows_what_was_found(
    triage: ChangeService,
    client: Redis,
    queues: Rsmq,
    ids: list[str],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preview = await triage.preview(ACTIONS[name], POISON)
    queues.receive_messages("a-dlq", 12, vt=100)
    before = everything(client)
    honest = RsmqEditor.apply

    async def lost(self: RsmqEditor, batch: Any, token: str) -> str:
        await honest(self, batch, token)
        raise ConnectionError("the reply was lost")

    with monkeypatch.context() as losing:
        losing.setattr(RsmqEditor, "apply", lost)
        report = await triage.run(preview).to_end()
    assert (report.tally.done, report.tally.unknown) == (12, 0)
    await undone(triage)
    assert everything(client) == before


MATCHES_UNTIL_RECEIVED = ("state:ready", "rc=5", "rc<6 body", "!state:inflight", "due<=0")
MATCHES_EVEN_IF_RECEIVED = ("state:poison|delayed", "rc>=5", "state:ready|inflight", "rc!=9")


@pytest.mark.parametrize(
    ("text", "meanwhile", "sentence"),
    [
        *((text, "received", "no longer matching") for text in MATCHES_UNTIL_RECEIVED),
        *((text, "received", None) for text in MATCHES_EVEN_IF_RECEIVED),
        ("rc>=5", "set back", "no longer matching"),
        ("rc>=5", "made odd", "received or changed meanwhile"),
    ],
)
@pytest.mark.parametrize("name", ["delete", "hide", "move", "copy", "redrive"])
async def test_what_no_longer_matches_is_left_alone(
    triage: ChangeService,
    client: Redis,
    queues: Rsmq,
    ids: list[str],
    name: str,
    text: str,
    meanwhile: str,
    sentence: str | None,
) -> None:
    preview = await triage.preview(ACTIONS[name], Matching(parse_filter(text)))
    assert preview.count == 12
    match meanwhile:
        case "received":
            queues.receive_messages("a-dlq", 3, vt=100)
        case "set back":
            client.hset("rsmq:a-dlq:Q", mapping=dict.fromkeys([f"{id}:rc" for id in ids[:3]], 1))
        case "made odd":
            client.hset("rsmq:a-dlq:Q", mapping=dict.fromkeys([f"{id}:rc" for id in ids[:3]], "7 or so"))
    touched = {id: fields_of(client, id) for id in ids[:3]}

    report = await triage.run(preview).to_end()

    if meanwhile == "made odd" and name in ("copy", "redrive"):
        # They read it again before: what it is then is what is compared, and what comes back.
        assert report.tally.done == 12
        return
    assert report.tally.done == (12 if sentence is None else 9)
    assert dict(report.tally.skipped) == ({} if sentence is None else {sentence: 3})
    assert sentence is None or {id: fields_of(client, id) for id in ids[:3]} == touched


async def test_an_age_is_compared_when_the_change_is_made(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = int(client.time()[0])
    young, old = (make_id((seconds - age_s) * 1_000_000) for age_s in (10, 200))
    client.zadd("rsmq:a-dlq", {young: 5, old: 5})
    client.hset("rsmq:a-dlq:Q", mapping={young: "x", old: "x"})
    preview = await triage.preview(Delete(queue="a-dlq"), Matching(parse_filter("age<5m rc=0")))
    assert preview.count == 2
    honest = RsmqEditor.clock_us

    async def later(self: RsmqEditor) -> int:
        return await honest(self) + 150_000_000

    monkeypatch.setattr(RsmqEditor, "clock_us", later)
    report = await triage.run(preview).to_end()

    assert (report.tally.done, dict(report.tally.skipped)) == (1, {"no longer matching": 1})
    assert client.zscore("rsmq:a-dlq", old) is not None


@pytest.mark.parametrize(("name", "vt_s"), [("delete", 0), ("move", 1), ("hide", 0), ("redrive", 1)])
async def test_a_hot_queue_is_emptied_and_every_receive_is_kept(
    triage: ChangeService, client: Redis, queues: Rsmq, redis_url: str, ids: list[str], name: str, vt_s: int
) -> None:
    with consuming(redis_url, "a-dlq", vt_s) as consumer:
        await asyncio.to_thread(consumer.wait_for, ids, 6)
        preview = await triage.preview(ACTIONS[name], POISON)
        seen = {id: message.rc for id, message in consumer.last.items()}
        assert preview.count == 12
        # Long enough for each of them to be received again.
        await asyncio.to_thread(consumer.wait_for, ids, max(seen.values()) + 1)
        report = await triage.run(preview).to_end()

    assert (report.tally.done, report.tally.skipped.total(), report.tally.failed.total()) == (12, 0, 0)
    if name in ("delete", "move", "redrive"):
        assert client.zcard("rsmq:a-dlq") == 0
    if name == "move":
        moved = {id: fields_of(client, id, "a") for id in ids}
        assert {id: int(found[2]) for id, found in moved.items()} == {id: consumer.last[id].rc for id in ids}
    await undone(triage)
    for id in ids:
        _, body, rc, fr = fields_of(client, id)
        last = consumer.last[id]
        assert (body, int(rc), int(fr)) == (last.body, last.rc, last.fr_ms)
    assert client.zcard("rsmq:a-dlq") == 12
    if name == "move":
        assert {id: fields_of(client, id) for id in ids} == moved


async def test_what_was_named_is_left_alone_and_offered_again(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    preview = await triage.preview(Delete(queue="a-dlq"), Named(tuple(ids)))
    assert preview.notes[0] == "Messages changed since this preview are skipped and counted."
    queues.receive_messages("a-dlq", 5, vt=100)
    report = await triage.run(preview).to_end()

    assert (report.tally.done, dict(report.tally.skipped)) == (7, {"received or changed meanwhile": 5})
    assert report.retry == Named(report.changed, even_if_received=True)
    assert len(report.changed) == 5

    again = await triage.preview(Delete(queue="a-dlq"), report.retry)
    queues.change_message_visibility("a-dlq", report.changed[0], 5)
    more = await triage.run(again).to_end()
    assert (more.tally.done, more.tally.skipped.total(), more.retry) == (5, 0, None)


async def test_marks_that_have_changed_are_offered_with_the_preview(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    shown = tuple(Shown(id, repr(client.zscore("rsmq:a-dlq", id)), 5) for id in ids)
    queues.receive_messages("a-dlq", 4, vt=100)
    queues.delete_message("a-dlq", ids[11])
    preview = await triage.preview(Delete(queue="a-dlq"), Marked(shown))
    assert (preview.count, preview.elsewhere, preview.changed) == (7, 5, 4)
    preview.close()
    wider = await triage.preview(Delete(queue="a-dlq"), preview.wider)
    assert (wider.count, wider.elsewhere, wider.wider) == (11, 1, None)
    assert (await triage.run(wider).to_end()).tally.done == 11


@pytest.mark.parametrize("name", ACTIONS)
async def test_a_preview_shows_some_bodies_and_reads_no_long_one(
    triage: ChangeService, client: Redis, ids: list[str], name: str
) -> None:
    client.hset("rsmq:a-dlq:Q", ids[1], b"x" * 200_000)
    preview = await triage.preview(ACTIONS[name], LOOSE["marks"](ids[:3]))
    assert (preview.count, preview.bodies) == (3, (b"body 0", b"body 2"))
    preview.close()


async def test_a_queue_that_is_deleted_keeps_the_strict_guard(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    preview = await triage.preview(DeleteQueue(queue="a-dlq"))
    queues.receive_messages("a-dlq", 2, vt=100)
    report = await triage.run(preview).to_end()
    assert report.tally.done == 10
    assert client.zcard("rsmq:a-dlq") == 2


async def test_the_queue_is_not_one_of_the_messages_that_are_deleted_with_it(
    triage: ChangeService, queues: Rsmq
) -> None:
    queues.create_queue("new")
    queues.send_messages("new", ["a", "b", "c", "d", "e"])

    preview = await triage.preview(DeleteQueue(queue="new"))

    assert preview.title == "Delete queue new and its 5 messages"
    assert ("", "and 2 more messages") in preview.rows
    await triage.run(preview).to_end()
    assert (await triage.preview_undo()).title.endswith(": deleted queue new and its 5 messages")


STATES = ["ready", "inflight", "delayed", "hidden", "poison", "expired"]
COUNTS = [None, b"0", b"1", b"5", b"12", b" 6 x"]
TIMES_MS = st.sampled_from([-3_600_000, -61_000, -1_000, 1_000, 59_000, 61_000, 3_600_000])
TERMS = st.one_of(
    st.tuples(st.just("rc"), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(0, 7)),
    st.tuples(st.just("due"), st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from([-60_000, 0, 60_000])),
    st.tuples(
        st.just("state"),
        st.just(":"),
        st.lists(st.sampled_from(["ready", "inflight", "delayed", "hidden", "poison", "expired"]), min_size=1).map(
            tuple
        ),
    ),
)
SCORES = st.one_of(
    st.tuples(st.sampled_from([1.0, 0.001, 1000.0]), TIMES_MS),
    st.tuples(st.just(0.0), st.sampled_from([0.0, -5.0, float("inf"), float("-inf"), 12_345.5])),
)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    terms=st.lists(st.tuples(TERMS, st.booleans()), max_size=3),
    messages=st.lists(
        st.tuples(SCORES, st.sampled_from([None, b"0", b"1", b"5", b"12", b" 6 x"])), min_size=1, max_size=6
    ),
    poison_rc=st.integers(1, 6),
)
async def test_the_server_matches_as_a_search_does(
    client: Redis, redis_url: str, terms: Any, messages: Any, poison_rc: int
) -> None:
    """What the filter says of a message, and what the server says of it, are the same."""
    client.flushall()
    made = tuple(Term(field, sign, value, inverted=inverted) for (field, sign, value), inverted in terms)
    wanted = parse_filter("")
    wanted = type(wanted)("", made, poison_rc)
    at_ms = time.time_ns() // 1_000_000
    raw = []
    for number, ((factor, offset), rc) in enumerate(messages):
        id = f"{number:032d}".encode()
        client.zadd("rsmq:a", {id: (at_ms + offset) * factor if factor else offset})
        client.hset("rsmq:a:Q", mapping={"vt": 1, id: "x", **({} if rc is None else {id + b":rc": rc})})
        score = client.execute_command("ZSCORE", "rsmq:a", id, NEVER_DECODE=True)
        raw.append(RawMessage(id, str(score).encode() if isinstance(score, float) else score, rc, None, 1, None))
    guard = still_matching(wanted)
    editor = RsmqEditor(redis_url)
    try:
        batch = MessageBatch(
            EditKind.RESCORE,
            "a",
            tuple(Edit(one, one._replace(score=b"7")) for one in raw),
            conditions=guard.conditions,
        )
        outcome = await editor.apply(batch, editor.new_token())
    finally:
        await editor.aclose()
    holds = Filter("", tuple(made), poison_rc).predicate()
    assert list(letters_of(outcome)) == [Outcome.DONE if holds(one, at_ms) else Outcome.UNMATCHED for one in raw]


@contextmanager
def just_before_each_call(monkeypatch: pytest.MonkeyPatch, happen: Callable[[], object]) -> Iterator[None]:
    """Have something happen after a batch was read, and before the server is asked to carry it out."""
    honest = RsmqEditor.apply

    async def late(self: RsmqEditor, batch: Any, token: str) -> str:
        happen()
        return await honest(self, batch, token)

    with monkeypatch.context() as busy:
        busy.setattr(RsmqEditor, "apply", late)
        yield


@pytest.mark.parametrize("scope", [POISON, Everything()], ids=["filter", "everything"])
@pytest.mark.parametrize("name", ["move", "copy"])
async def test_a_list_takes_what_was_received_after_it_was_read(
    triage: ChangeService,
    client: Redis,
    queues: Rsmq,
    ids: list[str],
    name: str,
    scope: Scope,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    action = (Move if name == "move" else Copy)(queue="a-dlq", target="list:queue:a")
    preview = await triage.preview(action, scope)
    with just_before_each_call(monkeypatch, lambda: queues.receive_messages("a-dlq", 12, vt=100)):
        report = await triage.run(preview).to_end()

    assert (report.tally.done, report.tally.skipped.total(), report.tally.failed.total()) == (12, 0, 0)
    assert sorted(client.lrange("queue:a", 0, -1)) == sorted(b"body %d" % number for number in range(12))
    assert client.zcard("rsmq:a-dlq") == (0 if name == "move" else 12)
    back = await undone(triage)
    assert (back.tally.done, back.tally.skipped.total(), back.tally.failed.total()) == (12, 0, 0)
    assert {fields_of(client, id)[2] for id in ids} == {b"6"}
    assert all(client.zscore("rsmq:a-dlq", id) > time.time() * 1000 for id in ids)
    assert not client.exists("queue:a")


async def test_what_no_longer_matches_does_not_go_to_a_list(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    preview = await triage.preview(Move(queue="a-dlq", target="list:queue:a"), Matching(parse_filter("state:ready")))
    with just_before_each_call(monkeypatch, lambda: queues.change_message_visibility("a-dlq", ids[0], 100)):
        report = await triage.run(preview).to_end()
    assert (report.tally.done, dict(report.tally.skipped)) == (11, {"no longer matching": 1})
    assert client.zcard("rsmq:a-dlq") == 1


@pytest.mark.parametrize("vt_s", [0, 1])
async def test_a_hot_queue_is_emptied_into_a_list(
    triage: ChangeService, client: Redis, queues: Rsmq, redis_url: str, ids: list[str], vt_s: int
) -> None:
    with consuming(redis_url, "a-dlq", vt_s) as consumer:
        await asyncio.to_thread(consumer.wait_for, ids, 6)
        preview = await triage.preview(Move(queue="a-dlq", target="list:queue:a"), POISON)
        report = await triage.run(preview).to_end()

    assert (report.tally.done, report.tally.skipped.total(), report.tally.failed.total()) == (12, 0, 0)
    assert (client.zcard("rsmq:a-dlq"), client.llen("queue:a")) == (0, 12)
    await undone(triage)
    for id in ids:
        _, body, rc, fr = fields_of(client, id)
        last = consumer.last[id]
        assert (body, int(rc), int(fr)) == (last.body, last.rc, last.fr_ms)


async def test_what_was_named_and_received_at_the_last_moment_is_offered_again_on_its_way_to_a_list(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    preview = await triage.preview(Move(queue="a-dlq", target="list:queue:a"), Named(tuple(ids)))
    with just_before_each_call(monkeypatch, lambda: queues.receive_messages("a-dlq", 12, vt=100)):
        report = await triage.run(preview).to_end()
    assert (report.tally.done, report.tally.skipped.total(), sorted(report.changed)) == (0, 12, sorted(ids))
    again = await triage.run(await triage.preview(preview.action, report.retry)).to_end()
    assert (again.tally.done, client.llen("queue:a")) == (12, 12)
