"""Checking queues once: every kind of problem on a real server, its severity, and what one look can prove."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.monitor import RsmqPoller, Thresholds
from rsmq_tui.monitor.checks import Checked, CheckLimit, LastSeen, Limits, Status, check, worst
from rsmq_tui.protocol import Rsmq, RsmqReader, make_id
from tests.protocol.responder import Responder

Check = Callable[..., Awaitable[Checked]]
HOUR_MS = 3_600_000


@pytest.fixture
def rsmq(client: Redis) -> Rsmq:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=0, maxsize=-1)
    return rsmq


@pytest.fixture
def checked(reader: RsmqReader, tmp_path: Path) -> Check:
    """Check the test's server with those limits."""

    async def run(*queues: str, thresholds: Thresholds | None = None, **limits: object) -> Checked:
        last_seen = LastSeen(tmp_path, reader.label, reader.ns)
        return await check(reader, Limits(queues, **limits), thresholds or Thresholds(), last_seen)  # type: ignore[arg-type] # any

    return run


def words(found: Checked) -> list[tuple[str, str, str | None]]:
    return [(problem.status.value, problem.kind, problem.queue) for problem in found.problems]


def send_old(client: Redis, queue: str, *, age_ms: int, due_ms: int | None = None) -> None:
    """Put a message that was sent so long ago, when the queue existed, and became visible then or so long ago."""
    seconds, micros = client.time()
    now_ms = seconds * 1000 + micros // 1000
    id = make_id((now_ms - age_ms) * 1000)
    client.zadd(f"rsmq:{queue}", {id: now_ms - (age_ms if due_ms is None else due_ms)})
    client.hset(f"rsmq:{queue}:Q", id, "old")
    created = int(client.hget(f"rsmq:{queue}:Q", "created") or seconds)
    client.hset(f"rsmq:{queue}:Q", "created", min(created, seconds - age_ms // 1000))
    client.hincrby(f"rsmq:{queue}:Q", "totalsent")


def receive(client: Redis, queue: str, id: str, times: int) -> None:
    client.hset(f"rsmq:{queue}:Q", mapping={f"{id}:rc": times, f"{id}:fr": 1})


def test_the_worst_status_counts_and_its_number_is_a_plugins() -> None:
    assert [status.exit_status for status in (Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN)] == [
        0,
        1,
        2,
        3,
    ]
    assert worst([]) is Status.OK
    assert worst([Status.OK, Status.WARNING]) is Status.WARNING
    assert worst([Status.WARNING, Status.UNKNOWN, Status.OK]) is Status.UNKNOWN
    assert worst([Status.UNKNOWN, Status.CRITICAL]) is Status.CRITICAL


@pytest.mark.parametrize(
    ("limit", "above", "reached"),
    [
        (CheckLimit(critical=5), [None, None, 5], [None, 5, 5]),
        (CheckLimit(warning=5), [None, None, 5], [None, 5, 5]),
        (CheckLimit(4, 5), [None, 4, 5], [4, 5, 5]),
        (CheckLimit(0, 9), [0, 0, 0], [0, 0, 0]),
    ],
)
def test_bounds(limit: CheckLimit, above: list[int | None], reached: list[int | None]) -> None:
    for value, beyond, at in zip((4, 5, 6), above, reached, strict=True):
        for found, bound in ((limit.above(value), beyond), (limit.reached(value), at)):
            assert (found and found[1]) == bound
            if found:
                assert found[0] is (Status.CRITICAL if bound == limit.critical else Status.WARNING)


async def test_nothing_is_wrong(checked: Check, rsmq: Rsmq) -> None:
    rsmq.send_messages("orders", ["one", "two"])
    found = await checked(
        depth=CheckLimit(2, 2), age_ms=CheckLimit(None, HOUR_MS), rc=CheckLimit(None, 1), stalled_ms=CheckLimit(HOUR_MS)
    )
    assert (found.status, words(found)) == (Status.OK, [])
    assert [queue.name for queue in found.queues] == ["orders"]


async def test_depth_is_a_warning_or_critical(checked: Check, rsmq: Rsmq) -> None:
    rsmq.send_messages("orders", ["one", "two", "three"])
    for limit, status in (
        (CheckLimit(2, 3), "warning"),
        (CheckLimit(1, 2), "critical"),
        (CheckLimit(None, 2), "critical"),
    ):
        found = await checked(depth=limit)
        assert words(found) == [(status, "depth", "orders")]
    assert found.problems[0].text == "3 messages stored, more than 2"
    assert (found.problems[0].value, found.problems[0].limit) == (3, 2)


async def test_age_counts_against_its_limit_or_else_the_threshold(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    send_old(client, "orders", age_ms=2 * HOUR_MS)
    assert words(await checked()) == [("warning", "aged", "orders")]
    assert words(await checked(thresholds=Thresholds(aged_ms=3 * HOUR_MS))) == []
    assert words(await checked(age_ms=CheckLimit(None, 3 * HOUR_MS))) == []
    found = await checked(age_ms=CheckLimit(HOUR_MS, 3 * HOUR_MS))
    assert words(found) == [("warning", "age_ms", "orders")]
    assert found.problems[0].text == "the first ready message has waited 2h 0m, longer than 1h 0m"


async def test_a_broken_queue_is_critical_whatever_the_limits(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    client.sadd("rsmq:QUEUES", "gone", "wrong")
    client.set("rsmq:wrong", "no sorted set")
    client.hset("rsmq:wrong:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536, "created": 1, "modified": 1})
    for limits in ({}, {"rc": CheckLimit(None, 5), "stalled_ms": CheckLimit(None, 0), "depth": CheckLimit(None, 9)}):
        found = await checked(**limits)
        assert words(found) == [("critical", "broken", "gone"), ("critical", "broken", "wrong")]


async def test_names_that_are_no_set_are_critical(checked: Check, client: Redis) -> None:
    client.set("rsmq:QUEUES", "x")
    found = await checked()
    assert words(found) == [("critical", "index", None)]
    assert "rsmq:QUEUES" in found.problems[0].text


async def test_a_full_memory_is_critical(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    client.config_set("maxmemory", 1)
    try:
        found = await checked()
    finally:
        client.config_set("maxmemory", 0)
    assert words(found) == [("critical", "memory", None)]
    (full,) = found.problems
    assert full.text.startswith("the memory of the server is full, ")
    assert full.text.endswith(" of 1 B: it refuses messages or evicts keys")
    assert full.limit == 1
    assert words(await checked()) == []


async def test_a_quick_look_finds_poison_in_every_queue(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    # More queues than one look takes.
    for number in range(90):
        rsmq.create_queue(f"q{number:02}", vt=3600)
        receive(client, f"q{number:02}", rsmq.send_message(f"q{number:02}", "x"), 4 + number % 2)
    found = await checked()
    assert words(found) == [("warning", "poisoned", f"q{number:02}") for number in range(1, 90, 2)]
    assert found.problems[0].text == "1 message received 5 times or more (up to 5)"


async def test_the_rc_limit_looks_at_every_message(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    ids = rsmq.send_messages("orders", ["x"] * 2500)
    receive(client, "orders", ids[0], 7)
    receive(client, "orders", ids[-1], 9)
    receive(client, "orders", ids[1200], 3)
    found = await checked(rc=CheckLimit(3, 8))
    assert words(found) == [("critical", "rc", "orders")]
    assert found.problems[0].text == "1 message received 8 times or more (up to 9)"
    assert found.poison == {"orders": 3}
    assert words(await checked(rc=CheckLimit(3, 10))) == [("warning", "rc", "orders")]
    # It takes the place of the quick look.
    assert words(await checked(rc=CheckLimit(None, 10))) == []
    assert found.notes == []


async def test_a_scan_that_is_cut_says_so(checked: Check, rsmq: Rsmq) -> None:
    rsmq.send_messages("orders", ["x"] * 3000)
    found = await checked(rc=CheckLimit(None, 5), scan_limit=1000)
    assert found.status is Status.OK
    (note,) = found.notes
    assert note.startswith("orders: 1,")
    assert "of 3,000 messages were checked for --max-rc; --scan-limit allows more" in note


async def test_a_scan_of_no_more_than_the_limit_is_whole(checked: Check, rsmq: Rsmq) -> None:
    rsmq.send_messages("orders", ["x"] * 1000)
    assert (await checked(rc=CheckLimit(None, 5), scan_limit=1000)).notes == []


async def test_stalled_takes_two_checks(
    checked: Check, rsmq: Rsmq, reader: RsmqReader, tmp_path: Path, client: Redis
) -> None:
    for _ in range(5):
        send_old(client, "orders", age_ms=3 * HOUR_MS)
    rsmq.receive_message("orders")
    limit, thresholds = CheckLimit(60_000, 3 * HOUR_MS), Thresholds(aged_ms=9 * HOUR_MS)
    first = await checked(stalled_ms=limit, thresholds=thresholds)
    assert words(first) == []
    assert first.notes[1:] == ["--stalled: this is the first check, with nothing to compare to yet"]
    # As if the first check had been two hours ago: the seconds that this takes are not part of the text.
    state = await _state_ago(reader, tmp_path, ms=2 * HOUR_MS)
    second = await checked(stalled_ms=limit, thresholds=thresholds)
    assert words(second) == [("warning", "stalled_ms", "orders")]
    assert second.problems[0].text == "5 messages ready and none received for 2h 0m"
    assert second.idle_ms["orders"] >= 2 * HOUR_MS
    assert second.notes == first.notes[:1] == ["thresholds that differ from the defaults: aged 9 h"]
    rsmq.receive_message("orders")
    assert words(await checked(stalled_ms=limit, thresholds=thresholds)) == []
    assert state.path.exists()


async def _state_ago(reader: RsmqReader, folder: Path, *, ms: int) -> LastSeen:
    state = LastSeen(folder, reader.label, reader.ns)
    state.path.unlink(missing_ok=True)
    snapshot = await RsmqPoller(reader).poll()
    state.update(snapshot.at_ms - ms, snapshot.queues)
    return state


async def test_a_check_of_one_queue_keeps_the_clocks_of_the_others(
    checked: Check, rsmq: Rsmq, reader: RsmqReader, tmp_path: Path, client: Redis
) -> None:
    rsmq.create_queue("mail", vt=0)
    for name in ("orders", "mail"):
        for _ in range(2):
            send_old(client, name, age_ms=500_000)
        rsmq.receive_message(name)
    await checked(stalled_ms=CheckLimit(60_000))
    await _state_ago(reader, tmp_path, ms=600_000)
    assert words(await checked("mail", stalled_ms=CheckLimit(60_000))) == [("warning", "stalled_ms", "mail")]
    assert words(await checked("orders", stalled_ms=CheckLimit(60_000))) == [("warning", "stalled_ms", "orders")]


@pytest.mark.parametrize("lost", ["the queue", "its messages", "everything"])
async def test_new_messages_were_not_ignored_before_they_were_sent(
    checked: Check, rsmq: Rsmq, reader: RsmqReader, tmp_path: Path, client: Redis, lost: str
) -> None:
    for _ in range(3):
        send_old(client, "orders", age_ms=HOUR_MS)
    await _state_ago(reader, tmp_path, ms=600_000)
    if lost == "its messages":
        client.zremrangebyrank("rsmq:orders", 0, -1)
    else:
        rsmq.delete_queue("orders") if lost == "the queue" else client.flushall()
        rsmq.create_queue("orders", vt=0)
    rsmq.send_messages("orders", ["x"] * 3)

    found = await checked(stalled_ms=CheckLimit(None, 60_000))

    assert words(found) == []
    assert found.idle_ms["orders"] < 60_000


async def test_a_message_that_came_first_meanwhile_bounds_how_long_none_was_received(
    checked: Check, rsmq: Rsmq, reader: RsmqReader, tmp_path: Path, client: Redis
) -> None:
    client.hset("rsmq:orders:Q", "totalrecv", 7)
    send_old(client, "orders", age_ms=4 * HOUR_MS)
    await _state_ago(reader, tmp_path, ms=3 * HOUR_MS)
    client.zremrangebyrank("rsmq:orders", 0, -1)
    send_old(client, "orders", age_ms=2 * HOUR_MS)

    found = await checked(stalled_ms=CheckLimit(60_000), thresholds=Thresholds(aged_ms=9 * HOUR_MS))

    assert words(found) == [("warning", "stalled_ms", "orders")]
    assert found.problems[0].text == "1 message ready and none received for 2h 0m"


async def test_one_look_proves_that_a_queue_was_never_received_from(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    send_old(client, "orders", age_ms=HOUR_MS)
    found = await checked(stalled_ms=CheckLimit(None, 60_000))
    assert ("critical", "stalled_ms", "orders") in words(found)
    assert "none received for 1h 0m" in next(p.text for p in found.problems if p.kind == "stalled_ms")


async def test_a_queue_without_receives_is_stalled_since_it_was_created_at_most(
    checked: Check, rsmq: Rsmq, client: Redis
) -> None:
    send_old(client, "orders", age_ms=4 * HOUR_MS)
    seconds, _ = client.time()
    # The older message was moved to it.
    client.hset("rsmq:orders:Q", "created", seconds - 2 * HOUR_MS // 1000)
    found = await checked(stalled_ms=CheckLimit(60_000, 3 * HOUR_MS))
    (stalled,) = [problem for problem in found.problems if problem.kind == "stalled_ms"]
    assert (stalled.status, stalled.text) == (Status.WARNING, "1 message ready and none received for 2h 0m")


async def test_what_one_look_proves_is_not_forgotten_once_the_clock_runs(
    checked: Check, rsmq: Rsmq, client: Redis, reader: RsmqReader, tmp_path: Path
) -> None:
    send_old(client, "orders", age_ms=HOUR_MS)
    await checked(stalled_ms=CheckLimit(3_000, 600_000))
    await _state_ago(reader, tmp_path, ms=5_000)
    # Longer than the lower limit by its own clock, and than the higher one by what the queue itself proves.
    found = await checked(stalled_ms=CheckLimit(3_000, 600_000))
    assert ("critical", "stalled_ms", "orders") in words(found)


async def test_a_delay_is_no_stall(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    # Sent an hour ago, but nobody could have received it until a second ago.
    send_old(client, "orders", age_ms=HOUR_MS, due_ms=1_000)
    assert words(await checked(stalled_ms=CheckLimit(None, 60_000), age_ms=CheckLimit(None, 2 * HOUR_MS))) == []


async def test_nor_does_one_look_judge_a_queue_that_was_received_from(
    checked: Check, rsmq: Rsmq, client: Redis
) -> None:
    send_old(client, "orders", age_ms=HOUR_MS)
    client.hset("rsmq:orders:Q", "totalrecv", 1)
    assert words(await checked(stalled_ms=CheckLimit(None, 60_000), age_ms=CheckLimit(None, 2 * HOUR_MS))) == []


async def test_a_state_that_cannot_be_kept_is_unknown(reader: RsmqReader, rsmq: Rsmq, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    last_seen = LastSeen(tmp_path / "file" / "check", reader.label, reader.ns)
    found = await check(reader, Limits(stalled_ms=CheckLimit(None, 1000)), Thresholds(), last_seen)
    assert words(found) == [("unknown", "state", None)]


async def test_queues_are_chosen_by_name_and_pattern(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    for name in ("mail-a", "mail-b", "spare"):
        rsmq.create_queue(name)
    client.sadd("rsmq:QUEUES", "odd[1]")
    found = await checked("mail-*", "orders")
    assert [queue.name for queue in found.queues] == ["mail-a", "mail-b", "orders"]
    # A name that looks like a pattern is a name too.
    assert [queue.name for queue in (await checked("odd[1]")).queues] == ["odd[1]"]
    rsmq.create_queue("odd1")
    assert [queue.name for queue in (await checked("odd[1]")).queues] == ["odd1", "odd[1]"]
    assert [queue.name for queue in (await checked("MAIL-*", "spare")).queues] == ["spare"]


async def test_a_queue_that_is_not_there_is_unknown(checked: Check, rsmq: Rsmq) -> None:
    found = await checked("nope", "x*", "orders")
    assert words(found) == [("unknown", "missing", "nope"), ("unknown", "missing", "x*")]
    assert [queue.name for queue in found.queues] == ["orders"]


async def test_a_namespace_without_queues_is_unknown(checked: Check) -> None:
    assert words(await checked()) == [("unknown", "missing", None)]


async def test_a_server_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    async with aclosing(RsmqReader("redis://:hunter2@127.0.0.1:1")) as reader:
        found = await check(reader, Limits(), Thresholds(), LastSeen(tmp_path, reader.label, "rsmq"))
    assert words(found) == [("unknown", "unreachable", None)]
    assert found.problems[0].text.startswith("connection refused; ")
    assert found.at_ms == 0


async def test_a_server_that_does_not_answer_ends_with_the_time_for_it(list_server: ListServer, tmp_path: Path) -> None:
    with list_server.fault("stall"):
        async with aclosing(RsmqReader(list_server.url, timeout_s=30)) as reader:
            last_seen = LastSeen(tmp_path, reader.label, "rsmq")
            found = await check(reader, Limits(timeout_s=0.2), Thresholds(), last_seen)
    assert words(found) == [("unknown", "timeout", None)]


async def test_what_was_found_before_the_time_is_over_stays(
    checked: Check, rsmq: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    rsmq.send_messages("orders", ["x"] * 3)

    timeouts: list[asyncio.Timeout] = []

    def timeout(delay_s: float) -> asyncio.Timeout:
        timeouts.append(asyncio.timeout(delay_s))
        return timeouts[-1]

    async def scan(*_: object) -> None:
        timeouts[0].reschedule(0)
        await asyncio.Event().wait()

    monkeypatch.setattr("rsmq_tui.monitor.checks.asyncio", SimpleNamespace(**{**vars(asyncio), "timeout": timeout}))
    monkeypatch.setattr("rsmq_tui.monitor.checks._Check._scan", scan)
    found = await checked(depth=CheckLimit(None, 2), rc=CheckLimit(None, 5), timeout_s=100)
    assert words(found) == [("critical", "depth", "orders"), ("unknown", "timeout", None)]


async def test_what_speaks_no_redis_is_unknown(tmp_path: Path) -> None:
    with Responder(b"HTTP/1.1 400 Bad Request") as responder:
        async with aclosing(RsmqReader(responder.url)) as reader:
            found = await check(reader, Limits(), Thresholds(), LastSeen(tmp_path, reader.label, "rsmq"))
    assert words(found) == [("unknown", "unreachable", None)]


async def test_a_user_who_may_not_read_bodies_fields_is_told(rsmq: Rsmq, client: Redis, tmp_path: Path) -> None:
    rsmq.send_message("orders", "x")
    client.acl_setuser(
        "bob", enabled=True, passwords=["+pw"], keys=["*"],
        commands=["+@all", "-zscan", "-eval", "-evalsha"],
    )  # fmt: skip
    url = f"redis://bob:pw@127.0.0.1:{client.connection_pool.connection_kwargs['port']}"
    async with aclosing(RsmqReader(url)) as reader:
        last_seen = LastSeen(tmp_path, reader.label, reader.ns)
        # That scripts are refused is no problem.
        assert words(await check(reader, Limits(), Thresholds(), last_seen)) == []
        found = await check(reader, Limits(rc=CheckLimit(None, 5)), Thresholds(), last_seen)
    assert words(found) == [("unknown", "unread", "orders")]


async def test_checking_changes_nothing(checked: Check, rsmq: Rsmq, client: Redis) -> None:
    rsmq.send_messages("orders", ["one", "two"])
    rsmq.receive_message("orders")
    before = {key: client.dump(key) for key in client.scan_iter()}
    await checked(depth=CheckLimit(1), age_ms=CheckLimit(1), rc=CheckLimit(1), stalled_ms=CheckLimit(1))
    assert {key: client.dump(key) for key in client.scan_iter()} == before


async def test_a_server_that_goes_away_in_between_is_unknown(tmp_path: Path) -> None:
    with EmbeddedServer() as server:
        with Redis.from_url(server.url) as admin:
            Rsmq(admin).create_queue("orders")
            Rsmq(admin).send_messages("orders", ["x"] * 3)
        async with aclosing(RsmqReader(server.url)) as reader:

            class Stopping(LastSeen):
                def update(self, *args: object) -> object:  # type: ignore[override] # it only passes on
                    server.stop()
                    return super().update(*args)  # type: ignore[arg-type] # as above

            last_seen = Stopping(tmp_path, reader.label, reader.ns)
            limits = Limits(depth=CheckLimit(None, 2), stalled_ms=CheckLimit(None, HOUR_MS))
            found = await check(reader, limits, Thresholds(), last_seen)
    assert words(found) == [("critical", "depth", "orders"), ("unknown", "unreachable", None)]
