"""`rsmq-tui record` as it is started and ended."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Address, Rsmq
from tests.cli.conftest import Command
from tests.cli.running import PROGRAM, Running, environment, line_of, started
from tests.history.made import left_over, rows_of
from tests.waiting import SECONDS_MAX, wait_until


@contextmanager
def recording(*arguments: str, ignoring: signal.Signals | None = None) -> Iterator[Running]:
    """A process that records, and has said so."""
    shell = () if ignoring is None else ("sh", "-c", f'trap "" {ignoring.value}; exec "$@"', "sh")
    with started(*shell, *PROGRAM, *arguments) as process:
        line = line_of(process.stderr)
        assert re.fullmatch(r"rsmq-tui: recording namespace \S+ on \S+ into \S+; Ctrl\+C stops it\n", line), line
        yield process


def segments(out: Path) -> int:
    """How much is in the segments: it grows with every poll."""
    return sum(path.stat().st_size for path in out.rglob("*.arrows"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "history"


def test_it_ends_when_its_time_is_over(command: Command, client: Redis, redis_url: str, out: Path) -> None:
    Rsmq(client, ns="jobs").create_queue("orders")
    Rsmq(client, ns="jobs").send_messages("orders", ["a", "b"])
    done = command(
        "record", "--ns", "jobs", "--out", str(out), "--interval", "100ms", "--for", "700ms", "--messages", "1s"
    )

    assert (done.status, done.out) == (0, b"")
    begun, ended = done.err.splitlines()
    what = f"namespace jobs on {Address(redis_url).label}"
    assert begun == f"rsmq-tui: recording {what} into {out}; Ctrl+C stops it"
    assert re.fullmatch(
        rf"rsmq-tui: recorded {re.escape(what)} into {out}: \d+ polls, \d+ rows, 2 messages, 2 files of [^ ]+ KiB",
        ended,
    )
    rows = rows_of(out)
    assert {(row["ns"], row["queue"], row["depth"]) for row in rows} == {("jobs", "orders", 2), ("jobs", None, None)}
    assert [row["id"] is None for row in rows_of(out, "messages")].count(False) == 2
    assert left_over(out) == []


def test_lists_are_recorded_beside_the_queues_of_rsmq(command: Command, client: Redis, out: Path) -> None:
    Rsmq(client).create_queue("orders")
    client.lpush("queue:mail", "a", "b")
    client.lpush("queue:mail:processing", "c")
    client.zadd("queue:mail:leases", {"t" * 22 + ":c": 1})
    done = command(
        *(
            "record",
            "--out",
            str(out),
            "--interval",
            "100ms",
            "--for",
            "700ms",
            "--messages",
            "1s",
            "--lists",
            "queue:*",
        )
    )

    assert done.status == 0
    assert "recorded namespace rsmq and lists queue:* on " in done.err
    rows = [row for row in rows_of(out) if row["queue"] is not None]
    assert {(row["ns"], row["queue"], row["kind"]) for row in rows} == {
        ("rsmq", "orders", "rsmq"), ("(lists)", "queue:mail", "list"),
    }  # fmt: skip
    mail = [row for row in rows if row["kind"] == "list"]
    assert {(row["depth"], row["ready"], row["hidden"], row["expired"], row["verdict"]) for row in mail} == {
        (3, 2, 1, 1, "leaking")
    }
    assert {row[name] for row in mail for name in ("totalsent", "totalrecv", "poison", "highest_rc")} == {None}
    # Inventories are of queues whose messages have ids.
    assert {row["queue"] for row in rows_of(out, "messages")} == {"orders"}
    assert left_over(out) == []


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_ends_it_and_what_was_polled_is_sealed(
    redis_url: str, out: Path, sent: signal.Signals, status: int
) -> None:
    with recording("-r", redis_url, "record", "--out", str(out), "--interval", "100ms") as process:
        wait_until(lambda: segments(out) > 8_000)
        process.send_signal(sent)
        _, err = process.communicate(timeout=SECONDS_MAX)

    assert process.returncode == status
    what = re.escape(f"namespace rsmq on {Address(redis_url).label}")
    assert re.fullmatch(rf"rsmq-tui: recorded {what} into {out}: (\d+) polls?, \1 rows?, 1 file of [^ ]+ KiB\n", err)
    assert len(rows_of(out)) >= 1
    assert left_over(out) == []


def test_what_a_killed_one_left_is_taken_over_by_the_next(redis_url: str, command: Command, out: Path) -> None:
    with recording("-r", redis_url, "record", "--out", str(out), "--interval", "100ms") as process:
        wait_until(lambda: segments(out) > 20_000)
        process.kill()
        process.wait(SECONDS_MAX)
    assert rows_of(out) == []
    done = command("record", "--out", str(out), "--for", "200ms")

    assert done.status == 0
    assert len({row["recorder"] for row in rows_of(out)}) == 2
    assert len(rows_of(out)) >= 3
    assert left_over(out) == []


def test_several_profiles_of_which_one_is_gone(anywhere: Command, live_and_dead: Path, out: Path) -> None:
    done = anywhere(
        "--config", str(live_and_dead), "--profile", "live,dead", "record", "--out", str(out), "--interval", "100ms",
        "--for", "700ms", "--messages", "1s",
    )  # fmt: skip

    assert done.status == 0
    assert re.search(
        r"^rsmq-tui: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  namespace rsmq on dead: connection refused",
        done.err,
        re.MULTILINE,
    )
    assert "hunter2" not in done.err
    rows = rows_of(out)
    assert {(row["profile"], row["ns"], row["queue"], row["status"]) for row in rows} == {
        ("live", "jobs", "orders", "ok"), ("live", "jobs", None, "ok"), ("live", "mails", "orders", "ok"),
        ("live", "mails", None, "ok"), ("dead", "rsmq", None, "down"),
    }  # fmt: skip
    assert {row["server"] for row in rows if row["status"] == "down"} == {"redis://127.0.0.1:1/0"}


def test_a_folder_that_cannot_be_written_is_one_sentence(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command("record", "--out", str(tmp_path / "file" / "x"), "--for", "1s")

    assert done.status == 2
    assert done.err == f"rsmq-tui: {tmp_path}/file/x cannot be written: Not a directory\n"


@pytest.mark.parametrize("missing", ["pyarrow", "fsspec"])
def test_without_the_extra_it_says_what_to_install(
    command: Command, out: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    done = command("record", "--out", str(out))

    assert done.status == 2
    assert done.err == (
        "rsmq-tui: recording needs the packages of the extra `history`: pip install 'rsmq-tui[history]'\n"
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ((), "Missing option '--out'"),
        (("--out", ""), "must not be empty: name a folder"),
        (("--out", "x", "--interval", "often"), "'often': "),
        (("--out", "x", "--every", "10ms"), "'10ms' is not between 0.1s and 86,400s"),
        (("--out", "x", "--for=-1h"), "is not between 100ms and"),
        (("--out", "x", "--messages", "500ms"), "is not between 1s and"),
        (("--out", "x", "--keep", "23h"), "is not between 1d and"),
        (("--out", "x", "--max-size", "lots"), "'lots' is not a size of at least 1M"),
        (("--out", "x", "--max-size", "10K"), "'10K' is not a size of at least 1M"),
        (("--out", "x", "--bodies"), "--bodies needs --messages"),
    ],
)
def test_refused(command: Command, arguments: tuple[str, ...], printed: str) -> None:
    done = command("record", *arguments)

    assert (done.status, done.out) == (2, b"")
    assert printed in done.err


def test_its_help_has_examples_and_exit_statuses(anywhere: Command) -> None:
    done = anywhere("record", "--help")

    assert done.status == 0
    for words in (
        "rsmq-tui record --out history",
        "--keep 90d --max-size 20G",
        "Exit status: 0",
        "143 ended by SIGTERM",
    ):
        assert words in " ".join(done.text.split())


def test_nohup_keeps_it_going(redis_url: str, out: Path) -> None:
    with recording(
        "-r", redis_url, "record", "--out", str(out), "--interval", "100ms", ignoring=signal.SIGHUP
    ) as process:
        wait_until(lambda: segments(out) > 8_000)
        process.send_signal(signal.SIGHUP)
        before = segments(out)
        wait_until(lambda: segments(out) > before + 4_000)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)

    assert process.returncode == 143


def test_at_a_terminal_it_says_how_far_it_is(redis_url: str, out: Path) -> None:
    main, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "rsmq_tui", "-r", redis_url, "record", "--out", str(out), "--interval", "100ms"],
        env=environment(), stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        try:
            while not re.search(rb"\r\d s: \d+ polls, \d+ rows, 0 files of 0 B and [\d.]+ KiB not sealed yet", shown):
                shown += os.read(main, 4096)
            process.send_signal(signal.SIGINT)
            with suppress(OSError):
                while read := os.read(main, 4096):
                    shown += read
        finally:
            process.kill()
            os.close(main)

    assert process.returncode == 130
    *_, last = shown.replace(b"\r", b"\n").strip().splitlines()
    assert last.startswith(b"rsmq-tui: recorded ")
