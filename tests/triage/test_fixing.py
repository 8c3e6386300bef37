"""Fixing what an audit found: it is gone, the queue works, undo brings all of it back, and good messages stay."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import FieldBatch, FieldEdit, LooseBatch, LooseKind
from rsmq_tui.triage.actions import Fix
from rsmq_tui.triage.change import ChangeReport, Step
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq import fixes
from rsmq_tui.triage.scope import ScanProgress
from rsmq_tui.triage.service import ChangeService
from tests.monitor.trouble import TROUBLE
from tests.protocol.keyspace import everything, plant, send_old
from tests.triage.doing import audit_lines, done, undone
from tests.triage.fixing import fixed, found
from tests.triage.keyspace import kept, markers

pytestmark = pytest.mark.slow

FIXED = [name for name, trouble in TROUBLE.items() if trouble.fixed]
PAST_MS = 1_700_000_000_000


@pytest.mark.parametrize("name", FIXED)
async def test_each_is_fixed_and_undone(
    name: str, triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    trouble = TROUBLE[name]
    trouble.make(client, queues)
    before = everything(client)
    findings = await found(reader)
    preview = await triage.preview(Fix(queue=trouble.queue, findings=findings))

    assert preview.count == trouble.count
    assert everything(client) == before
    report = await triage.run(preview).to_end()

    assert (report.tally.done, report.tally.skipped, report.tally.failed) == (trouble.count, {}, {})
    assert await found(reader) == ()
    after = everything(client)
    assert after != before
    back = await undone(triage)
    assert everything(client) == before
    assert (back.tally.done, back.tally.skipped, back.tally.failed, back.stopped) == (trouble.count, {}, {}, None)
    # To take back that it was taken back is to fix it again.
    assert back.change is not None
    await undone(triage, back.change)
    assert _without_new(everything(client)) == _without_new(after)
    assert markers(client) == {}


def _without_new(keys: dict[bytes, Any]) -> dict[bytes, Any]:
    """What a fix makes anew each time is told by what it replaces."""
    return {key: value for key, value in keys.items() if b":rsmq-tui:" not in key}


@pytest.mark.parametrize("name", [name for name in FIXED if TROUBLE[name].works])
async def test_consumers_work_afterwards(
    name: str, triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    TROUBLE[name].make(client, queues)
    await fixed(triage, reader)
    waiting = queues.get_queue_attributes("q").msgs
    sent = queues.send_message("q", "new")

    assert "q" in queues.list_queues()
    received = []
    while (message := queues.receive_message("q", vt=60)) is not None:
        received.append(message)
        assert queues.delete_message("q", message.id)
    assert len(received) == waiting + 1
    assert sent in [message.id for message in received]
    assert all(message.body and message.rc >= 1 and message.fr_ms for message in received)
    assert not client.exists("rsmq:q")


@pytest.mark.parametrize("name", ["Ruby EXPIRE", "a name alone", "PyRSMQ set", "a queue called QUEUES"])
async def test_what_is_no_queue_goes_whole(
    name: str, triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    TROUBLE[name].make(client, queues)
    await fixed(triage, reader, TROUBLE[name].queue)

    assert set(client.keys()) <= {b"rsmq:QUEUES", b"rsmq:other:Q"}
    assert set(queues.list_queues()) <= {"other"}


async def test_everything_in_one_queue(triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq) -> None:
    """Several kinds at once, of which some lie on the same message, and in more than one batch."""
    queues.create_queue("q", maxsize=-1)
    good = send_old(client, "q", [f"body {number}" for number in range(700)])
    client.hdel("rsmq:q:Q", *good[:300])
    client.zrem("rsmq:q", *good[300:600])
    client.hset("rsmq:q:Q", mapping={f"{good[number]}:rc": "2" for number in range(350)})
    plant(client, "q", "ruby" * 5, due_ms=1_700_000_000, body="in seconds", rc="007")
    plant(client, "q", "rust" * 5, due_ms=PAST_MS, body="no fr", rc=2)
    client.hset("rsmq:q:Q", mapping={f"{number:032}:fr": 1 for number in range(300)})
    client.srem("rsmq:QUEUES", "q")
    before = everything(client)
    findings = await found(reader)
    assert {finding.kind.value: finding.count for finding in findings} == {
        "unlisted": 1,
        "dangling": 300,
        "leaked": 300,
        "stray": 300,
        "foreign-id": 2,
        "score-seconds": 1,
        "bad-rc": 1,
        "no-fr": 1,
    }
    report = await done(triage, Fix(queue="q", findings=findings))

    assert (report.tally.done, report.tally.skipped, report.tally.failed) == (906, {}, {})
    assert await found(reader) == ()
    bodies = {message.body for message in queues.receive_messages("q", 200)}
    assert bodies == {b"in seconds", b"no fr", *(b"body %d" % number for number in range(600, 700))}
    assert before != everything(client)


async def test_undo_of_everything(triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q")
    ids = send_old(client, "q", ["x"] * 600)
    client.hdel("rsmq:q:Q", *ids[:300])
    client.zrem("rsmq:q", *ids[300:])
    client.hset("rsmq:q:Q", mapping={b"z" * 32: b"\x00\xff", f"{ids[400]}:rc": 1, f"{ids[400]}:meta": "{}"})
    plant(client, "q", "ruby" * 5, due_ms=1_700_000_000, body="in seconds", rc="007")
    before = everything(client)
    assert (await fixed(triage, reader)).tally.done == 300 + 301 + 3

    await undone(triage)
    assert everything(client) == before


async def test_a_name_that_is_no_text(triage: ChangeService, reader: RsmqReader, client: Redis) -> None:
    name = b"rsmq:\xff\x1b"
    client.sadd("rsmq:QUEUES", name.removeprefix(b"rsmq:"))
    client.hset(name + b":Q", mapping={"vt": 1, "delay": 0, "maxsize": -1, "a" * 20: "x", "c" * 32: "y"})
    client.zadd(name, {"a" * 20: 1_700_000_000, "b" * 32: PAST_MS})
    before = everything(client)
    report = await fixed(triage, reader, "\udcff\x1b")
    assert (report.tally.done, report.tally.failed) == (4, {})
    assert await found(reader) == ()
    await undone(triage)
    assert everything(client) == before


# Fixes while that happens; returns the report, and what lay on the server after it happened.
FixWhile = Callable[[Callable[[], object]], Awaitable[tuple[ChangeReport, dict[bytes, Any]]]]


class TestRaces:
    """What is good by the time of the fix is left alone, whatever it was when it was looked at."""

    @pytest.fixture
    def fix_while(
        self, triage: ChangeService, reader: RsmqReader, client: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> FixWhile:
        """Have something happen after the fix was prepared, and before the server is asked for it."""

        async def fix(happen: Callable[[], object]) -> tuple[ChangeReport, dict[bytes, Any]]:
            (finding,) = await found(reader)
            changed: dict[bytes, Any] = {}
            prepare = fixes.prepare_fix

            async def late(*arguments: Any) -> AsyncIterator[Step]:
                prepared = [step async for step in prepare(*arguments)]
                happen()
                changed.update(everything(client))
                for step in prepared:
                    yield step

            monkeypatch.setattr("rsmq_tui.triage.rsmq.backend.prepare_fix", late)
            return await done(triage, Fix(queue="q", findings=(finding,))), changed

        return fix

    @pytest.mark.parametrize(
        ("name", "happen"),
        [
            ("HDEL by hand", lambda client, id: client.hset("rsmq:q:Q", id, "the body comes")),
            ("HDEL by hand", lambda client, id: client.hincrby("rsmq:q:Q", f"{id}:rc", 1)),
            ("HDEL by hand", lambda client, id: client.zadd("rsmq:q", {id: 1_800_000_000_000})),
            ("ebuckley delete", lambda client, id: client.zadd("rsmq:q", {id: 1})),
            ("ebuckley delete", lambda client, id: client.hset("rsmq:q:Q", id, "another")),
            ("PyRSMQ delete", lambda client, id: client.zadd("rsmq:q", {id.removesuffix(":rc")[:32]: 1})),
            ("rc with zeros", lambda client, id: client.hset("rsmq:q:Q", f"{id}:rc", 3)),
            ("Rust move", lambda client, id: client.hset("rsmq:q:Q", f"{id}:fr", 3)),
            ("Rust move", lambda client, id: client.zrem("rsmq:q", id)),
            ("old Rust ids", lambda client, id: client.zadd("rsmq:q", {id: 1_800_000_000_000})),
            ("Ruby scores", lambda client, id: client.zadd("rsmq:q", {id: 1_800_000_000})),
        ],
    )
    async def test_of_messages(
        self, name: str, happen: Callable[[Redis, str], object], fix_while: FixWhile, client: Redis, queues: Rsmq
    ) -> None:
        trouble = TROUBLE[name]
        trouble.make(client, queues)
        id = next(id for id in trouble.ids if not id.endswith(":fr"))

        report, changed = await fix_while(lambda: happen(client, id))
        after = everything(client)

        # That message is as it was made meanwhile, to the last field.
        assert report.tally.skipped.total() >= 1
        stem = id.split(":")[0].encode()
        assert _of(after, stem) == _of(changed, stem)
        assert report.tally.done + report.tally.skipped.total() == trouble.count

    @pytest.mark.parametrize(
        ("name", "happen"),
        [
            ("a name alone", lambda client, queues: queues.create_queue("q", vt=7)),
            # To the canonical client a queue with vt exists: it fills in the rest.
            ("PyRSMQ set", lambda client, queues: client.hset("rsmq:q:Q", mapping={"delay": 0, "maxsize": 65536})),
            ("a send that raced a delete", lambda client, queues: queues.create_queue("q", vt=7)),
            ("a create that broke off", lambda client, queues: queues.delete_queue("q")),
        ],
    )
    async def test_of_queues(
        self, name: str, happen: Callable[[Redis, Rsmq], object], fix_while: FixWhile, client: Redis, queues: Rsmq
    ) -> None:
        TROUBLE[name].make(client, queues)

        report, changed = await fix_while(lambda: happen(client, queues))

        assert everything(client) == changed or name == "PyRSMQ set"
        assert report.tally.done == (1 if name == "PyRSMQ set" else 0)

    async def test_a_counter_that_is_a_message(self, triage: ChangeService, client: Redis, queues: Rsmq) -> None:
        """``a…a:rc`` is the body of a message, whatever anybody takes it for."""
        queues.create_queue("q")
        body, owner = "a" * 29 + ":rc", "a" * 29
        plant(client, "q", body, due_ms=PAST_MS, body="precious")
        before = everything(client)
        name, value = body.encode(), b"precious"
        for kind in LooseKind:
            for edit in (FieldEdit(name, value, None), FieldEdit(name, value, b"other")):
                token = triage._editor.new_token()
                assert await triage._editor.apply(LooseBatch(kind, "q", (edit,)), token) in ("c", "g")
                await triage._editor.forget([token])
        assert everything(client) == before
        client.zadd("rsmq:q", {owner: PAST_MS})
        token = triage._editor.new_token()
        batch = LooseBatch(LooseKind.OWNED, "q", (FieldEdit(name, value, None),))
        assert await triage._editor.apply(batch, token) == "c"


def _of(keys: dict[bytes, Any], stem: bytes) -> tuple[Any, Any]:
    scores = {id: score for id, score in keys.get(b"rsmq:q", []) if id.startswith(stem)}
    return scores, {name: value for name, value in keys[b"rsmq:q:Q"].items() if name.startswith(stem)}


@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("name", ["HDEL by hand", "PyRSMQ delete", "rc with zeros", "a send that raced a delete"])
async def test_what_a_lost_call_may_have_done_can_be_undone(
    name: str,
    carried_out: bool,
    triage: ChangeService,
    reader: RsmqReader,
    client: Redis,
    queues: Rsmq,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reply is lost, and what the call left on the server as well."""
    TROUBLE[name].make(client, queues)
    before, apply = everything(client), RsmqEditor.apply
    preview = await triage.preview(Fix(queue="q", findings=await found(reader)))

    async def losing(editor: RsmqEditor, batch: Batch, token: str) -> str:
        if carried_out:
            await apply(editor, batch, token)
        client.delete(f"rsmq:rsmq-tui:{token}", f"rsmq:rsmq-tui:{token}announced")
        raise ConnectionError("lost")

    with monkeypatch.context() as patched:
        patched.setattr(RsmqEditor, "apply", losing)
        report = await triage.run(preview).to_end()
    assert report.stopped is not None
    await triage.recover()
    assert (kept(client) != before) == carried_out
    if carried_out:
        preview = await triage.preview_undo(report.change, unsettled=True)
        assert (await triage.run(preview).to_end()).stopped is None
    assert kept(client) == before


