"""Episodes: how they end, what they concerned and why; each case is a place, and all of them are one job of Spark."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rsmq_tui.history.analysis.schema import SCHEMAS, VERDICT_RUNS
from rsmq_tui.pipeline.transforms.episodes import episodes_of
from tests.pipeline.transforms.made import rows_of

Row = dict[str, Any]

S, MINUTE = 1000, 60_000
TROUBLES = ("growing", "stalled", "aged", "poisoned", "broken")


def run(verdict: str, first_ms: int, last_ms: int, **fields: Any) -> Row:
    return dict.fromkeys(SCHEMAS[VERDICT_RUNS].names) | {
        "server": "redis://db1:6379/0", "ns": "rsmq", "queue": None if verdict == "down" else "orders",
        "verdict": verdict, "first_ms": first_ms, "last_ms": last_ms, "continues": True, "samples": 9,
    } | fields  # fmt: skip


def depths(first: int, peak: int, **fields: Any) -> Row:
    return {"first_depth": first, "last_depth": first, "peak_depth": peak, **fields}


HOSTILE = "\x1b[2J[/red] " + "'" * 3
GREW = depths(1204, 38112, peak_ms=30 * MINUTE, arrivals=500_000, deletes=69_560)

CASES: dict[str, list[Row]] = {
    "over": [run("growing", 0, 34 * MINUTE - S, **GREW), run("ok", 34 * MINUTE, 50 * MINUTE)],
    "from its lowest depth": [
        run("growing", 100 * S, 389 * S, since_ms=0, since_depth=4, pending_since_ms=300 * S,
            **depths(504, 1504, peak_ms=300 * S, arrivals=2000, deletes=1000)),
        run("growing", 390 * S, 399 * S, since_ms=0, since_depth=4, pending_since_ms=300 * S, **depths(1504, 1504)),
        run("ok", 400 * S, 500 * S),
    ],
    "open": [run("ok", 0, 9), run("stalled", 10, 10 + 41 * MINUTE, peak_ready=3020)],
    "gap": [
        run("aged", 0, 9 * MINUTE, peak_ready=7, peak_age_ms=3_840_000),
        run("ok", 30 * MINUTE, 40 * MINUTE, continues=False),
    ],
    "gone": [run("stalled", 0, 9 * S, peak_ready=1), run("ok", 0, 10 * S, queue="other")],
    "midnight": [
        run("growing", 0, 9 * S, **depths(5, 90, peak_ms=7, arrivals=40, deletes=10, peak_age_ms=4)),
        run("growing", 10 * S, 19 * S, **depths(60, 90, peak_ms=10 * S, arrivals=50, deletes=11, peak_age_ms=9)),
        run("ok", 20 * S, 30 * S),
    ],
    "midnight with a gap": [
        run("growing", 0, 9 * S, **depths(5, 9)),
        run("growing", 100 * S, 109 * S, continues=False, **depths(6, 7)),
    ],
    "from bad to worse": [
        run("growing", 0, 9 * S, **depths(5, 9)),
        run("aged", 10 * S, 19 * S, peak_age_ms=601_000, peak_ready=4),
        run("poisoned", 20 * S, 29 * S, poison=1, highest_rc=17),
        run("ok", 30 * S, 39 * S),
        run("broken", 40 * S, 40 * S, told=HOSTILE, peak_depth=3),
        run("stalled", 110 * S, 111 * S, continues=False, peak_ready=2),
        run("ok", 112 * S, 113 * S),
    ],
    "down": [
        run("stalled", 0, 9 * S, peak_ready=2),
        run("down", 10 * S, 130 * S, told="connection refused"),
        run("ok", 140 * S, 150 * S, continues=False),
    ],
    "down at last": [run("stalled", 0, 9 * S, peak_ready=2), run("down", 10 * S, 75 * S, told=HOSTILE)],
    "down, and nobody looked": [run("down", 0, 10 * S), run("ok", 71 * S, 80 * S, continues=False)],
    "up without queues": [
        run("down", 10 * S, 16 * S, told="connection refused"),
        run("ok", 16 * S + 500, 52 * S, queue=None, continues=False),
        run("ok", 53 * S, 60 * S, continues=False),
    ],
    "answered shortly before": [
        run("ok", 0, 5 * S, queue=None, continues=False),
        run("down", 11 * S, 16 * S, told="no answer", continues=False),
        run("ok", 17 * S, 20 * S, queue=None, continues=False),
        run("down", 81 * S, 81 * S, told="no answer", continues=False),
        run("ok", 82 * S, 90 * S, queue=None, continues=False),
    ],
    "no queues are left": [
        run("stalled", 0, 9 * S, peak_ready=1),
        run("ok", 0, 20 * S, queue=None, continues=False),
    ],
    "lists": [
        run("stalled", 0, 9 * S, peak_ready=3020, expired=0, kind="list", queue="queue:a"),
        run("stalled", 10, 9 * S, peak_ready=3, expired=1204, kind="list", queue="queue:b"),
        run("growing", 20, 9 * S, **depths(5, 9), kind="list", queue="queue:c"),
    ],
    "announced late": [
        run("ok", 0, 90 * S),
        run("growing", 100 * S, 109 * S, since_ms=40 * S, arrivals=900, deletes=0, **depths(5, 9)),
        run("stalled", 110 * S, 119 * S, since_ms=50 * S, peak_ready=2),
        run("stalled", 120 * S, 129 * S, since_ms=50 * S, peak_ready=2),
        run("aged", 130 * S, 139 * S, since_ms=-1),
        run("poisoned", 140 * S, 149 * S, since_ms=141 * S),
        run("ok", 150 * S, 160 * S),
    ],
    # The recorder keeps the verdict of a list for a while after it is empty, also across an outage.
    "one stall": [
        run("stalled", 100 * S, 200 * S, since_ms=40 * S, peak_ready=7, kind="list"),
        run("down", 201 * S, 210 * S, told="connection refused"),
        run("stalled", 212 * S, 230 * S, since_ms=40 * S, peak_ready=0, kind="list", continues=False),
        run("down", 231 * S, 232 * S, told="connection refused", continues=False),
        run("stalled", 234 * S, 239 * S, since_ms=40 * S, peak_ready=0, kind="list", continues=False),
        run("ok", 240 * S, 300 * S),
    ],
    "over before the recording": [
        run("stalled", 100 * S, 119 * S, since_ms=40 * S, peak_ready=0, kind="list", continues=False),
        run("ok", 120 * S, 300 * S),
    ],
    "in turns": [
        run("growing", 100 * S, 199 * S, since_ms=40 * S, arrivals=900, deletes=0, **depths(5, 9)),
        run("stalled", 200 * S, 299 * S, since_ms=150 * S, peak_ready=2),
        run("growing", 300 * S, 399 * S, since_ms=40 * S, arrivals=900, deletes=0, **depths(5, 9)),
        run("ok", 400 * S, 500 * S),
    ],
    "created again": [
        run("growing", 100 * S, 199 * S, since_ms=40 * S, created_ms=S, **depths(5, 9)),
        run("growing", 200 * S, 299 * S, since_ms=150 * S, created_ms=190 * S, continues=False, **depths(0, 3)),
        run("ok", 300 * S, 400 * S, created_ms=190 * S),
    ],
    # A recorder keeps a verdict for half a minute after its condition has ended.
    "cleared": [
        run("stalled", 60 * S, 110 * S, since_ms=0, peak_ready=260, pending_since_ms=80 * S),
        run("ok", 111 * S, 120 * S),
        run("growing", 240 * S, 275 * S, since_ms=120 * S, pending_since_ms=246 * S,
            **depths(600, 602, peak_ms=241 * S)),
    ],
    "hidden": [
        run("stalled", 60 * S, 600 * S, since_ms=0, peak_ready=331, peak_depth=331, peak_ms=580 * S),
        run("growing", 601 * S, 630 * S, since_ms=10 * S, since_depth=0, pending_since_ms=580 * S,
            **depths(178, 178, peak_ms=601 * S, arrivals=9, deletes=170, peak_ready=177, peak_age_ms=500)),
        run("ok", 631 * S, 650 * S),
        run("stalled", 700 * S, 710 * S, peak_ready=4),
        run("aged", 711 * S, 720 * S, since_ms=690 * S, pending_since_ms=711 * S, peak_ready=1, peak_age_ms=500),
        run("ok", 721 * S, 730 * S),
    ],
    "cleared into another": [
        run("stalled", 60 * S, 99 * S, since_ms=0, peak_ready=2),
        run("stalled", 100 * S, 110 * S, since_ms=0, peak_ready=1, pending_since_ms=80 * S),
        run("growing", 111 * S, 150 * S, since_ms=70 * S, pending_since_ms=120 * S, **depths(5, 5)),
        run("ok", 151 * S, 180 * S),
        run("aged", 181 * S, 190 * S, since_ms=181 * S, pending_since_ms=185 * S),
        run("aged", 191 * S, 195 * S, since_ms=181 * S),
        run("ok", 196 * S, 200 * S),
    ],
    "cleared by nothing": [
        run("stalled", 60 * S, 110 * S, since_ms=70 * S, pending_since_ms=60 * S),
        run("stalled", 200 * S, 210 * S, since_ms=200 * S, pending_since_ms=211 * S, continues=False),
        run("growing", 300 * S, 310 * S, since_ms=-9, pending_since_ms=-1, continues=False),
    ],
    "nothing known": [run(verdict, n * S, n * S) for n, verdict in enumerate(TROUBLES)],
}  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Mapping[str, list[Row]]:
    """The episodes of each case, by time."""
    rows = [row | {"profile": case} for case, given in CASES.items() for row in given]
    # In no order: Spark's files have none.
    table = pa.Table.from_pylist(rows[::-1], SCHEMAS[VERDICT_RUNS])
    episodes = sorted(rows_of(episodes_of(spark.createDataFrame(table))), key=lambda row: int(row["start_ms"]))
    return {case: [row for row in episodes if row["profile"] == case] for case in CASES}


def of(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


ENDS = ("verdict", "start_ms", "end_ms", "ended", "recovered_ms")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("over", [("growing", 0, 34 * MINUTE, "over", 34 * MINUTE)]),
        ("open", [("stalled", 10, 10 + 41 * MINUTE, "open", None)]),
        ("gap", [("aged", 0, 9 * MINUTE, "unknown", None)]),
        ("gone", [("stalled", 0, 9 * S, "unknown", None)]),
        ("midnight", [("growing", 0, 20 * S, "over", 20 * S)]),
        ("midnight with a gap", [("growing", 0, 9 * S, "unknown", None), ("growing", 100 * S, 109 * S, "open", None)]),
        ("from bad to worse", [("growing", 0, 10 * S, "over", 30 * S), ("aged", 10 * S, 20 * S, "over", 30 * S),
                               ("poisoned", 20 * S, 30 * S, "over", 30 * S),
                               ("broken", 40 * S, 40 * S, "unknown", None),
                               ("stalled", 110 * S, 112 * S, "over", 112 * S)]),
        ("down", [("stalled", 0, 9 * S, "unknown", None), ("down", 10 * S, 140 * S, "over", 140 * S)]),
        ("down at last", [("stalled", 0, 9 * S, "unknown", None), ("down", 10 * S, 75 * S, "open", None)]),
        ("down, and nobody looked", [("down", 0, 10 * S, "unknown", None)]),
        ("up without queues", [("down", 10 * S, 16 * S + 500, "over", 16 * S + 500)]),
        ("no queues are left", [("stalled", 0, 9 * S, "unknown", None)]),
        ("one stall", [("stalled", 40 * S, 240 * S, "over", 240 * S), ("down", 201 * S, 212 * S, "over", 212 * S),
                       ("down", 231 * S, 234 * S, "over", 234 * S)]),
        ("over before the recording", [("stalled", 40 * S, 120 * S, "over", 120 * S)]),
        ("in turns", [("growing", 40 * S, 200 * S, "over", 400 * S), ("stalled", 150 * S, 300 * S, "over", 400 * S),
                      ("growing", 200 * S, 400 * S, "over", 400 * S)]),
        ("cleared", [("stalled", 0, 80 * S, "over", 80 * S), ("growing", 120 * S, 246 * S, "over", None)]),
        ("cleared into another", [("stalled", 0, 80 * S, "over", 120 * S),
                                  ("growing", 70 * S, 120 * S, "over", 120 * S),
                                  ("aged", 181 * S, 196 * S, "over", 196 * S)]),
        ("cleared by nothing", [("stalled", 60 * S, 110 * S, "unknown", None),
                                ("stalled", 200 * S, 210 * S, "unknown", None),
                                ("growing", 300 * S, 310 * S, "open", None)]),
        ("created again", [("growing", 40 * S, 199 * S, "unknown", None),
                           ("growing", 199 * S, 300 * S, "over", 300 * S)]),
        ("announced late", [("growing", 40 * S, 110 * S, "over", 150 * S),
                            ("stalled", 50 * S, 130 * S, "over", 150 * S),
                            ("aged", 130 * S, 140 * S, "over", 150 * S),
                            ("poisoned", 140 * S, 150 * S, "over", 150 * S)]),
    ],
)  # fmt: skip
def test_an_episode_ends_where_that_is_known(
    found: Mapping[str, list[Row]], case: str, expected: list[tuple[Any, ...]]
) -> None:
    assert of(found[case], *ENDS) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("over", ["arrivals exceeded deletes by 211/s over 34m; depth rose from 1,204 to 38,112"]),
        ("from its lowest depth", ["arrivals exceeded deletes by 5.0/s over 5m 0s; depth rose from 4 to 1,504"]),
        ("open", ["3,020 messages ready and none received for 41m"]),
        ("gap", ["the first ready message was up to 1h 4m old"]),
        ("gone", ["1 message ready and none received for 9 s"]),
        ("midnight", ["arrivals exceeded deletes by 3.5/s over 20 s; depth rose from 5 to 90"]),
        ("from bad to worse", ["arrivals exceeded deletes over 10 s; depth rose from 5 to 9",
                               "the first ready message was up to 10m old",
                               "1 message received too often (up to 17 times)",
                               HOSTILE, "2 messages ready and none received for 2 s"]),
        ("down", ["2 messages ready and none received for 9 s", "connection refused for 2m 10s"]),
        ("down at last", ["2 messages ready and none received for 9 s", f"{HOSTILE} for 1m 5s"]),
        ("down, and nobody looked", ["no poll succeeded for 10 s"]),
        ("lists", ["3,020 items ready and none taken for 9 s",
                   "1,204 leases expired and none returned for 8 s",
                   "more was pushed than taken over 8 s: depth rose from 5 to 9"]),
        ("announced late", ["arrivals exceeded deletes by 90/s over 1m 10s; depth rose from 5 to 9 in the last 10 s of "
                            "that",
                            "2 messages ready and none received for 1m 20s",
                            "the first ready message waited for too long", "messages received too often"]),
        ("one stall", ["7 items ready and none taken for 3m 20s", "connection refused for 11 s",
                       "connection refused for 3 s"]),
        ("cleared", ["260 messages ready and none received for 1m 20s",
                     "arrivals exceeded deletes over 2m 6s; depth rose from 600 to 602 in the last 6 s of that"]),
        ("hidden", ["331 messages ready and none received for 10m", "arrivals exceeded deletes over 9m 30s",
                    "the first ready message waited for too long", "4 messages ready and none received for 11 s"]),
        ("over before the recording", ["items ready and none taken"]),
        ("nothing known", ["arrivals exceeded deletes over 1 s", "messages ready and none received",
                           "the first ready message waited for too long", "messages received too often",
                           "its keys disagree"]),
    ],
)  # fmt: skip
def test_a_cause_is_one_sentence(found: Mapping[str, list[Row]], case: str, expected: list[str]) -> None:
    assert [row["cause"] for row in found[case]] == expected


def test_an_outage_has_its_bounds_if_they_are_known(found: Mapping[str, list[Row]]) -> None:
    names = ("start_ms", "end_ms", "answered_ms", "failed_ms")

    assert of(found["answered shortly before"], *names) == [
        (11 * S, 17 * S, 5 * S, 16 * S),
        (81 * S, 82 * S, None, 81 * S),
    ]
    assert of(found["over"], *names[2:]) == [(None, None)]


def test_peaks_and_messages_affected(found: Mapping[str, list[Row]]) -> None:
    names = ("peak_depth", "peak_ms", "peak_age_ms", "affected")

    assert of(found["midnight"], *names) == [(90, 7, 9, 85)]
    assert of(found["over"], "affected") == [(36_908,)]
    assert of(found["from its lowest depth"], "affected") == [(1_500,)]
    assert of(found["open"], "affected", "peak_ready") == [(3020, 3020)]
    assert of(found["from bad to worse"], "verdict", "affected") == [
        ("growing", 4),
        ("aged", 4),
        ("poisoned", 1),
        ("broken", 3),
        ("stalled", 2),
    ]
    assert of(found["down"], "queue", "affected")[1] == (None, None)
    # What is known is of a time at which it was over.
    assert of(found["hidden"], "verdict", *names) == [
        ("stalled", 331, 580 * S, None, 331),
        ("growing", None, None, None, None),
        ("aged", None, None, None, None),
        ("stalled", None, None, None, 4),
    ]
    assert of(found["lists"], "affected") == [(3020,), (1204,), (4,)]
