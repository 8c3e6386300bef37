"""Journals that are damaged, crafted, somebody else's, locked or gone: a sentence, and never a silently other body."""

import json
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.local_clock import now_ms
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import CreateQueue, Delete, Hide, Move, Redrive, Undo
from rsmq_tui.triage.change import Change, Entry, State
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.audit_log import AuditLog
from rsmq_tui.triage.journal.database import COLUMNS, JournalError
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import done, undone
from tests.triage.journals import make_old
from tests.triage.keyspace import kept
from tests.triage.list_doing import list_changes

pytestmark = pytest.mark.slow

DAY_MS = 86_400_000


@pytest.fixture
async def written(triage: ChangeService, queues: Rsmq, client: Redis, folder: Path) -> Path:
    """The file of a journal with four changes, the last of which is the removal of three messages."""
    for name in ("a", "b"):
        queues.create_queue(name)
    queues.send_messages("a", ["body one", "body two", "body three"])
    await done(triage, Hide(queue="a", seconds=5))
    await done(triage, Move(queue="a", target="b"))
    await undone(triage)
    await done(triage, Delete(queue="a"))
    assert client.zcard("rsmq:a") == 0
    await triage.aclose()
    path = folder / "journal.sqlite"
    with closing(sqlite3.connect(path)) as db:
        # All in one small file.
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
    return path


@pytest.fixture
async def later(redis_url: str, folder: Path) -> AsyncIterator[ChangeService]:
    """A service that is opened after the journal was damaged."""
    service = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    yield service
    await service.aclose()


# What decides what an undo does.
def _meaning(change: Change) -> tuple[object, ...]:
    return change.server, change.ns, change.queue, change.target, change.name, change.undoes


def _read(path: Path) -> tuple[dict[int, Change], dict[int, list[Entry]]]:
    with closing(Journal(path)) as journal:
        changes = {change.change: change for change in journal.changes() if change.state is not State.DAMAGED}
        entries = {}
        for number in changes:
            try:
                entries[number] = list(journal.entries(number))
            except JournalError:
                continue
        return changes, entries


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_no_byte_can_flip_and_change_what_is_put_back(written: Path, memory: Path, mask: int) -> None:
    whole = written.read_bytes()
    changes, entries = _read(written)
    assert len(changes) == len(entries) == 4
    found = dict.fromkeys(("refused", "set aside", "as it was"), 0)
    # Every fifteenth byte, each in one way of the three.
    start = {0x01: 0, 0x80: 15, 0xFF: 30}[mask]
    for place in range(start, len(whole), 45):
        damaged = memory / "damaged.sqlite"
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
        for end in ("-wal", "-shm"):
            Path(f"{damaged}{end}").unlink(missing_ok=True)
        try:
            sound, batches = _read(damaged)
        except JournalError:
            found["refused"] += 1
            continue
        for number, change in sound.items():
            assert _meaning(change) == _meaning(changes[number]), place
        for number, batch in batches.items():
            assert batch == entries[number], place
        found["as it was" if len(batches) == 4 else "set aside"] += 1
    assert min(found.values()) > 0, found


def _damage(path: Path, before: bytes, after: bytes) -> None:
    whole = path.read_bytes()
    assert whole.count(before) == 1
    path.write_bytes(whole.replace(before, after))


async def test_a_damaged_change_is_set_aside_and_the_others_can_be_undone(
    written: Path, later: ChangeService, client: Redis
) -> None:
    _damage(written, b"body two", b"body 2wo")

    with pytest.raises(TriageError, match="change 4 is damaged in the journal and set aside; it cannot be undone, the"):
        await later.preview_undo(4)
    with pytest.raises(TriageError, match="change 4 is damaged in the journal"):
        await later.preview_undo(4)

    with closing(Journal(written)) as journal:
        assert [change.state for change in journal.changes()] == ["damaged", "done", "undone", "done"]
    preview = await later.preview_undo()
    assert isinstance(preview.action, Undo)
    assert preview.action.change == 1
    assert any(note.startswith("Change 4 is damaged in the journal") for note in preview.notes)
    assert client.zcard("rsmq:a") == 0


