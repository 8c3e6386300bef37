"""A kind of queue is one entry of the table: with it, a toy kind is polled, shown, read and changed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from rsmq_tui.monitor import PageRequest
from rsmq_tui.monitor.fleet import Fleet
from rsmq_tui.protocol.kinds import KINDS, kind_named, kind_of, read_reference
from rsmq_tui.triage.actions import Delete, Purge
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.scope import Named
from rsmq_tui.triage.service import ChangeService
from tests.cli.running import printed
from tests.kinds.toy import TOY, ToyBackend, ToyPoller

QUEUE, FAR_MS = "toys:wood", 9_999_999_999_999
TOYS = {"ball": 1, "kite": 2, "train": FAR_MS}


@pytest.fixture(autouse=True)
def one_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, TOY.name, TOY)


@pytest.fixture(autouse=True)
def toys(client: redis.Redis) -> None:
    client.zadd(QUEUE, TOYS)


@pytest.fixture
async def poller(redis_url: str) -> AsyncIterator[ToyPoller]:
    polling = ToyPoller(redis_url, [QUEUE], place="toys")
    yield polling
    await polling.aclose()


@pytest.fixture
async def service(redis_url: str, tmp_path: Path) -> AsyncIterator[ChangeService]:
    changing = ChangeService(ToyBackend(redis_url), tmp_path)
    yield changing
    await changing.aclose()


def test_the_table_knows_it() -> None:
    assert kind_named("toy") is kind_of("(toys)") is TOY
    found = read_reference("toy:toys:wood", "rsmq")
    assert found is not None
    assert (found.kind, found.queue, found.text) == (TOY, QUEUE, "toy:toys:wood")


async def test_it_is_polled_alone_and_beside_others(poller: ToyPoller) -> None:
    snapshot = await poller.poll()
    (queue,) = snapshot.queues

    assert (queue.name, queue.kind, queue.depth, queue.ready, queue.hidden) == (QUEUE, "toy", 3, 2, 1)
    assert Fleet(["toys"]).combine(snapshot).ns == "(toys)"


async def test_it_is_read(poller: ToyPoller) -> None:
    page = await poller.peek(PageRequest(QUEUE))
    view = await poller.read(QUEUE, "ball")

    assert [(row.id, row.state) for row in page.rows] == [("ball", "ready"), ("kite", "ready"), ("train", "delayed")]
    assert view.body == b"ball"


async def test_it_is_changed_and_the_change_undone(service: ChangeService, client: redis.Redis) -> None:
    preview = await service.preview(Delete(queue=QUEUE), Named(("ball", "train")))
    assert (preview.title, preview.count, dict(preview.rows)["from"]) == (
        "Delete 2 messages",
        2,
        f"{QUEUE} on {service.server}",
    )
    report = await service.run(preview).to_end()
    assert report.sentence == "deleted 2, skipped 0, failed 0"
    assert client.zrange(QUEUE, 0, -1) == [b"kite"]

    undo = await service.preview_undo()
    assert undo.count == 2
    assert (await service.run(undo).to_end()).tally.done == 2
    assert client.zrange(QUEUE, 0, -1, withscores=True) == [(name.encode(), at) for name, at in TOYS.items()]


async def test_what_changed_meanwhile_is_left_alone(service: ChangeService, client: redis.Redis) -> None:
    preview = await service.preview(Delete(queue=QUEUE))
    client.zadd(QUEUE, {"ball": 7})
    client.zrem(QUEUE, "kite")

    report = await service.run(preview).to_end()

    assert report.sentence == ("deleted 1, skipped 2 (1 received or changed meanwhile, 1 gone meanwhile), failed 0")


async def test_a_change_that_was_interrupted_is_settled(
    service: ChangeService, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = service.run(await service.preview(Delete(queue=QUEUE)))
    # The program ends when all is done, and before that is written down.
    monkeypatch.setattr(Journal, "record", _end)
    with pytest.raises(KeyboardInterrupt):
        await run.to_end()
    monkeypatch.undo()
    monkeypatch.setitem(KINDS, TOY.name, TOY)

    later = ChangeService(ToyBackend(redis_url), tmp_path)
    (change,) = await later.recover()
    assert (change.ns, change.done, change.can_be_undone) == ("(toys)", 3, True)
    assert (await later.preview_undo(change.change)).count == 3
    await later.aclose()


async def test_what_it_does_not_do_is_refused(service: ChangeService) -> None:
    with pytest.raises(TriageError, match="toys can only be deleted"):
        await service.preview(Purge(queue=QUEUE))


def _end(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_data_source_refuses_a_kind_that_it_does_not_read() -> None:
    program = """
from rsmq_tui.protocol.kinds import KINDS
from tests.kinds.toy import TOY
KINDS[TOY.name] = TOY
from rsmq_tui.pipeline.datasource.options import SourceError, read_options
try:
    read_options({"url": "redis://localhost", "kind": TOY.name, "lists": "a"})
except SourceError as error:
    print(error)
"""
    assert "option kind is one of rsmq, list, not toy" in printed(program)
