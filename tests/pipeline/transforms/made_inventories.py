"""Inventories made by hand or by chance, and what they come to, told by the definitions and without haste."""

import random
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, timedelta
from math import ceil
from statistics import mean
from typing import Any

import pyarrow as pa

from rsmq_tui.history.schema import MESSAGES, SCHEMAS

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
FIRST_DAY = date(2031, 5, 17)
FIRST_NO = (FIRST_DAY - date(1970, 1, 1)).days
START_MS = FIRST_NO * DAY_MS
PLACE = {"profile": "prod", "server": "redis://db1:6379/0", "ns": "rsmq"}

Row = dict[str, Any]


def day(number: int) -> str:
    """The name of a day, counted from the first one."""
    return (FIRST_DAY + timedelta(days=number)).isoformat()


def row(queue: str, inventory_ms: int, at_ms: int | None = None, *, recorder: str = "a", **facts: Any) -> Row:
    """A row of an inventory: of a message if it has an id, else the one that ends it."""
    none = dict.fromkeys(("id", "sent_ms", "due_ms", "rc", "fr_ms", "size", "body"))
    where = {"recorder": recorder, **PLACE, "queue": queue}
    return {**none, **where, "inventory_ms": inventory_ms, "at_ms": inventory_ms if at_ms is None else at_ms, **facts}


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMAS[MESSAGES])


# Of 100 inventories, or messages: without an end, written twice, with times that cannot be.
_CUT, _TWICE, _ABSURD = 15, 15, 20
_QUEUES, _RECORDERS = 60, "ab"


@dataclass(frozen=True)
class Chances:
    """What a made history is like; ``hours`` is how long an inventory takes at most."""

    seed: int
    days: int = 3
    hours: int = 5


def made_rows(chances: Chances) -> list[Row]:
    """Queues of a few messages each, in overlapping inventories by several recorders, on the hour, across midnight."""
    dice = random.Random(chances.seed)
    rows: list[Row] = []
    for number in range(_QUEUES):
        rows += _queue(dice, chances, f"q{number}")
    dice.shuffle(rows)
    return rows


def _queue(dice: random.Random, chances: Chances, queue: str) -> list[Row]:
    last_h = chances.days * 24
    messages = [_message(dice, number, last_h) for number in range(dice.randrange(8))]
    rows: list[Row] = []
    for _ in range(dice.randrange(3 * chances.days)):
        begun_h, recorder = dice.randrange(last_h), dice.choice(_RECORDERS)
        took_h = 30 if dice.randrange(50) == 0 else dice.randrange(chances.hours)
        inventory_ms = START_MS + begun_h * HOUR_MS
        for message in messages:
            if dice.random() < 0.6:
                at_ms = inventory_ms + dice.randint(0, took_h) * HOUR_MS
                rc = message["rc"] + dice.randrange(2) if message["rc"] is not None else None
                due_ms = None if dice.randrange(10) == 0 else at_ms + dice.choice((-1, 0, 1))
                rows.append(
                    row(queue, inventory_ms, at_ms, recorder=recorder, **{**message, "rc": rc, "due_ms": due_ms})
                )
        if dice.randrange(100) >= _CUT:
            rows.append(row(queue, inventory_ms, inventory_ms + took_h * HOUR_MS, recorder=recorder))
    return rows + [row for row in rows if dice.randrange(100) < _TWICE]


def _message(dice: random.Random, number: int, last_h: int) -> Row:
    when_ms = START_MS + dice.randrange(last_h) * HOUR_MS
    sent_ms: int | None = when_ms
    fr_ms: int | None = when_ms + dice.randrange(50) * 100_000
    if dice.randrange(100) < _ABSURD:
        strange = (None, 0, -5, 2**62, -(2**62), 1_937_000_000, 1_937_000_000_000_000, START_MS + 999 * DAY_MS)
        sent_ms, fr_ms = dice.choice((sent_ms, *strange)), dice.choice((fr_ms, *strange))
    rc = dice.choice((0, 0, 1, 1, 1, 2, 3, 4, 5, 9, 10, 11, 130, 2**61, None, -3))
    return {"id": f"m{number}", "sent_ms": sent_ms, "fr_ms": fr_ms, "rc": rc, "size": number * 10}