_ODD: tuple[object, ...] = (
    None,
    -1,
    2**63 - 1,
    -(2**63),
    1.5,
    float("inf"),
    "",
    "x",
    "\x00",
    b"",
    b"\xff\xfe",
    b"x" * 99,
)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        yield db


@pytest.mark.parametrize("is_old", [True, False], ids=["without checksums", "with"])
@pytest.mark.parametrize(("table", "keys"), [("changes", {"change"}), ("batches", {"change", "number"})])
async def test_a_row_of_anything_ends_in_a_sentence(
    written: Path, redis_url: str, client: Redis, table: str, keys: set[str], is_old: bool
) -> None:
    if is_old:
        make_old(written, 3)
    with _opened(written) as db:
        there = {row[1] for row in db.execute(f"PRAGMA table_info({table})")} - keys
    queue = everything(client)
    spare = written.with_name("spare")
    shutil.copy(written, spare)
    columns = sorted(there.intersection(COLUMNS[table]))
    # Each column has none, and a third of the others; the checksum tells of any change alike.
    odd_ones = [(column, odd) for number, column in enumerate(columns)
                for odd in ((None, *_ODD[1 + number % 3 :: 3]) if is_old else (None,))]  # fmt: skip
    for column, odd in odd_ones:
        shutil.copy(spare, written)
        with _opened(written) as db:
            try:
                db.execute(f"UPDATE {table} SET {column} = ? WHERE change = 4", (odd,))
            except sqlite3.IntegrityError:
                # The file itself does not take it.
                continue
        await _refused_or_as_it_was(written, redis_url, client, queue)


async def _refused_or_as_it_was(written: Path, url: str, client: Redis, before: dict[bytes, Any]) -> None:
    """Everything that reads a journal, and the undo of its last change: done with the right bodies, or refused."""
    service = ChangeService(RsmqBackend(url, "rsmq"), written.parent)
    for attempt in (service.recover, service.preview_undo, lambda: undone(service, 4)):
        with suppress(TriageError):
            await attempt()
    with closing(Journal(written)) as journal:
        for change in journal.changes():
            with suppress(JournalError):
                list(journal.entries(change.change))
    await service.aclose()
    bodies = {client.hget("rsmq:a:Q", id) for id in client.zrange("rsmq:a", 0, -1)}
    assert bodies <= {b"body one", b"body two", b"body three"}
    client.flushall()
    for key, value in before.items():
        if isinstance(value, dict):
            client.hset(key, mapping=value)
        elif isinstance(value, set):
            client.sadd(key, *value)


async def test_a_redrive_with_batches_of_anything_is_listed(triage: ChangeService, queues: Rsmq, folder: Path) -> None:
    for name in ("a", "a-dlq"):
        queues.create_queue(name)
    queues.send_message("a-dlq", "failed")
    await done(triage, Redrive(queue="a-dlq"))
    with closing(Journal(folder / "journal.sqlite")) as journal:
        assert journal.changes()[0].queues_in("rsmq") == ["a-dlq", "a"]
        for column, odd in [(column, odd) for column in ("queue", "target", "outcome") for odd in _ODD]:
            with suppress(sqlite3.IntegrityError):
                journal.file.db.execute(f"UPDATE batches SET {column} = ?", (odd,))
            (change,) = journal.changes()
            assert change.queues_in("rsmq")[0] == "a-dlq"


def _packed(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)


@pytest.mark.parametrize(
    "edits",
    [
        b"",
        b"\x00" * 15,
        _packed(2**62, 2**62),
        _packed(10, 2**40, *([-1] * 10)),
        _packed(-1, -1),
        _packed(10, 1, *([-1] * 10)),
        _packed(1, 1, 1, 2**62),
        _packed(1, 2, 2, -(2**63), 5) + b"abcde",
        _packed(1, 2, -2, 1, 1) + b"ab",
        _packed(3, 1, 1, 1) + b"a" + _packed(-1, -1),
    ],
)
async def test_edits_of_anything_end_in_a_sentence(
    written: Path, later: ChangeService, client: Redis, edits: bytes
) -> None:
    make_old(written, 3)
    with _opened(written) as db:
        db.execute("UPDATE batches SET edits = ? WHERE change = 4", (edits,))

    with pytest.raises(TriageError, match="change 4 is damaged in the journal"):
        await later.preview_undo(4)
    assert client.zcard("rsmq:a") == 0


