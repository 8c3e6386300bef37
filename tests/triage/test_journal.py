"""The journal: one file that is the user's alone, with limits, and nothing changes where it cannot be written."""

import asyncio
import os
import resource
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from rsmq_tui.triage.actions import Delete, Hide, Send
from rsmq_tui.triage.change import ChangeReport, State
from rsmq_tui.triage.errors import TriageError, explain
from rsmq_tui.triage.journal.audit_log import AuditLog
from rsmq_tui.triage.journal.database import APPLICATION_ID, JournalError, JournalFile
from rsmq_tui.triage.journal.journal import ChangeLock, Journal, is_alive
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Preview, Selection
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import everything
from tests.triage.doing import audit_lines, done, undone
from tests.triage.keyspace import kept

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def some_messages(queues: Rsmq) -> None:
    queues.create_queue("a", maxsize=-1)
    queues.send_messages("a", ["x"] * 5)


def begun(journal: Journal) -> int:
    return journal.begin(Preview(Delete(queue="a"), "", "s", "rsmq", "", 0, 1), 1)


def files_of(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def file_of(folder: Path) -> Path:
    return folder / "journal.sqlite"


async def test_both_files_are_the_users_alone(triage: ChangeService, folder: Path) -> None:
    umask = os.umask(0)
    try:
        await done(triage, Delete(queue="a"))
    finally:
        os.umask(umask)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *files_of(folder))}
    assert modes.pop(folder.name) == 0o700
    assert {"journal.sqlite", "audit.jsonl"} <= modes.keys()
    assert set(modes.values()) == {0o600}


async def test_a_change_that_the_server_refused_before_anything_was_done_is_not_kept(
    triage: ChangeService, client: Redis, folder: Path
) -> None:
    client.config_set("maxmemory", 1)
    try:
        refused = await done(triage, Send(queue="a", bodies=(b"y",)))
    finally:
        client.config_set("maxmemory", 0)

    assert (refused.tally.done, refused.change) == (0, None)
    assert refused.stopped is not None
    assert "out of memory" in refused.stopped
    assert audit_lines(folder) == []
    with closing(Journal(file_of(folder))) as journal:
        assert journal.changes() == []
        unused = begun(journal)
        assert journal.discard(unused)
        journal.leave(unused)


async def test_a_change_of_which_anything_was_or_may_have_been_done_is_not_discarded(
    triage: ChangeService, folder: Path
) -> None:
    await done(triage, Delete(queue="a"))
    with closing(Journal(file_of(folder))) as journal:
        for change in (
            "UPDATE changes SET state = 'done'",
            "UPDATE changes SET state = 'running'",
            "UPDATE batches SET outcome = NULL",
        ):
            with closing(sqlite3.connect(file_of(folder))) as db, db:
                db.execute(change)
            assert not journal.discard(1)


async def test_what_is_old_is_dropped(triage: ChangeService, redis_url: str, folder: Path) -> None:
    for _ in range(2):
        await done(triage, Hide(queue="a", seconds=5))
    await undone(triage)
    with closing(sqlite3.connect(file_of(folder))) as db, db:
        db.execute("UPDATE changes SET counted_ms = counted_ms - 8 * 86400000 WHERE change <= 2")

    # The undo is younger than what it has undone.
    later = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    with pytest.raises(TriageError, match="nothing to undo"):
        await later.preview_undo()
    await later.aclose()
    with closing(Journal(file_of(folder))) as journal:
        assert [change.change for change in journal.changes()] == [3]
        assert not list(journal.entries(1))


async def test_what_is_not_known_or_told_is_not_dropped_for_its_age(triage: ChangeService, folder: Path) -> None:
    for _ in range(5):
        await done(triage, Hide(queue="a", seconds=5))
    with closing(sqlite3.connect(file_of(folder))) as db, db:
        db.execute("UPDATE changes SET counted_ms = counted_ms - 8 * 86400000")
        db.execute("UPDATE changes SET state = 'running', audited = 0 WHERE change = 1")
        db.execute("UPDATE changes SET audited = 0 WHERE change = 2")
        db.execute("UPDATE batches SET outcome = NULL WHERE change IN (1, 3)")

    with closing(Journal(file_of(folder))) as journal:
        journal.prune()
        # The newest is what people undo.
        assert [change.change for change in journal.changes()] == [5, 3, 2, 1]
        with closing(sqlite3.connect(file_of(folder))) as db, db:
            db.execute("UPDATE changes SET counted_ms = counted_ms - 8 * 86400000")
        journal.prune()
        assert [change.change for change in journal.changes()] == [5, 2, 1]


