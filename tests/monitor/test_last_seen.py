"""What checks remember of a namespace: clocks that run while nobody receives, whatever happens to the file."""

import fcntl
import json
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rsmq_tui.monitor import Drain, QueueState, Verdict
from rsmq_tui.monitor.checks import LastSeen

SERVER = "redis://localhost:6379/0"


def queue(
    name: str = "orders", *, ready: int | None = 3, received: int | None = 7, created_ms: int | None = 500
) -> QueueState:
    counts = {"depth": ready, "ready": ready, "hidden": 0, "totalrecv": received, "created_ms": created_ms}
    unknown = dict.fromkeys(QueueState._fields)
    known = {"name": name, "kind": "rsmq", "verdict": Verdict.OK, "drain": Drain.UNKNOWN, "problems": ()}
    return QueueState(**{**unknown, **counts, **known})  # type: ignore[arg-type] # None is unknown


@pytest.fixture
def last_seen(tmp_path: Path) -> LastSeen:
    return LastSeen(tmp_path / "state" / "check", SERVER, "rsmq")


def test_the_clock_starts_with_the_first_look_and_runs_on_while_nothing_is_received(last_seen: LastSeen) -> None:
    first = last_seen.update(1_000, [queue()])
    assert (first.since_ms, first.is_first, first.problem) == ({"orders": 1_000}, True, None)
    second = last_seen.update(61_000, [queue(ready=90)])
    assert (second.since_ms, second.is_first) == ({"orders": 1_000}, False)


@pytest.mark.parametrize("changed", [queue(received=8), queue(received=0), queue(received=None), queue(created_ms=900)])
def test_it_starts_again_with_a_receive_or_another_count_or_another_queue_of_the_name(
    last_seen: LastSeen, changed: QueueState
) -> None:
    last_seen.update(1_000, [queue()])
    assert last_seen.update(2_000, [changed]).since_ms == {"orders": 2_000}
    assert last_seen.update(3_000, [changed]).since_ms == {"orders": 2_000}


def test_a_file_of_an_earlier_version_is_continued(last_seen: LastSeen) -> None:
    last_seen.path.parent.mkdir(parents=True)
    content = {"server": SERVER, "ns": "rsmq", "at_ms": 1_000, "queues": {"orders": [7, 1_000]}}
    last_seen.path.write_text(json.dumps(content))
    assert last_seen.update(2_000, [queue()]).since_ms == {"orders": 1_000}
    assert last_seen.update(3_000, [queue(created_ms=900)]).since_ms == {"orders": 3_000}


@pytest.mark.parametrize("ready", [0, None])
def test_a_queue_without_ready_messages_is_forgotten(last_seen: LastSeen, ready: int | None) -> None:
    last_seen.update(1_000, [queue()])
    assert last_seen.update(2_000, [queue(ready=ready)]).since_ms == {}
    assert last_seen.update(3_000, [queue()]).since_ms == {"orders": 3_000}


def test_a_queue_that_is_gone_is_forgotten(last_seen: LastSeen) -> None:
    last_seen.update(1_000, [queue(), queue("mail")])
    last_seen.update(2_000, [queue("mail")])
    assert "orders" not in last_seen.path.read_text()
    assert last_seen.update(3_000, [queue(), queue("mail")]).since_ms == {"orders": 3_000, "mail": 1_000}


def test_servers_and_namespaces_do_not_share_a_clock(last_seen: LastSeen) -> None:
    last_seen.update(1_000, [queue()])
    folder = last_seen.path.parent
    for server, ns in ((SERVER, "jobs"), ("redis://other:6379/0", "rsmq")):
        other = LastSeen(folder, server, ns)
        assert other.update(2_000, [queue()]).is_first
    assert LastSeen(folder, SERVER, "rsmq").update(3_000, [queue()]).since_ms == {"orders": 1_000}


