"""A limit: so many messages as are due first are chosen, whatever consumers do meanwhile, in memory of that many."""

from collections.abc import Sequence
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol import Rsmq, RsmqReader, ScanChunk
from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.rsmq import scan_strategies
from rsmq_tui.protocol.rsmq.scan import walked
from rsmq_tui.protocol.rsmq.scan_strategies import QueueRanges
from rsmq_tui.triage.actions import Delete, Hide, Move, Release
from rsmq_tui.triage.rsmq.backend import what_is_due_first
from rsmq_tui.triage.scope import Matching, ScanProgress
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import done, message_actions, undone

pytestmark = pytest.mark.slow

AT_MS = 1_700_000_000_000
ACTIONS = message_actions("a", "b")


@pytest.fixture
def ids(client: Redis, queues: Rsmq) -> list[str]:
    """Ids by when they are due, which is not the order they were sent in; some are due at the same time."""
    queues.create_queue("b", vt=1000)
    queues.create_queue("a", vt=1000)
    sent = queues.send_messages(
        "a", [f'{{"n": {number}, "even": {number % 2 == 0}}}'.lower() for number in range(1_300)]
    )
    scores = {id: AT_MS + (number * 7919) % 650 for number, id in enumerate(sent)}
    client.zadd("rsmq:a", scores)
    return sorted(sent, key=lambda id: (scores[id], id))


@pytest.fixture
def later(client: Redis, ids: list[str]) -> None:
    """The same, but an hour from now."""
    seconds, _ = client.time()
    scores = client.zrange("rsmq:a", 0, -1, withscores=True)
    client.zadd("rsmq:a", {id: score - AT_MS + (seconds + 3600) * 1000 for id, score in scores})


def even(client: Redis, ids: Sequence[str]) -> list[str]:
    bodies = client.hmget("rsmq:a:Q", ids)
    return [id for id, body in zip(ids, bodies, strict=True) if b'"even": true' in (body or b"")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, "") for name in ACTIONS),
        *((name, "json.even=true") for name in ("delete", "hide", "release")),
        *((name, "rc<1 json.even=true") for name in ("move", "release")),
    ],
)
async def test_each_action_is_for_those_due_first(
    triage: ChangeService, client: Redis, ids: list[str], later: None, name: str, text: str
) -> None:
    expected = (even(client, ids) if text else ids)[:600]
    before = everything(client)

    preview = await triage.preview(ACTIONS[name], Matching(parse_filter(text), 600))
    assert preview.selection is not None
    assert [each.id.decode() for each in preview.selection] == expected
    hidden = "hidden " if name == "release" else ""
    of = (
        f"650 {hidden and 'hidden ones '}that match {text}, in the whole queue"
        if text
        else f"1,300 {hidden}messages of the queue"
    )
    assert preview.what == f"the 600 due first of {of}"
    if name in ("delete", "move", "redrive"):
        assert all(each.size for each in preview.selection)
    report = await triage.run(preview).to_end()

    assert (report.tally.done, report.tally.skipped, report.tally.failed) == (600, {}, {})
    if name == "delete":
        assert {id for id, _ in everything(client)[b"rsmq:a"]} == {id.encode() for id in set(ids) - set(expected)}
    await undone(triage)
    assert everything(client) == before


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "all 3 messages of the queue"),
        ("body", "all 3 messages that match body, in the whole queue"),
        ('"body 1"', 'the only message that matches "body 1", in the whole queue'),
        ("nothing like it", "no message that matches nothing like it, in the whole queue"),
    ],
)
@pytest.mark.parametrize("limit", [3, 1_000_000])
async def test_a_limit_that_leaves_nothing_out(
    triage: ChangeService, queues: Rsmq, text: str, what: str, limit: int
) -> None:
    queues.create_queue("a")
    queues.send_messages("a", [f"body {number}" for number in range(3)])
    seen: list[ScanProgress] = []
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(text), limit), seen.append)

    assert preview.what == what
    assert seen[-1] == (3, 3, preview.count)
    preview.close()


async def test_of_a_queue_without_messages_there_are_none(triage: ChangeService, queues: Rsmq) -> None:
    queues.create_queue("a")
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(""), 3))
    assert (preview.count, preview.what) == (0, "no message of the queue")
    preview.close()


async def test_the_body_of_the_only_one_is_shown(triage: ChangeService, queues: Rsmq) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["first", "second"])
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter("!body:none"), 1))
    assert ("body", "first") in preview.rows
    preview.close()


