"""A limit: so many messages as are due first are chosen, whatever consumers do meanwhile, in memory of that many."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from rsmq_tui.monitor.filters import parse_filter
from rsmq_tui.protocol import RawMessage, Rsmq
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.pages import QueuePages, RawPage
from rsmq_tui.triage import due_first as module
from rsmq_tui.triage.actions import Action, Copy, Delete, Hide, Move, Redrive, Release
from rsmq_tui.triage.desk import Triage
from rsmq_tui.triage.due_first import DueFirst
from rsmq_tui.triage.previewing import Seeing
from rsmq_tui.triage.previews import Matching
from tests.triage.doing import done, undone
from tests.triage.keyspace import contents

AT_MS = 1_700_000_000_000
ACTIONS: dict[str, Callable[[], Action]] = {
    "delete": lambda: Delete(queue="a"),
    "hide": lambda: Hide(queue="a", seconds=100),
    "release": lambda: Release(queue="a"),
    "move": lambda: Move(queue="a", target="b"),
    "copy": lambda: Copy(queue="a", target="b"),
    "redrive": lambda: Redrive(queue="a", target="b"),
}


def message(number: int, score: bytes) -> RawMessage:
    return RawMessage(b"%02d" % number, score, None, None, 1, b"x")


@given(
    numbers=st.lists(st.integers(0, 99), unique=True, max_size=60),
    scores=st.lists(st.sampled_from([b"1", b"2", b"1e13", b"-5", b"inf", b"2.5"]), min_size=60, max_size=60),
    limit=st.integers(1, 12),
    step=st.integers(1, 20),
)
def test_any_order_gives_the_same(numbers: list[int], scores: list[bytes], limit: int, step: int) -> None:
    messages = [message(number, score) for number, score in zip(numbers, scores, strict=False)]
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "_SORTED_AT_LEAST", 1)
    first, most = DueFirst(limit), 0
    try:
        for start in range(0, len(messages), step):
            first.add(messages[start : start + step], AT_MS)
            most = max(most, len(first._kept))
    finally:
        patch.undo()

    expected = sorted(messages, key=lambda each: (float(each.score), each.id))[:limit]
    assert [each for _, _, each, _ in first.chosen()] == [each._replace(body=None) for each in expected]
    assert first.matched == len(messages)
    assert most <= 2 * limit + step


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


def even(client: Redis, ids: Sequence[str]) -> list[str]:
    return [id for id in ids if b'"even": true' in (client.hget("rsmq:a:Q", id) or b"")]


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("text", ["", "json.even=true", "rc<1 json.even=true"])
async def test_each_action_is_for_those_due_first(
    triage: Triage, client: Redis, ids: list[str], name: str, text: str
) -> None:
    expected = (even(client, ids) if text else ids)[:600]
    before = contents(client)

    preview = await triage.preview(ACTIONS[name](), Matching(parse_filter(text), 600))
    assert preview.selection is not None
    assert [each.id.decode() for each in preview.selection] == expected
    of = f"650 that match {text}, in the whole queue" if text else "1,300 messages of the queue"
    assert preview.what == f"the 600 due first of {of}"
    if name in ("delete", "move", "redrive"):
        assert all(each.size for each in preview.selection)
    report = await triage.run(preview).to_end()

    assert (report.tally.done, report.tally.skipped, report.tally.failed) == (600, {}, {})
    if name == "delete":
        assert {id for id, _ in contents(client)[b"rsmq:a"]} == {id.encode() for id in set(ids) - set(expected)}
    await undone(triage)
    assert contents(client) == before


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "all 3 messages of the queue"),
        ("body", "all 3 that match body, in the whole queue"),
        ('"body 1"', 'all 1 that match "body 1", in the whole queue'),
        ("nothing like it", "all 0 that match nothing like it, in the whole queue"),
    ],
)
@pytest.mark.parametrize("limit", [3, 1_000_000])
async def test_a_limit_that_leaves_nothing_out(triage: Triage, queues: Rsmq, text: str, what: str, limit: int) -> None:
    queues.create_queue("a")
    queues.send_messages("a", [f"body {number}" for number in range(3)])
    seen: list[Seeing] = []
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(text), limit), seen.append)

    assert preview.what == what
    assert seen[-1] == (3, 3, preview.count)
    preview.close()


async def test_of_a_queue_without_messages_there_are_none(triage: Triage, queues: Rsmq) -> None:
    queues.create_queue("a")
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(""), 3))
    assert (preview.count, preview.what) == (0, "all 0 messages of the queue")
    preview.close()


async def test_the_body_of_the_only_one_is_shown(triage: Triage, queues: Rsmq) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["first", "second"])
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter("!body:none"), 1))
    assert ("body", "first") in preview.rows
    preview.close()


async def test_only_the_front_is_read_where_all_match(
    triage: Triage, client: Redis, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    honest = QueuePages.page

    async def counting(self: QueuePages, queue: str, **how: Any) -> RawPage:
        page = await honest(self, queue, **how)
        asked.append(len(page.messages))
        return page

    monkeypatch.setattr(QueuePages, "page", counting)
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(""), 7))
    assert asked == [7]
    preview.close()


async def test_what_is_received_while_the_front_is_read_is_due_later(
    triage: Triage, client: Redis, queues: Rsmq, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = QueueEditor.seen
    meddling = [True]

    async def beside(self: QueueEditor, queue: str, some: Sequence[bytes]) -> tuple[int, list[RawMessage | None]]:
        # Between the first page and the look at its messages: the three due first.
        if meddling.pop():
            queues.receive_messages("a", 3)
        meddling.append(False)
        return await honest(self, queue, some)

    monkeypatch.setattr(QueueEditor, "seen", beside)
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(""), 400))
    assert preview.selection is not None
    assert [each.id.decode() for each in preview.selection] == ids[3:403]
    preview.close()
    # Where all are meant, they are met again where they are due now.
    meddling[:] = [True]
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(""), 1_300))
    assert preview.selection is not None
    assert [each.id.decode() for each in preview.selection] == [*ids[6:], *sorted(ids[:3]), *sorted(ids[3:6])]
    preview.close()


@pytest.mark.parametrize("text", ["", "json.even"])
async def test_beside_consumers_none_is_lost_or_doubled(
    triage: Triage, client: Redis, queues: Rsmq, ids: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stays where they are and are due first are chosen; what is received meanwhile is left alone."""
    received: set[str] = set()

    def receive(_: Seeing) -> None:
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
    left = {id.decode() for id, _ in contents(client)[b"rsmq:a"]}
    assert received <= left
    assert left == set(ids) - set(of_these)


async def test_scores_of_any_unit_and_odd_ones_keep_their_order(triage: Triage, client: Redis, queues: Rsmq) -> None:
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


async def test_a_limit_of_what_could_not_be_searched(triage: Triage, queues: Rsmq) -> None:
    queues.create_queue("a", maxsize=-1)
    queues.send_messages("a", ["x" * 1_500_000, "needle", "needle"])
    report = await done(triage, Delete(queue="a"), Matching(parse_filter("needle"), 1))
    assert report.tally.done == 1
    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter("needle"), 1))
    assert (preview.count, preview.unsearched) == (1, 1)
    preview.close()