def stored_on(rows: list[Row], number: int) -> list[Row]:
    """The rows in the files of a day and of the day after it, as they lie there: by when they were read."""
    return [row for row in rows if row["at_ms"] // DAY_MS - FIRST_NO in (number, number + 1)]


@dataclass
class Inventory:
    """A whole inventory."""

    begun_ms: int
    recorder: str
    ended_ms: int
    messages: list[Row]

    @property
    def day(self) -> int:
        return self.begun_ms // DAY_MS

    @property
    def stays_in_its_day(self) -> bool:
        return self.ended_ms // DAY_MS == self.day


def whole_inventories(rows: list[Row]) -> dict[str, list[Inventory]]:
    """The whole inventories of each queue."""
    found: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for one in rows:
        if one["at_ms"] // DAY_MS - one["inventory_ms"] // DAY_MS in (0, 1):
            found[one["queue"], one["recorder"], one["inventory_ms"]].append(one)
    queues: dict[str, list[Inventory]] = defaultdict(list)
    for (queue, recorder, begun_ms), those in found.items():
        ends = [one["at_ms"] for one in those if one["id"] is None]
        if ends:
            messages = [one for one in those if one["id"] is not None]
            queues[queue].append(Inventory(begun_ms, recorder, max(ends), messages))
    return queues


def expected_lifecycle(rows: list[Row], days: list[int], poison_rc: int) -> dict[tuple[str, str], Row]:
    """The table ``lifecycle``, by queue and day."""
    output = {}
    for queue, inventories in whole_inventories(rows).items():
        for number in days:
            today = [one for one in inventories if one.day == FIRST_NO + number]
            tomorrow = [one for one in inventories if one.day == FIRST_NO + number + 1]
            if today:
                output[queue, day(number)] = _lifecycle(today, tomorrow, poison_rc)
    return output


def _lifecycle(today: list[Inventory], tomorrow: list[Inventory], poison_rc: int) -> Row:
    last_ms = max(one.ended_ms for one in today)
    after = min(
        (one for one in tomorrow if one.stays_in_its_day and one.begun_ms > last_ms),
        key=lambda one: (one.begun_ms, one.recorder),
        default=None,
    )
    go_on = {one["id"] for one in after.messages} if after else set()
    last: dict[str, tuple[tuple[int, ...], Row]] = {}
    for inventory in today:
        for one in inventory.messages:
            # If it was received after that, it was in flight when its receive count was read.
            is_received = one["fr_ms"] is not None and one["fr_ms"] >= one["at_ms"]
            is_ready = one["due_ms"] is not None and one["due_ms"] <= one["at_ms"] and not is_received
            order = (one["at_ms"], one["inventory_ms"], min(max(one["rc"] or 0, 0), 127), int(is_ready))
            if one["id"] not in last or order > last[one["id"]][0]:
                last[one["id"]] = order, one
    counts = dict.fromkeys(("received", "gone", "poison", "expired", "final_received", "final_expired"), 0)
    rc_counts, waiting, holding, errors = [0] * 11, [], [], []
    for id_, ((seen_ms, begun_ms, _, is_ready), one) in last.items():
        until_ms = _end_of_next(today, max(each.ended_ms for each in today if each.begun_ms == begun_ms))
        if until_ms is None and after and id_ not in go_on:
            until_ms = after.ended_ms
        counts["gone"] += until_ms is not None
        rc, sent_ms, fr_ms = one["rc"], one["sent_ms"], one["fr_ms"]
        if rc is None:
            continue
        if rc >= 0:
            rc_counts[min(rc, 10)] += 1
        counts["poison"] += rc >= poison_rc
        if rc < 1:
            continue
        is_expired = rc >= 2 or bool(is_ready)
        counts["received"] += 1
        counts["expired"] += is_expired
        counts["final_received"] += id_ not in go_on
        counts["final_expired"] += is_expired and id_ not in go_on
        # Before 1973 it would be seconds.
        if fr_ms is not None and 10**11 <= fr_ms <= seen_ms and (sent_ms is None or sent_ms <= fr_ms):
            if sent_ms is not None and sent_ms >= 10**11:
                waiting.append(fr_ms - sent_ms)
            if until_ms is not None:
                holding.append((seen_ms + until_ms) / 2 - fr_ms)
                errors.append((until_ms - seen_ms) / 2)
    return {
        "inventories": len(today), "messages": len(last), **counts, "rc_counts": rc_counts,
        "last_inventory_ms": max(one.begun_ms for one in today),
        **statistics("waiting_ms", waiting), **statistics("holding_ms", holding),
        "holding_error_ms": percentile(errors, 99) if errors else None, "holding_ms_known": len(holding),
        "holding_ms_quantiles": [percentile(holding, percent) for percent in range(101)] if holding else None,
    }  # fmt: skip


def _end_of_next(today: list[Inventory], ended_ms: int) -> int | None:
    begun_ms = min((one.begun_ms for one in today if one.begun_ms > ended_ms), default=None)
    return max((one.ended_ms for one in today if one.begun_ms == begun_ms), default=None)


def expected_poison_days(rows: list[Row], days: list[int], poison_rc: int) -> dict[tuple[str, str, str], Row]:
    """The table ``poison_days``, by queue, day and message."""
    seen: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for queue, inventories in whole_inventories(rows).items():
        for inventory in inventories:
            if inventory.day - FIRST_NO in days:
                for one in inventory.messages:
                    if one["rc"] is not None and one["rc"] >= poison_rc:
                        seen[queue, day(inventory.day - FIRST_NO), one["id"]].append(one)
    output = {}
    for key, those in seen.items():
        last = max(those, key=lambda one: (one["at_ms"], one["rc"]))
        begun_ms = [one["inventory_ms"] for one in those]
        output[key] = {name: last[name] for name in ("sent_ms", "fr_ms", "rc", "size")}
        output[key] |= {"first_seen_ms": min(begun_ms), "last_seen_ms": max(begun_ms)}
    return output


def statistics(name: str, values: list[float]) -> dict[str, float | None]:
    """The statistics of a column, null where there is nothing to tell."""
    if not values:
        return {f"{name}_{how}": None for how in ("min", "mean", "max", "p50", "p95", "p99")}
    shares = {f"{name}_p{percent}": percentile(values, percent) for percent in (50, 95, 99)}
    return {f"{name}_min": min(values), f"{name}_mean": mean(values), f"{name}_max": max(values), **shares}


def percentile(values: list[float], percent: int) -> float:
    """The smallest value that so large a share of them is no greater than."""
    return sorted(values)[max(1, ceil(percent * len(values) / 100)) - 1]
