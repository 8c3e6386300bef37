"""Samples, rates, voices and runs: each case is a place of its own, and all of them are one job of Spark."""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rsmq_tui.history.analysis.schema import SCHEMAS, SERVER_RUNS
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline.transforms.samples import annotated_samples, minutes_in_doubt, server_runs, verdict_runs
from tests.pipeline.transforms.made import HOURS, MIDNIGHT_MS, NAMES, failed, frame, in_order, poll, rows_of

Row = dict[str, Any]

# Noon, when nothing happens but what a case says.
T = MIDNIGHT_MS + 43_200_000
S = 1000


def counted(number: int, **fields: Any) -> Row:
    return {"queue": "orders", "totalsent": number, "totalrecv": number // 2, "depth": number // 10, **fields}


def every(interval_ms: int, from_ms: int, *queues: Row, **fields: Any) -> list[Row]:
    """Polls of one queue by one recorder."""
    polls = [
        poll(from_ms + n * interval_ms, interval_ms if n else None, queue, **fields) for n, queue in enumerate(queues)
    ]
    return [row for rows in polls for row in rows]


every_5s = partial(every, 5 * S)


STALLED, GROWING, FINE = ({"queue": "orders", "verdict": name} for name in ("stalled", "growing", "ok"))
HOSTILE = "\x1b]0;x\x07[/red]\n' OR 1=1"

CASES: dict[str, list[Row]] = {
    "plain": every_5s(T, counted(0), counted(100), counted(300)),
    "duplicates": [*every_5s(T, counted(0), counted(100)), *every_5s(T, counted(0), counted(100))],
    "out of order": every_5s(T, counted(0), counted(100), counted(300))[::-1],
    "created anew": every_5s(T, counted(900), counted(40), counted(50)),
    "received anew": every_5s(T, counted(10, totalrecv=9), counted(10, totalrecv=1)),
    # With greater counters than the one before had.
    "created anew at once": every_5s(
        T, counted(10, created_ms=1), counted(30, created_ms=2), counted(50, created_ms=2), counted(60)
    ),
    "unknown counters": every_5s(
        T,
        counted(0),
        counted(10, totalsent=None),
        counted(20, depth=None),
        counted(30, totalrecv=None),
        counted(40, hidden=None),
    ),
    "too much": every_5s(T, counted(-(2**63) + 1), counted(2**63 - 1), counted(2**63 - 1)),
    "expired": every_5s(
        T,
        counted(10, depth=10, hidden=0, totalrecv=0),
        counted(10, depth=10, hidden=4, totalrecv=4),
        counted(10, depth=9, hidden=2, totalrecv=7),
    ),
    # Six delayed messages become due, are received, and come back.
    "delayed": every_5s(
        T,
        counted(0, depth=0, totalrecv=0),
        counted(6, depth=6, hidden=6, totalrecv=0),
        counted(6, depth=6, hidden=0, totalrecv=0),
        counted(6, depth=6, hidden=6, totalrecv=6),
        counted(6, depth=6, hidden=0, totalrecv=6),
    ),
    # What was hidden before may be delayed.
    "hidden before": every_5s(
        T,
        counted(10, depth=10, hidden=4, totalrecv=4),
        counted(10, depth=10, hidden=1, totalrecv=4),
        counted(10, depth=10, hidden=3, totalrecv=6),
        counted(10, depth=10, hidden=0, totalrecv=6),
    ),
    "delayed for hours": [
        *poll(T - 3_600 * S, None, counted(0, depth=0, totalrecv=0)),
        *poll(T - 3_500 * S, 100 * S, counted(9, depth=9, hidden=9, totalrecv=0)),
        *poll(T, 3_500 * S, counted(9, depth=9, hidden=9, totalrecv=0)),
        *poll(T + 3_599 * S, 3_599 * S, counted(9, depth=9, hidden=7, totalrecv=0)),
        *poll(T + 3_600 * S, S, counted(9, depth=9, hidden=5, totalrecv=0)),
    ],
    "restored": every_5s(T, counted(10, depth=1), counted(12, depth=9)),
    # Five hundred messages are moved into a queue in which a hundred are received and deleted between two polls.
    "moved": every_5s(
        T,
        *(
            counted(100 * n, totalrecv=100 * n, depth=depth, hidden=5)
            for n, depth in enumerate((10, 10, 510, 510, 510))
        ),
    ),
    # Here they are hidden, and become due later: only as many as were deleted meanwhile, less five, seem to come back.
    "moved while hidden": every_5s(
        T,
        *(
            counted(10 * n, totalrecv=10 * n, depth=depth, hidden=hidden)
            for n, (depth, hidden) in enumerate(((50, 5), (550, 505), (550, 505), (550, 5)))
        ),
    ),
    "a list": every_5s(
        T,
        *(
            {
                "queue": "queue:a",
                "kind": "list",
                "depth": depth,
                "hidden": 1,
                "ready": depth - 1,
                "expired": expired,
                "verdict": "stalled",
                **dict.fromkeys(("totalsent", "totalrecv", "vt_s", "poison", "highest_rc")),
            }
            for depth, expired in ((9, 0), (4, 3), (7, None))
        ),
    ),
    "slow": [*poll(T, None, counted(0)), *poll(T + 3_600_000, 3_600_000, counted(10))],
    "too slow": [*poll(T, None, counted(0)), *poll(T + 3_600_001, 3_600_001, counted(10))],
    "a lost row": [*poll(T, None, counted(0)), *poll(T + 10 * S, 5 * S, counted(10))],
    "restart": [
        *every_5s(T + 40 * S, STALLED, STALLED, recorder="z"),
        *every_5s(T + 70 * S, STALLED, STALLED, recorder="a"),
    ],
    "gap": [*every_5s(T, STALLED, STALLED), *every_5s(T + 65 * S + 1, STALLED)],
    "nearly a gap": [*every_5s(T, STALLED, STALLED), *every_5s(T + 65 * S, STALLED)],
    "outage": [
        *every_5s(T, STALLED, STALLED),
        *failed(T + 10 * S, HOSTILE),
        *failed(T + 12 * S, "something else"),
        *every_5s(T + 14 * S, STALLED),
    ],
    "no queues after an outage": [
        *failed(T, "x"),
        *poll(T + 2 * S),
        *poll(T + 7 * S, 5 * S),
        *poll(T + 12 * S, 5 * S, FINE),
        *poll(T + 73 * S, None, FINE),
    ],
    "outage a minute before": [
        *poll(T + 50 * S, None, STALLED),
        *failed(T + 55 * S),
        *poll(T + 65 * S, None, STALLED),
    ],
    "two outages": [
        *failed(T - 5 * S, "x"),
        *poll(T, None, FINE),
        *failed(T + 5 * S, "x"),
        *failed(T + 10 * S, "x"),
    ],
    "an outage on the hour": [*failed(T - 5 * S, "x"), *failed(T, "x")],
    "a long outage": [*failed(T), *failed(T + 60 * S), *failed(T + 120 * S + 1)],
    "a lost row over a minute": [*poll(T, None, counted(0)), *poll(T + 65 * S, 60 * S, counted(10))],
    "dense and sparse": [
        *every(S, T, *[counted(n) for n in range(180)], recorder="dense"),
        # The same counters, seen between two polls of the other.
        *every(45 * S, T + 500, *[counted(n * 45) for n in range(4)], recorder="a sparse one"),
    ],
    "killed and started again": [
        *every(S, T, *[counted(n * 10) for n in range(40)], recorder="z"),
        *every(S, T + 42 * S, *[counted(420 + n * 10) for n in range(60)], recorder="a"),
    ],
    "two slow ones": [
        *every(240 * S, T, *[counted(n * 240) for n in range(4)], recorder="a"),
        *every(120 * S, T + 60 * S, *[counted(60 + n * 120) for n in range(8)], recorder="b"),
    ],
    "a denser one begins": [
        *every(10 * S, T - 700 * S, *[GROWING] * 140, recorder="z"),
        *every_5s(T + 62 * S, *[FINE] * 124, GROWING, GROWING, recorder="a"),
    ],
    "as dense": [
        *every(5003, T + S, *[FINE] * 90, recorder="b"),
        *every(5400, T, *[STALLED] * 100, recorder="a"),
    ],
    "two recorders": [
        *every_5s(T, *[counted(n * 10) for n in range(24)], recorder="b"),
        *every_5s(T + 2 * S, *[counted(n * 10) for n in range(12)], recorder="a"),
    ],
    "one of two is down": [
        *failed(T + S, recorder="a"),
        *every_5s(T, counted(0), counted(10), recorder="b"),
    ],
    "two are down": [*failed(T + S, "b", recorder="b"), *failed(T + 2 * S, "a", recorder="a")],
    "comes and goes": [
        *poll(T, None, FINE),
        *poll(T + 5 * S, 5 * S, FINE, {"queue": "other", "verdict": "aged"}),
        *poll(T + 10 * S, 5 * S, FINE),
        *poll(T + 15 * S, 5 * S, FINE),
        *poll(T + 100 * S, 85 * S, FINE, {"queue": "other", "verdict": "aged"}),
    ],
    "midnight": [
        *poll(MIDNIGHT_MS - 5 * S, None, GROWING),
        *poll(MIDNIGHT_MS, 5 * S, GROWING | {"depth": 7}),
        *poll(MIDNIGHT_MS + 5 * S, 5 * S, GROWING),
    ],
    "another hour": [
        *poll(T - 5 * S, None, GROWING),
        *poll(T, 5 * S, GROWING | {"depth": 7}),
        *poll(T + 3_600 * S, 3_600 * S, GROWING),
        *poll(T + 7_201 * S, 3_601 * S, GROWING),
    ],
    "midnight with a gap": [*poll(MIDNIGHT_MS - 31 * S, None, GROWING), *poll(MIDNIGHT_MS + 30 * S, None, GROWING)],
    "peaks": every_5s(
        T,
        GROWING | {"depth": 3, "ready": 2, "oldest_ready_age_ms": 9, "poison": 1, "highest_rc": 4},
        GROWING | {"depth": 8, "ready": 1, "oldest_ready_age_ms": 12},
        GROWING | {"depth": 8, "ready": 8, "broken": "too late to be told"},
        GROWING | {"depth": None, "ready": None},
    ),
    "broken": every_5s(T, {"queue": "orders", "verdict": "broken", "broken": HOSTILE, "depth": None}),
    "names": [row for name in NAMES for row in every_5s(T, counted(0, queue=name), counted(10, queue=name))],
    "of another day": every_5s(T + 5 * 86_400_000, counted(0), counted(10)),
}


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Mapping[str, dict[str, list[Row]]]:
    """The samples and the runs of each case; apart from these, its polls, and the runs of those that succeeded."""
    rows = [row | {"profile": case} for case, given in CASES.items() for row in given]
    output = annotated_samples(frame(spark, rows), HOURS).persist()
    tables = {"samples": rows_of(output.orderBy("at_ms")), "runs": rows_of(verdict_runs(output))}
    output.unpersist()
    cases: dict[str, dict[str, list[Row]]] = defaultdict(
        lambda: {"samples": [], "runs": [], "polls": [], "answered": []}
    )
    apart = {"samples": "polls", "runs": "answered"}
    for table, found in tables.items():
        for row in found:
            is_apart = row["queue"] is None and (table == "samples" or row["verdict"] == "ok")
            cases[row["profile"]][apart[table] if is_apart else table].append(row)
    return cases


def of(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    ordered = sorted(rows, key=lambda row: (row.get("at_ms", row.get("first_ms")), str(row["queue"])))
    return [tuple(row[name] for name in names) for row in ordered]


COUNTS = ("arrivals", "deletes", "receives", "redeliveries")
UNKNOWN = (None, None, None, None)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("plain", [UNKNOWN, (100, 90, 50, 0), (200, 180, 100, 0)]),
        ("duplicates", [UNKNOWN, (100, 90, 50, 0)]),
        ("out of order", [UNKNOWN, (100, 90, 50, 0), (200, 180, 100, 0)]),
        ("created anew", [UNKNOWN, UNKNOWN, (10, 9, 5, 0)]),
        ("created anew at once", [UNKNOWN, UNKNOWN, (20, 18, 10, 0), (10, 9, 5, 0)]),
        ("received anew", [UNKNOWN, UNKNOWN]),
        ("unknown counters", [UNKNOWN, (None, None, 5, None), (None, None, 5, None), (10, None, None, None),
                              (10, 9, None, None)]),
        ("too much", [UNKNOWN, (None, None, 2**63 - 1, None), (0, 0, 0, 0)]),
        ("expired", [UNKNOWN, (0, 0, 4, 0), (0, 1, 3, 4)]),
        ("delayed", [UNKNOWN, (6, 0, 0, 0), (0, 0, 0, 0), (0, 0, 6, 0), (0, 0, 0, 6)]),
        ("hidden before", [UNKNOWN, (0, 0, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2)]),
        ("delayed for hours", [UNKNOWN, (9, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 2)]),
        ("restored", [UNKNOWN, (2, 0, 1, 0)]),
        ("moved", [UNKNOWN, (100, 100, 100, 0), (100, 0, 100, 0), (100, 100, 100, 0), (100, 100, 100, 0)]),
        ("moved while hidden", [UNKNOWN, (10, 0, 10, 0), (10, 10, 10, 0), (10, 10, 10, 5)]),
        ("a list", [UNKNOWN, UNKNOWN, UNKNOWN]),
        ("slow", [UNKNOWN, (10, 9, 5, 0)]),
        ("too slow", [UNKNOWN, UNKNOWN]),
        ("a lost row", [UNKNOWN, (10, 9, 5, 0)]),
        ("a lost row over a minute", [UNKNOWN, UNKNOWN]),
    ],
)  # fmt: skip
def test_what_happened_between_two_samples_comes_from_their_counters(
    made: Mapping[str, dict[str, list[Row]]], case: str, expected: list[tuple[Any, ...]]
) -> None:
    assert of(made[case]["samples"], *COUNTS) == expected


