"""The tables of samples once more, in plain Python: slow, and simple enough to be believed."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Any

from rsmq_tui.history.analysis.schema import METRICS, STATISTICS, WIDTHS_MS

Row = dict[str, Any]

DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
RATES = ("arrivals", "deletes", "receives", "redeliveries")


def day_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, UTC).date().isoformat()


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


def with_rates(rows: Iterable[Row]) -> list[Row]:
    """Each row once, with what happened since the one before of its recorder."""
    made = []
    for group in grouped(rows, lambda row: (*queue_of(row), row["recorder"])).values():
        distinct = {row["at_ms"]: dict(row) for row in group}
        before: Row | None = None
        # Receives minus deletes minus the change of hidden, in sum, by time: what shows of expiries.
        shown: list[tuple[int, int, int]] = []
        for at_ms in sorted(distinct):
            row = distinct[at_ms]
            row.update(dict.fromkeys(("covered_ms", *RATES, *(f"{name}_s" for name in RATES))))
            interval_ms = row["interval_ms"]
            row["follows"] = (
                before is not None
                and interval_ms is not None
                and interval_ms <= HOUR_MS
                and row["at_ms"] - before["at_ms"] == interval_ms
            )
            step = 0
            if row["follows"]:
                row.update(counted(row, before, interval_ms))
                step = row["redeliveries"] or 0
            total = (shown[-1][2] if shown else 0) + step
            if before is not None and row["redeliveries"] is not None:
                highest = max(told for when_ms, told, _ in shown if when_ms // HOUR_MS >= at_ms // HOUR_MS - 1)
                delayed = min(highest - (total - step), before["hidden"] or 0)
                row["redeliveries"] = max(0, step - delayed)
                row["redeliveries_s"] = row["redeliveries"] / (interval_ms / 1000)
            is_begun = interval_ms is None or interval_ms > HOUR_MS
            shown.append((at_ms, total + ((row["hidden"] or 0) if is_begun else 0), total))
            made.append(row)
            before = row
    return made


def counted(row: Row, before: Any, interval_ms: int) -> Row:
    sent, received = (minus(row[name], before[name]) for name in ("totalsent", "totalrecv"))
    if (sent is not None and sent < 0) or (received is not None and received < 0):
        return {}
    deleted = minus(sent, minus(row["depth"], before["depth"]))
    deleted = None if deleted is None else max(0, deleted)
    again = minus(minus(received, deleted), minus(row["hidden"], before["hidden"]))
    counts = dict(zip(RATES, (sent, deleted, received, again), strict=True))
    rates = {f"{name}_s": None if count is None else count / (interval_ms / 1000) for name, count in counts.items()}
    return {**counts, **rates, "covered_ms": None if sent is None else interval_ms}


def of_one_voice(rows: list[Row]) -> list[Row]:
    tellers = {}
    polls = grouped(
        (row for row in rows if row["queue"] is None), lambda row: (place_of(row), row["at_ms"] // MINUTE_MS)
    )
    for minute, told in polls.items():
        tellers[minute] = min((row["status"] != "ok", row["recorder"]) for row in told)[1]
    return [row for row in rows if row["recorder"] == tellers[place_of(row), row["at_ms"] // MINUTE_MS]]


def told_samples(rows: list[Row], days: Sequence[str]) -> list[Row]:
    """The samples of some days with ``continues`` and ``is_start``, by queue and time."""
    told = of_one_voice(with_rates(rows))
    failed = grouped((row for row in told if row["queue"] is None and row["status"] != "ok"), place_of)
    made = []
    for group in grouped(told, queue_of).values():
        before: Row | None = None
        for row in sorted(group, key=lambda row: row["at_ms"]):
            if row["queue"] is None:
                row["verdict"] = None if row["status"] == "ok" else "down"
            is_near = before is not None and row["at_ms"] - before["at_ms"] <= MINUTE_MS
            if is_near and before is not None:
                is_near = not any(before["at_ms"] < poll["at_ms"] < row["at_ms"] for poll in failed[place_of(row)])
            is_followed = row["queue"] is not None or (before is not None and before["verdict"] == "down")
            row["continues"] = (row["follows"] or is_near) and is_followed
            row["is_start"] = (
                before is None
                or not row["continues"]
                or row["verdict"] != before["verdict"]
                or row["at_ms"] // HOUR_MS != before["at_ms"] // HOUR_MS
            )
            made.append(row)
            before = row
    return [row for row in made if day_of(row["at_ms"]) in days]


def percentile(values: list[Any], percent: int) -> float:
    return float(values[ceil(len(values) * percent / 100) - 1])


def total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def rollup(told: list[Row], table: str) -> list[Row]:
    width_ms = WIDTHS_MS[table]
    made = []
    queues = (row for row in told if row["queue"] is not None)
    for (_, bucket_ms), group in grouped(
        queues, lambda row: (queue_of(row), row["at_ms"] // width_ms * width_ms)
    ).items():
        last = max(group, key=lambda row: row["at_ms"])
        row = {"day": day_of(bucket_ms), "bucket_ms": bucket_ms, "samples": len(group), "kind": last["kind"]}
        row |= {name: last[name] for name in ("profile", "server", "ns", "queue")}
        row["covered_ms"] = total(row["covered_ms"] for row in group) or 0
        row |= {name: total(row[name] for row in group) for name in RATES}
        row |= {f"{name}_mean": mean(row[name] for row in group) for name in ("ready", "hidden")}
        for metric in METRICS:
            values = sorted(row[metric] for row in group if row[metric] is not None)
            row |= dict.fromkeys(f"{metric}_{name}" for name in STATISTICS)
            if values:
                row[f"{metric}_min"], row[f"{metric}_max"] = float(values[0]), float(values[-1])
                row[f"{metric}_mean"] = mean(values)
                row |= {f"{metric}_p{percent}": percentile(values, percent) for percent in (50, 95, 99)}
        if table == "rollup_1h":
            row |= {"vt_s": last["vt_s"], "maxsize": last["maxsize"]}
            row |= {"last_ms": last["at_ms"], "last_depth": last["depth"]}
        made.append(row)
    return made


def greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def verdict_runs(told: list[Row]) -> list[Row]:
    runs: list[list[Row]] = []
    for row in told:
        if row["is_start"]:
            runs.append([])
        runs[-1].append(row)
    return [run_of(run) for run in runs if run[0]["verdict"] is not None]


def run_of(run: list[Row]) -> Row:
    first, last = run[0], run[-1]
    peak_depth = greatest(row["depth"] for row in run)
    peak_ms = None if peak_depth is None else min(row["at_ms"] for row in run if row["depth"] == peak_depth)
    return {
        "day": day_of(first["at_ms"]),
        **{name: first[name] for name in ("profile", "server", "ns", "queue", "verdict", "continues")},
        "first_ms": first["at_ms"],
        "since_ms": min((row["since_ms"] for row in run if row["since_ms"] is not None), default=None),
        "last_ms": last["at_ms"],
        "samples": len(run),
        "first_depth": first["depth"],
        "last_depth": last["depth"],
        "peak_depth": peak_depth,
        "peak_ready": greatest(row["ready"] for row in run),
        "peak_ms": peak_ms,
        "peak_age_ms": greatest(row["oldest_ready_age_ms"] for row in run),
        **{name: total(row[name] for row in run) for name in ("arrivals", "deletes", "receives")},
        "poison": greatest(row["poison"] for row in run),
        "highest_rc": greatest(row["highest_rc"] for row in run),
        "told": first["failure"] if first["broken"] is None else first["broken"],
        "kind": greatest(row["kind"] for row in run),
        "expired": greatest(row["expired"] for row in run),
    }


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
        for place, parts in enumerate(ordered):
            if parts[0]["verdict"] == "down":
                made.append(outage_of(parts, runs, place_last_ms[place_of(parts[0])]))
            elif parts[0]["verdict"] != "ok":
                made.append(episode_of(parts, ordered[place + 1 :], place_last_ms[place_of(parts[0])]))
    return made


def episode_of(parts: list[Row], later: list[list[Row]], place_last_ms: int) -> Row:
    made = summed(parts)
    if later and later[0][0]["continues"]:
        made |= {"ended": "over", "end_ms": later[0][0]["first_ms"]}
    else:
        made |= {"ended": "open" if not later and made["end_ms"] == place_last_ms else "unknown"}
    for run, *_ in later:
        if not run["continues"]:
            break
        if run["verdict"] == "ok":
            made["recovered_ms"] = run["first_ms"]
            break
    return made


def outage_of(parts: list[Row], runs: list[Row], place_last_ms: int) -> Row:
    made = summed(parts)
    up_ms = min(
        (
            run["first_ms"]
            for run in runs
            if place_of(run) == place_of(made) and run["queue"] is not None and run["first_ms"] > made["start_ms"]
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
    peak_depth, peak_ready = (greatest(run[name] for run in parts) for name in ("peak_depth", "peak_ready"))
    affected = {
        "growing": minus(peak_depth, first["first_depth"]),
        "stalled": greatest([peak_ready, greatest(run["expired"] for run in parts)]),
        "aged": peak_ready,
        "poisoned": greatest(run["poison"] for run in parts),
        "broken": peak_depth,
        "down": None,
    }
    return {
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
    }
