"""The incidents once more, in SQL for DuckDB, from the table ``verdict_runs`` and the documentation of the columns."""

from typing import Any

import pyarrow as pa

Row = dict[str, Any]

_QUERY = """
with recursive
-- Runs of one verdict without a gap between them are one, also across hours.
numbered as (
    select *, sum(starts) over (partition by profile, server, ns, queue order by first_ms) as number
    from (
        select *, case when continues and verdict = lag(verdict) over (
            partition by profile, server, ns, queue order by first_ms) then 0 else 1 end as starts
        from verdict_runs)
),
runs as (
    select profile, server, ns, queue, number, any_value(verdict) as verdict, min(first_ms) as first_ms,
        max(last_ms) as last_ms, min(since_ms) as since_ms, arg_min(continues, first_ms) as continues,
        max(created_ms) as created_ms, arg_max({'ms': pending_since_ms}, first_ms).ms as pending_ms
    from numbered group by all
),
-- Since when the condition of a trouble does not hold, if its last sample says so.
settled as (
    select *, case when verdict not in ('ok', 'watching', 'down') and pending_ms >= 0 and pending_ms <= last_ms
        and pending_ms >= coalesce(since_ms, 0) then pending_ms end as over_ms
    from runs
),
places as (
    select profile, server, ns, max(last_ms) as place_last_ms from runs group by all
),
followed as (
    select *,
        lead(first_ms) over w as next_ms,
        lead(continues) over w as next_continues,
        case when verdict = 'ok' then coalesce(if(continues, lag(over_ms) over w, null), first_ms) end as calm_ms,
        sum(case when continues then 0 else 1 end) over w as chain,
        case when verdict = 'down' and lag(verdict) over w = 'ok' and first_ms - lag(last_ms) over w <= 60000
            then lag(last_ms) over w end as answered_ms
    from settled window w as (partition by profile, server, ns, queue order by first_ms)
),
known as (
    select *,
        min(calm_ms) over (
            partition by profile, server, ns, queue, chain order by first_ms
            rows between 1 following and unbounded following) as ok_ms,
        (select min(up.first_ms) from runs up where up.verdict <> 'down' and up.first_ms > followed.first_ms
            and (up.profile, up.server, up.ns) = (followed.profile, followed.server, followed.ns)) as up_ms
    from followed
),
-- One trouble that has held since before a gap is one row.
flagged as (
    select *, case when verdict = lag(verdict) over lined and verdict not in ('ok', 'watching')
        and coalesce(since_ms between 0 and lag(last_ms) over lined, false)
        and coalesce(created_ms = lag(created_ms) over lined, true) then 0 else 1 end as begins
    from known window lined as (partition by profile, server, ns, queue order by first_ms)
),
tallied as (
    select *, sum(begins) over (partition by profile, server, ns, queue order by first_ms) as tally from flagged
),
whole as (
    select profile, server, ns, queue, verdict, tally, min(first_ms) as first_ms, min(since_ms) as since_ms,
        max(created_ms) as created_ms, max(last_ms) as last_ms, arg_max({'ms': next_ms}, first_ms).ms as next_ms,
        arg_max({'flag': next_continues}, first_ms).flag as next_continues,
        arg_max({'ms': ok_ms}, first_ms).ms as ok_ms, arg_max({'ms': up_ms}, first_ms).ms as up_ms,
        arg_max({'ms': over_ms}, first_ms).ms as over_ms, arg_min({'ms': answered_ms}, first_ms).ms as answered_ms
    from tallied group by all
),
ended as (
    select *,
        case when verdict = 'down' then if(up_ms - last_ms <= 60000, up_ms, last_ms)
            when over_ms is not null then over_ms when next_continues then next_ms else last_ms end as end_ms,
        case when verdict = 'down' then if(up_ms - last_ms <= 60000, up_ms, null)
            when ok_ms < end_ms then end_ms else ok_ms end as recovered_ms,
        case when verdict = 'down' and up_ms - last_ms <= 60000 then 'over'
            when verdict <> 'down' and (next_continues or over_ms is not null) then 'over'
            when if(verdict = 'down', up_ms, next_ms) is null and last_ms = place_last_ms then 'open'
            else 'unknown' end as ended
    from whole join places using (profile, server, ns)
    where verdict not in ('ok', 'watching')
),
episodes as (
    select *, least(end_ms, case when since_ms between 0 and first_ms then greatest(
        since_ms, if(created_ms between 0 and first_ms, created_ms, null),
        lag(end_ms) over (partition by profile, server, ns, queue, verdict order by first_ms)
    ) else first_ms end) as start_ms
    from ended
),
-- Whose they are: a queue's, or, if a place was down, its server's.
owned as (
    select *, case when queue is null then '' else ns end as whose, {'end': end_ms, 'ok': recovered_ms} as stops
    from episodes
),
-- A queue that was created again is another one.
lived as (
    select *, coalesce(sum((created_ms <> last_created_ms)::int) over (
        partition by profile, server, whose, queue order by start_ms, end_ms, verdict), 0) as life
    from (
        select *, last_value(created_ms ignore nulls) over (partition by profile, server, whose, queue
            order by start_ms, end_ms, verdict rows between unbounded preceding and 1 preceding) as last_created_ms
        from owned)
),
blocked as (
    select *, sum(case when before is null then 1
        when before.ok is null then (start_ms - before.end > 600000)::int
        else (start_ms - before.ok > 30000)::int end)
        over (partition by profile, server, whose, queue, life order by start_ms, end_ms, verdict) as block
    from (
        select *, arg_max(stops, end_ms) over (partition by profile, server, whose, queue, life
            order by start_ms, end_ms, verdict rows between unbounded preceding and 1 preceding) as before
        from lived)
),
blocks as (
    select profile, server, whose, queue, life, block, min(start_ms) as start_ms, max(end_ms) as end_ms,
        arg_max(stops, end_ms).ok as recovered_ms, arg_max(ended, ending(end_ms, ended)) as ended, count(*) as episodes,
        list(verdict) as verdicts, list(answered_ms) as answered
    from blocked group by all
),
-- Four changes within ten minutes: two of them are the end of one block and the start of the next.
flapping as (
    select *, case when
        (recovered_ms is not null or lead(block) over by_block is not null)
            and end_ms - lag(start_ms) over by_block <= 600000
        or lead(start_ms) over by_block - lag(end_ms) over by_block <= 600000
        or start_ms - lag(end_ms, 2) over by_block <= 600000
        then 0 else 1 end as is_first
    from blocks window by_block as (partition by profile, server, whose, queue, life order by block)
),
grouped as (
    select *, sum(is_first) over (partition by profile, server, whose, queue, life order by block) as number
    from flapping
),
alone as (
    select profile, server, whose, queue, life, min(start_ms) as start_ms, max(end_ms) as end_ms,
        arg_max({'ok': recovered_ms}, end_ms).ok as recovered_ms, arg_max(ended, ending(end_ms, ended)) as ended,
        sum(episodes)::bigint as episodes,
        list_distinct(flatten(list(verdicts))) as verdicts,
        list_max(list_filter(flatten(list(answered)), lambda at_ms: at_ms < min(start_ms))) as answered_ms
    from grouped group by profile, server, whose, queue, life, number
),
-- A stall that began ten seconds or less before the last answer may be of the outage.
outages as (
    select * exclude answered_ms, greatest(start_ms - 60000, answered_ms - 10000) as from_ms
    from alone where queue is null
),
with_outage as (
    select alone.*, (select min(start_ms) from outages where (outages.profile, outages.server)
        = (alone.profile, alone.server) and alone.start_ms between outages.from_ms and outages.end_ms + 60000
        ) as outage_ms
    from (select * exclude answered_ms from alone) alone where queue is not null
),
ordered as (
    select *, row_number() over (partition by profile, server order by start_ms, whose, queue) as place
    from with_outage where outage_ms is null
),
anchored as (
    select *, start_ms as anchor_ms from ordered where place = 1
    union all
    select ordered.*, if(ordered.start_ms <= anchor_ms + 60000, anchor_ms, ordered.start_ms)
    from ordered join anchored using (profile, server) where ordered.place = anchored.place + 1
),
together as (
    select *, (select count(distinct (other.whose, other.queue)) from anchored other where
        (other.profile, other.server, other.anchor_ms) = (anchored.profile, anchored.server, anchored.anchor_ms)
        ) as queues
    from anchored
),
parts as (
    select profile, server, whose, queue, start_ms, end_ms, recovered_ms, ended, episodes, verdicts,
        'outage ' || outage_ms as head from with_outage where outage_ms is not null
    union all by name
    select profile, server, whose, queue, start_ms, end_ms, recovered_ms, ended, episodes, verdicts,
        if(queues > 1, 'together ' || anchor_ms, null) as head from together
    union all by name
    select * exclude from_ms, 'outage ' || start_ms as head from outages
),
heads as (
    select profile, server, head, min(start_ms) as start_ms, max(end_ms) as end_ms, sum(episodes)::bigint as episodes,
        case when count(recovered_ms) = count(*) then max(recovered_ms) end as recovered_ms,
        case when bool_or(ended = 'open') then 'open' else arg_max(ended, ending(end_ms, ended)) end as ended,
        flatten(list(verdicts)) as verdicts
    from parts where head is not null group by all
)
select parts.profile, parts.server, whose as ns, queue, parts.start_ms, parts.end_ms, parts.recovered_ms, parts.ended,
    parts.episodes, parts.verdicts, heads.start_ms as head_ms
from parts left join heads using (profile, server, head) where queue is not null
union all
select profile, server, '', null, start_ms, end_ms, recovered_ms, ended, episodes, verdicts, null from heads
"""
_WORST_FIRST = ("down", "broken", "stalled", "leaking", "growing", "poisoned", "aged")