def test_rates_are_over_the_measured_interval(made: Mapping[str, dict[str, list[Row]]]) -> None:
    assert of(made["plain"]["samples"], "arrivals_s", "receives_s", "covered_ms") == [
        (None, None, None),
        (20.0, 10.0, 5000),
        (40.0, 20.0, 5000),
    ]
    assert of(made["unknown counters"]["samples"], "covered_ms") == [(None,), (None,), (None,), (5000,), (5000,)]


def test_each_minute_of_a_place_is_told_by_one(made: Mapping[str, dict[str, list[Row]]]) -> None:
    two = of(made["two recorders"]["samples"], "at_ms", "arrivals", "covered_ms")

    # Of those that poll as often, the one with the smaller id.
    assert [at_ms for at_ms, *_ in two] == [
        *range(T + 2 * S, T + 60 * S, 5 * S), *range(T + 60 * S, T + 120 * S, 5 * S)
    ]  # fmt: skip
    # Counted since the last poll of the other.
    assert two[12] == (T + 60 * S, 10, 3 * S)
    assert of(made["one of two is down"]["samples"], "at_ms") == [(T,), (T + 5 * S,)]
    assert of(made["one of two is down"]["runs"], "verdict") == [("ok",)]
    assert of(made["two are down"]["runs"], "verdict", "samples", "told") == [("down", 1, "a")]


