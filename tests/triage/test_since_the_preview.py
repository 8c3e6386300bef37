"""Queues and files that are not what the preview showed any more: nothing is done to them."""

import os
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.actions import DeleteQueue, Import, SetAttributes
from rsmq_tui.triage.scope import ScanProgress
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import to_import

SKIPPED = "received or changed meanwhile"


async def test_attributes_that_somebody_changed_stay(triage: ChangeService, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("a")
    preview = await triage.preview(SetAttributes(queue="a", vt=60))
    assert preview.what == "vt 30 s -> 60 s"
    queues.set_queue_attributes("a", vt=45)
    before = everything(client)

    report = await triage.run(preview).to_end()

    assert (report.tally.done, dict(report.tally.skipped)) == (0, {SKIPPED: 1})
    assert everything(client) == before


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("made again", "the queue was not changed: it was recreated"),
        ("changed", "the queue was not changed: its attributes have changed"),
        ("deleted", "the queue was already deleted"),
    ],
)
async def test_a_queue_that_is_another_is_not_deleted(
    triage: ChangeService, client: Redis, queues: Rsmq, other: str, words: str
) -> None:
    queues.create_queue("a")
    queues.send_message("a", "x")
    preview = await triage.preview(DeleteQueue(queue="a"))
    if other == "changed":
        queues.set_queue_attributes("a", delay=5)
    else:
        queues.delete_queue("a")
    if other == "made again":
        queues.create_queue("a")
        client.hset("rsmq:a:Q", "created", "1")
    before = everything(client)

    report = await triage.run(preview).to_end()

    assert (report.tally.done, dict(report.tally.skipped)) == (0, {words: 2})
    assert report.sentence == f"deleted 0, skipped 2 ({words}), failed 0"
    assert everything(client) == before


async def test_a_queue_that_is_changed_while_it_is_emptied_stays(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["x"] * 3_000)

    run = triage.run(await triage.preview(DeleteQueue(queue="a")))
    async for tally in run:
        if tally.done < 3_000:
            queues.set_queue_attributes("a", vt=5)

    assert run.report is not None
    sentence = "the queue was not changed: its attributes have changed"
    assert (run.report.tally.done, dict(run.report.tally.skipped)) == (3_000, {sentence: 1})
    assert queues.get_queue_attributes("a").vt == 5


@pytest.mark.parametrize("change", ["replaced", "written to", "same length"])
async def test_another_file_is_not_imported(
    triage: ChangeService, client: Redis, queues: Rsmq, tmp_path: Path, change: str
) -> None:
    queues.create_queue("a")
    before = everything(client)
    path = to_import(tmp_path, '{"id": "one", "score": 1}\n')
    preview = await triage.preview(Import(queue="a", path=path))
    match change:
        case "replaced":
            other = tmp_path / "other"
            other.write_text('{"id": "two", "score": 1}\n')
            other.replace(path)
        case "written to":
            path.write_text('{"id": "one", "score": 1}\n{"id": "two", "score": 1}\n')
        case "same length":
            path.write_text('{"id": "two", "score": 1}\n')
            os.utime(path, ns=(0, 0))

    report = await triage.run(preview).to_end()

    assert report.stopped is not None
    assert report.stopped.endswith("changed since the preview: preview it again")
    assert everything(client) == before


async def test_a_look_at_a_file_tells_how_far_it_is(triage: ChangeService, queues: Rsmq, tmp_path: Path) -> None:
    queues.create_queue("a")
    path = to_import(tmp_path, "".join(f'{{"id": "{number}", "score": 1}}\n' for number in range(1_200)))
    seen: list[ScanProgress] = []

    preview = await triage.preview(Import(queue="a", path=path), on_progress=seen.append)

    assert preview.count == 1_200
    assert [progress.scanned for progress in seen] == [500, 1_000, 1_200]