async def test_only_the_front_is_read_where_all_match(
    triage: ChangeService, client: Redis, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = paged(monkeypatch)
    client.config_resetstat()
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(""), 7))
    assert pages == [7]
    assert [message.id.decode() for message in preview.selection or ()] == ids[:7]
    preview.close()


@pytest.mark.parametrize("limit", [1_200, 1_300, 5_000])
async def test_many_take_few_calls_and_no_bodies(
    triage: ChangeService, client: Redis, ids: list[str], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = paged(monkeypatch)
    client.config_resetstat()
    preview = await triage.preview(Move(queue="a", target="b"), Matching(parse_filter(""), limit))
    chosen = [message.id.decode() for message in preview.selection or ()]
    # Where all are meant they are scanned, in no order.
    assert (chosen if limit < 1_300 else sorted(chosen)) == (ids[:limit] if limit < 1_300 else sorted(ids))
    assert pages == ([350, 400, 400, 400] if limit < 1_300 else [])
    calls = client.info("commandstats")
    assert "cmdstat_hget" not in calls
    # Lengths come by a script, those of a chunk in one call.
    assert calls["cmdstat_evalsha"]["calls"] < 20
    assert calls["cmdstat_hmget"]["calls"] < 20
    preview.close()


def paged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many messages each page of a front asks for, as they are asked."""
    asked: list[int] = []

    async def counting(
        runner: ScriptRunner, zset: bytes, attributes: bytes, walk: Sequence[Any], *, counts: bool
    ) -> tuple[bytes, ScanChunk]:
        asked.append(walk[2] + 1 - walk[1])
        return await walked(runner, zset, attributes, walk, counts=counts)

    monkeypatch.setattr(scan_strategies, "walked", counting)
    return asked


@pytest.mark.parametrize("taken", [1, 40, 60, 700])
@pytest.mark.parametrize("how", ["receive", "pop", "send before"])
async def test_what_moves_while_the_front_is_read_hides_nothing(
    triage: ChangeService,
    client: Redis,
    queues: Rsmq,
    ids: list[str],
    how: str,
    taken: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever stays where it is comes once, although ranks shift by more than a page."""
    moved = set[str]()

    async def beside(
        runner: ScriptRunner, zset: bytes, attributes: bytes, walk: Sequence[Any], *, counts: bool
    ) -> tuple[bytes, ScanChunk]:
        if walk[1] and not moved:
            moved.update(ids[:taken])
            if how == "receive":
                client.zadd("rsmq:a", dict.fromkeys(ids[:taken], AT_MS + 10**9))
            elif how == "pop":
                client.zrem("rsmq:a", *ids[:taken])
            else:
                moved.update(f"before {number}" for number in range(taken))
                client.zadd("rsmq:a", {f"before {number}": 5 for number in range(taken)})
        return await walked(runner, zset, attributes, walk, counts=counts)

    monkeypatch.setattr(scan_strategies, "walked", beside)
    preview = await triage.preview(Hide(queue="a", seconds=1), Matching(parse_filter(""), 1_200))
    chosen = [message.id.decode() for message in preview.selection or ()]
    assert len(chosen) == len(set(chosen))
    stayed = [id for id in chosen if id not in moved]
    assert stayed == [id for id in ids if id not in moved][: len(stayed)]
    assert len(chosen) == 1_200 - max(0, taken - 450 if how == "pop" else 0)
    preview.close()


async def test_what_is_met_again_is_passed_over_however_long_ago_it_was_met(
    reader: RsmqReader, client: Redis, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_strategies, "_RECENT_IDS", 100)
    found: list[bytes] = []
    async for chunk in reader.ranges.chunks("a", count=60):
        if not found:
            client.zadd("rsmq:a", dict.fromkeys(ids[:30], AT_MS + 10**9))
        found += chunk.columns[0]
    assert [id.decode() for id in found] == ids


async def test_more_that_come_in_while_all_are_read_are_not_chosen(
    triage: ChangeService, queues: Rsmq, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = QueueRanges.depth

    async def filling(self: QueueRanges, queue: str) -> int:
        depth = await honest(self, queue)
        queues.send_messages("a", ["late"] * 300)
        return depth

    monkeypatch.setattr(QueueRanges, "depth", filling)
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(""), 1_300))
    assert [message.id.decode() for message in preview.selection or ()] == ids
    assert preview.what == "the 1,300 due first of 1,600 messages of the queue"
    assert preview.selection is not None
    assert preview.selection.bytes == sum(message.size for message in preview.selection)
    preview.close()


