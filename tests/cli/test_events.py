"""`rsmq-tui events`: what a dashboard has recorded, and what it records now."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rsmq_tui.docs import page
from rsmq_tui.events.model import Event, EventKind, Severity
from rsmq_tui.events.store import EventStore
from rsmq_tui.monitor.text import cells
from tests.cli.conftest import Command, write
from tests.cli.running import environment
from tests.events.made import SERVER, event
from tests.waiting import SECONDS_MAX


@pytest.fixture
def folder(state: Path) -> Path:
    """Where a dashboard of this user keeps its state."""
    return state / "rsmq-tui"


@pytest.fixture
def store(folder: Path) -> Iterator[EventStore]:
    with closing(EventStore(folder / "events.sqlite")) as opened:
        yield opened


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_the_page_has_each_kind() -> None:
    table = page("monitoring").partition("| kind | what happened |")[2].partition("\n\n")[0]
    kinds = [kind for row in table.splitlines()[2:] for kind in re.findall("`([a-z]+)`", row.split("|")[1])]
    assert sorted(kinds) == sorted(EventKind)


def test_before_the_first_event_there_is_nothing(anywhere: Command, folder: Path) -> None:
    done = anywhere("events")

    assert (done.status, done.out) == (0, b"")
    assert "no events yet: a dashboard records them while it runs" in done.err
    assert not folder.exists()


def test_the_last_events_as_json_the_oldest_first(anywhere: Command, store: EventStore) -> None:
    store.write([event(number, f"q{number}", details={"depth": number}) for number in range(200)])

    lines = anywhere("events").lines
    assert [line["queue"] for line in lines] == [f"q{number}" for number in range(100, 200)]
    assert lines[-1] == {
        "at_ms": event(199).at_ms, "server": SERVER, "ns": "rsmq", "queue": "q199", "kind": "verdict",
        "severity": "error", "text": "stalled: number 199", "details": {"depth": 199},
    }  # fmt: skip
    assert [line["queue"] for line in anywhere("events", "--limit", "1").lines] == ["q199"]


def lost(number: int, server: str = SERVER) -> Event:
    return event(number, None, server=server, kind=EventKind.LOST, severity=Severity.ERROR, text="does not answer")


def test_events_on_a_terminal(anywhere: Command, store: EventStore) -> None:
    store.write([event(1), lost(2)])

    titles, first, second = anywhere("events", terminal=True).text.splitlines()
    assert titles.split() == ["TIME", "UTC", "SEVERITY", "KIND", "QUEUE", "WHAT"]
    assert first.split()[2:] == ["error", "verdict", "orders", "stalled:", "number", "1"]
    assert second.split()[2:] == ["error", "lost", "does", "not", "answer"]


def test_lines_fit_a_narrow_terminal(anywhere: Command, store: EventStore) -> None:
    reason = "stalled: 3 messages ready and none received for 1m 0s, the last one 2m ago"
    ports = [f"redis://the-host-of-the-shop:{port}/0" for port in (6379, 6380)]
    store.write([event(1, "orders", text=reason)])

    def lines(*options: str) -> list[str]:
        return anywhere("events", *options, terminal=True, columns=80).text.splitlines()

    titles, first = lines()
    assert titles.split() == ["TIME", "UTC", "QUEUE", "WHAT"]
    assert (cells(first), first.split()[2]) == (80, "orders")
    assert first.endswith("stalled: 3 messages ready and none received for 1m 0s, …")

    store.write([lost(2, ports[0]), lost(3, ports[1])])
    titles, _, *both = lines()
    assert titles.split() == ["TIME", "UTC", "SERVER", "QUEUE", "WHAT"]
    assert [line.split()[2] for line in both] == ["…-of-the-shop:6379/0", "…-of-the-shop:6380/0"]

    titles, first, *both = lines("--wide")
    assert titles.split() == ["TIME", "UTC", "SEVERITY", "KIND", "SERVER", "QUEUE", "WHAT"]
    assert first.endswith(reason)
    assert [line.split()[4] for line in both] == ports


def test_queues_and_words_choose_events(anywhere: Command, store: EventStore) -> None:
    store.write([
        event(1, "orders"), event(2, "orders-dlq", kind=EventKind.CREATED, severity=Severity.INFO, text="created"),
        event(3, "mail", text="growing: arrivals"), event(4, "queue:mail", ns="(lists)"), lost(5),
        event(6, "import", ns="jobs"),
    ])  # fmt: skip

    def chosen(*options: str) -> list[str | None]:
        return [line["queue"] for line in anywhere("events", *options).lines]

    assert chosen("--queue", "orders*") == ["orders", "orders-dlq"]
    assert chosen("--queue", "mail", "--queue", "orders") == ["orders", "mail"]
    assert chosen("--queue", "list:*") == ["list:queue:mail"]
    assert chosen("--queue", "rsmq:mail", "--queue", "l*") == ["mail"]
    # An event about a server is about no queue.
    assert chosen("--queue", "rsmq:*") == ["orders", "orders-dlq", "mail", "import"]
    assert chosen("--queue", "*") == ["orders", "orders-dlq", "mail", "list:queue:mail", "import"]
    # As other commands, it may name the namespace.
    assert chosen("--queue", "rsmq:jobs/import", "--queue", "rsmq:rsmq/m*") == ["mail", "import"]
    assert chosen("--queue", "rsmq:rsmq/import", "--queue", "rsmq:jobs/mail") == []
    assert chosen("--filter", "error !growing") == ["orders", "list:queue:mail", None, "import"]
    assert chosen("--filter", "creat") == ["orders-dlq"]
    assert chosen("--filter", "ARRIVALS") == ["mail"]
    done = anywhere("events", "--queue", "nobody")
    assert (done.status, done.out) == (0, b"")
    assert "no such events" in done.err


def test_a_log_without_events_is_no_choice_that_finds_none(anywhere: Command, store: EventStore) -> None:
    store.write([])
    assert "no events yet" in anywhere("events").err
    assert "no such events" in anywhere("events", "--since", "1h").err


def test_servers_choose_events(anywhere: Command, store: EventStore, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    write(config, f'default = "shop"\n[profiles.shop]\nurl = "{SERVER}"\n[profiles.other]\nurl = "redis://other"\n')
    store.write([event(1, "orders"), event(2, "mail", server="redis://other:6379/0")])

    def chosen(*options: str) -> list[str]:
        return [line["queue"] for line in anywhere("events", "--config", str(config), *options).lines]

    assert chosen() == ["orders", "mail"]
    assert chosen("--profile", "shop") == chosen("-r", SERVER) == ["orders"]
    assert chosen("--profile", "other", "--limit", "1") == ["mail"]
    assert chosen("--profile", "shop,other") == ["orders", "mail"]
    assert anywhere("events", "--config", str(config), "--profile", "shp").status == 2


def test_since_counts_back_from_now(anywhere: Command, store: EventStore) -> None:
    store.write([event(queue="old", at_ms=now_ms() - 7_300_000), event(queue="new", at_ms=now_ms() - 7_100_000)])

    assert [line["queue"] for line in anywhere("events", "--since", "2h").lines] == ["new"]
    assert anywhere("events", "--since", "soon").status == 2


def test_hostile_names_are_escaped(anywhere: Command, store: EventStore) -> None:
    store.write([event(queue="\x1b]0;x\x07\n\udcff", text="\x1b[31m[red]\u202e")])

    done = anywhere("events", terminal=True)
    assert not any(byte in done.out for byte in (b"\x1b", b"\x07", "\u202e".encode()))
    assert len(done.text.splitlines()) == 2
    assert anywhere("events").lines[0]["queue"] == "\x1b]0;x\x07\n\udcff"


def test_a_damaged_log_is_one_sentence(anywhere: Command, folder: Path) -> None:
    folder.mkdir()
    (folder / "events.sqlite").write_bytes(b"no database" * 1_000)

    done = anywhere("events")
    assert (done.status, done.out) == (2, b"")
    assert "cannot be used: it is not one of rsmq-tui, or it is damaged" in done.err


@pytest.mark.parametrize("is_there", [True, False])
def test_follow_prints_what_is_written_meanwhile(state: Path, folder: Path, is_there: bool) -> None:
    def write(*events: Event) -> None:
        with closing(EventStore(folder / "events.sqlite")) as store:
            store.write(events)

    if is_there:
        write(event(1, "before"))
    following = subprocess.Popen(
        [sys.executable, "-m", "rsmq_tui", "events", "--follow", "--json", "--filter", "!secret"],
        env=environment(HOME=str(state), XDG_STATE_HOME=str(state)),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert following.stdout is not None
        if is_there:
            assert json.loads(following.stdout.readline())["queue"] == "before"
        write(event(2, "secret"), event(3, "later"))
        assert json.loads(following.stdout.readline())["queue"] == "later"
        write(event(4, "last"))
        assert json.loads(following.stdout.readline())["queue"] == "last"
        following.send_signal(2)
        assert following.wait(SECONDS_MAX) == 130
    finally:
        following.kill()
        following.wait()
        following.stdout.close()