def test_a_recorder_that_has_just_begun_does_not_end_what_another_one_knows(
    made: Mapping[str, dict[str, list[Row]]],
) -> None:
    assert {verdict for verdict, _ in of(made["a denser one begins"]["runs"], "verdict", "samples")} == {"growing"}


def test_recorders_that_poll_as_often_do_not_take_turns(made: Mapping[str, dict[str, list[Row]]]) -> None:
    # One of them has a poll less in some minutes.
    assert {verdict for verdict, _ in of(made["as dense"]["runs"], "verdict", "samples")} == {"stalled"}


@pytest.mark.parametrize(
    ("case", "samples", "arrivals", "covered_s"),
    [
        # Of each minute the densest one counts, and nothing is counted twice.
        ("dense and sparse", 180, 179, 179),
        # Of the minute of the restart the first recorder counts; what it did not see, the second one does.
        ("killed and started again", 40 + 42, 1010, 101),
        # Less often than once a minute, each poll counts, and is compared with the one before of either.
        ("two slow ones", 4 + 8, 900, 900),
    ],
)
def test_what_several_recorders_saw_is_counted_once(
    made: Mapping[str, dict[str, list[Row]]], case: str, samples: int, arrivals: int, covered_s: int
) -> None:
    output = of(made[case]["samples"], "at_ms", "arrivals", "covered_ms")

    assert len(output) == samples
    assert sum(count or 0 for _, count, _ in output) == arrivals
    assert sum(ms or 0 for *_, ms in output) == covered_s * S
    assert [row["samples"] for row in made[case]["runs"]] == [samples]