async def test_a_clock_that_jumps_leaves_what_was_not_settled(
    triage: ChangeService, redis_url: str, client: Redis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(client)
    run = triage.run(await triage.preview(Delete(queue="a")))
    steps: Any = aiter(run)
    await anext(steps)
    await steps.aclose()
    now_ms = time.time_ns() // 1_000_000
    monkeypatch.setattr("rsmq_tui.triage.journal.journal.now_ms", lambda: now_ms + 8 * 86_400_000)

    later = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    (change,) = await later.recover()

    assert (change.state, change.done) == (State.INTERRUPTED, 5)
    assert [line["done"] for line in audit_lines(folder)] == [5]
    await undone(later)
    assert kept(client) == before
    await later.aclose()


async def test_an_undo_that_finds_everything_changed_can_be_tried_again(
    triage: ChangeService, client: Redis, folder: Path
) -> None:
    before = everything(client)
    await done(triage, Hide(queue="a", seconds=50))
    hidden = client.zrange("rsmq:a", 0, -1, withscores=True)
    client.zadd("rsmq:a", {id: 1 for id, _ in hidden})
    assert (await undone(triage, 1)).tally.done == 0

    client.zadd("rsmq:a", dict(hidden))
    again = await undone(triage, 1)

    assert again.tally.done == 5
    assert everything(client) == before
    with closing(Journal(file_of(folder))) as journal:
        assert [change.state for change in journal.changes()] == [State.DONE, State.DONE, State.UNDONE]


async def test_an_undo_of_what_was_dropped_meanwhile_is_told(
    triage: ChangeService, folder: Path, client: Redis
) -> None:
    await done(triage, Delete(queue="a"))
    preview = await triage.preview_undo()
    with closing(sqlite3.connect(file_of(folder))) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM changes")

    with pytest.raises(TriageError, match="change 1 is no longer in the journal"):
        await triage.run(preview).to_end()
    assert client.zcard("rsmq:a") == 0


async def test_a_desk_opens_one_journal(triage: ChangeService, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def opening(*given: Any, **named: Any) -> Journal:
        opened.append(Journal(*given, **named))
        return opened[-1]

    monkeypatch.setattr("rsmq_tui.triage.service.Journal", opening)

    previews = [triage.preview(Delete(queue="a")) for _ in range(5)]
    for preview in await asyncio.gather(*previews):
        preview.close()

    assert len(opened) == 1


async def test_a_run_that_is_given_up_while_it_begins_is_left(
    triage: ChangeService, client: Redis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(client)
    preview = await triage.preview(Delete(queue="a"))
    closed: list[object] = []
    begins, is_given_up = threading.Event(), threading.Event()
    begin, close = Journal.begin, Selection.close
    monkeypatch.setattr(Selection, "close", lambda selection: closed.append(close(selection)))

    def slowly(journal: Journal, *given: Any) -> int:
        begins.set()
        is_given_up.wait()
        return begin(journal, *given)

    monkeypatch.setattr(Journal, "begin", slowly)
    running = asyncio.create_task(triage.run(preview).to_end())
    await asyncio.to_thread(begins.wait)
    running.cancel()
    is_given_up.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    # It goes on in its thread, and is left when it has begun.
    while not (recovered := await triage.recover()):
        pass
    (change,) = recovered
    assert (change.state, change.done, closed) == (State.INTERRUPTED, 0, [None])
    assert everything(client) == before


async def test_a_longer_memory_keeps_them(triage: ChangeService, redis_url: str, folder: Path) -> None:
    await done(triage, Hide(queue="a", seconds=5))
    with closing(sqlite3.connect(file_of(folder))) as db, db:
        db.execute("UPDATE changes SET counted_ms = counted_ms - 8 * 86400000")

    later = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, keep_days=9)
    assert (await later.preview_undo()).keep_days == 9
    await later.aclose()


async def test_the_oldest_go_when_the_file_grows_too_long(
    client: Redis, redis_url: str, folder: Path, queues: Rsmq
) -> None:
    queues.delete_queue("a")
    queues.create_queue("a", maxsize=-1)
    triage = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, limit_bytes=1_000_000)
    for _ in range(5):
        queues.send_messages("a", [os.urandom(1000)] * 300)
        await done(triage, Delete(queue="a"))
        # What was just done can always be undone.
        await undone(triage)
        assert client.zcard("rsmq:a") == 300
        await done(triage, Delete(queue="a"))

    with closing(Journal(file_of(folder))) as journal:
        left = journal.changes()
        assert 1 <= len(left) < 15
        assert left[0].can_be_undone
        assert journal.file.size_bytes() <= 1_000_000
    await triage.aclose()
    assert sum(path.stat().st_size for path in files_of(folder) if path.name.startswith("journal")) < 3_000_000
    assert len(audit_lines(folder)) == 15


@pytest.mark.parametrize("size", [10, 1_200, 5_000])
async def test_what_would_not_fit_is_refused_before_anything_changes(
    client: Redis, redis_url: str, folder: Path, queues: Rsmq, size: int
) -> None:
    queues.send_messages("a", ["x" * size] * 100)
    before = everything(client)
    needed = 105 * 200 + 100 * size
    triage = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, limit_bytes=needed - 1000)

    with pytest.raises(TriageError, match=r"the journal would need .* for 105 messages, and holds at most"):
        await triage.preview(Delete(queue="a"))
    assert everything(client) == before
    await triage.aclose()

    # What is said to fit does, and is kept.
    triage = ChangeService(RsmqBackend(redis_url, "rsmq"), folder, limit_bytes=needed + 1000)
    await done(triage, Delete(queue="a"))
    await undone(triage)
    assert everything(client) == before
    await triage.aclose()


