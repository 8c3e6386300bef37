"""List queues in a history: what nothing counts is unknown and not 0, and a replay shows what was seen live."""

from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.history.names import Place, stored_name
from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.messages import Inventories
from rsmq_tui.history.replay.tracking import state_of
from rsmq_tui.history.rows import SampleRows
from rsmq_tui.history.schema import OF_MEMORY, SCHEMA_FILE, describe
from rsmq_tui.history.writer import RecordingSettings, Writer
from rsmq_tui.monitor import Drain, PeekError, QueueState, Thresholds, Verdict, outlook, reason
from rsmq_tui.monitor.tracking.list_tracker import list_trackers
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.monitor.tracking.series import ListSeries
from rsmq_tui.protocol import Row
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.protocol.server.status import ServerInfo
from tests.history.made import rows_of, state
from tests.history.replayed import NOON_MS, PLACE, STEP_MS, Live, Tape, replay_of, without
from tests.monitor.fresh import NOT_OF_LISTS

LISTS = PLACE._replace(ns=LISTS_NS)
UNKNOWN = (*NOT_OF_LISTS, "poison", "highest_rc")


def list_row(ready: int, processing: int = 0, *, taken: int = 0, lease: list[object] | None = None) -> Row:
    """A row as the poll reads it: ``taken`` tells one next item from another."""
    head = [3, b"%d" % taken, 1] if ready else None
    return [ready, processing, processing, head, lease]


def listed(name: str = "queue:a", **fields: Any) -> QueueState:
    """A list queue, as a poll makes it."""
    usual = {"kind": "list", "oldest_ready_ms": None, "poison": 0, "highest_rc": 0, "expired": 2, **NOT_OF_LISTS}
    return state(name, **(usual | fields))


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Live]:
    """Twenty minutes: one queue grows, one stalls after five minutes, of one the leases expire, one is worked off.

    One more is filled after nine minutes, and then worked off.
    """
    out = tmp_path_factory.mktemp("lists")
    live = Live(Tape(out, place=LISTS), PlaceTracker(Thresholds(), "", list_trackers(None)))
    for poll in range(240):
        at_ms, stalled = NOON_MS + poll * STEP_MS, max(0, poll - 60)
        filled = 10 + 500 * min(8, max(0, poll - 110)) - 60 * max(0, poll - 118)
        expired_ms = NOON_MS + 60 * STEP_MS
        lease: list[object] = [1 if at_ms >= expired_ms else 0, b"%d" % expired_ms]
        live.poll(
            at_ms,
            {
                "bursts": list_row(max(0, filled), taken=poll),
                "drains": list_row(max(0, 4000 - 7 * poll), taken=poll),
                "grows": list_row(10 + 30 * poll, taken=poll),
                "leased": list_row(3, 1, taken=poll, lease=lease),
                "stalls": list_row(5 + stalled, taken=min(poll, 60)),
            },
        )
    live.tape.seal()
    return out, live


