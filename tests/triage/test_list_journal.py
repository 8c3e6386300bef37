"""What the journal keeps of changes of list queues, and journals of those who knew none."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import RawMessage, Rsmq
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind, list_item
from rsmq_tui.protocol.lists.naming import LISTS_NS, ListNames
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.triage.actions import Delete, Move
from rsmq_tui.triage.change import Entry
from rsmq_tui.triage.journal.database import VERSION
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Preview
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import done, undone
from tests.triage.journals import make_old
from tests.triage.list_doing import LEASES, NAMES, WORKING, A, B, lay, lease, list_changes, read

BY_PLACE = Path(__file__).with_name("lists_by_place.sql")

ITEM = list_item(b"\xff")
LEASED = list_item(b"w", area="p")._replace(rc=b"t" * 22, score=b"12")
MESSAGE = RawMessage(b"id", b"1000", b"1", b"2", 1, None)
WITHOUT = ITEM._replace(body=None)
BATCHES = {
    "removed": ListBatch(ListKind.REMOVE, A, (Edit(ITEM, None),), NAMES["left"]),
    "put": ListBatch(ListKind.PUT, A, (Edit(None, WITHOUT),), ListNames("{name}", "x{queue}", "{queue}y"), first=True),
    "moved": ListBatch(ListKind.MOVE, A, (Edit(WITHOUT, WITHOUT),), NAMES["right"], "queue:\udcff"),
    "leased": ListBatch(
        ListKind.LEASE,
        A,
        (Edit(LEASED._replace(body=None), LEASED._replace(body=None, score=b"13")),),
        NAMES["right"],
    ),
    "to RSMQ": ListBatch(ListKind.MOVE, A, (Edit(WITHOUT, MESSAGE),), NAMES["right"], "x", target_ns="rsmq", sent=1),
    "from RSMQ": ListBatch(ListKind.MOVE, "x", (Edit(MESSAGE, WITHOUT),), NAMES["right"], A, ns="rsmq"),
}


@pytest.mark.parametrize("what", BATCHES)
def test_a_batch_comes_back_as_it_was(memory: Path, what: str) -> None:
    with closing(Journal(memory / "journal.sqlite")) as journal:
        action = Move(queue=A, target="queue:\udcff")
        change = journal.begin(Preview(action, "", "s", LISTS_NS, "", 0, 1), 1)
        journal.write(change, [Entry(1, "token", BATCHES[what], None, None)])
        (entry,) = journal.entries(change)
        assert entry.batch == BATCHES[what]
        found = journal.change(change)
        assert found is not None
        assert (found.ns, found.target) == (LISTS_NS, "queue:\udcff")
        journal.record(change, [(1, "d")])
        (entry,) = journal.entries(change)
        assert entry.letters == "d"


def write_old_journal(folder: Path, server: str, now_ms: int) -> None:
    path = folder / "journal.sqlite"
    Journal(path).close()
    make_old(path, 3)
    with closing(sqlite3.connect(path)) as old:
        old.executescript(BY_PLACE.read_text())
        old.execute("UPDATE changes SET server = ?, at_ms = ?, alive_ms = ?", (server, now_ms, now_ms))
        old.commit()


async def test_what_an_earlier_version_did_by_places_is_undone_by_values(
    redis_url: str, folder: Path, client: Redis
) -> None:
    """Its journal: 3 and 7 deleted, 5 and 8 moved to queue:b, ``sent`` sent, and what was in processing acked."""
    lay(client, NAMES["right"], A, [b"6", b"9", b"sent", b"theirs"])
    lay(client, NAMES["right"], B, [b"b", b"5", b"8"])
    write_old_journal(folder, redis_url, int(client.time()[0]) * 1000)
    lists = list_changes(redis_url, NAMES["right"], folder)
    assert await lists.recover() == []

    assert (await undone(lists, 4)).tally.done == 2
    assert read(client, NAMES["right"], WORKING) == [b"w 1", b"w 2"]
    assert client.zrange(LEASES, 0, -1, withscores=True) == [(lease("one", b"w 1"), 2**41)]
    assert (await undone(lists, 3)).tally.done == 1
    assert (await undone(lists, 2)).tally.done == 2
    assert read(client, NAMES["right"], B) == [b"b"]
    assert (await undone(lists, 1)).tally.done == 2
    assert read(client, NAMES["right"], A) == [b"3", b"7", b"5", b"8", b"6", b"9", b"theirs"]
    await lists.aclose()


async def test_a_journal_of_those_who_knew_no_lists_goes_on(redis_url: str, folder: Path, client: Redis) -> None:
    queues = Rsmq(client)
    queues.create_queue("q")
    queues.send_messages("q", ["1", "2", "3"])
    before = everything(client)
    triage = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    report = await done(triage, Delete(queue="q"))
    await triage.aclose()
    make_old(folder / "journal.sqlite", 2)

    triage = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    assert (await undone(triage, report.change)).tally.done == 3
    await triage.aclose()
    assert everything(client) == before
    lay(client, NAMES["right"], A, [b"1", b"2"])
    lists = list_changes(redis_url, NAMES["right"], folder)
    assert (await done(lists, Delete(queue=A))).tally.done == 2
    assert (await undone(lists)).tally.done == 2
    await lists.aclose()
    with closing(sqlite3.connect(folder / "journal.sqlite")) as now:
        assert now.execute("PRAGMA user_version").fetchone() == (VERSION,)
