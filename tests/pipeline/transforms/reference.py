"""The tables of samples once more, by another engine: DuckDB, in SQL written from the documentation of the columns.

The episodes are worked out in plain Python.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from rsmq_tui.history.analysis.schema import METRICS, ROLLUP_1H, ROLLUP_10S, VERDICT_RUNS, WIDTHS_MS

Row = dict[str, Any]

MINUTE_MS = 60_000
_PERCENTILES = {"min": 0, "p50": 50, "p95": 95, "p99": 99, "max": 100}

# One recorder counts in each minute of a place: of those with a successful poll, and with 15 % of the most such polls,
# one that has not begun in this hour within the last ten minutes; of those with four fifths of the most polls the one
# with the smallest id. Polls that failed count if there are no others. A row that was written twice counts once.
_ANNOTATED = """
    create or replace temp table told as
    with polls as (
        select distinct profile, server, ns, recorder, at_ms, coalesce(status = 'ok', false) as is_ok,
            interval_ms is null as begins
        from samples where queue is null
    ), counts as (
        select profile, server, ns, at_ms // 60000 as minute, recorder, count(*) as polls, count_if(is_ok) as answered
        from polls group by all
    ), beginnings as (
        select distinct profile, server, ns, recorder, at_ms // 60000 as minute from polls where begins
    ), ranked as (
        select *, exists (
            select 1 from beginnings
            where beginnings.profile = counts.profile and beginnings.server = counts.server
                and beginnings.ns = counts.ns and beginnings.recorder = counts.recorder
                and beginnings.minute between counts.minute - 10 and counts.minute
                and beginnings.minute // 60 = counts.minute // 60
        ) as has_begun
        from counts
    ), numbered as (
        select *, case when answered = 0 then polls else answered end as number from ranked
    ), frequent as (
        select *, number * 100 < 15 * max(number) over (partition by profile, server, ns, minute, answered = 0)
            as is_rare
        from numbered
    ), dense as (
        select *, max(number) over (
            partition by profile, server, ns, minute, answered = 0, is_rare, has_begun
        ) as most
        from frequent
    ), recorders as (
        select *, row_number() over (
            partition by profile, server, ns, minute
            order by answered = 0, is_rare, has_begun, number * 5 < most * 4, recorder
        ) as place
        from dense
    )
    select distinct on (samples.profile, samples.server, samples.ns, samples.queue, samples.at_ms) samples.*
    from samples join recorders on samples.profile = recorders.profile and samples.server = recorders.server
        and samples.ns = recorders.ns and samples.recorder = recorders.recorder
        and samples.at_ms // 60000 = recorders.minute and recorders.place = 1
"""
# Delayed messages that become due lower hidden, as expiries do: such may be what the sum of expiries had fallen by,
# within this hour and the one before, and what was hidden when a recording began, but no more than was hidden. While
# messages are moved into a queue, as its depth shows, none is known to have come back.
# Nothing is unknown between a sample and the one before if its recorder polled without a break since then, for an hour
# at most; or if the one before is at most a minute older, whoever took it, and no poll failed in between.
_CONTINUED = """
    create or replace temp table continued as
    with failed as (
        select profile, server, ns, at_ms as failed_ms from told where queue is null and status is distinct from 'ok'
    ), named as (
        select *, case when queue is not null then verdict when status is distinct from 'ok' then 'down' else 'ok' end
            as state
        from told
    ), paired as (
        select *,
            lag(at_ms) over time as before_ms, lag(state) over time as state_before,
            lag(hidden) over time as hidden_before,
            coalesce(created_ms <> lag(created_ms) over time, false) as is_other,
            totalsent - lag(totalsent) over time as sent, totalrecv - lag(totalrecv) over time as received,
            depth - lag(depth) over time as deeper, hidden - lag(hidden) over time as more_hidden,
        from named window time as (partition by profile, server, ns, queue order by at_ms)
    ), judged as (
        select paired.*, coalesce(interval_ms <= 3600000 and before_ms >= at_ms - interval_ms, false) as is_unbroken,
            coalesce(at_ms - before_ms <= 60000 and coalesce(failed_ms <= before_ms, true), false) as is_near,
            (is_unbroken or is_near) and not is_other
                and (queue is not null or coalesce(state_before = state, false)) as continues
        from paired asof left join failed on paired.profile = failed.profile and paired.server = failed.server
            and paired.ns = failed.ns and paired.at_ms > failed.failed_ms
    ), counted as (
        select *,
            continues and coalesce(sent, 0) >= 0 and coalesce(received, 0) >= 0 as is_counted,
            case when is_counted then sent end as arrivals,
            case when is_counted then received end as receives,
            case when is_counted and sent - deeper is not null then greatest(sent - deeper, 0) end as deletes,
            case when sent < deeper and receives - deletes - more_hidden > 0 then 0
                else receives - deletes - more_hidden end as expiries,
            case when arrivals is not null then at_ms - before_ms end as covered_ms,
        from judged
    ), summed as (
        select *, sum(coalesce(expiries, 0)) over (partition by profile, server, ns, queue order by at_ms) as total
        from counted
    ), balanced as (
        select *, coalesce(interval_ms > 3600000, true) as is_begun,
            max(total + if(is_begun, coalesce(hidden, 0), 0)) over (
            partition by profile, server, ns, queue
            order by at_ms range between (at_ms % 3600000 + 3600000) preceding and 1 preceding
        ) - (total - expiries) as delayed
        from summed
    ), told_again as (
        select *, case when expiries is not null
            then greatest(expiries - least(delayed, coalesce(hidden_before, 0)), 0)::bigint end as redeliveries
        from balanced
    )
    select *, (at_ms - before_ms) / 1000 as apart_s, arrivals / apart_s as arrivals_s, deletes / apart_s as deletes_s,
        receives / apart_s as receives_s, redeliveries / apart_s as redeliveries_s
    from told_again