def incidents_by_sql(verdict_runs: pa.Table) -> list[Row]:
    """Return the incidents of some runs: what they are, but for causes and messages."""
    import duckdb  # takes 30 MB, of each process that collects this

    with duckdb.connect() as connection:
        connection.register("verdict_runs", verdict_runs)
        # Of what ended at the same time, what is open tells, then what is unknown.
        connection.execute(
            "create macro ending(at_ms, how) as {'at': at_ms, 'rank': list_position(['over', 'unknown', 'open'], how)}"
        )
        rows: list[Row] = connection.sql(_QUERY).to_arrow_table().to_pylist()
    for row in rows:
        verdicts = set(row.pop("verdicts"))
        row |= {"verdicts": sorted(verdicts), "worst": min(verdicts, key=_WORST_FIRST.index)}
    return rows


def comparable(incidents: list[Row]) -> list[Row]:
    """Return incidents of the table as ``incidents_by_sql`` returns them."""
    heads = {row["id"]: row["start_ms"] for row in incidents}
    names = ("profile", "server", "ns", "queue", "start_ms", "end_ms", "recovered_ms", "ended", "episodes", "worst")
    return [
        {name: row[name] for name in names}
        | {"verdicts": sorted(row["verdicts"]), "head_ms": heads.get(row["head_id"])}
        for row in incidents
    ]
