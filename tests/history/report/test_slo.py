"""Service levels: by hand on small tables, and against DuckDB on a generated week."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.history.analysis import schema
from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import QueueRef
from rsmq_tui.history.report.facts import gather
from rsmq_tui.history.report.html import as_html
from rsmq_tui.history.report.slo import ServiceLevel, ServiceLevels
from rsmq_tui.history.report.words import budget_words, burn_words, percent
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.monitor.slo import AGE, ANSWERING, STALLED, Objective
from tests.history.analysis.made import Made, bucket, episode, named
from tests.history.analysis.queues import EMAILS, EU, ORDERS, PROD, START_MS, WEBHOOKS
from tests.history.report.reading import parsed, rows_of, section_of, text_of

WEEK_MS = 7 * DAY_MS
END_MS = START_MS + WEEK_MS


def run(ref: QueueRef, first_ms: int, last_ms: int, *, continues: bool = True) -> dict[str, Any]:
    return {**named(ref), "verdict": "ok", "first_ms": first_ms, "last_ms": last_ms, "continues": continues}


def queue(ref: QueueRef) -> dict[str, Any]:
    return {**named(ref), "kind": "rsmq", "first_ms": START_MS, "last_ms": END_MS, "samples": 1}


def levels_of(out: Path, *objectives: Objective, end_ms: int = END_MS) -> Sequence[ServiceLevel]:
    return ServiceLevels(Analysis(out), end_ms, lambda _: objectives).levels


def test_attainment_budget_and_burn_rates_of_a_server(tmp_path: Path) -> None:
    """A week of two namespaces, which were both down for 16.8 minutes: 0.1667 % of the time, 14 of them at its end."""
    made = Made(tmp_path)
    lists = ORDERS._replace(ns="(lists)")
    made.add(schema.QUEUES, queue(ORDERS), queue(lists))
    outages = [(START_MS + DAY_MS, START_MS + DAY_MS + 168_000), (END_MS - 840_000, END_MS)]
    for ref in (ORDERS, lists):
        known = [(START_MS, outages[0][0]), (outages[0][1], outages[1][0])]
        for begin, end in known:
            # A run for each hour, and none of them continues the one before the outage.
            hours = range(begin, end, HOUR_MS)
            made.add(schema.VERDICT_RUNS, *(run(ref, at, min(end, at + HOUR_MS), continues=at > begin) for at in hours))
        made.add(schema.EPISODES, *(episode(ref.place, None, "down", *outage) for outage in outages))
    made.publish()

    (level,) = levels_of(tmp_path, Objective(ANSWERING, 99.9, window_ms=WEEK_MS))

    assert (level.window.watched_ms, level.window.bad_ms) == (WEEK_MS, 1_008_000)
    assert level.window.attained == pytest.approx(1 - 1_008 / 604_800)
    assert level.budget_left == pytest.approx(1 - 1.6667, abs=1e-4)
    # 840 s of 3,600, 21,600 and 259,200 s, of which 0.1 % may be bad.
    assert level.burn_rates == pytest.approx((233.33, 38.89, 3.24), abs=0.01)
    assert (level.alerting, level.is_met) == ((True, True, True), False)
    assert (level.before.watched_ms, level.before.attained) == (0, None)
    assert (percent(level.window.attained), budget_words(level)) == ("99.83 %", "-67 %")
    assert burn_words(level) == ("233.3!", "38.9!", "3.2!")


def test_time_that_nobody_watched_is_neither_good_nor_bad(tmp_path: Path) -> None:
    """A queue is watched for two hours of four, and stalled for one minute and for six minutes of them."""
    made = Made(tmp_path)
    made.add(schema.QUEUES, queue(ORDERS))
    begin = END_MS - 4 * HOUR_MS
    made.add(
        schema.VERDICT_RUNS,
        run(ORDERS, begin, begin + 50 * MINUTE_MS, continues=False),
        # It continues: the ten minutes between were watched. Before the last run there is a gap of two hours.
        run(ORDERS, begin + HOUR_MS, begin + HOUR_MS + 1),
        run(ORDERS, END_MS - HOUR_MS, END_MS, continues=False),
    )
    made.add(schema.EPISODES, episode(PROD, "orders", "stalled", begin, begin + MINUTE_MS))
    made.add(schema.EPISODES, episode(PROD, "orders", "stalled", END_MS - 6 * MINUTE_MS, END_MS, ended="open"))
    made.publish()

    (level,) = levels_of(tmp_path, Objective(STALLED, 95, 2 * MINUTE_MS))
    assert (level.window.watched_ms, level.window.bad_ms) == (2 * HOUR_MS + 1, 6 * MINUTE_MS)
    (level,) = levels_of(tmp_path, Objective(STALLED, 95, MINUTE_MS))
    assert level.window.bad_ms == 7 * MINUTE_MS


def test_trouble_that_began_before_the_recording_or_lasted_over_a_gap_counts_while_it_was_watched(
    tmp_path: Path,
) -> None:
    """A queue is watched for two hours, with three hours between them, and stalled for ten hours until the end."""
    made = Made(tmp_path)
    made.add(schema.QUEUES, queue(ORDERS))
    for begin in (END_MS - 5 * HOUR_MS, END_MS - 90 * MINUTE_MS):
        made.add(schema.VERDICT_RUNS, run(ORDERS, begin, begin + HOUR_MS, continues=False))
    end = END_MS - 60 * MINUTE_MS
    made.add(schema.EPISODES, episode(PROD, "orders", "stalled", end - 10 * HOUR_MS, end))
    made.publish()

    found = ServiceLevels(Analysis(tmp_path), END_MS, lambda _: (Objective(STALLED, 90),))
    (level,) = found.levels
    assert (level.window.watched_ms, level.window.bad_ms) == (2 * HOUR_MS, 90 * MINUTE_MS)
    assert (level.burns[0].watched_ms, level.burns[0].bad_ms) == (30 * MINUTE_MS, 0)
    assert level.window.attained == pytest.approx(0.25)
    (use,) = found.uses(level)
    assert use.bad_ms == 90 * MINUTE_MS
    assert use.share == pytest.approx(7.5)


def test_a_minute_without_a_known_age_does_not_count(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(schema.QUEUES, queue(ORDERS), queue(EMAILS))
    ages = (299_999.0, 300_000.0, None, None, float("nan"))
    for number, (age, ready) in enumerate(zip(ages, (1.0, 1.0, 0.0, 2.0, 2.0), strict=True)):
        row = bucket(ORDERS, END_MS - (number + 1) * MINUTE_MS, MINUTE_MS) | {"ready_mean": ready}
        made.add(schema.ROLLUP_1M, row | {"oldest_ready_age_ms_p99": age})
    # A day that has no minutes any more is known by the hour.
    old = bucket(ORDERS, START_MS, HOUR_MS) | {"ready_mean": 5.0, "oldest_ready_age_ms_p99": 400_000.0}
    made.add(schema.ROLLUP_1H, old)
    made.publish()

    objective = Objective(AGE, 99, 300_000, queues=("ord*",))
    (level,) = levels_of(tmp_path, objective)
    assert (level.window.watched_ms, level.window.bad_ms) == (HOUR_MS + 3 * MINUTE_MS, HOUR_MS + MINUTE_MS)
    assert level.burns[0].watched_ms == 3 * MINUTE_MS
    # A minute that is not over when the time ends does not count.
    (level,) = levels_of(tmp_path, objective, end_ms=END_MS - 30_000)
    assert level.burns[0].watched_ms == 2 * MINUTE_MS


def test_the_incidents_that_used_a_budget_are_named(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(schema.QUEUES, queue(ORDERS))
    made.add(schema.VERDICT_RUNS, run(ORDERS, END_MS - DAY_MS, END_MS, continues=False))
    for hour, minutes in ((2, 10), (8, 30), (20, 20)):
        begin = END_MS - hour * HOUR_MS
        made.add(schema.EPISODES, episode(PROD, "orders", "stalled", begin, begin + minutes * MINUTE_MS))
    made.publish()
    found = ServiceLevels(Analysis(tmp_path), END_MS, lambda _: (Objective(STALLED, 90),))
    uses = found.uses(found.levels[0], most=2)
    # The budget is 144 minutes.
    assert [(use.bad_ms // MINUTE_MS, round(use.share, 4)) for use in uses] == [(30, 0.2083), (20, 0.1389)]
    known = found.levels[0].as_json(uses)
    assert (known["queue"], known["budget_left"], known["is_met"]) == ("orders", pytest.approx(58.333333), True)
    assert [one["budget"] for one in known["incidents"]] == [pytest.approx(20.833333), pytest.approx(13.888889)]


def test_only_outages_use_the_budget_of_a_server(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add(schema.QUEUES, queue(ORDERS), queue(EMAILS))
    made.add(schema.VERDICT_RUNS, run(ORDERS, END_MS - DAY_MS, END_MS, continues=False))
    begin_ms, down_ms = END_MS - 2 * HOUR_MS, END_MS - HOUR_MS
    for name in ("orders", "emails"):
        made.add(schema.EPISODES, episode(PROD, name, "stalled", begin_ms, END_MS - 30 * MINUTE_MS))
    made.add(schema.EPISODES, episode(PROD, None, "down", down_ms, down_ms + 5 * MINUTE_MS))
    made.publish()
    found = ServiceLevels(Analysis(tmp_path), END_MS, lambda _: (Objective(ANSWERING, 99),))
    assert [(use.incident.start_ms, use.bad_ms) for use in found.uses(found.levels[0])] == [(down_ms, 5 * MINUTE_MS)]


def test_a_report_has_the_service_levels_and_what_used_their_budgets(analysis_folder: Path) -> None:
    analysis = Analysis(analysis_folder)
    span = analysis.span()
    assert span is not None
    objectives = (Objective(ANSWERING, 99.9), Objective(STALLED, 99, 60_000), Objective(AGE, 99, 600_000))
    root = parsed(as_html(gather(analysis, span, objectives=lambda _: objectives)))
    section = section_of(root, "slo")
    assert "3 of 10 objectives missed, and 7 used none of their budget." in text_of(section)
    titles, *rows = rows_of(section)
    assert titles == [
        "Of", "Target", "Objective", "Attained", "Budget left", "Burn 1h", "Burn 6h", "Burn 3d", "Last 7d", "7d before",
    ]  # fmt: skip
    # For an hour and 33 minutes of 94 hours, the 99th percentile of orders was not below ten minutes.
    assert [row[:5] for row in rows] == [
        ["prod", "answering", "99.9 % of 28d", "99.64 %", "-253 %"],
        ["orders · prod", "age p99 < 10m", "99 % of 28d", "98.3 %", "-65 %"],
        ["emails · prod", "stalled < 1m", "99 % of 28d", "98.9 %", "-6 %"],
    ]
    assert (
        "emails · prod, stalled < 1m: its error budget was used by 2031-05-17 20:00:00 (stalled for 1h 0m, 106 %)."
        in (text_of(section))
    )


@pytest.mark.parametrize("seed", range(3))
def test_duckdb_finds_the_same_on_a_generated_week(tmp_path: Path, seed: int) -> None:
    """Two weeks of three queues of two servers, with gaps, outages, stalls and ages at random."""
    draw = random.Random(seed)
    made = Made(tmp_path)
    refs = (ORDERS, EMAILS, WEBHOOKS)
    first = END_MS - 14 * DAY_MS
    for ref in refs:
        made.add(schema.QUEUES, queue(ref))
        at, runs, minutes = first, [], []
        while at < END_MS:
            lasts = draw.randrange(5_000, 5 * HOUR_MS)
            follows = draw.random() < 0.8
            runs.append(run(ref, at, min(at + lasts, END_MS), continues=follows))
            at += lasts + (draw.randrange(1_000, 60_000) if follows else draw.randrange(60_000, HOUR_MS))
        made.add(schema.VERDICT_RUNS, *runs)
        for minute in range(first, END_MS, MINUTE_MS):
            if draw.random() < 0.3:
                age = draw.choice((None, draw.expovariate(1 / 200_000)))
                minutes.append({
                    "bucket_ms": minute, **named(ref), "samples": 6, "ready_mean": float(draw.randrange(2)),
                    "oldest_ready_age_ms_p99": age,
                })  # fmt: skip
        made.add(schema.ROLLUP_1M, *minutes)
        for _ in range(60):
            begin = draw.randrange(first, END_MS - HOUR_MS)
            lasts = draw.randrange(1_000, HOUR_MS)
            made.add(schema.EPISODES, episode(ref.place, ref.queue, "stalled", begin, begin + lasts))
    for place in (PROD, EU, PROD._replace(ns="other")):
        begin = draw.randrange(first, END_MS - HOUR_MS)
        made.add(schema.EPISODES, *(episode(place, None, "down", begin, begin + 600_000) for _ in range(2)))
    manifest = made.publish()

    objectives = (Objective(ANSWERING, 99.9), Objective(STALLED, 99, 120_000), Objective(AGE, 95, 300_000))
    import duckdb  # takes 30 MB, of each process that collects this

    with duckdb.connect() as engine:
        for table in (schema.VERDICT_RUNS, schema.EPISODES, schema.ROLLUP_1M):
            files = [str(tmp_path / name) for name in manifest.files(table)]
            engine.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({files!r})")
        for level in levels_of(tmp_path, *objectives):
            spans = [(END_MS - level.objective.window_ms, END_MS)]
            spans += [(END_MS - hours * HOUR_MS, END_MS) for hours in (1, 6, 72, 168)]
            spans.append((END_MS - 2 * WEEK_MS, END_MS - WEEK_MS))
            measured = [level.window, *level.burns, level.week, level.before]
            for span, found in zip(spans, measured, strict=True):
                watched, bad = engine.execute(_SQL[level.objective.sli], [*level.subject[1::2], *span]).fetchall()[0]
                assert (found.watched_ms, found.bad_ms) == (watched, bad), (level.objective, level.subject, span)
                burn = found.burn(level.objective)
                if watched:
                    allowed = (100 - level.objective.percent) / 100 * watched
                    assert burn == pytest.approx(min(bad, watched) / allowed)


# Of one server, or of one queue of a server, between $3 and $4; written from the documentation, second by second where
# spans may overlap, and without the code.
_LINKED = """
    WITH runs AS (
        SELECT *, lag(last_ms) OVER (PARTITION BY profile, server, ns, queue ORDER BY first_ms) AS before_ms
        FROM verdict_runs WHERE server = $1
    ), up AS (
        SELECT *, CASE WHEN continues AND before_ms IS NOT NULL THEN before_ms ELSE first_ms END AS begin_ms FROM runs
    )