"""
_DENSE = "and coalesce(interval_ms < 9500, true)"
_DAY = "strftime(make_timestamp({} * 1000), '%Y-%m-%d') as day"
_RUNS = f"""
    with started as (
        select *, not (
            continues and state is not distinct from state_before and at_ms // 3600000 = before_ms // 3600000
        ) as is_start
        from continued
    ), numbered as (
        select *, sum(is_start::int) over (partition by profile, server, ns, queue order by at_ms) as run from started
    )
    select {_DAY.format("min(at_ms)")}, profile, server, ns, queue, any_value(state) as verdict,
        min(at_ms) as first_ms, max(at_ms) as last_ms, min(since_ms) as since_ms,
        arg_min(continues, at_ms) as continues, count(*) as samples,
        first(depth order by at_ms) as first_depth, first(since_depth order by at_ms) as since_depth,
        last(depth order by at_ms) as last_depth,
        max(depth) as peak_depth, max(ready) as peak_ready,
        min(at_ms) filter (depth = top) as peak_ms, max(oldest_ready_age_ms) as peak_age_ms,
        sum(arrivals)::bigint as arrivals, sum(deletes)::bigint as deletes, sum(receives)::bigint as receives,
        max(poison) as poison, max(highest_rc) as highest_rc,
        first(coalesce(broken, failure) order by at_ms) as told,
        first(kind order by at_ms) as kind, max(expired) as expired, first(created_ms order by at_ms) as created_ms,
        last(pending_since_ms order by at_ms) as pending_since_ms,
    from (select *, max(depth) over (partition by profile, server, ns, queue, run) as top from numbered)
    where state is not null
    group by profile, server, ns, queue, run
