"""Messages that are called as another's counters are: ``a:rc`` beside ``a``. Neither takes or loses what is not its."""

from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, MessageBatch
from tests.protocol.edited import applied
from tests.protocol.keyspace import everything
from tests.triage.keyspace import lay, message

SUFFIXES = [b":rc", b":fr"]


@pytest.fixture(autouse=True)
def two_queues(client: Redis) -> None:
    for queue in ("a", "b"):
        Rsmq(client).create_queue(queue)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("there", ["a message", "a field"])
@pytest.mark.parametrize("kind", [EditKind.PUT, EditKind.MOVE])
async def test_what_is_there_is_not_written_over(
    editor: RsmqEditor, client: Redis, kind: EditKind, there: str, counted: bool, suffix: bytes
) -> None:
    count = b"3" if counted else None
    seen = message(b"one", rc=count, fr=count)
    to = "a" if kind is EditKind.PUT else "b"
    if there == "a message":
        lay(client, to, message(b"one" + suffix, body=b"other"))
    else:
        client.hset(f"rsmq:{to}:Q", b"one" + suffix, "3")
    if kind is EditKind.MOVE:
        lay(client, "a", seen)
    before = everything(client)
    edit = Edit(None, seen) if kind is EditKind.PUT else Edit(seen, seen)

    outcome = await applied(editor, MessageBatch(kind, "a", (edit,), None if kind is EditKind.PUT else "b"))

    assert outcome == "t"
    assert everything(client) == before


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", [EditKind.REMOVE, EditKind.MOVE])
async def test_the_body_of_another_message_stays(
    editor: RsmqEditor, client: Redis, kind: EditKind, suffix: bytes
) -> None:
    lay(client, "a", message(b"one"), message(b"one" + suffix, body=b"other"))
    before = everything(client)
    shared: dict[str, Any] = {"rc" if suffix == b":rc" else "fr": b"other"}
    seen = message(b"one")._replace(**shared)
    after = None if kind is EditKind.REMOVE else seen
    batch = MessageBatch(kind, "a", (Edit(seen, after),), None if kind is EditKind.REMOVE else "b")

    assert await applied(editor, batch) == "d"

    assert client.hget("rsmq:a:Q", b"one" + suffix) == b"other"
    assert not client.hexists("rsmq:a:Q", "one")
    assert await applied(editor, batch.inverse("d")) == "d"
    assert everything(client) == before


@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_both_go_together_and_come_back(editor: RsmqEditor, client: Redis, suffix: bytes) -> None:
    empty = everything(client)
    other = message(b"one" + suffix, body=b"other")
    lay(client, "a", message(b"one"), other)
    before = everything(client)
    seen = message(b"one")._replace(**(dict[str, Any]({"rc" if suffix == b":rc" else "fr": b"other"})))
    batch = MessageBatch(EditKind.REMOVE, "a", (Edit(seen, None), Edit(other, None)))

    assert await applied(editor, batch) == "dd"
    assert everything(client) == empty
    assert await applied(editor, batch.inverse("dd")) == "dd"
    assert everything(client) == before
