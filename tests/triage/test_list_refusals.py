"""What is refused of list queues whatever lies in them: all of it to who may only look, and keys of several slots."""

from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import Delete, Move
from rsmq_tui.triage.errors import TriageError
from tests.protocol.keyspace import everything
from tests.triage.doing import audit_lines
from tests.triage.list_doing import ITEMS, NAMES, A, B, fill, lay, list_changes


async def test_read_only_refuses_below_everything(redis_url: str, folder: Path, client: Redis) -> None:
    fill(client, NAMES["right"])
    before = everything(client)
    service = list_changes(redis_url, NAMES["right"], folder, read_only=True)
    for ask in (lambda: service.preview(Delete(queue=A)), service.preview_undo):
        with pytest.raises(TriageError, match="read-only"):
            await ask()
    assert await service.recover() == []
    assert everything(client) == before
    assert not audit_lines(folder)
    await service.aclose()


async def test_in_a_cluster_keys_of_several_slots_are_refused(
    redis_url: str, folder: Path, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(client, NAMES["right"], A, ITEMS)
    tagged = ListNames(processing="{{queue}}:processing", leases="{{queue}}:leases")
    lists, with_tags = (list_changes(redis_url, names, folder) for names in (NAMES["right"], tagged))
    monkeypatch.setattr("rsmq_tui.protocol.connections.pool.ConnectionManager.is_cluster", True)
    with pytest.raises(TriageError, match="one hash tag"):
        await lists.preview(Delete(queue=A))
    (await with_tags.preview(Delete(queue=A))).close()
    with pytest.raises(TriageError, match="queue:a and queue:b are in different slots"):
        await with_tags.preview(Move(queue=A, target=B))
    await lists.aclose()
    await with_tags.aclose()