def test_of_a_list_nothing_is_covered_and_what_is_counted_is_told(made: Mapping[str, dict[str, list[Row]]]) -> None:
    assert of(made["a list"]["samples"], "covered_ms", "depth", "expired") == [
        (None, 9, 0), (None, 4, 3), (None, 7, None),
    ]  # fmt: skip
    names = ("kind", "verdict", "samples", "arrivals", "deletes", "receives", "poison", "peak_depth", "expired")
    assert of(made["a list"]["runs"], *names) == [("list", "stalled", 3, None, None, None, None, 9, 3)]
    assert of(made["plain"]["runs"], "kind", "expired") == [("rsmq", None)]


RUN = ("verdict", "first_ms", "last_ms", "continues", "samples")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("restart", [("stalled", T + 40 * S, T + 75 * S, False, 4)]),
        ("gap", [("stalled", T, T + 5 * S, False, 2), ("stalled", T + 65 * S + 1, T + 65 * S + 1, False, 1)]),
        ("nearly a gap", [("stalled", T, T + 65 * S, False, 3)]),
        ("outage", [("stalled", T, T + 5 * S, False, 2), ("down", T + 10 * S, T + 12 * S, False, 2),
                    ("stalled", T + 14 * S, T + 14 * S, False, 1)]),
        ("outage a minute before", [("stalled", T + 50 * S, T + 50 * S, False, 1),
                                    ("down", T + 55 * S, T + 55 * S, False, 1),
                                    ("stalled", T + 65 * S, T + 65 * S, False, 1)]),
        ("two outages", [("down", T - 5 * S, T - 5 * S, False, 1), ("ok", T, T, False, 1),
                         ("down", T + 5 * S, T + 10 * S, False, 2)]),
        ("an outage on the hour", [("down", T - 5 * S, T - 5 * S, False, 1), ("down", T, T, True, 1)]),
        ("a long outage", [("down", T, T + 60 * S, False, 2), ("down", T + 120 * S + 1, T + 120 * S + 1, False, 1)]),
        ("comes and goes", [("ok", T, T + 100 * S, False, 5), ("aged", T + 5 * S, T + 5 * S, False, 1),
                            ("aged", T + 100 * S, T + 100 * S, False, 1)]),
        ("midnight", [("growing", MIDNIGHT_MS - 5 * S, MIDNIGHT_MS - 5 * S, False, 1),
                      ("growing", MIDNIGHT_MS, MIDNIGHT_MS + 5 * S, True, 2)]),
        ("another hour", [("growing", T - 5 * S, T - 5 * S, False, 1), ("growing", T, T, True, 1),
                          ("growing", T + 3_600 * S, T + 3_600 * S, True, 1),
                          ("growing", T + 7_201 * S, T + 7_201 * S, False, 1)]),
        ("midnight with a gap", [("growing", MIDNIGHT_MS - 31 * S, MIDNIGHT_MS - 31 * S, False, 1),
                                 ("growing", MIDNIGHT_MS + 30 * S, MIDNIGHT_MS + 30 * S, False, 1)]),
        ("created anew at once", [("ok", T, T, False, 1), ("ok", T + 5 * S, T + 15 * S, False, 3)]),
        ("of another day", []),
    ],
)  # fmt: skip
def test_runs_end_where_the_verdict_changes_at_gaps_and_on_the_hour(
    made: Mapping[str, dict[str, list[Row]]], case: str, expected: list[tuple[Any, ...]]
) -> None:
    assert of(made[case]["runs"], *RUN) == expected