"""


def tables_of(samples: pa.Table | str) -> dict[str, list[Row]]:
    """The tables of samples: of rows, or of the Parquet files of a pattern."""
    import duckdb  # takes 30 MB, of each process that collects this

    with duckdb.connect() as engine:
        if isinstance(samples, str):
            engine.read_parquet(samples, hive_partitioning=False).create_view("samples")
        else:
            engine.register("samples", samples)
        engine.execute(_ANNOTATED)
        engine.execute(_CONTINUED)
        asked = {table: _rollup(table) for table in WIDTHS_MS} | {VERDICT_RUNS: _RUNS}
        return {table: engine.sql(sql).to_arrow_table().to_pylist() for table, sql in asked.items()}


def _rollup(table: str) -> str:
    """A roll-up; its percentiles are the values of the nearest rank."""
    sums = [f"sum({name})::bigint as {name}" for name in ("arrivals", "deletes", "receives", "redeliveries")]
    sums += [f"avg({name}) as {name}_mean" for name in ("ready", "hidden", "oldest_ready_waiting_ms", *METRICS)]
    sums += ["max(oldest_ready_waiting_ms)::double as oldest_ready_waiting_ms_max"]
    sums += [f"list({name}::double order by {name}) filter ({name} is not null) as {name}_values" for name in METRICS]
    columns = [f"{_ranked(metric, of)} as {metric}_{name}" for metric in METRICS for name, of in _PERCENTILES.items()]
    if table == ROLLUP_1H:
        sums += [f"last({name} order by at_ms) as {name}" for name in ("vt_s", "maxsize")]
        sums += ["max(at_ms) as last_ms", "last(depth order by at_ms) as last_depth"]
        sums += [f"count({metric}) as {metric}_known" for metric in METRICS]
        quantiles = {metric: f"[{_ranked(metric, 'percent')} for percent in range(101)]" for metric in METRICS}
        columns += [
            f"case when {name}_known > 0 then {each} end as {name}_quantiles" for name, each in quantiles.items()
        ]
    return f"""
        with buckets as (
            select at_ms // {WIDTHS_MS[table]} * {WIDTHS_MS[table]} as bucket_ms, profile, server, ns, queue,
                last(kind order by at_ms) as kind, count(*) as samples,
                coalesce(sum(covered_ms), 0)::bigint as covered_ms, {", ".join(sums)}
            from continued where queue is not null {_DENSE if table == ROLLUP_10S else ""} group by all
        )
        select {_DAY.format("bucket_ms")}, * exclude ({", ".join(f"{metric}_values" for metric in METRICS)}),
            {", ".join(columns)}
        from buckets
    """


def _ranked(metric: str, percent: int | str) -> str:
    return f"{metric}_values[greatest(1, ceil(len({metric}_values) * {percent} / 100))::bigint]"


def assert_same(found: list[Row], expected: list[Row]) -> None:
    """Equal, but for the last digits of what is a mean."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        means = {name for name in other if name.endswith("_mean")}
        assert {name: one[name] for name in one if name not in means} == {
            name: other[name] for name in other if name not in means
        }
        assert {name: one[name] for name in means} == pytest.approx({name: other[name] for name in means})


def place_of(row: Row) -> tuple[Any, ...]:
    return row["profile"], row["server"], row["ns"]


def queue_of(row: Row) -> tuple[Any, ...]:
    return *place_of(row), row["queue"]


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def minus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def episodes(runs: list[Row]) -> list[Row]:
    """The episodes, but for their causes."""
    made = []
    place_last_ms = {place: max(run["last_ms"] for run in group) for place, group in grouped(runs, place_of).items()}
    for group in grouped(runs, queue_of).values():
        ordered: list[list[Row]] = []
        for run in sorted(group, key=lambda run: run["first_ms"]):
            if ordered and run["continues"] and ordered[-1][0]["verdict"] == run["verdict"]:
                ordered[-1].append(run)
            else:
                ordered.append([run])
        for parts in ordered:
            parts[-1] = parts[-1] | {"over_ms": over_ms(parts)}
        ordered = resumed(ordered)
        for place, parts in enumerate(ordered):
            if parts[0]["verdict"] == "down":
                made.append(outage_of(parts, runs, place_last_ms[place_of(parts[0])]))
            elif parts[0]["verdict"] != "ok":
                episode = episode_of(parts, ordered[place + 1 :], place_last_ms[place_of(parts[0])])
                ends_ms = [
                    one["end_ms"]
                    for one in made
                    if queue_of(one) == queue_of(episode) and one["verdict"] == episode["verdict"]
                ]
                first_ms = parts[0]["first_ms"]
                if 0 <= episode.pop("since_ms") <= first_ms:
                    episode["start_ms"] = max([episode["start_ms"], *ends_ms[-1:]])
                episode["start_ms"] = min(episode["start_ms"], episode["end_ms"])
                made.append(episode)
    return made


def over_ms(parts: list[Row]) -> int | None:
    """Since when the condition of a trouble does not hold, if its last sample says so."""
    last = parts[-1]
    since_ms = min((run["since_ms"] for run in parts if run["since_ms"] is not None), default=0)
    pending_ms = last["pending_since_ms"]
    is_known = pending_ms is not None and max(since_ms, 0) <= pending_ms <= last["last_ms"]
    return pending_ms if is_known and last["verdict"] not in ("ok", "watching", "down") else None


