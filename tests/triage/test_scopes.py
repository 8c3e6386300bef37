"""What a change is for: marked messages as they were shown, named ones, what matches in the whole queue, everything."""

import pytest
from redis import Redis

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.actions import Copy, Delete, DeleteQueue, Hide, Move
from rsmq_tui.triage.scope import Everything, Marked, Matching, Named, ScanProgress, Scope, Shown
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import done, undone
from tests.triage.keyspace import ODD, lay, message


@pytest.fixture
def ids(queues: Rsmq) -> list[str]:
    queues.create_queue("a", vt=1000)
    return queues.send_messages("a", [f"body {number}" for number in range(6)])


def shown(client: Redis, *ids: str) -> Marked:
    """These messages as a screen shows them now."""
    rows = []
    for id in ids:
        score = client.execute_command("ZSCORE", "rsmq:a", id)
        rc = client.hget("rsmq:a:Q", f"{id}:rc")
        rows.append(Shown(id, f"{score:.17g}", int(rc or 0)))
    return Marked(tuple(rows))


async def test_marked_messages_and_no_others(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    queues.receive_message("a")
    preview = await triage.preview(Delete(queue="a"), shown(client, ids[0], ids[3]))

    assert (preview.count, preview.elsewhere, preview.title) == (2, 0, "Delete 2 messages")
    assert ("that", "the 2 marked messages") in preview.rows
    assert ("now", "1 ready · 1 in flight (a consumer may be working on it)") in preview.rows
    report = await triage.run(preview).to_end()

    assert report.sentence == "deleted 2, skipped 0, failed 0"
    assert {id for id, _ in everything(client)[b"rsmq:a"]} == {ids[number].encode() for number in (1, 2, 4, 5)}


async def test_marked_messages_that_changed_since_they_were_shown_are_left_out(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    marked = shown(client, *ids)
    queues.receive_message("a")
    queues.change_message_visibility("a", ids[1], 500)
    queues.delete_message("a", ids[2])
    before = everything(client)

    preview = await triage.preview(Delete(queue="a"), marked)
    assert (preview.count, preview.elsewhere) == (3, 3)
    report = await triage.run(preview).to_end()

    assert report.tally.done == 3
    assert {id for id, _ in everything(client)[b"rsmq:a"]} == {id.encode() for id in ids[:2]}
    await undone(triage)
    assert everything(client) == before


async def test_a_message_marked_twice_is_changed_once(triage: ChangeService, client: Redis, ids: list[str]) -> None:
    report = await done(triage, Delete(queue="a"), shown(client, ids[0], ids[0]))

    assert report.tally.done == 1
    assert client.zcard("rsmq:a") == 5
    await undone(triage)
    assert client.zcard("rsmq:a") == 6


async def test_many_marked_messages(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")
    ids = queues.send_messages("a", ["x"] * 1_300)

    report = await done(triage, Hide(queue="a", seconds=1000), shown(client, *ids[:1_200]))

    assert report.tally.done == 1_200
    assert queues.get_queue_attributes("a").hiddenmsgs == 1_200


async def test_odd_messages_can_be_marked(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")
    lay(client, "a", *(odd._replace(id=b"%d " % number + odd.id) for number, odd in enumerate(ODD.values())))
    before = everything(client)
    preview = await triage.preview(Delete(queue="a"), Everything())
    assert preview.selection is not None
    # As rows show them: an id that is no UTF-8, and a count that is no number.
    rows = tuple(
        Shown(
            seen.id.decode("utf-8", "surrogateescape"),
            seen.score.decode(),
            int(seen.rc or 0) if _counts(seen.rc) else 0,
        )
        for seen in preview.selection
    )
    preview.close()

    report = await done(triage, Delete(queue="a"), Marked(rows))

    assert report.tally.done == len(ODD)
    assert not client.exists("rsmq:a")
    await undone(triage)
    assert everything(client) == before


def _counts(rc: bytes | None) -> bool:
    return rc is not None and rc.isdigit()


async def test_named_messages(triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]) -> None:
    queues.receive_message("a")

    preview = await triage.preview(Delete(queue="a"), Named((ids[0], "missing", ids[2], ids[2])))
    assert (preview.count, preview.elsewhere) == (2, 1)
    report = await triage.run(preview).to_end()

    assert report.tally.done == 2
    assert client.zcard("rsmq:a") == 4


@pytest.mark.parametrize(
    ("text", "limit", "matched"),
    [
        ("body", None, {0, 1, 2, 3, 4, 5}),
        ("body~[24]$", None, {2, 4}),
        ("rc>=1", None, {0}),
        ("!state:inflight", None, {1, 2, 3, 4, 5}),
        ("", None, {0, 1, 2, 3, 4, 5}),
        ('"body 3"', 1, {3}),
        ("nothing like it", None, set()),
    ],
)
async def test_what_matches_in_the_whole_queue(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], text: str, limit: int | None, matched: set[int]
) -> None:
    queues.receive_message("a")
    before = everything(client)

    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter(text), limit))
    assert preview.count == len(matched)
    report = await triage.run(preview).to_end()

    assert report.tally.done == len(matched)
    left = {id for id, _ in everything(client).get(b"rsmq:a", [])}
    assert left == {id.encode() for number, id in enumerate(ids) if number not in matched}
    if matched:
        await undone(triage)
    assert everything(client) == before


