"""Exports: every message or a word of what is missing, in the namespace that they began in, a little at a time."""

import json
from contextlib import aclosing
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.triage.actions import CreateQueue, SetAttributes
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.export import Exported
from rsmq_tui.triage.rsmq import backend
from rsmq_tui.triage.scope import Everything, Named, Scope
from rsmq_tui.triage.service import ChangeService
from tests.triage.doing import done

MIB = 1 << 20


async def _export(triage: ChangeService, scope: Scope, path: Path) -> Exported:
    parts = [part async for part in triage.export("a", scope, path)]
    return parts[-1]


def _bodies(path: Path) -> list[str]:
    return [json.loads(line)["body"] for line in path.read_text().splitlines()]


async def test_an_export_stays_in_its_namespace(
    triage: ChangeService, client: Redis, queues: Rsmq, redis_url: str, tmp_path: Path
) -> None:
    elsewhere = Rsmq(client, ns="mail")
    for rsmq, letter in ((queues, "h"), (elsewhere, "e")):
        rsmq.create_queue("a", maxsize=-1)
        for number in range(4):
            id = rsmq.send_message("a", f"{number}")
            client.hset(f"{rsmq.ns}:a:Q", id, letter * (3 * MIB + number))
    path = tmp_path / "out"
    parts = []

    async for part in triage.export("a", Everything(), path):
        parts.append(part)
        triage.watch("mail")

    assert {body[0] for body in _bodies(path)} == {"h"}
    assert parts[-1][1:] == (4, 0, 0, 0, False)
    assert (await _export(triage, Everything(), tmp_path / "there")).written == 4
    assert {body[0] for body in _bodies(tmp_path / "there")} == {"e"}


async def test_a_file_that_appears_meanwhile_is_left_as_it_is(
    triage: ChangeService, queues: Rsmq, tmp_path: Path
) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["x"] * 5)
    path = tmp_path / "out" / "a.jsonl"
    path.parent.mkdir()

    parts = triage.export("a", Everything(), path)
    await anext(parts)
    # Until it is whole there is nothing of that name.
    assert not path.exists()
    path.write_text("somebody's")
    with pytest.raises(TriageError, match=r"a.jsonl: File exists"):
        await anext(parts)

    assert [(file.name, file.read_text()) for file in path.parent.iterdir()] == [("a.jsonl", "somebody's")]


async def test_an_export_that_is_given_up_leaves_nothing(triage: ChangeService, queues: Rsmq, tmp_path: Path) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["x"] * 5)
    folder = tmp_path / "out"
    folder.mkdir()

    async with aclosing(triage.export("a", Everything(), folder / "a.jsonl")) as parts:
        async for _ in parts:
            break

    assert list(folder.iterdir()) == []


async def test_what_is_too_long_or_gone_is_counted(
    triage: ChangeService, client: Redis, queues: Rsmq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.create_queue("a", maxsize=-1)
    ids = queues.send_messages("a", ["x"] * 5)
    client.hset("rsmq:a:Q", ids[0], "l" * 2 * MIB)
    queues.delete_message("a", ids[1])
    monkeypatch.setattr(backend, "BODY_BYTES_MAX", MIB)

    exported = await _export(triage, Named(tuple(ids)), tmp_path / "out")

    assert exported[1:] == (3, 1, 1, 0, False)
    assert exported.progress.scanned == exported.progress.depth == 5
    assert len(_bodies(tmp_path / "out")) == 3


async def test_marked_bodies_are_read_a_little_at_a_time(
    triage: ChangeService, client: Redis, queues: Rsmq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.create_queue("a", maxsize=-1)
    ids = queues.send_messages("a", ["x"] * 40)
    for id in ids[:20]:
        client.hset("rsmq:a:Q", id, "l" * 400_000)
    read = RsmqEditor.messages
    heavy: list[int] = []

    async def measured(editor: RsmqEditor, queue: str, ids: list[bytes], *, bodies: bool = True) -> object:
        found = await read(editor, queue, ids, bodies=bodies)
        if bodies:
            heavy.append(sum(message.size for message in found[1] if message is not None))
        return found

    monkeypatch.setattr(RsmqEditor, "messages", measured)

    exported = await _export(triage, Named(tuple(ids)), tmp_path / "out")

    assert exported.written == 40
    assert max(heavy) <= 1_000_000
    assert len(heavy) == 10


async def test_undo_names_the_queue_that_was_made_or_changed(triage: ChangeService, queues: Rsmq) -> None:
    await done(triage, CreateQueue(queue="orders", vt=5))
    assert (await triage.preview_undo()).title.startswith("Undo change 1: created queue orders, vt 5 s")
    await done(triage, SetAttributes(queue="orders", vt=6))
    assert "If the queue has changed since, nothing is undone." in (await triage.preview_undo()).notes
    assert (await triage.preview_undo()).title == "Undo change 2: changed queue orders, vt 5 s -> 6 s"