"""
_UNION = """
    , {name} AS (
        SELECT coalesce(sum(greatest(0, least(end_ms, $b) - greatest(begin_ms, $a))), 0)::BIGINT AS ms
        FROM (
            SELECT min(begin_ms) AS begin_ms, max(end_ms) AS end_ms
            FROM (
                SELECT *, sum(is_new) OVER (ORDER BY begin_ms, end_ms) AS island
                FROM (
                    SELECT *, CASE WHEN begin_ms <= max(end_ms) OVER (
                        ORDER BY begin_ms, end_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ) THEN 0 ELSE 1 END AS is_new
                    FROM ({spans})
                )
            ) GROUP BY island
        )
    )
"""


def _union(name: str, spans: str, first: str) -> str:
    last = f"${int(first[1:]) + 1}"
    return _UNION.replace("{name}", name).replace("{spans}", spans).replace("$a", first).replace("$b", last)


_DOWN = "SELECT start_ms AS begin_ms, end_ms FROM episodes WHERE server = $1 AND queue IS NULL AND verdict = 'down'"
_STALLS = """
    SELECT start_ms AS begin_ms, end_ms FROM episodes
    WHERE server = $1 AND queue = $2 AND verdict = 'stalled' AND end_ms - start_ms >= 120000
"""
_SQL = {
    ANSWERING: _LINKED
    + _union("watched", f"SELECT begin_ms, last_ms AS end_ms FROM up UNION ALL {_DOWN}", "$2")
    + _union("bad", _DOWN, "$2")
    + "SELECT watched.ms, bad.ms FROM watched, bad",
    STALLED: _LINKED
    + _union("watched", "SELECT begin_ms, last_ms AS end_ms FROM up WHERE queue = $2", "$3")
    # What is stalled and not watched is what is either, beyond what is watched.
    + _union("either", f"SELECT begin_ms, last_ms AS end_ms FROM up WHERE queue = $2 UNION ALL {_STALLS}", "$3")
    + _union("bad", _STALLS, "$3")
    + "SELECT watched.ms, bad.ms - (either.ms - watched.ms) FROM watched, bad, either",
    AGE: """
        SELECT
            60000 * count(*) FILTER (oldest_ready_age_ms_p99 IS NOT NULL OR ready_mean = 0),
            60000 * count(*) FILTER (oldest_ready_age_ms_p99 >= 300000)
        FROM rollup_1m WHERE server = $1 AND queue = $2 AND bucket_ms >= $3 AND bucket_ms + 60000 <= $4
    """,
}


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.57, "57.0 %"), (0.29, "29.0 %"), (0.9993, "99.930 %"), (0.99839, "99.83 %"), (1 - 1e-9, "99.999999 %"),
     (0.0, "0 %"), (1.0, "100 %"), (None, "–")],
)  # fmt: skip
def test_a_share_is_rounded_down_but_not_by_the_error_of_a_product(share: float | None, words: str) -> None:
    assert percent(share) == words
