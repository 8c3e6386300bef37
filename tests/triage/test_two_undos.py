"""Two programs that undo the same change at the same time: what it removed comes back once."""

import asyncio
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import Delete
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.triage.doing import done, undone
from tests.triage.list_doing import A, lay, list_changes, read

ITEMS = [b"item %d" % number for number in range(5)]


async def test_an_undo_is_refused_while_another_one_of_the_same_change_runs(
    client: Redis, redis_url: str, folder: Path
) -> None:
    names = ListNames()
    lay(client, names, A, ITEMS)
    first, second = (list_changes(redis_url, names, folder) for _ in range(2))
    await done(first, Delete(queue=A))
    previews = [await service.preview_undo() for service in (first, second)]
    running = aiter(first.run(previews[0]))
    await anext(running)

    with pytest.raises(TriageError, match="change 1 is being undone by another rsmq-tui"):
        await second.run(previews[1]).to_end()
    async for _ in running:
        pass

    assert read(client, names, A) == ITEMS
    for service in (first, second):
        await service.aclose()


async def test_what_was_left_when_it_was_previewed_is_what_is_undone_meanwhile(
    client: Redis, redis_url: str, folder: Path, triage: ChangeService
) -> None:
    queues, other = Rsmq(client), ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    queues.create_queue("q")
    queues.send_messages("q", ["x"] * 9_000)
    await done(triage, Delete(queue="q"))
    running = aiter(triage.run(await triage.preview_undo(1)))
    preview = await other.preview_undo(1)
    # The outcomes of a group of batches are written with a later one; how many are in a group depends on the time.
    while preview.count == 9_000:
        await anext(running)
        preview = await other.preview_undo(1)
    async for _ in running:
        pass

    report = await other.run(preview).to_end()

    assert 0 < preview.count < 9_000
    assert (report.tally.done, report.tally.skipped) == (0, {"undone meanwhile": preview.count})
    assert client.zcard("rsmq:q") == 9_000
    await other.aclose()


async def test_two_undos_at_once_put_items_back_once(client: Redis, redis_url: str, folder: Path) -> None:
    names = ListNames()
    lay(client, names, A, ITEMS)
    services = [list_changes(redis_url, names, folder) for _ in range(2)]
    await done(services[0], Delete(queue=A))
    previews = [await service.preview_undo() for service in services]

    ended = await asyncio.gather(
        *(service.run(preview).to_end() for service, preview in zip(services, previews, strict=True)),
        return_exceptions=True,
    )

    assert read(client, names, A) == ITEMS
    assert sum(isinstance(each, TriageError) or not each.tally.done for each in ended) == 1
    for service in services:
        await service.aclose()


async def test_an_undo_that_ended_does_not_stand_in_the_way(client: Redis, redis_url: str, folder: Path) -> None:
    names = ListNames()
    lay(client, names, A, ITEMS)
    service = list_changes(redis_url, names, folder)
    await done(service, Delete(queue=A))
    back = await undone(service)

    again = await undone(service, back.change)
    last = await undone(service)

    assert (back.tally.done, again.tally.done, last.tally.done) == (5, 5, 5)
    assert read(client, names, A) == ITEMS
    await service.aclose()