def test_polls_that_succeed_are_runs_of_their_place_whether_or_not_it_has_queues(
    made: Mapping[str, dict[str, list[Row]]],
) -> None:
    assert of(made["no queues after an outage"]["answered"], *RUN) == [
        ("ok", T + 2 * S, T + 12 * S, False, 3),
        ("ok", T + 73 * S, T + 73 * S, False, 1),
    ]
    assert of(made["another hour"]["answered"], *RUN[1:4]) == [
        (T - 5 * S, T - 5 * S, False),
        (T, T, True),
        (T + 3_600 * S, T + 3_600 * S, True),
        (T + 7_201 * S, T + 7_201 * S, False),
    ]


def test_a_run_knows_its_peaks_and_what_was_told_first(made: Mapping[str, dict[str, list[Row]]]) -> None:
    names = ("first_depth", "last_depth", "peak_depth", "peak_ready", "peak_ms", "peak_age_ms", "poison", "highest_rc")

    assert of(made["peaks"]["runs"], *names, "told") == [(3, None, 8, 8, T + 5 * S, 12, 1, 4, None)]
    assert of(made["created anew at once"]["runs"], "created_ms") == [(1,), (2,)]
    assert of(made["broken"]["runs"], "verdict", "told", "peak_ms") == [("broken", HOSTILE, None)]
    assert of(made["outage"]["runs"], "queue", "told")[1] == (None, HOSTILE)