def test_names_of_any_bytes_come_back(last_seen: LastSeen) -> None:
    name = b"\xff\x00\n\x1b[2J".decode("utf-8", "surrogateescape")
    last_seen.update(1_000, [queue(name)])
    assert last_seen.update(2_000, [queue(name)]).since_ms == {name: 1_000}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b'{"server": 1}', b"[" * 100_000,
     json.dumps({"server": SERVER, "ns": "rsmq", "at_ms": 1, "queues": {"orders": [7]}}).encode(),
     json.dumps({"server": SERVER, "ns": "rsmq", "at_ms": 1, "queues": {"orders": [7, "1"]}}).encode(),
     json.dumps({"server": SERVER, "ns": "rsmq", "at_ms": 1, "queues": {"orders": [7, -1]}}).encode(),
     json.dumps({"server": SERVER, "ns": "rsmq", "at_ms": 1, "queues": {"orders": [7, 10**300]}}).encode(),
     json.dumps({"server": SERVER, "ns": "rsmq", "at_ms": -(10**18), "queues": {}}).encode(),
     json.dumps({"server": SERVER, "ns": "rsmq", "at_ms": "1", "queues": {}}).encode(),
     json.dumps({"server": SERVER, "ns": "other", "at_ms": 1, "queues": {"orders": [7, 1]}}).encode()],
    ids=lambda content: repr(content[:60]),
)  # fmt: skip
def test_a_file_that_cannot_be_read_counts_as_none(last_seen: LastSeen, content: bytes) -> None:
    last_seen.path.parent.mkdir(parents=True)
    last_seen.path.write_bytes(content)
    known = last_seen.update(5_000, [queue()])
    assert (known.since_ms, known.is_first, known.problem) == ({"orders": 5_000}, True, None)
    assert last_seen.update(6_000, [queue()]).since_ms == {"orders": 5_000}


def test_a_look_that_comes_late_does_not_undo_a_later_one(last_seen: LastSeen) -> None:
    last_seen.update(10_000, [queue(received=8)])
    late = last_seen.update(9_900, [queue(received=7)])
    assert late.since_ms == {"orders": 9_900}
    assert last_seen.update(20_000, [queue(received=8)]).since_ms == {"orders": 10_000}


def test_a_clock_that_was_set_back_begins_anew(last_seen: LastSeen) -> None:
    last_seen.update(10_000_000, [queue()])
    assert last_seen.update(1_000, [queue()]).since_ms == {"orders": 1_000}
    assert last_seen.update(2_000, [queue()]).since_ms == {"orders": 1_000}


def test_only_the_user_may_read_it_and_nothing_else_is_left(last_seen: LastSeen) -> None:
    last_seen.update(1_000, [queue()])
    last_seen.update(2_000, [queue()])
    assert stat.S_IMODE(last_seen.path.stat().st_mode) == 0o600
    assert sorted(path.suffix for path in last_seen.path.parent.iterdir()) == [".json", ".lock"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    known = LastSeen(tmp_path / "file" / "check", SERVER, "rsmq").update(1_000, [queue()])
    assert known.since_ms == {}
    assert known.problem is not None
    assert str(tmp_path / "file") in known.problem


def test_a_file_that_another_program_has_locked_is_said(last_seen: LastSeen, monkeypatch: pytest.MonkeyPatch) -> None:
    last_seen.update(1_000, [queue()])
    monkeypatch.setattr("rsmq_tui.files.LOCK_WAIT_S", 0.05)
    with last_seen.path.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        problem = last_seen.update(2_000, [queue()]).problem
    assert problem == f"{last_seen.path.parent} cannot be written: another program has locked it"
    assert last_seen.update(3_000, [queue()]).since_ms == {"orders": 1_000}


def test_a_write_that_fails_leaves_what_was_there(last_seen: LastSeen, monkeypatch: pytest.MonkeyPatch) -> None:
    last_seen.update(1_000, [queue()])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rsmq_tui.files.os.fsync", full)
        problem = last_seen.update(2_000, [queue()]).problem
    assert problem is not None
    assert problem.endswith("No space left on device")
    assert sorted(path.suffix for path in last_seen.path.parent.iterdir()) == [".json", ".lock"]
    assert last_seen.update(3_000, [queue()]).since_ms == {"orders": 1_000}


def test_many_threads_at_once_leave_a_whole_file(last_seen: LastSeen) -> None:
    folder = last_seen.path.parent
    last_seen.update(0, [queue(f"q{number}") for number in range(200)])

    def look(number: int) -> bool:
        known = LastSeen(folder, SERVER, "rsmq").update(number, [queue(f"q{index}") for index in range(200)])
        return set(known.since_ms.values()) == {0}

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(look, range(1, 60)))
    assert json.loads(last_seen.path.read_bytes())["at_ms"] == 59


def test_another_process_that_writes_is_waited_for(last_seen: LastSeen) -> None:
    last_seen.update(1_000, [queue()])
    holding = (
        "import fcntl, os, sys; file = os.open(sys.argv[1], os.O_RDWR); fcntl.flock(file, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read(); open(sys.argv[1] + '.released', 'w').close()"
    )
    lock = last_seen.path.with_suffix(".lock")
    with (
        subprocess.Popen(
            [sys.executable, "-c", holding, str(lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder,
        ThreadPoolExecutor(1) as pool,
    ):
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        coming = pool.submit(lambda: (last_seen.update(2_000, [queue()]), Path(f"{lock}.released").exists()))
        assert not coming.done()
        holder.stdin.close()
        known, was_released = coming.result(timeout=100)
    assert was_released
    assert known.since_ms == {"orders": 1_000}
