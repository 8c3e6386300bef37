"""One change of several queues, beside consumers that go on: what they received since the preview stays."""

import asyncio
import threading
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.monitor import parse_filter
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import Delete
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Matching, Preview, ScanCallback, if_unchanged
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.triage.several import PreviewRequest, SeveralPreview, SeveralReport, preview_several, run_of
from tests.triage.consuming import consuming
from tests.triage.list_doing import list_changes

NUMBER = 3_000
SCOPE = if_unchanged(Matching(parse_filter("order")))


def requests_for(service: ChangeService, queues: Sequence[str]) -> list[PreviewRequest]:
    return [PreviewRequest(service, queue, partial(service.preview, Delete(queue=queue), SCOPE)) for queue in queues]


def undo_of(service: ChangeService, change: int | None, _: ScanCallback) -> Awaitable[Preview]:
    return service.preview_undo(change)


@contextmanager
def taking(url: str, key: str, taken: list[bytes]) -> Iterator[None]:
    """Take items of a list as a consumer does, as fast as the server answers."""
    is_over = threading.Event()

    def take() -> None:
        with Redis.from_url(url) as client:
            while not is_over.is_set():
                item = client.lmove(key, ListNames().processing_key(key), "RIGHT", "LEFT")
                if item is not None:
                    taken.append(item)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


async def test_nothing_is_deleted_that_a_consumer_received_since_the_preview(
    triage: ChangeService, client: Redis, queues: Rsmq, redis_url: str, folder: Path
) -> None:
    names = ["a", "b", "c"]
    sent = []
    for name in names:
        queues.create_queue(name, vt=600)
        sent.append(queues.send_messages(name, [f"order {number}" for number in range(NUMBER)]))
    client.lpush("l", *(f"order {number}" for number in range(NUMBER)))
    lists = list_changes(redis_url, ListNames(), folder)
    taken: list[bytes] = []
    async with aclosing(lists):
        preview = await preview_several([*requests_for(triage, names), *requests_for(lists, ["l"])], lambda _: None)
        # Both kinds are on one server, which is named once.
        assert [words for label, words in preview.rows if label == "on"] == [f"{triage.server}, ns rsmq"]
        assert isinstance(preview, SeveralPreview)
        assert (preview.count, len(preview.parts)) == (4 * NUMBER, 4)
        with ExitStack() as running:
            consumers = [running.enter_context(consuming(redis_url, name, 600)) for name in names]
            running.enter_context(taking(redis_url, "l", taken))
            for consumer, ids in zip(consumers, sent, strict=True):
                await asyncio.to_thread(consumer.wait_for, ids[:20], 1)
            run = run_of(triage, preview)
            async for _ in run:
                pass
        report = run.report
        assert isinstance(report, SeveralReport)
        for name, consumer, (_, each) in zip(names, consumers, report.reports, strict=False):
            left = {id.decode() for id in client.zrange(f"rsmq:{name}", 0, -1)}
            assert left == consumer.last.keys()
            assert each.tally.done == NUMBER - len(left)
            assert each.tally.done > 0
        left_over = client.lrange(ListNames().processing_key("l"), 0, -1)
        assert sorted(left_over) == sorted(taken)
        assert report.tally.handled == 4 * NUMBER
        assert report.tally.skipped.total() == sum(len(consumer.last) for consumer in consumers) + len(taken)
        # Undo puts back what was deleted, change by change.
        undos = [
            PreviewRequest(service, each.queue, partial(undo_of, service, each.change))
            for service, each in reversed(report.reports)
        ]
        undo = run_of(triage, await preview_several(undos, lambda _: None))
        async for _ in undo:
            pass
        assert undo.report is not None
        assert undo.report.tally.done == report.tally.done
        assert [client.zcard(f"rsmq:{name}") for name in names] == [NUMBER] * 3


async def test_a_queue_that_cannot_be_changed_is_left_out_and_an_early_end_is_told(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    for name in ("a", "b", "empty"):
        queues.create_queue(name)
    for name in ("a", "b"):
        queues.send_messages(name, ["order"] * 3)
    preview = await preview_several(requests_for(triage, ["a", "missing", "b", "empty"]), lambda _: None)
    assert isinstance(preview, SeveralPreview)
    assert [part.action.queue for _, part in preview.parts] == ["a", "b"]
    assert [words.partition(":")[0] for words in preview.refused] == ["missing"]
    assert preview.title == "Delete 6 messages in 2 queues"
    assert [words for label, words in preview.rows if label == "from"] == ["a: 3, now 3 ready", "b: 3, now 3 ready"]
    assert dict(preview.rows)["undo"] == "kept in the journal for 7 days (rsmq-tui undo)"
    assert dict(preview.rows_with("f9"))["undo"] == "kept in the journal for 7 days (f9, or rsmq-tui undo)"
    run = run_of(triage, preview)
    run.stop()
    async for _ in run:
        pass
    assert run.report is not None
    assert (run.report.sentence, run.report.undoable) == ("deleted 0, skipped 0, failed 0; stopped on request", False)
    assert client.zcard("rsmq:a") == 3


async def test_previews_keep_only_the_start_of_each_body(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("long", maxsize=-1)
    queues.send_messages("long", ["order" * 10_000] * 2)
    preview = await preview_several(requests_for(triage, ["long"]), lambda _: None)
    assert [len(body) for body in preview.bodies] == [240, 240]
    assert ("bodies", f"{('order' * 12)[:59]}…") in preview.rows
    preview.close()


async def test_the_journal_must_have_room_for_the_changes_of_all_queues(
    client: Redis, queues: Rsmq, redis_url: str, folder: Path
) -> None:
    for name in ("a", "b"):
        queues.create_queue(name, maxsize=-1)
        queues.send_message(name, "order " + "x" * 600_000)
    triage = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, limit_bytes=1_000_000)
    async with aclosing(triage):
        alone = await preview_several(requests_for(triage, ["a"]), lambda _: None)
        alone.close()
        assert alone.count == 1
        with pytest.raises(TriageError, match=r"would need 1\.1 MiB for 2 messages"):
            await preview_several(requests_for(triage, ["a", "b"]), lambda _: None)