async def test_a_journal_of_a_later_version_is_left_alone(triage: ChangeService, client: Redis, folder: Path) -> None:
    before = everything(client)
    _of_a_later_version(folder)

    with pytest.raises(TriageError, match="was written by a newer rsmq-tui: upgrade this one"):
        await triage.preview(Delete(queue="a"))
    with pytest.raises(TriageError, match="was written by a newer rsmq-tui"):
        await triage.recover()
    assert everything(client) == before


def _of_a_later_version(folder: Path) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(file_of(folder))) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 99")


def _corrupt(folder: Path) -> None:
    folder.mkdir()
    file_of(folder).write_bytes(b"not a database" * 1000)


def _a_file_in_the_way(folder: Path) -> None:
    folder.write_text("a file")


def _a_folder_in_the_way(folder: Path) -> None:
    file_of(folder).mkdir(parents=True)


@pytest.mark.parametrize("spoil", [_corrupt, _a_file_in_the_way, _a_folder_in_the_way])
async def test_a_journal_that_cannot_be_used_is_told_and_nothing_changes(
    triage: ChangeService, client: Redis, folder: Path, spoil: Callable[[Path], None]
) -> None:
    before = everything(client)
    spoil(folder)

    for attempt in (triage.preview(Delete(queue="a")), triage.preview_undo()):
        with pytest.raises(TriageError, match=r"the journal .* cannot be used"):
            await attempt

    assert everything(client) == before


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process may grow over that size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_a_disk_that_is_full_before_the_change_stops_it(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.send_messages("a", [os.urandom(1000)] * 300)
    before = everything(client)
    preview = await triage.preview(Delete(queue="a"))

    with full_disk(100_000):
        report = await triage.run(preview).to_end()

    assert report.stopped is not None
    assert "the journal" in report.stopped
    assert report.tally.done == 0
    assert kept(client) == before
    await triage.recover()
    assert (await done(triage, Delete(queue="a"))).tally.done == 305


async def test_a_disk_that_becomes_full_stops_the_change_where_it_is(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.send_messages("a", [os.urandom(1000) for _ in range(9_000)])
    before = everything(client)
    preview = await triage.preview(Delete(queue="a"))

    with full_disk(6_000_000):
        report = await triage.run(preview).to_end()

    assert report.stopped is not None
    assert 0 < report.tally.done == 9_005 - client.zcard("rsmq:a") < 9_005
    # Here and now, without an end of this process.
    await triage.recover()
    assert (await undone(triage)).tally.done == report.tally.done
    assert kept(client) == before


async def test_an_audit_log_that_cannot_be_written_is_told(triage: ChangeService, client: Redis, folder: Path) -> None:
    (folder / "audit.jsonl").mkdir(parents=True)

    report = await done(triage, Delete(queue="a"))

    assert report.tally.done == 5
    assert report.stopped is not None
    assert "audit.jsonl" in report.stopped
    (folder / "audit.jsonl").rmdir()
    await triage.recover()
    assert [line["change"] for line in audit_lines(folder)] == [report.change]
    await undone(triage, report.change)
    assert client.zcard("rsmq:a") == 5


async def test_an_audit_log_on_a_full_disk_is_told_by_its_name(triage: ChangeService, tmp_path: Path) -> None:
    await done(triage, Send(queue="a", bodies=(b"x",)))
    (change,) = await triage.changes(1)
    path = tmp_path / "audit.jsonl"

    with full_disk(0), pytest.raises(OSError, match="File too large") as sentence:
        AuditLog(path).write(change, "done")

    assert explain(sentence.value) == f"{path}: File too large"


async def test_a_line_of_the_audit_log_is_one_line_of_ascii(
    triage: ChangeService, redis_url: str, folder: Path, client: Redis
) -> None:
    Rsmq(client, "n\u2028s\n").create_queue("a")
    service = ChangeService(
        RsmqBackend(redis_url.replace("://", "://default:secret@"), "n\u2028s\n"), folder, profile="prod\x1b[31m"
    )
    client.execute_command("ACL", "SETUSER", "default", "nopass")

    await done(service, Send(queue="a", bodies=(b"secret body",)))

    text = (folder / "audit.jsonl").read_bytes()
    assert text.count(b"\n") == 1
    assert text.isascii()
    assert b"secret" not in text
    (line,) = audit_lines(folder)
    assert (line["ns"], line["profile"], line["planned"]) == ("n\u2028s\n", "prod\x1b[31m", 1)
    assert isinstance(line["at_ms"], int)
    assert line["who"]
    assert line["host"]
    await service.aclose()


async def test_several_desks_make_changes_at_once(redis_url: str, client: Redis, folder: Path, queues: Rsmq) -> None:
    names = [f"q{number}" for number in range(6)]
    for name in names:
        queues.create_queue(name)
        queues.send_messages(name, ["x"] * 700)
    before = everything(client)
    services = [ChangeService(RsmqBackend(redis_url, "rsmq"), folder) for _ in names]

    reports = await asyncio.gather(
        *(done(service, Delete(queue=name)) for service, name in zip(services, names, strict=True))
    )
    assert [(report.stopped, report.tally.done) for report in reports] == [(None, 700)] * 6
    assert sorted(line["change"] for line in audit_lines(folder)) == [1, 2, 3, 4, 5, 6]
    await asyncio.gather(*(undone(service, report.change) for service, report in zip(services, reports, strict=True)))

    assert everything(client) == before
    for service in services:
        await service.aclose()


async def test_two_undos_of_one_change_restore_it_once(
    triage: ChangeService, redis_url: str, client: Redis, folder: Path
) -> None:
    before = everything(client)
    await done(triage, Delete(queue="a"))
    other = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    previews = [await service.preview_undo() for service in (triage, other)]

    ended = await asyncio.gather(
        triage.run(previews[0]).to_end(), other.run(previews[1]).to_end(), return_exceptions=True
    )

    # Depending on which begins when, the second one is refused, or finds nothing left to do.
    assert all(isinstance(each, ChangeReport | TriageError) for each in ended)
    assert sum(each.tally.done for each in ended if isinstance(each, ChangeReport)) == 5
    assert everything(client) == before
    await other.aclose()


async def test_a_change_that_another_desk_works_on_is_left_alone(
    triage: ChangeService, redis_url: str, client: Redis, folder: Path, queues: Rsmq
) -> None:
    queues.send_messages("a", ["x"] * 5_000)
    other = ChangeService(RsmqBackend(redis_url, "rsmq"), folder)
    run = triage.run(await triage.preview(Delete(queue="a")))

    async for _ in run:
        assert await other.recover() == []
        with pytest.raises(TriageError, match=r"nothing to undo|cannot be undone: it is running"):
            await other.preview_undo(1)

    assert run.report is not None
    assert (run.report.stopped, run.report.tally.done) == (None, 5_005)
    await other.aclose()


async def test_a_run_that_nobody_watches_to_its_end_can_be_undone(
    triage: ChangeService, client: Redis, queues: Rsmq
) -> None:
    queues.send_messages("a", ["x"] * 5_000)
    before = everything(client)
    run = triage.run(await triage.preview(Delete(queue="a")))
    steps: Any = aiter(run)
    await anext(steps)
    await steps.aclose()

    await triage.recover()
    assert everything(client) != before
    await undone(triage)
    assert kept(client) == before


HOLDING = """
import sys
from pathlib import Path
from tests.triage.test_journal import begun
from rsmq_tui.triage.journal.journal import Journal
print(begun(Journal(Path(sys.argv[1]))), flush=True)
sys.stdin.readline()
"""


@contextmanager
def another_at_work(folder: Path) -> "Iterator[subprocess.Popen[str]]":
    """Another process that works on the first change of a journal."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(file_of(folder))],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            yield process
        finally:
            process.kill()


def test_no_clock_tells_whether_another_process_works_on_a_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = time.time_ns() // 1_000_000

    def found() -> list[list[int]]:
        """The unfinished changes after each jump of the clock."""
        numbers = []
        for jump_ms in (0, 3_600_000, -3_600_000, 10**13, -(10**12)):
            monkeypatch.setattr("rsmq_tui.triage.journal.journal.now_ms", lambda jump_ms=jump_ms: now_ms + jump_ms)
            numbers.append([change.change for change in journal.unfinished()])
        return numbers

    with another_at_work(folder) as process, closing(Journal(file_of(folder))) as journal:
        assert found() == [[]] * 5
        process.kill()
        process.wait()
        # It stays dead, and nothing of it is left.
        assert found() == [[1]] * 5
        assert not list(folder.glob("*.lock"))


def test_who_is_at_work(folder: Path) -> None:
    with closing(Journal(file_of(folder))) as journal, closing(Journal(file_of(folder))) as other:
        change = begun(journal)
        assert journal.unfinished() == other.unfinished() == []
        journal.leave(change)
        assert [found.change for found in other.unfinished()] == [change]
        assert not list(folder.glob("*.lock"))


def test_a_change_that_could_not_begin_keeps_nobody_from_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Journal(file_of(folder))) as journal:
        with monkeypatch.context() as patch:
            patch.setattr("rsmq_tui.triage.journal.database.JournalFile.transaction", _failing_at_its_end)
            with pytest.raises(JournalError):
                begun(journal)
        assert not list(folder.glob("*.lock"))
        assert begun(journal) == 1


@contextmanager
def _failing_at_its_end(file: JournalFile) -> Iterator[None]:
    file.db.execute("BEGIN IMMEDIATE")
    yield
    file.db.execute("ROLLBACK")
    raise sqlite3.OperationalError("disk I/O error")


def test_of_another_machine_only_its_last_word_tells(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    for silent_ms in (1_000, -1_000):
        assert is_alive(lock, "elsewhere", silent_ms)
        assert not is_alive(lock, socket.gethostname(), silent_ms)
    for silent_ms in (61_000, -61_000):
        assert not is_alive(lock, "elsewhere", silent_ms)
    held = ChangeLock(lock)
    # It may be a container here: what it holds locked is seen.
    assert is_alive(lock, "elsewhere", 61_000)
    held.release()
    assert not is_alive(lock, "elsewhere", 61_000)


def test_a_journal_is_made_by_several_at_once(folder: Path) -> None:
    async def make() -> list[Journal]:
        return await asyncio.gather(*(asyncio.to_thread(Journal, file_of(folder)) for _ in range(8)))

    journals = asyncio.run(make())
    numbers = [begun(journal) for journal in journals]
    assert sorted(numbers) == list(range(1, 9))
    for journal, number in zip(journals, numbers, strict=True):
        found = journal.change(number)
        assert found is not None
        assert (found.state, found.can_be_undone) == (State.RUNNING, False)
        journal.leave(number)
        journal.close()


def test_a_journal_that_was_opened_twice_is_shared_with_other_programs(folder: Path) -> None:
    journal = Journal(file_of(folder))
    Journal(file_of(folder)).close()
    # The last program that closes a file deletes its write-ahead log: it must find that this one has it open.
    reads = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM changes'); db.close()"
    subprocess.run([sys.executable, "-c", reads, file_of(folder)], check=True)

    number = begun(journal)
    with closing(Journal(file_of(folder))) as other:
        assert other.change(number) is not None
    journal.close()


def test_a_journal_that_is_closed_is_told(folder: Path) -> None:
    journal = Journal(file_of(folder))
    journal.close()

    with pytest.raises(JournalError, match="cannot be used"):
        begun(journal)