@pytest.mark.parametrize(
    ("text", "limit", "what"),
    [
        ("", 3, "the 2 due first of 1,300 messages of the queue"),
        ("", 2, "the one due first of 1,300 messages of the queue"),
        ("", 1_300, "all 1,299 messages of the queue"),
        ("one", 2, "the only message that matches one, in the whole queue"),
    ],
)
async def test_words_count_those_that_are_still_there(text: str, limit: int, what: str) -> None:
    scope, matched = Matching(parse_filter(text), limit), 2 if text else 1_300
    assert what_is_due_first(Delete(queue="a"), scope, limit, matched, min(limit, matched) - 1) == what


async def test_a_release_takes_those_due_first_of_the_hidden_ones(triage: ChangeService, queues: Rsmq) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["ready"] * 5)
    later = [queues.send_message("a", "later", delay=delay) for delay in (300, 100, 200)]
    for text, limit, chosen, what in (
        ("", 2, [1, 2], "the 2 due first of 3 hidden messages of the queue"),
        ("", 3, [1, 2, 0], "all 3 hidden messages of the queue"),
        ("later", 1, [1], "the one due first of 3 hidden ones that match later, in the whole queue"),
        ("ready", 1, [], "no hidden message that matches ready, in the whole queue"),
    ):
        preview = await triage.preview(Release(queue="a"), Matching(parse_filter(text), limit))
        assert [message.id.decode() for message in preview.selection or ()] == [later[place] for place in chosen]
        assert preview.what == what
        preview.close()
    report = await done(triage, Release(queue="a"), Matching(parse_filter(""), 2))
    assert report.tally.done == 2
    assert queues.get_queue_attributes("a").hiddenmsgs == 1


@pytest.mark.parametrize(
    ("ready", "note"),
    [
        (1, "All become due now. 1 is visible already, and comes after those that have waited longer."),
        (2, "All become due now. 2 are visible already, and come after those that have waited longer."),
    ],
)
async def test_a_release_says_where_visible_messages_go(
    triage: ChangeService, queues: Rsmq, ready: int, note: str
) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["ready"] * ready)
    preview = await triage.preview(Release(queue="a"), Matching(parse_filter("")))
    assert preview.notes[-1] == note
    preview.close()


@pytest.mark.parametrize("text", ["", "json.even"])
async def test_beside_consumers_none_is_lost_or_doubled(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stays where they are and are due first are chosen; what is received may match still."""
    received: set[str] = set()

    def receive(_: ScanProgress) -> None:
        received.update(each.id for each in queues.receive_messages("a", 20))

    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(text), 500), receive)
    assert received
    assert preview.selection is not None
    chosen = [each.id.decode() for each in preview.selection]
    assert len(chosen) == len(set(chosen)) == 500
    stayed = [id for id in ids if id not in received]
    of_these = [id for id in chosen if id not in received]
    assert of_these == stayed[: len(of_these)]
    report = await triage.run(preview).to_end()

    assert report.tally.done + report.tally.skipped.total() == 500
    left = {id.decode() for id, _ in everything(client)[b"rsmq:a"]}
    assert left == set(ids) - set(chosen if text else of_these)
    assert text or received <= left


async def test_scores_of_any_unit_and_odd_ones_keep_their_order(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("a")
    scores = {b"inf": "inf", b"early": "-1", b"seconds": "1700000000.5", b"\xff": "5", b"later": "1700000000000"}
    client.zadd("rsmq:a", {id: float(score) for id, score in scores.items()})
    client.hset("rsmq:a:Q", mapping=dict.fromkeys(scores, b"x"))
    for text in ("", "size<5"):
        for limit, expected in ((2, [b"early", b"\xff"]), (9, [b"early", b"\xff", b"seconds", b"later", b"inf"])):
            preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(text), limit))
            assert preview.selection is not None
            assert [each.id for each in preview.selection] == expected
            preview.close()


async def test_a_limit_of_what_could_not_be_searched(triage: ChangeService, queues: Rsmq) -> None:
    queues.create_queue("a", maxsize=-1)
    queues.send_messages("a", ["x" * 1_500_000, "needle", "needle"])
    report = await done(triage, Delete(queue="a"), Matching(parse_filter("needle"), 1))
    assert report.tally.done == 1
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter("needle"), 1))
    assert (preview.count, preview.unsearched) == (1, 1)
    preview.close()
