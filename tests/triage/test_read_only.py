"""Read-only: refused below every screen and command, without a file and without a command that could write."""

from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.triage.actions import Delete
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import READ_ONLY, ChangeService
from tests.hostile.keyspace import untouched
from tests.protocol.keyspace import everything
from tests.triage.doing import ACTIONS, done, fill


def files_in(folder: Path) -> dict[str, bytes]:
    """What is in the folder; it need not be there."""
    return {path.name: path.read_bytes() for path in folder.glob("*")} if folder.exists() else {}


@pytest.mark.parametrize("name", ACTIONS)
async def test_every_action_is_refused(client: Redis, redis_url: str, folder: Path, tmp_path: Path, name: str) -> None:
    fill(client)
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, read_only=True)

    with untouched(client), pytest.raises(TriageError, match=READ_ONLY):
        await service.preview(ACTIONS[name](tmp_path))

    assert files_in(folder) == {}
    await service.aclose()


async def test_undo_and_recovery_are_refused_too(client: Redis, redis_url: str, folder: Path) -> None:
    fill(client)
    writer = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    await done(writer, Delete(queue="a"))
    await writer.aclose()
    files = files_in(folder)
    assert files
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, read_only=True)

    with untouched(client):
        for change in (None, 1):
            with pytest.raises(TriageError, match=READ_ONLY):
                await service.preview_undo(change)
        assert await service.recover() == []

    assert files_in(folder) == files
    await service.aclose()


async def test_a_preview_of_another_desk_is_refused(
    triage: ChangeService, client: Redis, redis_url: str, folder: Path
) -> None:
    fill(client)
    preview = await triage.preview(Delete(queue="a"))
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, read_only=True)

    with untouched(client), pytest.raises(TriageError, match=READ_ONLY):
        service.run(preview)

    preview.close()
    await service.aclose()


async def test_a_user_without_permission_to_write_changes_nothing_and_is_told(
    client: Redis, redis_url: str, folder: Path
) -> None:
    fill(client)
    before = everything(client)
    client.acl_setuser("ann", enabled=True, passwords=["+secret"], keys="*", commands=["+@all", "-@write"])
    service = ChangeService(RsmqBackend(redis_url.replace("://", "://ann:secret@"), "rsmq"), folder)

    report = await done(service, Delete(queue="a"))

    assert report.stopped is not None
    assert "may not" in report.stopped
    assert not report.undoable
    assert everything(client) == before
    await service.aclose()