async def test_undo_leaves_alone_what_is_used_since(
    triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    TROUBLE["a send that raced a delete"].make(client, queues)
    await fixed(triage, reader)
    queues.send_message("q", "somebody relies on it")
    used = everything(client)
    report = await undone(triage)

    assert report.tally.skipped.total() == 1
    assert everything(client) == used


async def test_a_consumer_may_hold_a_message_of_another_id(
    triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("q")
    plant(client, "q", "rust" * 5, due_ms=9_000_000_000_000, body="held", rc=1, fr=5)
    plant(client, "q", "free" * 5, due_ms=9_000_000_000_000, body="delayed")
    report = await fixed(triage, reader)

    assert (report.tally.done, report.tally.skipped.total()) == (1, 1)
    assert client.zscore("rsmq:q", "rust" * 5)
    assert not client.zscore("rsmq:q", "free" * 5)


async def test_a_body_too_long_for_the_journal_stays(
    triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("q")
    client.hset("rsmq:q:Q", mapping={"a" * 32: "x" * 1_000_001, "b" * 32: "x" * 1_000_000})
    report = await fixed(triage, reader)

    assert (report.tally.done, report.tally.failed) == (1, {fixes.TOO_LONG: 1})
    assert client.hexists("rsmq:q:Q", "a" * 32)


async def test_what_is_no_longer_wrong(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q")
    before = everything(client)
    stale = tuple(Finding(kind, "q") for kind in FindingKind)
    report = await done(triage, Fix(queue="q", findings=stale))

    assert report.tally.done == 0
    assert everything(client) == before


async def test_written_down(triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq) -> None:
    TROUBLE["HDEL by hand"].make(client, queues)
    await fixed(triage, reader)
    (line,) = audit_lines(triage.folder)
    undo = await triage.preview_undo()

    assert (line["action"], line["queue"], line["done"], line["ended"]) == ("fix", "q", 2, "done")
    assert line["filter"] == "2 message ids without bodies"
    assert undo.action.summary == "change 1: fixed queue q, 2 message ids without bodies"  # type: ignore[attr-defined]


async def test_the_preview_says_what_would_happen(
    triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    TROUBLE["HDEL by hand"].make(client, queues)
    client.hset("rsmq:q:Q", "d" * 32 + ":rc", 1)
    preview = await triage.preview(Fix(queue="q", findings=await found(reader)))

    assert preview.title == "Fix queue q"
    assert ("that", "2 message ids without bodies; counter without a message (rc, fr or meta)") in preview.rows
    assert preview.notes[0].startswith("dangling: removes the ids and their counts")


async def test_what_has_no_fix_is_left_out(triage: ChangeService, client: Redis) -> None:
    client.sadd("rsmq:QUEUES", "q")
    wrong, ghost = Finding(FindingKind.WRONG_TYPE, "q", 2), Finding(FindingKind.GHOST, "q")
    preview = await triage.preview(Fix(queue="q", findings=(wrong, ghost)))
    assert (preview.count, preview.what) == (1, ghost.what)
    with pytest.raises(TriageError, match="check it manually"):
        await triage.preview(Fix(queue="q", findings=(wrong,)))


async def test_the_preview_counts_anew(triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq) -> None:
    """Between an audit and its fix there may be hours."""
    TROUBLE["HDEL by hand"].make(client, queues)
    client.hset("rsmq:q:Q", "l" * 32, "leaked")
    findings = await found(reader)
    client.zrem("rsmq:q", "a" * 32)
    client.hdel("rsmq:q:Q", "a" * 32 + ":rc", "a" * 32 + ":fr", "l" * 32)
    seen: list[ScanProgress] = []
    preview = await triage.preview(Fix(queue="q", findings=findings), on_progress=seen.append)

    assert (preview.count, preview.what) == (1, "message id without a body")
    assert [note.split(":")[0] for note in preview.notes[:-1]] == ["dangling"]
    assert seen[-1].matched == 1
    assert seen[-1].scanned > 2
    client.zrem("rsmq:q", "b" * 32)
    preview = await triage.preview(Fix(queue="q", findings=findings))
    assert (preview.count, preview.what) == (0, "nothing to fix: all problems are gone")


async def test_another_namespace_than_was_audited(
    triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    TROUBLE["HDEL by hand"].make(client, queues)
    fix = Fix(queue="q", findings=await found(reader), ns=reader.ns)
    assert (await triage.preview(fix)).count == 2
    triage.watch("other")
    with pytest.raises(TriageError, match="found in namespace rsmq, but changes now go to other: run the audit again"):
        await triage.preview(fix)


async def test_read_only(
    redis_url: str, triage: ChangeService, reader: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    TROUBLE["HDEL by hand"].make(client, queues)
    triage.read_only = True
    with pytest.raises(TriageError, match="read-only"):
        await fixed(triage, reader)


def test_loose_batches_turn_round() -> None:
    fields = (FieldEdit(b"a", b"1", None), FieldEdit(b"b", None, b"2"), FieldEdit(b"c", b"3", None))
    batch = LooseBatch(LooseKind.STRAY, "q", fields)
    back = batch.inverse("ddc")

    assert back == LooseBatch(LooseKind.STRAY, "q", (FieldEdit(b"a", None, b"1"), FieldEdit(b"b", b"2", None)))
    assert batch.inverse("ccg") is None
    assert batch.traces(b"1", None, b"3") == ""
    assert batch.traces(None, None, b"3") == "dgg"
    held = FieldBatch("q", (FieldEdit(b"vt", None, b"30"),), listed_before=False, listed_after=True, held=True)
    undo = held.inverse("d")
    assert undo is not None
    assert (undo.empty, undo.held) == (False, True)