def resumed(ordered: list[list[Row]]) -> list[list[Row]]:
    """The runs, with those of a trouble joined that has held since before the one before of its queue ended."""
    found: list[list[Row]] = []
    for at, parts in enumerate(ordered):
        before = ordered[at - 1] if at else []
        since_ms = min((run["since_ms"] for run in parts if run["since_ms"] is not None), default=-1)
        created = {greatest(run["created_ms"] for run in each) for each in (before, parts)} - {None}
        verdict = parts[0]["verdict"]
        is_same = bool(before) and before[0]["verdict"] == verdict and verdict not in ("ok", "watching")
        if is_same and 0 <= since_ms <= before[-1]["last_ms"] and len(created) < 2:
            found[-1] = [*found[-1], *parts]
        else:
            found.append(parts)
    return found


def episode_of(parts: list[Row], later: list[list[Row]], place_last_ms: int) -> Row:
    made = summed(parts)
    made["since_ms"] = min((run["since_ms"] for run in parts if run["since_ms"] is not None), default=-1)
    if later and later[0][0]["continues"]:
        made |= {"ended": "over", "end_ms": later[0][0]["first_ms"]}
    else:
        made |= {"ended": "open" if not later and made["end_ms"] == place_last_ms else "unknown"}
    if parts[-1]["over_ms"] is not None:
        made |= {"ended": "over", "end_ms": parts[-1]["over_ms"]}
    before = parts[-1]
    for run in (run for parts in later for run in parts):
        if not run["continues"]:
            break
        if run["verdict"] == "ok":
            calm_ms = run["first_ms"] if before.get("over_ms") is None else before["over_ms"]
            made["recovered_ms"] = max(calm_ms, made["end_ms"])
            break
        before = run
    return made


def outage_of(parts: list[Row], runs: list[Row], place_last_ms: int) -> Row:
    made = summed(parts)
    answered_ms = max(
        (run["last_ms"] for run in runs if queue_of(run) == queue_of(made) and run["first_ms"] < made["start_ms"]
         and run["verdict"] == "ok"), default=None,
    )  # fmt: skip
    if answered_ms is not None and made["start_ms"] - answered_ms <= MINUTE_MS:
        made["answered_ms"] = answered_ms
    made["failed_ms"] = made["end_ms"]
    up_ms = min(
        (
            run["first_ms"]
            for run in runs
            if place_of(run) == place_of(made) and run["verdict"] != "down" and run["first_ms"] > made["start_ms"]
        ),
        default=None,
    )
    if up_ms is not None and up_ms - made["end_ms"] <= MINUTE_MS:
        made |= {"ended": "over", "end_ms": up_ms, "recovered_ms": up_ms}
    else:
        made |= {"ended": "open" if up_ms is None and made["end_ms"] == place_last_ms else "unknown"}
    return made


def summed(parts: list[Row]) -> Row:
    first = parts[0]
    since_ms = min((run["since_ms"] for run in parts if run["since_ms"] is not None), default=first["first_ms"])
    created_ms = greatest(run["created_ms"] for run in parts)
    if 0 <= since_ms <= (created_ms or 0) <= first["first_ms"]:
        since_ms = created_ms or 0
    peak_depth, peak_ready = (greatest(run[name] for run in parts) for name in ("peak_depth", "peak_ready"))
    affected = {
        "growing": minus(peak_depth, first["first_depth"] if first["since_depth"] is None else first["since_depth"]),
        "stalled": greatest([peak_ready, greatest(run["expired"] for run in parts)]),
        "aged": peak_ready,
        "poisoned": greatest(run["poison"] for run in parts),
        "broken": peak_depth,
        "down": None,
    }
    made = {
        **{name: first[name] for name in ("profile", "server", "ns", "queue", "verdict")},
        "start_ms": since_ms if 0 <= since_ms <= first["first_ms"] else first["first_ms"],
        "end_ms": parts[-1]["last_ms"],
        "recovered_ms": None,
        "peak_depth": peak_depth,
        "peak_ready": peak_ready,
        "peak_ms": min(
            (run["peak_ms"] for run in parts if run["peak_depth"] == peak_depth and peak_depth is not None),
            default=None,
        ),
        "peak_age_ms": greatest(run["peak_age_ms"] for run in parts),
        "affected": affected[first["verdict"]],
        "created_ms": created_ms,
        "answered_ms": None,
        "failed_ms": None,
    }
    over_ms = parts[-1]["over_ms"]
    if over_ms is not None and over_ms <= first["first_ms"]:
        # Its samples are of a time at which it was over.
        made |= dict.fromkeys(("peak_depth", "peak_ready", "peak_ms", "peak_age_ms", "affected"))
    return made