@pytest.mark.parametrize(
    "lists",
    ["", "[", "{}", "[" * 100_000, "1", json.dumps({"names": {"queue": 5}, "ns": None, "target_ns": None}),
     json.dumps({"names": {"other": "x"}, "ns": None, "target_ns": None}),
     json.dumps({"names": {}, "ns": [], "target_ns": 7}), json.dumps({"names": {}, "ns": None, "target_ns": None})],
)  # fmt: skip
async def test_names_of_lists_of_anything_end_in_a_sentence(written: Path, later: ChangeService, lists: str) -> None:
    make_old(written, 3)
    with _opened(written) as db:
        db.execute("UPDATE batches SET lists = ? WHERE change = 4", (lists,))

    with pytest.raises(TriageError, match="change 4 is damaged in the journal"):
        await later.preview_undo(4)


async def test_a_batch_that_is_missing_is_found_out(written: Path, later: ChangeService) -> None:
    with _opened(written) as db:
        db.execute("DELETE FROM batches WHERE change = 4")

    with pytest.raises(TriageError, match="change 4 is damaged in the journal"):
        await later.preview_undo(4)


async def test_a_batch_of_another_change_is_found_out(written: Path, later: ChangeService) -> None:
    with _opened(written) as db:
        db.execute("DELETE FROM batches WHERE change = 4")
        db.execute("UPDATE batches SET change = 4 WHERE change = 1")

    with pytest.raises(TriageError, match="change 4 is damaged in the journal"):
        await later.preview_undo(4)


@pytest.mark.parametrize("version", [2, 3])
async def test_a_journal_without_checksums_is_listed_and_undone(
    written: Path, later: ChangeService, client: Redis, version: int
) -> None:
    make_old(written, version)

    report = await undone(later, 4)
    await undone(later, 1)

    assert (report.tally.done, report.stopped) == (3, None)
    assert sorted(client.hmget("rsmq:a:Q", client.zrange("rsmq:a", 0, -1))) == [b"body one", b"body three", b"body two"]
    with closing(Journal(written)) as journal:
        assert [change.change for change in journal.changes()] == [6, 5, 4, 3, 2, 1]


def _is_a_folder(path: Path) -> None:
    path.mkdir()