async def test_bodies_that_are_too_long_to_be_searched_are_counted(triage: ChangeService, queues: Rsmq) -> None:
    queues.create_queue("a", maxsize=-1)
    queues.send_messages("a", ["needle", "x" * 1_500_000])

    preview = await triage.preview(Delete(queue="a"), Matching(parse_filter("needle")))
    assert (preview.count, preview.unsearched) == (1, 1)
    preview.close()


@pytest.mark.parametrize("scope", [None, Everything(), Matching(parse_filter(""))])
async def test_everything_also_what_is_hidden(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str], scope: Scope | None
) -> None:
    queues.receive_messages("a", 2)

    preview = await triage.preview(Delete(queue="a"), scope)
    assert preview.count == 6
    assert (await triage.run(preview).to_end()).tally.done == 6
    assert not client.exists("rsmq:a")


async def test_the_look_says_how_far_it_has_come(triage: ChangeService, queues: Rsmq) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["x"] * 900)
    sentence: list[ScanProgress] = []

    preview = await triage.preview(Delete(queue="a"), None, sentence.append)

    assert preview.count == 900
    assert [progress.scanned for progress in sentence] == sorted(progress.scanned for progress in sentence)
    assert (sentence[-1].scanned, sentence[-1].depth, sentence[-1].matched) == (900, 900, 900)
    preview.close()


async def test_a_preview_says_what_will_be(triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]) -> None:
    queues.create_queue("b")

    for action, title in (
        (Move(queue="a", target="b"), "Move 6 messages"),
        (DeleteQueue(queue="a"), "Delete queue a and its 6 messages"),
        (Copy(queue="a", target="new", create=True), "Copy 6 messages"),
    ):
        preview = await triage.preview(action)
        assert preview.title == title
        assert ("from", f"a on {triage.server}, ns rsmq") in preview.rows
        preview.close()


async def test_a_preview_that_is_not_wanted_leaves_nothing(
    triage: ChangeService, client: Redis, ids: list[str]
) -> None:
    before = everything(client)

    preview = await triage.preview(Delete(queue="a"))
    preview.close()

    assert everything(client) == before


async def test_an_empty_queue_is_nothing_to_do(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")

    preview = await triage.preview(Delete(queue="a"))
    report = await triage.run(preview).to_end()

    assert (preview.count, report.tally.done, report.undoable) == (0, 0, False)


async def test_messages_of_a_queue_that_is_broken_can_be_changed(triage: ChangeService, client: Redis) -> None:
    lay(client, "a", message(), message(b"two"))
    before = everything(client)

    for action in (Hide(queue="a", seconds=5), Delete(queue="a")):
        assert (await done(triage, action)).tally.done == 2
        await undone(triage)
        assert everything(client) == before
