"""A replay shows what a live dashboard showed: numbers, rates, since when; outages and gaps as such."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq_tui.history.names import HistoryError, Place
from rsmq_tui.history.reading import History, RecordedSpan, read_thresholds
from rsmq_tui.history.replay.messages import Inventories
from rsmq_tui.history.replay.player import Player, ReplaySource
from rsmq_tui.history.replay.replay import Replay, labels_of
from rsmq_tui.history.schema import OF_SERVER
from rsmq_tui.history.writer import RecordingSettings
from rsmq_tui.monitor import Drain, QueueState, Thresholds, Verdict, reason
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.protocol.server.status import ServerInfo
from tests.history.made import ClockedWriter
from tests.history.replayed import NOON_MS, PLACE, STEP_MS, Live, Tape, queue_row, replay_of, said, without

pytestmark = pytest.mark.slow

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
STAGE = Place("stage", "redis://db2:6379/0", "rsmq")


def live_hour(out: Path) -> Live:
    """Forty minutes: one queue grows, one stalls after ten minutes, two are worked off, one comes and goes."""
    live = Live(Tape(out))
    for poll in range(480):
        at_ms, stalled = NOON_MS + poll * STEP_MS, max(0, poll - 120)
        batches = 300 * ((poll + 3) // 6)
        rows = {
            "batches": queue_row(20_000 + batches - 75 * poll, 20_000 + batches, 75 * poll),
            "drains": queue_row(max(0, 4000 - 7 * poll), 5000 + poll, 1000 + 8 * poll),
            "grows": queue_row(10 + 3 * poll, 100 + 9 * poll, 90 + 6 * poll),
            "stalls": queue_row(5 + stalled, 50 + poll, 45 + min(poll, 120)),
        }
        if 200 <= poll < 300:
            rows["visits"] = queue_row(poll - 199, poll, 0)
        live.poll(at_ms, rows)
    live.tape.seal()
    return live


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Live]:
    out = tmp_path_factory.mktemp("hour")
    return out, live_hour(out)


def shown(replay: Replay) -> tuple[QueueState, ...]:
    return replay.snapshot.queues


@pytest.mark.parametrize("poll", [0, 1, 121, 205, 299, 300, 479])
def test_a_moment_is_shown_as_it_was_live(hour: tuple[Path, Live], poll: int) -> None:
    out, live = hour
    at_ms = NOON_MS + poll * STEP_MS
    replay = replay_of(out, from_ms=at_ms)

    seen = live.states[at_ms]
    # A limit was computed up to 15 s before.
    same = [[queue._replace(drain_s=None, limit=None) for queue in queues] for queues in (shown(replay), seen)]
    assert same[0] == same[1]
    assert [queue.limit and queue.limit.name for queue in shown(replay)] == [q.limit and q.limit.name for q in seen]
    assert [queue.drain_s for queue in shown(replay)] == [pytest.approx(queue.drain_s) for queue in seen]
    assert replay.snapshot.at_ms == replay.position_ms == at_ms
    assert replay.snapshot.connection.failure is None


def test_a_limit_is_shown_as_it_was_live(tmp_path: Path) -> None:
    used = Thresholds(depth_limit=5_000)
    live = Live(Tape(tmp_path, thresholds=used), PlaceTracker(used))
    for number in range(471):
        rows = {
            "grows": queue_row(10 + 3 * number, 100 + 9 * number, 90 + 6 * number),
            "still": queue_row(10, 100, 90),
        }
        live.poll(NOON_MS + number * STEP_MS, rows)
    live.tape.seal()
    for poll in (20, 60, 200, 470):
        at_ms = NOON_MS + poll * STEP_MS
        queues = shown(replay_of(tmp_path, from_ms=at_ms)), live.states[at_ms]
        found, seen = ([queue.limit for queue in each] for each in queues)

        assert [limit and limit.name for limit in found] == [limit and limit.name for limit in seen]
        for ours, theirs in zip(found, seen, strict=True):
            if ours is not None and theirs is not None:
                assert ours.until_ms(at_ms) == pytest.approx(theirs.until_ms(at_ms), abs=15_000)
        assert (found[0] is not None) == (poll >= 60)


def test_a_trouble_began_when_it_did_however_long_ago(hour: tuple[Path, Live]) -> None:
    out, _ = hour
    stalls = next(queue for queue in shown(replay_of(out, from_ms=NOON_MS + 479 * STEP_MS)) if queue.name == "stalls")

    assert stalls.verdict is Verdict.STALLED
    # The last receive was in the poll of ten minutes.
    assert stalls.since_ms == NOON_MS + 120 * STEP_MS


async def test_sentences_are_those_of_the_recorders_thresholds(tmp_path: Path) -> None:
    used = Thresholds(stalled_ms=20_000, poison_rc=3)
    tapes = Tape(tmp_path, thresholds=used), Tape(tmp_path, "d" * 12, STAGE)
    stalled = said("stalled", since_ms=NOON_MS - 40_000, idle_since_ms=NOON_MS - 40_000, poison=0)
    for tape in tapes:
        tape.poll(NOON_MS, stalled)
        tape.seal()
    replay = replay_of(tmp_path)
    inventories = Inventories(replay.timeline.history)
    found = [ReplaySource(Player(replay), place, inventories).thresholds for place in (PLACE, STAGE)]

    assert found == [used, Thresholds()]
    (here, there) = shown(replay)
    assert reason(here, NOON_MS, found[0]).endswith(" (thresholds: stalled 20 s)")
    assert reason(there, NOON_MS, found[1]).endswith("none received for 40 s")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, Thresholds()),
        ("[", Thresholds()),
        ("[1]", Thresholds()),
        ('{"stalled_ms": "9", "aged_ms": true, "poison_rc": -1, "clear_ms": 1e400, "leaking_ms": 7.5}', Thresholds()),
        ('{"stalled_ms": 9, "growing_share": 1, "later": 5}', Thresholds(stalled_ms=9, growing_share=1)),
    ],
)
def test_thresholds_that_are_none_are_the_usual_ones(text: str | None, found: Thresholds) -> None:
    assert read_thresholds(text) == found


def test_older_files_do_not_say_since_when_and_whether_it_clears(hour: tuple[Path, Live], tmp_path: Path) -> None:
    copied = Tape(shutil.copytree(hour[0], tmp_path / "copied"))
    copied.files = sorted(copied.out.rglob("*.parquet"))
    assert len(copied.files) == len(hour[1].tape.files)
    without(copied, "drain", "since_ms", "idle_since_ms", "pending_since_ms", "pending_until_ms", "thresholds")
    at_ms = NOON_MS + 299 * STEP_MS
    older = {queue.name: queue for queue in shown(replay_of(copied.out, from_ms=at_ms))}
    newer = {queue.name: queue for queue in shown(replay_of(hour[0], from_ms=at_ms))}

    assert {name: queue.since_ms for name, queue in older.items()} == dict.fromkeys(newer)
    drains = {name: queue.drain for name, queue in older.items()}
    for name in ("batches", "drains"):
        assert drains.pop(name) is Drain.UNKNOWN is not newer[name].drain
    # What the verdict and the counts tell is known.
    assert drains == {name: newer[name].drain for name in drains}
    unknown: dict[str, Any] = dict.fromkeys(
        ("since_ms", "idle_since_ms", "drain", "drain_s", "pending_since_ms", "pending_until_ms")
    )
    for name, queue in older.items():
        assert queue._replace(**unknown) == newer[name]._replace(**unknown)


def test_numbers_beyond_those_of_clients_stop_nothing(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    huge = 2**62 + 1
    for poll in range(3):
        counts: dict[str, Any] = dict.fromkeys(("depth", "ready", "totalsent", "totalrecv"), huge - poll * 2**60)
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", drain=Drain.CLEARS, **counts), said("ok", "other", ready=None))
    tape.seal()
    first, other = shown(replay_of(tmp_path, from_ms=NOON_MS + 2 * STEP_MS))

    assert (first.depth, first.ready, first.arrivals_s) == (2**61 + 1, 2**61 + 1, None)
    assert first.drain_s == pytest.approx(10)
    assert (other.ready, other.drain_s) == (None, None)


def test_the_charts_are_those_of_the_last_ten_minutes(hour: tuple[Path, Live]) -> None:
    out, _ = hour
    trend = replay_of(out, from_ms=NOON_MS + 400 * STEP_MS).snapshot.trend
    points = [point for point in trend.queue("grows") if point.arrivals_s is not None]

    assert trend.times_ms[-1] - trend.times_ms[0] == 10 * MINUTE_MS - STEP_MS
    assert {point.arrivals_s for point in points} == {9 / 5}
    assert trend.totals[0].at_ms >= NOON_MS + 400 * STEP_MS - 10 * MINUTE_MS
    # In ten seconds, with a batch or without.
    assert {round((point.arrivals_s or 0) - 11 / 5, 6) for point in list(trend.totals)[-5:]} == {0, 30}


def test_it_begins_an_hour_before_the_end(tmp_path: Path) -> None:
    tape = Tape(tmp_path, polls_a_file=1000)
    for minute in range(180):
        tape.poll(NOON_MS + minute * MINUTE_MS, said("ok"))
    tape.seal()
    replay = replay_of(tmp_path)

    assert replay.span == RecordedSpan(NOON_MS, NOON_MS + 179 * MINUTE_MS)
    assert replay.position_ms == NOON_MS + 119 * MINUTE_MS


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 470), count=st.integers(1, 9), speed=st.sampled_from([1_000, 5_000, 17_000, 700_000]))
def test_stepping_forward_and_back_gives_the_same(hour: tuple[Path, Live], start: int, count: int, speed: int) -> None:
    replay = replay_of(hour[0], from_ms=NOON_MS + start * STEP_MS)
    before = replay.position_ms, shown(replay), replay.snapshot.totals
    assert replay.step(count)
    replay.play(speed)
    steps = sum(1 for at_ms in hour[1].states if before[0] < at_ms <= replay.position_ms)
    assert replay.step(-steps)

    assert (replay.position_ms, shown(replay), replay.snapshot.totals) == before


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 2_000_000), parts=st.lists(st.integers(1, 200_000), min_size=1, max_size=8))
def test_seeking_is_as_good_as_playing(hour: tuple[Path, Live], start: int, parts: list[int]) -> None:
    played = replay_of(hour[0], from_ms=NOON_MS + start)
    for part in parts:
        played.play(part)
    sought = replay_of(hour[0], from_ms=played.position_ms)

    assert sought.position_ms == played.position_ms
    assert shown(sought) == shown(played)
    one, other = sought.snapshot, played.snapshot
    assert (one.at_ms, one.totals, one.connection) == (other.at_ms, other.totals, other.connection)
    assert (one.trend.times_ms, list(one.trend.totals)) == (other.trend.times_ms, list(other.trend.totals))
    for name in one.trend.series:
        assert list(one.trend.queue(name)) == list(other.trend.queue(name))


@settings(max_examples=7)
@given(
    polls=st.lists(
        st.tuples(
            st.integers(400, 200_000), st.sampled_from("fqqqqq"), st.integers(0, 9), st.integers(0, 9), st.booleans()
        ),
        min_size=3,
        max_size=60,
    ),
    at=st.floats(0, 1),
    first=st.floats(0, 1),
)
def test_any_history_seeks_as_it_plays(
    tmp_path_factory: pytest.TempPathFactory, polls: list[tuple[int, str, int, int, bool]], at: float, first: float
) -> None:
    live = Live(Tape(tmp_path_factory.mktemp("any"), polls_a_file=7))
    at_ms, sent, received, depth = NOON_MS, 0, 0, 3
    for after_ms, kind, arrived, taken, is_new in polls:
        at_ms += after_ms
        if kind == "f":
            live.fail(at_ms)
            continue
        # A queue that was deleted and created again counts anew.
        sent, received = (0, 0) if is_new and taken > 7 else (sent + arrived, received + taken)
        depth = max(0, depth + arrived - taken)
        rows = {"orders": queue_row(depth, sent, received)}
        if is_new:
            rows["other"] = queue_row(arrived, sent, received)
        live.poll(at_ms, rows)
    live.tape.seal()
    length_ms = at_ms - NOON_MS
    goal_ms = NOON_MS + round(length_ms * max(at, first))
    played = replay_of(live.tape.out, from_ms=NOON_MS + round(length_ms * min(at, first)))
    while played.position_ms < min(goal_ms, played.span.to_ms):
        played.play(min(7_000, goal_ms - played.position_ms))
    sought = replay_of(live.tape.out, from_ms=played.position_ms)

    assert shown(sought) == shown(played)
    assert (sought.snapshot.connection, sought.snapshot.at_ms) == (played.snapshot.connection, played.snapshot.at_ms)


def test_an_outage_is_old_numbers_and_why_and_never_zeros(tmp_path: Path) -> None:
    live = Live(Tape(tmp_path))
    for poll in range(20):
        live.poll(NOON_MS + poll * STEP_MS, {"orders": queue_row(70, 100 + 10 * poll, 50)})
    down_ms = NOON_MS + 20 * STEP_MS
    for failure in range(30):
        live.fail(down_ms + failure * 30_000, "no route to host")
    up_ms = down_ms + 30 * 30_000
    for poll in range(5):
        live.poll(up_ms + poll * STEP_MS, {"orders": queue_row(90, 9000 + 10 * poll, 50)})
    live.tape.seal()
    replay = replay_of(tmp_path, from_ms=down_ms + 14 * MINUTE_MS)

    # Longer ago than the charts reach: the last numbers are found all the same.
    link = replay.snapshot.connection
    assert link.failure is not None
    assert (link.failure.sentence, link.fresh_at_s) == ("no route to host", (NOON_MS + 19 * STEP_MS) / 1000)
    assert [queue.depth for queue in shown(replay)] == [70]
    replay.seek(up_ms)
    assert replay.snapshot.connection.failure is None
    # No rate is made across it.
    assert [queue.arrivals_s for queue in shown(replay)] == [None]
    replay.seek(up_ms + 2 * STEP_MS)
    assert [queue.arrivals_s for queue in shown(replay)] == [2.0]


def test_an_outage_from_the_start_knows_nothing(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    tape.fail(NOON_MS)
    tape.poll(NOON_MS + STEP_MS, said("ok"))
    tape.seal()
    snapshot = replay_of(tmp_path).snapshot

    assert (snapshot.queues, snapshot.connection.fresh_at_s, snapshot.totals.depth) == ((), None, 0)
    assert snapshot.connection.failure is not None


def test_a_gap_is_said_and_played_over(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    later_ms = NOON_MS + 5 * HOUR_MS
    for start_ms in (NOON_MS, later_ms):
        for poll in range(30):
            tape.poll(start_ms + poll * STEP_MS, said("ok"))
    tape.seal()
    last_ms = NOON_MS + 29 * STEP_MS
    replay = replay_of(tmp_path, from_ms=last_ms + 20 * MINUTE_MS)
    failure = replay.snapshot.connection.failure

    assert failure is not None
    assert failure.sentence == "nothing was recorded since 12:02:25"
    assert [queue.depth for queue in shown(replay)] == [7]
    replay.play(1_000)
    assert (replay.position_ms, replay.skipped) == (later_ms, RecordedSpan(last_ms, later_ms))
    assert replay.snapshot.connection.failure is None
    assert replay.step(-1)
    assert (replay.position_ms, replay.skipped) == (last_ms, None)


def test_numbers_are_old_where_a_recorder_was_away_for_some_polls(tmp_path: Path) -> None:
    before, after = Tape(tmp_path, "a" * 12), Tape(tmp_path, "d" * 12)
    for poll in range(30):
        before.poll(NOON_MS + poll * STEP_MS, said("ok", depth=poll))
    killed_ms, back_ms = NOON_MS + 29 * STEP_MS, NOON_MS + 29 * STEP_MS + 25_000
    for poll in range(30):
        after.poll(back_ms + poll * STEP_MS, said("ok", depth=99))
    before.seal()
    after.seal()
    replay = replay_of(tmp_path, from_ms=killed_ms + 15_000)
    assert replay.snapshot.connection.failure is None
    replay.play(5_000)
    link = replay.snapshot.connection
    assert link.failure is not None
    assert link.failure.sentence == "nothing was recorded from 12:02:25 to 12:02:50"
    assert link.fresh_at_s == killed_ms / 1000
    assert [queue.depth for queue in shown(replay)] == [29]
    replay.play(5_000)
    assert replay.snapshot.connection.failure is None
    assert [queue.depth for queue in shown(replay)] == [99]


def replay_of_polls(out: Path, polls: int) -> Replay:
    """A replay from the first of so many polls, each of which found one message more."""
    tape = Tape(out)
    for poll in range(polls):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", depth=poll))
    tape.seal()
    return replay_of(out, from_ms=NOON_MS)


def test_the_ends_hold(tmp_path: Path) -> None:
    replay = replay_of_polls(tmp_path, 10)
    assert not replay.step(-1)
    replay.seek(0)
    assert replay.position_ms == NOON_MS
    replay.play(10 * HOUR_MS)
    assert replay.is_at_end
    assert [queue.depth for queue in shown(replay)] == [9]
    assert not replay.step(1)
    replay.seek(NOON_MS + HOUR_MS)
    assert replay.position_ms == NOON_MS + 9 * STEP_MS


def test_it_plays_to_the_end_that_was_asked_for_and_goes_on_from_there(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(30):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok"))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS, to_ms=NOON_MS + 50_500)
    replay.play(HOUR_MS)
    assert (replay.position_ms, replay.is_at_end) == (NOON_MS + 50_500, True)
    replay.play(4_500)
    assert (replay.position_ms, replay.is_at_end) == (NOON_MS + 55_000, False)


def test_what_is_recorded_meanwhile_is_played_too(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    tape.poll(NOON_MS, said("ok", depth=1))
    tape.seal()
    replay = replay_of(tmp_path)
    tape.poll(NOON_MS + STEP_MS, said("ok", depth=2))
    tape.seal()
    assert not replay.step(1)
    replay.refresh()
    assert replay.step(1)
    assert [queue.depth for queue in shown(replay)] == [2]


def test_of_two_recorders_of_a_place_one_plays_at_a_time(tmp_path: Path) -> None:
    first, second = Tape(tmp_path, "b" * 12), Tape(tmp_path, "c" * 12)
    for poll in range(60):
        at_ms = NOON_MS + poll * STEP_MS
        # The first one is away for a while.
        if not 20 <= poll < 50:
            first.poll(at_ms, said("ok", depth=1000 + poll))
        second.poll(at_ms + 1_700, said("ok", depth=2000 + poll))
    first.seal()
    second.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    depths = [queue.depth for queue in shown(replay)]
    while replay.step(1):
        depths += [queue.depth for queue in shown(replay)]

    # The second one plays on for the last poll, after which the first has none.
    assert depths == [*range(1000, 1020), *range(2019, 2050), *range(1050, 1060), 2059]


def test_a_recorder_that_began_later_does_not_replace_the_first_one(tmp_path: Path) -> None:
    first, second = Tape(tmp_path, "f" * 12), Tape(tmp_path, "b" * 12)
    for poll in range(30):
        first.poll(NOON_MS + poll * STEP_MS, said("growing", depth=poll))
        if poll >= 10:
            # It does not know yet what the first one knows.
            second.poll(NOON_MS + poll * STEP_MS + 900, said("ok", depth=poll))
    first.seal()
    second.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)

    verdicts = [queue.verdict for queue in shown(replay)]
    for _ in range(29):
        replay.step(1)
        verdicts += [queue.verdict for queue in shown(replay)]

    assert verdicts == ["growing"] * 30


def test_a_recorder_that_follows_another_loses_nothing(tmp_path: Path) -> None:
    first, second = Tape(tmp_path, "c" * 12), Tape(tmp_path, "b" * 12)
    for poll in range(10):
        first.poll(NOON_MS + poll * STEP_MS, said("ok", depth=poll, totalsent=10 * poll))
    for poll in range(10, 20):
        second.poll(NOON_MS + poll * STEP_MS, said("ok", depth=poll, totalsent=10 * poll))
    first.seal()
    second.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS + 10 * STEP_MS)

    assert [(queue.depth, queue.arrivals_s) for queue in shown(replay)] == [(10, 2.0)]
    replay.seek(NOON_MS)
    assert sum(1 for _ in iter(lambda: replay.step(1), False)) == 19


def test_places_are_shown_side_by_side(tmp_path: Path) -> None:
    other = Place("stage", "redis://db2:6379/0", "rsmq")
    tapes = Tape(tmp_path, "a" * 12), Tape(tmp_path, "d" * 12, other)
    for poll in range(30):
        tapes[0].poll(NOON_MS + poll * STEP_MS, said("ok", depth=poll))
        if poll < 10:
            tapes[1].poll(NOON_MS + poll * STEP_MS + 900, said("stalled", "emails", depth=100 + poll))
        elif poll % 6 == 0:
            tapes[1].fail(NOON_MS + poll * STEP_MS + 900, "timed out")
    for tape in tapes:
        tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS + 9 * STEP_MS + 1_000)
    snapshot = replay.snapshot

    assert replay.labels == {PLACE: "prod", other: "stage"}
    assert [(queue.place, queue.name, queue.depth) for queue in snapshot.queues] == [
        ("prod", "orders", 9),
        ("stage", "emails", 109),
    ]
    assert [part.place for part in snapshot.parts] == ["prod", "stage"]
    replay.seek(NOON_MS + 25 * STEP_MS)
    stage = replay.snapshot.part("stage")
    assert stage.connection.failure is not None
    assert [queue.depth for queue in stage.queues] == [109]
    assert replay.snapshot.notes == ("stage is stale (timed out)",)


def test_a_corrupt_file_is_named_and_the_rest_plays(tmp_path: Path) -> None:
    tape = Tape(tmp_path, polls_a_file=10)
    for poll in range(60):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", depth=poll))
    tape.seal()
    tape.files[2].write_bytes(b"PAR1" + b"\0" * 300)
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    depths = [queue.depth for queue in shown(replay)]
    while replay.step(1):
        depths += [queue.depth for queue in shown(replay)]

    assert depths == [*range(20), *range(30, 60)]
    (problem,) = replay.timeline.history.problems
    assert problem.startswith(f"{tape.files[2]} was left out: ")


def test_nothing_recorded_is_one_sentence(tmp_path: Path) -> None:
    ClockedWriter(tmp_path, tmp_path).writer.close()
    minutes = round(RecordingSettings().seal_every_s / 60)
    with pytest.raises(
        HistoryError, match=rf"nothing to replay yet: a recorder seals a file after {minutes} minutes at most"
    ):
        Replay(History(tmp_path))


def test_only_corrupt_files_are_one_sentence_that_names_one(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    tape.poll(NOON_MS, said("ok"))
    tape.seal()
    tape.files[0].write_bytes(b"")
    with pytest.raises(HistoryError, match=r"nothing to replay yet: .*-000001\.parquet was left out: "):
        Replay(History(tmp_path))


def test_slow_recordings_have_rates_too(tmp_path: Path) -> None:
    live = Live(Tape(tmp_path))
    for poll in range(30):
        live.poll(NOON_MS + poll * 15 * MINUTE_MS, {"orders": queue_row(5, 900 * poll, 900 * poll)})
    live.tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS + 29 * 15 * MINUTE_MS)

    assert [queue.arrivals_s for queue in shown(replay)] == [1.0]
    assert replay.snapshot.connection.failure is None


def test_places_are_called_as_the_dashboard_calls_them() -> None:
    one, other = Place("prod", "redis://a:1/0", "rsmq"), Place("prod", "redis://a:1/0", "mail")
    unnamed, moved = Place("", "redis://b:1/0", "rsmq"), Place("prod", "redis://c:1/0", "rsmq")

    assert labels_of([one]) == {one: ""}
    assert labels_of([one, unnamed]) == {one: "prod", unnamed: "redis://b:1/0"}
    assert labels_of([one, other]) == {one: "prod rsmq", other: "prod mail"}
    assert labels_of([one, moved]) == {one: "prod redis://a:1/0 rsmq", moved: "prod redis://c:1/0 rsmq"}


def test_a_moment_of_which_nothing_is_known_shows_nothing_of_another(tmp_path: Path) -> None:
    tapes = Tape(tmp_path, "a" * 12), Tape(tmp_path, "d" * 12, STAGE)
    for tape in tapes:
        for start_ms in (NOON_MS, NOON_MS + 20 * HOUR_MS):
            for poll in range(5):
                tape.poll(start_ms + poll * STEP_MS, said("ok"))
        tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    assert len(shown(replay)) == 2
    replay.seek(NOON_MS + 10 * HOUR_MS)

    assert shown(replay) == ()
    assert replay.snapshot.connection.failure is not None
    assert [part.place for part in replay.snapshot.parts] == ["prod", "stage"]


def test_a_place_that_is_polled_seldom_is_not_stale_between_its_polls(tmp_path: Path) -> None:
    often, seldom = Tape(tmp_path, "a" * 12), Tape(tmp_path, "d" * 12, STAGE)
    for poll in range(240):
        often.poll(NOON_MS + poll * STEP_MS, said("ok"))
        if poll % 60 == 0:
            seldom.poll(NOON_MS + poll * STEP_MS + 100, said("ok"))
    often.seal()
    seldom.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS + 150 * STEP_MS)

    assert replay.snapshot.notes == ()
    assert [part.interval_s for part in replay.snapshot.parts] == [5.0, 300.0]


def test_nothing_is_left_out_where_it_was_recorded_seldom_once(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(20):
        tape.poll(NOON_MS + poll * 5 * MINUTE_MS, said("ok"))
    for poll in range(20):
        tape.poll(NOON_MS + 100 * MINUTE_MS + poll * STEP_MS, said("ok"))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS + 27 * MINUTE_MS)
    assert replay.snapshot.connection.failure is None
    replay.play(1_000)
    assert (replay.position_ms, replay.skipped) == (NOON_MS + 27 * MINUTE_MS + 1_000, None)


def test_what_another_recorder_seals_later_is_played_too(tmp_path: Path) -> None:
    first, second = Tape(tmp_path, "a" * 12), Tape(tmp_path, "d" * 12, STAGE)
    for tape in (first, second):
        tape.poll(NOON_MS, said("ok", depth=1))
    first.poll(NOON_MS + MINUTE_MS, said("ok", depth=2))
    first.seal()
    second.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS + MINUTE_MS)
    second.poll(NOON_MS + MINUTE_MS // 2, said("ok", depth=3))
    second.seal()
    replay.refresh()
    replay.seek(NOON_MS + MINUTE_MS)
    assert [queue.depth for queue in shown(replay)] == [2, 3]


def test_a_namespace_that_was_looked_at_for_a_while_is_there(tmp_path: Path) -> None:
    there = PLACE._replace(ns="elsewhere")
    for number, place in enumerate((PLACE, there, PLACE)):
        tape = Tape(tmp_path, place=place, first=10 * number + 1)
        tape.poll(NOON_MS + number * STEP_MS, said("ok"))
        tape.seal()
    assert set(replay_of(tmp_path, from_ms=NOON_MS).labels) == {PLACE, there}


def test_a_folder_that_cannot_be_looked_through_again_is_told_and_what_is_known_plays(tmp_path: Path) -> None:
    replay = replay_of_polls(tmp_path, 3)
    (tmp_path / "samples").rename(tmp_path / "away")
    (tmp_path / "samples").write_bytes(b"")
    replay.refresh()
    assert [problem.partition(": ")[0] for problem in replay.timeline.history.problems] == [
        f"{tmp_path} could not be searched again"
    ]
    assert replay.step(1)
    (tmp_path / "messages").write_bytes(b"")
    with pytest.raises(HistoryError, match="cannot be read: "):
        replay_of(tmp_path)


def test_that_messages_are_refused_is_shown_as_it_was_live(tmp_path: Path) -> None:
    tape, full = Tape(tmp_path), ServerInfo("a", 9, "master", 0, 100, 100, maxmemory_policy="noeviction")
    # The server is asked at every other poll; after the fourth, none is recorded for an hour.
    for poll, info in enumerate((full, None, full._replace(used_memory=99), None)):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok"), info=info)
    tape.poll(NOON_MS + HOUR_MS, said("ok"), info=None)
    tape.seal()

    def refusals() -> list[int]:
        moments = (*(poll * STEP_MS for poll in range(4)), HOUR_MS)
        return [len(replay_of(tmp_path, from_ms=NOON_MS + each).snapshot.refusals) for each in moments]

    assert refusals() == [1, 1, 0, 0, 0]
    # Older files do not have it.
    without(tape, *OF_SERVER[4:])
    assert refusals() == [0] * 5
