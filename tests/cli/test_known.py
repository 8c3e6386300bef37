"""`rsmq-tui known`: what is known of the troubles of queues, and that it sends no alert."""

import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.events.store import EventStore
from tests.cli.conftest import Command, write
from tests.protocol.keyspace import everything


@pytest.fixture
def alerting(config: Path) -> Path:
    """A configuration of a read-only server, with one rule, on which one queue alerts."""
    write(
        config,
        'read_only = true\n[[alerts]]\nwhen = "depth > 1"\n[channels.pager]\ncommand = ["true"]\n',
    )
    return config


def test_the_answer_names_the_namespace_of_the_queue(anywhere: Command, state: Path) -> None:
    done = anywhere("known", "add", "orders", "--ns", "jobs")
    assert ", ns jobs: its trouble is acknowledged until it is ok" in done.err
    assert ", ns rsmq: its trouble is not acknowledged" in anywhere("known", "remove", "orders").err
    assert ", ns jobs: its trouble is no longer acknowledged" in anywhere("known", "remove", "rsmq:jobs/orders").err
    done = anywhere("known", "remove", "list:mail")
    assert re.search(r": mail on redis://[^,]*: its trouble is not acknowledged", done.err)


def test_the_zone_of_a_time_is_never_cut(anywhere: Command, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with monkeypatch.context() as patched:
            patched.setenv("TZ", "Asia/Kathmandu")
            time.tzset()
            anywhere("known", "add", "orders", "--until", "2h", "--note", "deploying")
            titles, line = anywhere("known", terminal=True).text.splitlines()
    finally:
        time.tzset()
    assert line.count(" +0545 ") == 2
    assert [titles.index(title) for title in ("UNTIL", "NOTE")] == [line.rindex("20", 0, 30), line.index("deploying")]


def test_what_is_known_is_listed_sends_nothing_and_ends(
    anywhere: Command, alerting: Path, state: Path, client: Redis
) -> None:
    options = ("--config", str(alerting))
    before = everything(client)
    assert (anywhere("known").out, anywhere("known").err) == (b"", "")
    assert anywhere("known", terminal=True).err.startswith("rsmq-tui: no trouble is acknowledged now; ")
    assert len(anywhere(*options, "watch", "--once").lines) == 1

    done = anywhere(*options, "known", "add", "orders", "--note", "deploying \x1b[31m", "--until", "2h")
    assert done.status == 0
    assert "orders on redis://" in done.err
    assert ", ns rsmq: its trouble is acknowledged until 20" in done.err
    (known,) = anywhere("known").lines
    assert (known["queue"], known["ns"], known["note"]) == ("orders", "rsmq", "deploying \x1b[31m")
    assert known["until_ms"] - known["since_ms"] == 7_200_000
    shown = anywhere("known", "list", terminal=True).text
    assert "deploying ␛[31m" in shown
    zone = time.strftime("%Z")
    assert shown.splitlines()[1].count(f" {zone} ") == 2
    assert anywhere("known", "list", terminal=True).err == ""
    assert anywhere(*options, "watch", "--once").out == b""

    assert anywhere(*options, "known", "remove", "orders").status == 0
    assert anywhere("known").out == b""
    assert anywhere("known", "list", "--all", "--json").lines[0]["note"] == "deploying \x1b[31m"
    assert len(anywhere(*options, "watch", "--once").lines) == 1
    assert anywhere(*options, "known", "remove", "orders").status == 2
    with closing(EventStore(state / "rsmq-tui" / "events.sqlite")) as store:
        texts = [stored.event.text for stored in store.last(10)]
    assert len(texts) == 2
    assert texts[1] == "its trouble is no longer acknowledged: somebody ended it"
    assert everything(client) == before


@pytest.mark.parametrize(
    ("queue", "words"),
    [("", "the name of the queue is empty"), ("orders-*", "orders-* is a pattern: name one queue; `ignore` in a prof")],
)
def test_what_is_no_queue_is_refused(queue: str, words: str, anywhere: Command, alerting: Path) -> None:
    done = anywhere("--config", str(alerting), "known", "add", queue)
    assert (done.status, anywhere("known").lines) == (2, [])
    assert words in done.err


def test_lists_are_named_by_their_kind(anywhere: Command, alerting: Path) -> None:
    assert anywhere("--config", str(alerting), "known", "add", "list:queue:mail").status == 0

    (known,) = anywhere("known").lines
    assert (known["queue"], known["until_ms"], known["note"]) == ("list:queue:mail", None, "")


def test_what_cannot_be(anywhere: Command, alerting: Path, state: Path) -> None:
    options = ("--config", str(alerting))
    assert "is not a time such as 06:00" in anywhere(*options, "known", "add", "orders", "--until", "soon").err
    assert "more than 300 characters" in anywhere(*options, "known", "add", "orders", "--note", "x" * 301).err
    (state / "rsmq-tui").mkdir()
    (state / "rsmq-tui" / "known.sqlite").write_bytes(b"no database" * 1_000)
    for command in (("known",), ("known", "add", "orders"), ("known", "remove", "orders")):
        done = anywhere(*options, *command)
        assert (done.status, done.out) == (2, b"")
        assert "cannot be used: it is not one of rsmq-tui" in done.err
    # The alerts go on.
    assert len(anywhere(*options, "watch", "--once").lines) == 1


def test_an_end_that_cannot_be_written_is_one_sentence(anywhere: Command, alerting: Path, state: Path) -> None:
    options = ("--config", str(alerting))
    assert anywhere(*options, "known", "add", "orders").status == 0
    with closing(sqlite3.connect(state / "rsmq-tui" / "known.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = anywhere(*options, "known", "remove", "orders")
    assert (done.status, len(done.err.splitlines())) == (2, 1), done.err
    assert [known["ended_ms"] for known in anywhere("known").lines] == [None]


def test_the_help_shows_no_empty_default(anywhere: Command) -> None:
    shown = anywhere("known", "add", "--help").text
    assert "[default: until it is ok]" in shown
    assert 'default: ""' not in shown