@pytest.mark.parametrize("poll", [20, 60, 150, 239])
def test_the_limits_of_the_memory_and_of_ages_are_shown_as_they_were_live(tmp_path: Path, poll: int) -> None:
    used = Thresholds(aged_ms=3_600_000)
    live = Live(Tape(tmp_path, place=LISTS, thresholds=used), PlaceTracker(used, "", list_trackers(("at",))))
    for number in range(poll + 1):
        at_ms = NOON_MS + number * STEP_MS
        # Of each two seconds one is worked off; the other one fills the memory.
        item = b'{"at": %d}' % (NOON_MS - 600_000 + (at_ms - NOON_MS) // 2)
        info = ServerInfo("a", 1, "master", 0, 10_000 * number, 40_000_000, at_ms)
        rows: dict[str, Row] = {
            "ages": [100, 0, 0, [len(item), item, 1, item], None],
            "fills": list_row(10 + 30 * number, taken=number),
            "timeless": list_row(10, taken=number),
        }
        live.poll(at_ms, rows, info if number % 2 else None)
    live.tape.seal()
    replay = replay_of(tmp_path, from_ms=at_ms)
    queues, seen = replay.snapshot.queues, live.states[at_ms]

    names = [queue.limit and queue.limit.name for queue in queues]
    assert names == [queue.limit and queue.limit.name for queue in seen]
    assert names == (["age", "memory", None] if poll >= 60 else [None] * 3)
    for ours, theirs in zip(queues, seen, strict=True):
        if ours.limit is not None and theirs.limit is not None:
            # A limit was computed up to 15 s before.
            assert ours.limit.until_ms(at_ms) == pytest.approx(theirs.limit.until_ms(at_ms), abs=30_000)
    assert replay.snapshot.memory_limit == live.growth.limit

    without(live.tape, *OF_MEMORY)
    older = replay_of(tmp_path, from_ms=at_ms)
    assert (older.snapshot.memory_limit, older.snapshot.queues[1].limit) == (None, None)


def test_what_is_not_known_of_a_list_is_null() -> None:
    batch = SampleRows("me", LISTS).polled((listed(), listed("queue:b", expired=None)), NOON_MS, 5_000)
    first, second, poll = batch.to_pylist()

    assert {name: first[name] for name in UNKNOWN} == dict.fromkeys(UNKNOWN)
    assert (first["kind"], first["ns"], first["depth"], first["expired"]) == ("list", LISTS_NS, 7, 2)
    assert (second["expired"], poll["expired"], poll["kind"]) == (None, None, None)


def test_only_what_changed_is_looked_at_and_it_stays_unknown() -> None:
    rows = SampleRows("me", LISTS)
    rows.polled((listed(), listed("queue:b")), NOON_MS, None)
    changed = rows.polled((listed(depth=8, expired=3), listed("queue:b", expired=None)), NOON_MS + 1, 1).to_pylist()

    assert [(row["depth"], row["expired"], row["poison"]) for row in changed] == [
        (8, 3, None), (7, None, None), (None, None, None),
    ]  # fmt: skip


def test_it_is_read_back_as_it_was(tmp_path: Path) -> None:
    tape = Tape(tmp_path, place=LISTS)
    tape.poll(NOON_MS, listed(place="prod"), listed("queue:b", expired=None, place="prod"))
    tape.seal()
    (poll,) = History(tmp_path, state=tmp_path).polls()

    assert [state_of(row, poll) for row in poll.rows.to_pylist()] == [listed(), listed("queue:b", expired=None)]
    assert poll.place == LISTS


def test_files_of_before_there_were_leases_in_them_are_read(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    tape.poll(NOON_MS, state())
    tape.seal()
    without(tape, "expired")
    (shown,) = replay_of(tmp_path).snapshot.queues

    assert (shown.name, shown.depth, shown.expired, shown.net_s) == ("orders", 7, None, None)


def test_for_how_long_nothing_was_taken_is_said_as_it_was_live(tmp_path: Path) -> None:
    live = Live(Tape(tmp_path, place=LISTS), PlaceTracker(Thresholds(), "", list_trackers(None)))
    for poll in range(40):
        # Of one it is not known for how long before nothing was taken.
        at_ms = NOON_MS + poll * STEP_MS
        live.poll(at_ms, {"before": list_row(5), "since": list_row(5, taken=min(poll, 10))})
    live.tape.seal()

    def said(queues: tuple[QueueState, ...]) -> list[tuple[str, str]]:
        return [(outlook(queue, at_ms), reason(queue, at_ms, Thresholds())) for queue in queues]

    words = "5 items ready and none taken for"
    known = [("no consumer ≥ 3m 15s", f"{words} 3m 15s or more"), ("no consumer for 2m 25s", f"{words} 2m 25s")]
    assert said(replay_of(tmp_path, from_ms=at_ms).snapshot.queues) == said(live.states[at_ms]) == known
    # Older files do not say which it is.
    without(live.tape, "is_idle_longer")
    assert said(replay_of(tmp_path, from_ms=at_ms).snapshot.queues) == [
        known[0], ("no consumer ≥ 2m 25s", f"{words} 2m 25s or more"),
    ]  # fmt: skip


def test_for_how_long_it_grows_is_said_as_it_was_live(tmp_path: Path) -> None:
    live = Live(Tape(tmp_path, place=LISTS), PlaceTracker(Thresholds(), "", list_trackers(None)))
    for poll in range(40):
        # Of one it is not known for how long it grew before.
        at_ms = NOON_MS + poll * STEP_MS
        grown = {"before": 10 * poll, "since": 10 * max(0, poll - 4)}
        live.poll(at_ms, {name: list_row(40 + more, taken=poll) for name, more in grown.items()})
    live.tape.seal()

    def said(queues: tuple[QueueState, ...]) -> list[str]:
        return [reason(queue, at_ms, Thresholds()).split(",")[0] for queue in queues]

    words = "more was pushed than taken for"
    known = [f"{words} 3m 15s or more", f"{words} 2m 55s"]
    assert said(replay_of(tmp_path, from_ms=at_ms).snapshot.queues) == said(live.states[at_ms]) == known
    # Older files do not say which it is.
    without(live.tape, "is_since_longer")
    assert said(replay_of(tmp_path, from_ms=at_ms).snapshot.queues) == [known[0], f"{words} 2m 55s or more"]


def test_a_history_of_an_older_program_gets_the_new_columns_described(tmp_path: Path) -> None:
    (tmp_path / SCHEMA_FILE).write_text('{"schema": 1, "tables": {}}')
    writer = Writer(str(tmp_path), tmp_path, RecordingSettings())
    writer.open()
    writer.close()

    assert (tmp_path / SCHEMA_FILE).read_text() == describe()


@pytest.mark.parametrize("poll", [0, 1, 3, 30, 61, 75, 120, 123, 200, 239])
def test_a_moment_is_shown_as_it_was_live(hour: tuple[Path, Live], poll: int) -> None:
    out, live = hour
    at_ms = NOON_MS + poll * STEP_MS

    assert replay_of(out, from_ms=at_ms).snapshot.queues == live.states[at_ms]


def test_troubles_are_told_apart(hour: tuple[Path, Live]) -> None:
    out, _ = hour
    shown = {queue.name: queue for queue in replay_of(out, from_ms=NOON_MS + 239 * STEP_MS).snapshot.queues}

    assert {name: queue.verdict for name, queue in shown.items()} == {
        "bursts": Verdict.OK, "drains": Verdict.OK, "grows": Verdict.GROWING, "leased": Verdict.LEAKING,
        "stalls": Verdict.STALLED,
    }  # fmt: skip
    assert (shown["leased"].expired, shown["leased"].drain) == (1, Drain.STEADY)
    assert (shown["stalls"].expired, shown["stalls"].drain) == (0, Drain.STALLED)
    assert shown["drains"].drain is Drain.CLEARS
    assert shown["drains"].net_s == -7 / 5


def test_a_list_drains_as_it_falls_since_a_burst(hour: tuple[Path, Live]) -> None:
    out, _ = hour
    shown = [replay_of(out, from_ms=NOON_MS + poll * STEP_MS).snapshot.queues[0] for poll in (121, 122)]

    assert [(queue.name, queue.depth) for queue in shown] == [("bursts", 3_830), ("bursts", 3_770)]
    assert [queue.drain_s for queue in shown] == [None, 3_770 / 12]


def test_charts_of_lists_hold_no_arrivals(hour: tuple[Path, Live]) -> None:
    out, _ = hour
    trend = replay_of(out, from_ms=NOON_MS + 200 * STEP_MS).snapshot.trend
    points = [point for point in trend.queue("grows") if point.ready is not None]

    assert isinstance(trend.series["grows"], ListSeries)
    assert {point.arrivals_s for point in points} == {None}
    assert {point.net_s for point in points[1:]} == {6.0}
    assert {point.arrivals_s for point in trend.totals} == {None}


def test_lists_and_queues_of_a_server_are_two_places(tmp_path: Path) -> None:
    lists, queues = Tape(tmp_path, place=LISTS), Tape(tmp_path, "b" * 12)
    lists.poll(NOON_MS, listed())
    queues.poll(NOON_MS, state("queue:a"))
    for tape in (lists, queues):
        tape.seal()
    shown = replay_of(tmp_path).snapshot

    assert sorted((queue.kind, queue.name, queue.expired) for queue in shown.queues) == [
        ("list", "queue:a", 2), ("rsmq", "queue:a", None),
    ]  # fmt: skip
    assert {row["ns"] for row in rows_of(tmp_path)} == {stored_name(place.ns) for place in (LISTS, PLACE)}
    assert Place(*LISTS) != PLACE


async def test_that_items_are_not_recorded_is_said(tmp_path: Path) -> None:
    tape = Tape(tmp_path, place=LISTS)
    tape.poll(NOON_MS, listed())
    tape.seal()

    with pytest.raises(PeekError, match="the items of lists are not recorded"):
        await Inventories(History(tmp_path, state=tmp_path)).last(LISTS, "queue:a", NOON_MS)
