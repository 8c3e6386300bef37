"""Where dead letters would go is told before anything is done, and of how many nothing says it."""

import pytest
from redis import Redis

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.actions import Delete, Move, Redrive
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.scope import SAME_MESSAGE, Everything, Matching, Named, Preview, Scope
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import done


@pytest.fixture
async def ids(triage: ChangeService, queues: Rsmq) -> list[str]:
    """Dead letters of a queue whose name says nothing: two came from a, one from b by way of a, and two are unknown."""
    for name in ("a", "b", "graveyard"):
        queues.create_queue(name)
    one, two = queues.send_messages("a", ["one", "two"])
    (three,) = queues.send_messages("b", ["three"])
    await done(triage, Move(queue="b", target="a"), Everything())
    await done(triage, Move(queue="a", target="graveyard"), Named((three,)))
    await done(triage, Move(queue="graveyard", target="b"), Everything())
    await done(triage, Move(queue="b", target="graveyard"), Everything())
    await done(triage, Move(queue="a", target="graveyard"), Everything())
    return [one, two, three, *queues.send_messages("graveyard", ["four", "five"])]


def _told(preview: Preview) -> tuple[str, ...]:
    """What is said of where they go, without what becomes of due times there."""
    said = "There they are visible at once, and count as never received."
    assert (said in preview.notes) == (preview.count > 0)
    return tuple(note for note in preview.notes if note != said)


async def _preview(triage: ChangeService, scope: Scope | None = None, **how: str) -> Preview:
    preview = await triage.preview(Redrive(queue="graveyard", **how), scope)
    preview.close()
    return preview


async def test_those_of_unknown_origin_are_counted_and_that_is_what_fails(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    preview = await triage.preview(Redrive(queue="graveyard"))
    assert _told(preview) == (
        SAME_MESSAGE.sentence,
        "Each goes to its source queue, as recorded in the journal.",
        "2 of these have no known origin: they fail and stay here.",
    )
    report = await triage.run(preview).to_end()

    assert (report.tally.done, dict(report.tally.failed)) == (3, {"its source queue is unknown": 2})
    assert client.zrange("rsmq:b", 0, -1) == [ids[2].encode()]
    assert client.zcard("rsmq:a") == 2
    assert client.zcard("rsmq:graveyard") == 2


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ((0, 1, 2), None),
        ((0, 3), "1 of these has no known origin: it fails and stays here."),
        ((3,), "It has no known origin: it fails and stays here."),
        ((3, 4), "All 2 have no known origin: they fail and stay here."),
    ],
)
async def test_it_is_about_the_selected_ones_alone(
    triage: ChangeService, ids: list[str], numbers: tuple[int, ...], sentence: str | None
) -> None:
    preview = await _preview(triage, Named(tuple(ids[number] for number in numbers)))
    assert _told(preview)[2:] == (() if sentence is None else (sentence,))


async def test_with_a_filter_and_a_limit(triage: ChangeService, client: Redis, ids: list[str]) -> None:
    client.zadd("rsmq:graveyard", {ids[4]: 1})
    preview = await _preview(triage, Matching(parse_filter("!body:nothing"), 2))
    assert _told(preview)[2:] == ("1 of these has no known origin: it fails and stays here.",)


async def test_nothing_selected_has_nothing_to_be_told(triage: ChangeService, ids: list[str]) -> None:
    preview = await _preview(triage, Matching(parse_filter("no such body")))
    assert _told(preview)[2:] == ()


async def test_a_queue_that_is_no_more_is_told(triage: ChangeService, queues: Rsmq, ids: list[str]) -> None:
    queues.delete_queue("a")
    preview = await triage.preview(Redrive(queue="graveyard"))
    assert _told(preview)[2:] == (
        "2 of these have no known origin: they fail and stay here.",
        "2 of these have to go to a, which does not exist: they fail and stay here.",
    )
    report = await triage.run(preview).to_end()
    assert dict(report.tally.failed) == {"its source queue is unknown": 2, "the target queue does not exist": 2}


async def test_a_key_that_is_no_queue_is_told(
    triage: ChangeService, client: Redis, queues: Rsmq, ids: list[str]
) -> None:
    queues.delete_queue("a")
    client.set("rsmq:a", "x")
    preview = await _preview(triage)
    assert _told(preview)[3:] == ("2 of these have to go to a, which is not a queue: they fail and stay here.",)


async def test_the_name_of_the_queue_is_an_origin_where_it_is_one(triage: ChangeService, queues: Rsmq) -> None:
    queues.create_queue("orders-dlq")
    queues.send_messages("orders-dlq", ["x", "y"])
    preview = await triage.preview(Redrive(queue="orders-dlq"))
    assert _told(preview)[1:] == (
        "Each goes to its source queue, as recorded in the journal, else to orders, by the name of this queue.",
        "All 2 have to go to orders, which does not exist: they fail and stay here.",
    )
    preview.close()
    queues.create_queue("orders")
    preview = await triage.preview(Redrive(queue="orders-dlq"))
    assert len(_told(preview)) == 2
    preview.close()


async def test_bodies_are_not_read_and_what_happens_then_is_told(triage: ChangeService, ids: list[str]) -> None:
    preview = await _preview(triage, origin="meta.queue")
    assert _told(preview)[1:] == (
        "Each goes to the queue at meta.queue in its body. Bodies are read when the change runs: a message that"
        " names no queue, or one that does not exist, fails and stays here.",
    )


async def test_a_path_that_is_none_is_refused_before_anything_is_done(triage: ChangeService, ids: list[str]) -> None:
    with pytest.raises(TriageError, match="is not a JSON path"):
        await _preview(triage, origin="meta..queue")


async def test_a_named_target_needs_no_origin(triage: ChangeService, client: Redis, ids: list[str]) -> None:
    before = everything(client)
    preview = await _preview(triage, target="a")
    assert len(_told(preview)) == 1
    assert everything(client) == before
    assert (await done(triage, Delete(queue="graveyard"))).tally.done == 5