def _is_of_somebody_else(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE changes (mine TEXT)")
        db.execute("CREATE TABLE batches (mine TEXT)")
        db.execute("INSERT INTO changes VALUES ('precious')")


def _of_version(version: int) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        _is_of_somebody_else(path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"PRAGMA user_version = {version}")

    return spoil


def _of_no_version_that_was(path: Path) -> None:
    Journal(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version = -2147483643")


def _has_a_trigger(path: Path) -> None:
    Journal(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TRIGGER mine AFTER INSERT ON changes BEGIN DELETE FROM changes; END")


def _lacks_a_column(path: Path) -> None:
    Journal(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE changes DROP COLUMN planned")


def _is_cut_short(path: Path) -> None:
    Journal(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    path.write_bytes(path.read_bytes()[:5000])


def _of_an_earlier_program(path: Path) -> None:
    path.parent.mkdir()
    shutil.copy(Path(__file__).with_name("journal-3.sqlite"), path)


_FOREIGN: dict[str, Callable[[Path], object]] = {
    "a folder": _is_a_folder,
    "text": lambda path: path.write_text("not a database " * 1000),
    "zeros": lambda path: path.write_bytes(bytes(100_000)),
    "somebody else's": _is_of_somebody_else,
    **{f"somebody else's, version {number}": _of_version(number) for number in (1, 2, 3, 4, 99)},
    "a version that never was": _of_no_version_that_was,
    "a trigger": _has_a_trigger,
    "without a column": _lacks_a_column,
    "cut short": _is_cut_short,
    "a pipe": lambda path: path.symlink_to("/dev/null"),
}


def _spoiled(path: Path, how: str) -> bytes | None:
    path.parent.mkdir()
    _FOREIGN[how](path)
    return _bytes_of(path)


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


@pytest.mark.parametrize("spoil", _FOREIGN)
async def test_what_is_no_journal_is_refused_and_left_as_it_is(
    triage: ChangeService, queues: Rsmq, client: Redis, folder: Path, spoil: str
) -> None:
    queues.create_queue("a")
    before = everything(client)
    path = folder / "journal.sqlite"
    bytes_before = _spoiled(path, spoil)

    for attempt in (triage.preview(CreateQueue(queue="b")), triage.preview_undo(), triage.recover()):
        with pytest.raises(TriageError, match=r"the journal .* cannot be used"):
            await attempt

    assert everything(client) == before
    assert _bytes_of(path) == bytes_before


async def test_a_journal_whose_disk_is_full_is_told(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # SQLite reports an I/O error if it cannot create the files beside the database.
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    with closing(Journal(written)) as journal:
        assert str(journal.file.error(error)).endswith(" cannot be used: disk I/O error")
        usage = shutil.disk_usage(written.parent)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
        assert str(journal.file.error(error)).endswith(" cannot be used: the disk is full")


async def test_a_locked_journal_is_told(
    written: Path, later: ChangeService, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(client)
    monkeypatch.setattr("rsmq_tui.sqlite_file.BUSY_WAIT_S", 0.05)
    with closing(sqlite3.connect(written)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TriageError, match=r"the journal .* cannot be used: another program has locked it"):
            await later.preview(Delete(queue="a"))
        with pytest.raises(TriageError, match="another program has locked it"):
            await later.preview_undo()

    assert everything(client) == before
    assert (await undone(later, 4)).tally.done == 3


async def test_a_journal_that_somebody_writes_to_can_be_read(written: Path) -> None:
    Journal(written).close()
    with closing(sqlite3.connect(written)) as db:
        db.execute("BEGIN IMMEDIATE")
        with closing(Journal(written)) as journal:
            assert len(journal.changes()) == 4


async def hide_repeatedly(triage: ChangeService, queues: Rsmq, changes: int) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["x"] * 5)
    for _ in range(changes):
        await done(triage, Hide(queue="a", seconds=5))


@pytest.mark.parametrize("days", [3, 400, 40_000, -400])
async def test_a_clock_that_jumps_drops_nothing(
    triage: ChangeService, redis_url: str, queues: Rsmq, folder: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    await hide_repeatedly(triage, queues, 4)
    jumped = [0]
    monkeypatch.setattr("rsmq_tui.triage.journal.journal.now_ms", lambda: now_ms() + jumped[0])

    # There and back, several times, in this program and in one that is started anew each time.
    for number in range(6):
        jumped[0] = days * DAY_MS if number % 2 == 0 else 0
        other = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
        for service in (triage, other):
            await service.recover()
            assert len((await service.preview_undo()).notes) == 1
        await other.aclose()

    with closing(Journal(folder / "journal.sqlite")) as journal:
        assert [change.change for change in journal.changes()] == [4, 3, 2, 1]


async def test_what_is_old_goes_when_its_days_have_been_counted(
    triage: ChangeService, redis_url: str, queues: Rsmq, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hide_repeatedly(triage, queues, 2)
    for day in range(1, 10):
        monkeypatch.setattr("rsmq_tui.triage.journal.journal.now_ms", lambda day=day: now_ms() + day * DAY_MS)
        other = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
        await other.recover()
        await other.aclose()
        with closing(Journal(folder / "journal.sqlite")) as journal:
            assert [change.change for change in journal.changes()] == ([2, 1] if day < 7 else [2])


def _remove(path: Path) -> None:
    for file in path.parent.glob("journal.sqlite*"):
        file.unlink()


def _replace(path: Path) -> None:
    with closing(Journal(path.with_name("other.sqlite"))):
        pass
    path.with_name("other.sqlite").replace(path)


def _drop_the_change(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM changes")


@pytest.mark.parametrize(
    "spoil",
    [_remove, _replace, _drop_the_change, lambda path: shutil.rmtree(path.parent)],
    ids=["removed", "replaced", "dropped", "folder"],
)
async def test_a_change_whose_journal_is_gone_stops(
    triage: ChangeService, client: Redis, queues: Rsmq, folder: Path, spoil: Callable[[Path], None]
) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["x"] * 6_000)
    run = triage.run(await triage.preview(Delete(queue="a")))

    at_the_spoil = 0
    async for tally in run:
        if not at_the_spoil:
            at_the_spoil = tally.done
            spoil(folder / "journal.sqlite")

    report = run.report
    assert report is not None
    assert report.stopped is not None
    assert "can no longer be undone" in report.stopped
    assert (report.change, report.undoable) == (None, False)
    # One group of batches was under way, at the most.
    assert 0 < at_the_spoil <= report.tally.done == 6_000 - client.zcard("rsmq:a") <= at_the_spoil + 2_000
    # What comes next has a journal again.
    left = client.zcard("rsmq:a")
    assert (await done(triage, Delete(queue="a"))).tally.done == left
    assert (await undone(triage)).tally.done == left


async def test_another_desk_never_prunes_what_runs(
    triage: ChangeService, redis_url: str, client: Redis, queues: Rsmq, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["x" * 100] * 10_000)
    other = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, keep_days=1, limit_bytes=10_000)
    run = triage.run(await triage.preview(Delete(queue="a")))
    async for _ in run:
        await other.recover()

    assert run.report is not None
    assert (run.report.stopped, run.report.tally.done) == (None, 10_000)
    assert (await undone(triage, run.report.change)).tally.done == 10_000
    await other.aclose()


async def test_a_state_folder_that_cannot_be_written_is_told(
    triage: ChangeService, queues: Rsmq, client: Redis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.create_queue("a")
    before = everything(client)
    folder.parent.mkdir(exist_ok=True)

    def refusing(*given: Any, **named: Any) -> int:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(TriageError, match=r"the journal .* cannot be used: Permission denied"):
        await triage.preview(Delete(queue="a"))
    monkeypatch.undo()
    assert kept(client) == before


@pytest.mark.parametrize(
    "line",
    ["", "{", "[1]", "null", "[" * 100_000, '{"change": 1}', '{"change": 1, "at_ms": AT, "done": 5}', "\xff\x00"],
)
async def test_an_audit_log_of_anything_gets_its_line(
    triage: ChangeService, queues: Rsmq, folder: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.create_queue("a")
    queues.send_messages("a", ["x"] * 5)
    log = folder / "audit.jsonl"

    def refusing(log: AuditLog, change: Change, ended: str, lasted_ms: int | None = None) -> None:
        raise OSError(28, "No space left on device", str(log.path))

    with monkeypatch.context() as patched:
        patched.setattr(AuditLog, "write", refusing)
        report = await done(triage, Delete(queue="a"))
    assert report.stopped is not None
    assert "No space left on device" in report.stopped
    with closing(Journal(folder / "journal.sqlite")) as journal:
        (change,) = journal.changes()
    _write(log, line.replace("AT", str(change.at_ms)).replace('"change": 1', '"change": 1, "x": 1'))

    await triage.recover()

    last = _lines(log)[-1]
    assert (json.loads(last)["change"], json.loads(last)["done"]) == (1, 5)


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()


def _write(path: Path, text: str) -> None:
    # Cut short, as on a disk that was full.
    path.write_text(text)


async def test_a_journal_that_an_earlier_program_wrote_is_undone(
    client: Redis, redis_url: str, queues: Rsmq, folder: Path
) -> None:
    """The file was written before there were checksums: a move, a removal, and the removal of two items of a list."""
    queues.create_queue("a")
    queues.create_queue("b")
    path = folder / "journal.sqlite"
    _of_an_earlier_program(path)
    triage, lists = ChangeService(RsmqBackend(redis_url, "rsmq"), folder), list_changes(redis_url, ListNames(), folder)
    with _opened(path) as db:
        # The server that it was made on is long gone.
        db.execute("UPDATE changes SET server = ?", (triage.server,))

    assert (await undone(lists, 3)).tally.done == 2
    assert (await undone(triage, 2)).tally.done == 3
    assert (await undone(triage, 1)).tally.done == 3

    assert client.lrange("queue:l", 0, -1) == [b"item 2", b"item 1"]
    assert sorted(client.hmget("rsmq:a:Q", client.zrange("rsmq:a", 0, -1))) == [b"", b"one", b"\xff two"]
    assert client.zcard("rsmq:b") == 0
    await triage.aclose()
    await lists.aclose()
