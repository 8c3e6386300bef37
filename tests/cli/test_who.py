"""`rsmq-tui who`: a guess without a yes, what clients do with one, and what a server refuses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command


@contextmanager
def receiving(url: str, name: str) -> Iterator[None]:
    """A client of that name that receives from ``orders`` as often as it can."""
    ends = threading.Event()

    def receive() -> None:
        with Redis.from_url(url, client_name=name) as client:
            while not ends.is_set():
                Rsmq(client).receive_message("orders", vt=0)

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_without_yes_there_is_a_guess_and_no_monitor(command: Command, orders: Rsmq, client: Redis) -> None:
    client.client_setname("[bold]consumer")
    done = command("who", "orders")
    (found,) = done.lines
    assert (done.status, found["watched"], found["clients"]) == (3, False, None)
    assert ["[bold]consumer", "redis-py", 1] in [
        [group["name"], group["library"], group["clients"]] for group in found["groups"]
    ]
    assert "--yes" in done.err
    assert "cmdstat_monitor" not in client.info("commandstats")
    table = command("who", "orders", terminal=True)
    assert table.status == 3
    assert "A guess: all clients of this database" in table.text
    assert "[bold]consumer" in table.text


def test_with_yes_it_watches(command: Command, orders: Rsmq) -> None:
    done = command("who", "orders", "--yes", "--for", "0.1", "--json")
    (found,) = done.lines
    assert done.status == 0
    assert (found["queue"], found["watched"], found["refused"], found["clients"]) == ("orders", True, None, [])
    assert found["ended"] == "time"
    assert found["span_ms"] >= 100
    shown = command("who", "orders", "--yes", "--seconds", "0.1", terminal=True)
    assert shown.status == 0
    assert "Watched" in shown.text
    assert "no client used this queue" in shown.err


@pytest.mark.parametrize(("columns", "last"), [(80, ["ADDRESS", "NAME"]), (120, ["ADDRESS", "LIBRARY", "NAME"])])
def test_the_table_fits_the_terminal(
    command: Command, orders: Rsmq, redis_url: str, columns: int, last: list[str]
) -> None:
    with receiving(redis_url, "worker-of-all-orders-in-the-north"):
        shown = command("who", "orders", "--yes", terminal=True, columns=columns).text.splitlines()

    _, titles, *rows = shown
    assert titles.split() == ["RECEIVES", "DELETES", "SENDS", "CALLS", *last]
    assert rows
    assert all("worker-of" in row and len(row) <= columns for row in rows)


def test_a_list_tells_who_is_blocked(command: Command, client: Redis) -> None:
    client.rpush("queue:mail", "x")
    (found,) = command("who", "list:queue:mail").lines
    assert (found["queue"], found["blocked"]) == ("list:queue:mail", {"anywhere": 0, "here": 0, "longest_s": None})
    assert "Blocked on lists of this server: 0" in command("who", "list:queue:mail", terminal=True).text


def test_a_refused_monitor_is_a_guess(anywhere: Command, redis_url: str, orders: Rsmq, client: Redis) -> None:
    client.execute_command("ACL", "SETUSER", "watcher", "on", ">secret", "~*", "&*", "+@all", "-monitor")
    url = redis_url.replace("://", "://watcher:secret@")
    done = anywhere("-r", url, "who", "orders", "--yes")
    (found,) = done.lines
    assert (done.status, found["watched"], found["refused"]) == (1, False, "this user may not run it")
    assert found["groups"]


def test_what_cannot_be_watched_is_a_usage_error(command: Command, orders: Rsmq) -> None:
    gone = command("who", "gone", "--yes")
    assert (gone.status, gone.out) == (2, b"")
    assert "no such queue" in gone.err
    for span in ("2", "0"):
        long = command("who", "orders", "--for", span)
        assert (long.status, long.out) == (2, b"")
        assert f"'{span}' is not between 0.1s and 1s" in long.err
