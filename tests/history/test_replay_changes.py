"""Going from one change of a queue's verdict to the next and back, and from incident to incident, in any history."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq_tui.history.names import Place
from rsmq_tui.history.replay.polls import VerdictChange
from rsmq_tui.history.replay.replay import Replay
from rsmq_tui.monitor.incidents import Expected
from tests.history.replayed import NOON_MS, PLACE, STEP_MS, Tape, replay_of, said

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000


def walk(replay: Replay, direction: int, name: str = "orders", place: Place = PLACE) -> list[VerdictChange]:
    found = []
    while changes := replay.go_to_change(direction, (place, name)):
        found += changes
        assert {change.at_ms for change in changes} == {replay.position_ms}
    return found


def test_changes_of_verdicts_and_outages_are_gone_to(tmp_path: Path) -> None:
    tape = Tape(tmp_path, polls_a_file=3)
    script = "ok ok growing growing stalled ok down down ok ok"
    for poll, verdict in enumerate(script.split()):
        at_ms = NOON_MS + poll * STEP_MS
        if verdict == "down":
            tape.fail(at_ms)
        else:
            tape.poll(at_ms, said("ok", "calm"), said(verdict))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    expected = [
        VerdictChange(NOON_MS + 2 * STEP_MS, PLACE, "orders", "ok", "growing"),
        VerdictChange(NOON_MS + 4 * STEP_MS, PLACE, "orders", "growing", "stalled"),
        VerdictChange(NOON_MS + 5 * STEP_MS, PLACE, "orders", "stalled", "ok"),
        VerdictChange(NOON_MS + 6 * STEP_MS, PLACE, None, "ok", "down"),
        VerdictChange(NOON_MS + 8 * STEP_MS, PLACE, None, "down", "ok"),
    ]

    assert walk(replay, 1) == expected
    assert replay.position_ms == NOON_MS + 8 * STEP_MS
    assert walk(replay, -1) == expected[-2::-1]
    # Of one queue, only what concerns it: its own, and whether its server answers.
    replay.seek(NOON_MS)
    assert walk(replay, 1, "calm") == expected[3:]


def test_a_verdict_that_this_version_does_not_know_is_broken(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll, verdict in enumerate(("ok", "broken", "ok")):
        tape.poll(NOON_MS + poll * STEP_MS, said(verdict))
    tape.seal()
    for path in tape.files:
        table = pq.ParquetFile(path).read()
        words = ["\x1b]0;hunted\x07" if verdict == "broken" else verdict for verdict in table["verdict"].to_pylist()]
        at = table.schema.get_field_index("verdict")
        table = table.set_column(at, table.schema.field(at), pa.array(words, table.schema.field(at).type))
        pq.write_table(table.replace_schema_metadata(pq.read_metadata(path).metadata), path)
    replay = replay_of(tmp_path, from_ms=NOON_MS)

    assert [(change.before, change.after) for change in walk(replay, 1)] == [("ok", "broken"), ("broken", "ok")]
    replay.seek(NOON_MS)
    turns = replay.go_to_incident(1)
    assert [turn.incident.verdicts for turn in turns] == [("broken",)]


def test_a_new_queue_is_a_change_where_it_is_in_trouble(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    tape.poll(NOON_MS, said("stalled", "old"))
    tape.poll(NOON_MS + STEP_MS, said("stalled", "old"), said("ok", "fine"))
    tape.poll(NOON_MS + 2 * STEP_MS, said("stalled", "old"), said("aged", "late"))
    tape.seal()

    assert walk(replay_of(tmp_path, from_ms=NOON_MS), 1, "late") == [
        VerdictChange(NOON_MS + 2 * STEP_MS, PLACE, "late", None, "aged")
    ]
    assert walk(replay_of(tmp_path, from_ms=NOON_MS), 1, "fine") == []


def test_changes_are_found_across_hours_days_and_gaps(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    moments = [0, 20, 59, 60, 61, 500, 13 * 60, 100 * 60, 100 * 60 + 30, 2000 * 60]
    for number, minute in enumerate(moments):
        for poll in range(5):
            tape.poll(NOON_MS + minute * 60_000 + poll * STEP_MS, said("ok" if number % 2 else "aged"))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    # What was an hour or more ago says nothing of what became of it since.
    expected = [NOON_MS + minute * 60_000 for minute in (20, 59, 60, 61, 100 * 60 + 30)]

    assert [change.at_ms for change in walk(replay, 1)] == expected
    replay.seek(replay.span.to_ms)
    assert [change.at_ms for change in walk(replay, -1)] == expected[::-1]


def test_a_search_says_where_it_is_and_can_be_ended(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for hour in range(6):
        for poll in range(5):
            tape.poll(NOON_MS + hour * HOUR_MS + poll * STEP_MS, said("ok"))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    looked: list[int] = []

    def known(at_ms: int) -> bool:
        looked.append(at_ms)
        return len(looked) < 3

    assert replay.go_to_change(1, (PLACE, "orders"), known) == []
    assert looked == [NOON_MS, NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS]
    assert replay.position_ms == NOON_MS


def test_only_the_recorder_that_plays_is_asked(tmp_path: Path) -> None:
    first, second = Tape(tmp_path, "b" * 12), Tape(tmp_path, "c" * 12)
    for poll in range(40):
        at_ms = NOON_MS + poll * STEP_MS
        first.poll(at_ms, said("growing" if poll >= 20 else "ok"))
        # It has other thresholds.
        second.poll(at_ms + 900, said("aged" if poll % 10 == 5 else "ok"))
    first.seal()
    second.seal()
    found = walk(replay_of(tmp_path, from_ms=NOON_MS), 1)

    # The very last poll is the second one's, since the first has none behind it.
    assert [(change.at_ms, change.after) for change in found] == [
        (NOON_MS + 20 * STEP_MS, "growing"),
        (NOON_MS + 39 * STEP_MS + 900, "ok"),
    ]


def test_files_that_are_not_sorted_are_read_all_the_same(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(20):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", "calm"), said("aged" if 7 <= poll < 11 else "ok"))
    tape.seal()
    (path,) = tape.files
    with pq.ParquetFile(path) as file:
        table, metadata = file.read(), file.metadata.metadata
    pq.write_table(table.sort_by([("at_ms", "descending")]).replace_schema_metadata(metadata), path)

    assert [change.at_ms for change in walk(replay_of(tmp_path, from_ms=NOON_MS), 1)] == [
        NOON_MS + 7 * STEP_MS,
        NOON_MS + 11 * STEP_MS,
    ]


_VERDICTS = st.sampled_from(["ok", "ok", "ok", "growing", "stalled", None])


@settings(max_examples=10)
@given(polls=st.lists(st.tuples(st.integers(1, 400_000), _VERDICTS, _VERDICTS), min_size=2, max_size=40))
def test_every_change_is_found_both_ways(
    tmp_path_factory: pytest.TempPathFactory, polls: list[tuple[int, str | None, str | None]]
) -> None:
    tape, at_ms = Tape(tmp_path_factory.mktemp("any"), polls_a_file=4), NOON_MS
    expected, before = [], dict[str, str]()
    for number, (after_ms, *verdicts) in enumerate(polls):
        at_ms += after_ms
        now = {name: verdict for name, verdict in zip("ab", verdicts, strict=True) if verdict is not None}
        tape.poll(at_ms, *(said(verdict, name) for name, verdict in now.items()))
        for name, verdict in now.items():
            is_new = name not in before and verdict != "ok" and number and after_ms <= 60_000
            if is_new or before.get(name, verdict) != verdict:
                expected.append((at_ms, name, verdict))
        # What is not there any more is remembered for a while: it comes back as what it was.
        before |= now
    tape.seal()
    replay = replay_of(tape.out, from_ms=0)
    forth, back, last = [], [], set()
    for name in "ab":
        replay.seek(0)
        forth += [(change.at_ms, change.queue, change.after) for change in walk(replay, 1, name)]
        replay.seek(replay.span.to_ms + 1)
        last |= {change for change in forth if change[0] == replay.position_ms}
        back += [(change.at_ms, change.queue, change.after) for change in walk(replay, -1, name)]

    assert sorted(forth) == sorted({*back, *last})
    if at_ms // HOUR_MS - (NOON_MS + polls[0][0]) // HOUR_MS <= 1 and replay.timeline.spans.gap_ms == 60_000:
        assert sorted(forth) == sorted(expected)


def test_what_is_there_as_a_place_begins_did_not_change(tmp_path: Path) -> None:
    first, second = Tape(tmp_path, "b" * 12), Tape(tmp_path, "c" * 12, Place("stage", "redis://db2:6379/0", "rsmq"))
    for poll in range(20):
        first.poll(NOON_MS + poll * STEP_MS, said("ok"))
        if poll >= 10:
            second.poll(NOON_MS + poll * STEP_MS + 100, said("stalled", "emails"))
    first.seal()
    second.seal()
    assert walk(replay_of(tmp_path, from_ms=NOON_MS), 1, "emails", second.place) == []


def test_only_what_is_news_is_kept_of_an_hour(tmp_path: Path) -> None:
    tape = Tape(tmp_path, polls_a_file=5)
    for poll in range(100):
        tape.poll(NOON_MS + poll * STEP_MS, said("ok", "calm"), said("aged" if poll > 50 else "ok"))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    assert [change.queue for change in walk(replay, 1)] == ["orders"]
    # The place, two queues, and one change.
    assert len(replay._changes._marks(NOON_MS // HOUR_MS)) == 4


def turns(replay: Replay, direction: int = 1) -> list[tuple[int, str | None, str, bool]]:
    """Go from incident to incident: when, whose, its first verdict, and whether it ends there."""
    found = []
    while here := replay.go_to_incident(direction):
        found += [(one.at_ms - NOON_MS, one.incident.queue, one.incident.verdicts[0], one.is_end) for one in here]
        assert (max if direction > 0 else min)(one.at_ms for one in here) == replay.position_ms
    return found


def test_incidents_begin_when_their_condition_began_and_short_times_without_trouble_are_bridged(tmp_path: Path) -> None:
    tape = Tape(tmp_path, polls_a_file=7)
    for poll in range(60):
        at_ms = NOON_MS + poll * STEP_MS
        # Growing and then stalled for some seconds, ok for 20 s, stalled again.
        verdict = "growing" if 20 <= poll < 24 else "stalled" if poll in (24, 25) or 30 <= poll < 40 else "ok"
        tape.poll(at_ms, said(verdict, since_ms=NOON_MS + 51_500 if verdict == "growing" else None))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    expected = [(51_500, "orders", "growing", False), (40 * STEP_MS, "orders", "growing", True)]

    assert turns(replay) == expected
    replay.seek(replay.span.to_ms)
    assert turns(replay, -1) == expected[::-1]


def test_an_outage_of_a_server_is_one_and_hides_nothing_that_follows(tmp_path: Path) -> None:
    tapes = [Tape(tmp_path, letter * 12, PLACE._replace(ns=ns)) for letter, ns in (("b", "rsmq"), ("c", "(lists)"))]
    for poll in range(120):
        for number, tape in enumerate(tapes):
            at_ms = NOON_MS + poll * STEP_MS + number * 700
            if 50 <= poll < 60:
                tape.fail(at_ms)
            else:
                tape.poll(at_ms, said("stalled" if 61 <= poll < 80 + number else "ok", f"q{number}"))
    for tape in tapes:
        tape.seal()

    assert turns(replay_of(tmp_path, from_ms=NOON_MS)) == [
        (50 * STEP_MS, None, "down", False),
        (60 * STEP_MS + 700, None, "down", True),
        (61 * STEP_MS, "q0", "stalled", False),
        (61 * STEP_MS + 700, "q1", "stalled", False),
        (80 * STEP_MS, "q0", "stalled", True),
        (81 * STEP_MS + 700, "q1", "stalled", True),
    ]


def test_what_begins_at_the_same_time_on_several_queues_hides_none_of_them(tmp_path: Path) -> None:
    tape = Tape(tmp_path, polls_a_file=7)
    for poll in range(80):
        # One grows at first, one is stalled for a time, and one is poisoned from then on.
        growing = said("growing" if 2 <= poll < 10 else "ok", "later", since_ms=NOON_MS + 2 * STEP_MS)
        stalled = said("stalled" if 16 <= poll < 30 else "ok", "pay", since_ms=NOON_MS + 4 * STEP_MS)
        poisoned = said("poisoned" if poll >= 5 else "ok", "mail", since_ms=NOON_MS + 5 * STEP_MS)
        tape.poll(NOON_MS + poll * STEP_MS, growing, stalled, poisoned)
    tape.seal()
    expected = [
        (2 * STEP_MS, "later", "growing", False),
        (4 * STEP_MS, "pay", "stalled", False),
        (5 * STEP_MS, "mail", "poisoned", False),
        (10 * STEP_MS, "later", "growing", True),
        (30 * STEP_MS, "pay", "stalled", True),
    ]
    replay = replay_of(tmp_path, from_ms=NOON_MS)

    assert turns(replay) == expected
    replay.seek(replay.span.to_ms)
    assert turns(replay, -1) == expected[::-1]


def test_what_no_poll_separates_is_one_stop(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(40):
        queues = [said("stalled" if poll > 15 else "ok", f"q{number}", since_ms=NOON_MS + 9_001 + number)
                  for number in range(5)]  # fmt: skip
        tape.poll(NOON_MS + poll * STEP_MS, *queues, said("aged" if poll > 2 else "ok", "next"))
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)

    assert {turn.incident.queue for turn in replay.go_to_incident(1)} == {"q0", "q1", "q2", "q3", "q4"}
    assert [turn.incident.queue for turn in replay.go_to_incident(1)] == ["next"]
    assert len(replay.go_to_incident(-1)) == 5
    assert replay.go_to_incident(-1) == []


def test_an_incident_ends_when_its_condition_stopped_holding(tmp_path: Path) -> None:
    tape = Tape(tmp_path, polls_a_file=7)
    # The verdicts stay for 30 s, here across files and an hour.
    first_ms = NOON_MS + HOUR_MS - 32 * STEP_MS
    for poll in range(80):
        at_ms = first_ms + poll * STEP_MS
        is_over = poll >= 30
        pending = {"pending_since_ms": first_ms + 30 * STEP_MS} if is_over else {}
        stalled = said("stalled" if 20 <= poll < 36 else "ok", "pay", since_ms=first_ms + 8 * STEP_MS, **pending)
        # What is announced when another verdict ends may be over by then.
        worse = "stalled" if 20 <= poll < 36 else "growing" if 36 <= poll < 37 else "ok"
        hidden = said(worse, "mail", since_ms=first_ms + 9 * STEP_MS, **pending)
        tape.poll(at_ms, stalled, hidden)
    tape.seal()
    replay = replay_of(tmp_path, from_ms=first_ms)

    assert [(at_ms + NOON_MS - first_ms, *rest) for at_ms, *rest in turns(replay)] == [
        (8 * STEP_MS, "pay", "stalled", False),
        (9 * STEP_MS, "mail", "stalled", False),
        (30 * STEP_MS, "pay", "stalled", True),
        (30 * STEP_MS, "mail", "stalled", True),
    ]


def test_a_queue_that_was_created_again_has_incidents_of_its_own(tmp_path: Path) -> None:
    tape = Tape(tmp_path, polls_a_file=7)
    for poll in range(70):
        at_ms, again_ms = NOON_MS + poll * STEP_MS, NOON_MS + 40 * STEP_MS - 1
        created_ms = again_ms if at_ms > again_ms else 1_000
        # The second one of that name is in trouble from the start on, or soon.
        at_once = said("stalled" if 20 <= poll < 60 else "ok", "at-once", created_ms=created_ms)
        soon = said("stalled" if 20 <= poll < 40 or 42 <= poll < 60 else "ok", "soon", created_ms=created_ms)
        tape.poll(at_ms, at_once, soon)
    tape.seal()
    known = {PLACE.profile: Expected(("soon",), ())}, {PLACE.profile: Expected(("at-once",), ())}

    for name, begin, expected in zip(("at-once", "soon"), (40, 42), known, strict=True):
        assert turns(replay_of(tmp_path, from_ms=NOON_MS, expected=expected)) == [
            (20 * STEP_MS, name, "stalled", False),
            (begin * STEP_MS, name, "stalled", False),
            (60 * STEP_MS, name, "stalled", True),
        ]


def test_a_queue_and_a_list_of_one_name_have_incidents_of_their_own(tmp_path: Path) -> None:
    tapes = [Tape(tmp_path, letter * 12, PLACE._replace(ns=ns)) for letter, ns in (("b", "rsmq"), ("c", "(lists)"))]
    for poll in range(80):
        for number, tape in enumerate(tapes):
            begin = 20 + 20 * number
            tape.poll(NOON_MS + poll * STEP_MS, said("stalled" if begin <= poll < begin + 22 else "ok"))
    for tape in tapes:
        tape.seal()

    assert turns(replay_of(tmp_path, from_ms=NOON_MS)) == [
        (poll * STEP_MS, "orders", "stalled", is_end)
        for poll, is_end in ((20, False), (40, False), (42, True), (62, True))
    ]


def test_expected_troubles_are_passed_over(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(60):
        verdict = "stalled" if 20 <= poll < 40 else "ok"
        tape.poll(NOON_MS + poll * STEP_MS, said(verdict), said("aged" if poll > 50 else "ok", "mail-dead"))
    tape.seal()
    known = {PLACE.profile: Expected(("*-dead",), ((NOON_MS, NOON_MS + 30 * STEP_MS),))}
    replay = replay_of(tmp_path, from_ms=NOON_MS, expected=known)

    assert turns(replay) == [(30 * STEP_MS, "orders", "stalled", False), (40 * STEP_MS, "orders", "stalled", True)]


def test_what_began_before_it_was_recorded_is_gone_to_where_the_recording_begins(tmp_path: Path) -> None:
    tape, later_ms = Tape(tmp_path), 5 * HOUR_MS
    for poll in range(60):
        # It began to wait before, and gets its verdict later.
        waits = said("stalled" if poll > 5 else "ok", "waits", since_ms=NOON_MS - 30_000)
        tape.poll(NOON_MS + poll * STEP_MS, waits)
    tape.seal()
    other = Tape(tmp_path, "d" * 12)
    for poll in range(60):
        other.poll(NOON_MS + later_ms + poll * STEP_MS, said("stalled", since_ms=NOON_MS + 3 * HOUR_MS))
    other.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS)
    replay.seek(replay.span.to_ms)
    expected = [(later_ms, "orders", "stalled", False), (0, "waits", "stalled", False)]

    assert turns(replay, -1) == expected
    assert replay.position_ms == replay.span.from_ms


def test_what_began_before_the_recording_hides_nothing_that_begins_in_it(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    for poll in range(60):
        new = said("growing" if poll > 4 else "ok", "new", since_ms=NOON_MS + 20_000)
        tape.poll(NOON_MS + poll * STEP_MS, said("stalled", "old", since_ms=NOON_MS - 30_000), new)
    tape.seal()
    replay = replay_of(tmp_path, from_ms=NOON_MS + 40 * STEP_MS)

    assert turns(replay, -1) == [(20_000, "new", "growing", False), (0, "old", "stalled", False)]