def test_a_run_is_of_its_day(made: Mapping[str, dict[str, list[Row]]]) -> None:
    assert of(made["midnight"]["runs"], "day") == [("2024-10-04",), ("2024-10-05",)]


def test_any_name_is_a_queue_of_its_own(made: Mapping[str, dict[str, list[Row]]]) -> None:
    output = made["names"]["samples"]

    assert {row["queue"] for row in output} == set(NAMES)
    assert [row["arrivals"] for row in output if row["at_ms"] > T] == [10] * len(NAMES)


def test_only_minutes_in_which_something_is_to_be_decided_are_looked_up(spark: SparkSession) -> None:
    rows = [
        *every_5s(T, FINE, FINE),
        *every_5s(T + 60 * S, FINE, recorder="r2"),
        *poll(T + 61 * S, None, FINE),
        *failed(T + 300 * S, "x"),
        *[row | {"ns": "quiet"} for row in every_5s(T, FINE)],
    ]
    found = minutes_in_doubt(frame(spark, rows)).toArrow().to_pylist()

    assert {(row["ns"], row["minute"] * 60 * S - T): (row["counted"], row["failed_ms"]) for row in found} == {
        ("rsmq", 60 * S): ("r1", []),
        ("rsmq", 300 * S): ("r1", [T + 300 * S]),
        ("rsmq", 360 * S): (None, [T + 300 * S]),
    }


def test_each_server_that_answered_in_an_hour_is_a_row(spark: SparkSession) -> None:
    begin = T - T % HOUR_MS
    info: list[tuple[int, str | None, int | None]] = [
        (10, "one", 7_210), (20, None, None), (3_590, "one", 10_790), (3_610, "one", 10_810), (3_700, "two", 40),
        # Of another recorder, a little later.
        (3_702, "two", 42), (3_800, "far", 2**62), (7_300, "two", 3_640),
    ]  # fmt: skip
    rows = [
        row
        for second, run_id, uptime_s in info
        for row in poll(begin + second * S, 5_000, {"depth": 1}, run_id=run_id, uptime_s=uptime_s)
    ]
    rows += failed(begin + 3_650 * S)
    # Only the row of the poll itself has them.
    rows = [row | ({"run_id": None, "uptime_s": None} if row["queue"] is not None else {}) for row in rows]
    hour = begin // HOUR_MS
    parts = [rows_of(server_runs(frame(spark, rows), hours)) for hours in ({hour, hour + 1}, {hour}, {hour + 1})]

    names = ("run_id", "first_ms", "last_ms", "started_ms")
    assert sorted((row["first_ms"], *(row[name] for name in names)) for row in parts[0]) == [
        (first, run_id, first, last, started)
        for run_id, first, last, started in (
            ("one", begin + 10 * S, begin + 3_590 * S, begin - 7_200 * S),
            ("one", begin + 3_610 * S, begin + 3_610 * S, begin - 7_200 * S),
            ("two", begin + 3_700 * S, begin + 3_702 * S, begin + 3_660 * S),
            ("far", begin + 3_800 * S, begin + 3_800 * S, None),
        )
    ]
    assert in_order(parts[1] + parts[2]) == parts[0]
    assert server_runs(frame(spark, []), HOURS).toArrow().schema.names == ["day", *SCHEMAS[SERVER_RUNS].names]
