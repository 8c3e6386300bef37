"""Ten minutes of a believable past, the same at each run: the history that the pictures show."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rsmq_tui.monitor import Cost, MessageRow, MessageState, Snapshot
from rsmq_tui.protocol import Row, make_id
from tests.tui.scripted import START_MS, ScriptedSource, row_of

STEP_S = 5
SPAN_S = 600
NOW_MS = START_MS + SPAN_S * 1000


@dataclass(frozen=True, slots=True)
class Story:
    """One queue's past: rates a second as functions of the time in s, and what it holds at the beginning."""

    arrivals: Callable[[float], float]
    deletes: Callable[[float], float]
    depth: float
    hidden: float
    oldest_s: float | None
    redeliveries: float = 0.0
    vt: str = "30"


def _wave(mean: float, swing: float, period_s: float, shift: float = 0.0) -> Callable[[float], float]:
    return lambda t: mean + swing * math.sin(2 * math.pi * t / period_s + shift)


STORIES = {
    "orders": Story(_wave(612, 40, 300), lambda t: 590 - 190 * min(1, t / 480), 9_000, 212, 8_040),
    "emails": Story(_wave(12, 3, 200), lambda t: 0.0, 2_900, 0, 2_460),
    "invoices": Story(_wave(0.2, 0.1, 90), _wave(0.2, 0.1, 90, 0.2), 17, 3, 1_320, redeliveries=3.9),
    "thumbnails": Story(_wave(180, 25, 150), _wave(180, 25, 150, -0.2), 651, 611, 2),
    "webhooks": Story(
        lambda t: 90.0 if t % 120 < 15 else 1.0, lambda t: 90.0 if 5 <= t % 120 < 20 else 1.0, 30, 9, None
    ),
    "reminders": Story(_wave(1.5, 0.4, 300), _wave(1.5, 0.4, 300, 0.4), 118, 117, 4),
    "search-index": Story(_wave(41, 9, 210), _wave(42, 9, 210, 0.3), 96, 88, 1),
    "audit-log": Story(_wave(7, 2, 120), _wave(7, 2, 120), 12, 11, None),
}

TOUR_STORIES = {
    "orders": Story(_wave(12, 3, 300), _wave(12, 3, 300, -0.1), 24, 6, 1),
    "emails": Story(_wave(2, 0.5, 200), lambda t: 0.0, 400, 0, 640),
    "orders-dlq": Story(lambda t: 0.0, lambda t: 0.0, 40, 0, 5_400),
}


def play_history(source: ScriptedSource, names: Sequence[str] | Mapping[str, Story] = tuple(STORIES)) -> Snapshot:
    """Poll these stories every five seconds for ten minutes, and return the last snapshot."""
    stories = names if isinstance(names, Mapping) else {name: STORIES[name] for name in names}
    counters = {name: [0.0, 0.0, story.depth] for name, story in stories.items()}
    snapshot = source.last
    for t in range(0, SPAN_S + 1, STEP_S):
        rows = {name: _row(story, counters[name], t) for name, story in stories.items()}
        snapshot = source.snapshot_of(dict(sorted(rows.items())), START_MS + t * 1000)
        source.tracker.store_receive_counts(["invoices"], [[17, 3, 9]])
    orders = next((queue for queue in snapshot.queues if queue.name == "orders"), snapshot.queues[0])
    ready, depth = orders.ready or 0, orders.depth or 0
    source.depths["orders"] = (depth, ready)
    source.due_counts = (("now", ready), ("< 10 s", 61), ("< 1 min", 118), ("< 10 min", 33))
    return replace(snapshot, cost=Cost(round_trip_ms=0.8, poll_ms=2.1, bytes=2_870, commands=4))


def _row(story: Story, counter: list[float], t: float) -> Row:
    arrived, deleted = story.arrivals(t) * STEP_S, story.deletes(t) * STEP_S
    if t:
        counter[0] += arrived
        counter[1] += deleted + story.redeliveries * STEP_S
        counter[2] = max(story.hidden, counter[2] + arrived - deleted)
    now_ms = START_MS + int(t * 1000)
    oldest_ms = now_ms + 20_000 if story.oldest_s is None else NOW_MS - int(story.oldest_s * 1000)
    if story.oldest_s is not None and story.oldest_s < 60:
        oldest_ms = now_ms - int(story.oldest_s * 1000)
    head = (make_id(oldest_ms * 1000), oldest_ms)
    hidden = counter[2] if story.oldest_s is None else story.hidden
    return row_of(
        depth=int(counter[2]),
        hidden=int(hidden),
        sent=1_000_000 + int(counter[0]),
        received=990_000 + int(counter[1]),
        head=head,
        vt=story.vt,
    )


def order_messages(count: int, first_ms: int = NOW_MS - 8_040_000, every_ms: int = 1_700) -> list[MessageRow]:
    """Make the first messages of the queue orders."""
    rows = []
    for number in range(count):
        body = json.dumps(
            {
                "type": "refund" if number % 3 == 0 else "order",
                "order": 88_121 + number * 4,
                "amount": round(19.9 + number * 7.35, 2),
                "currency": "EUR",
                "customer": {"id": 42 + number, "vip": number % 5 == 0},
            }
        ).encode()
        sent_ms = first_ms + number * every_ms
        late = number in (4, 11)
        rows.append(
            MessageRow(
                id=f"{make_id(sent_ms * 1000)[:10]}5Dc9r4FfmKqsaDQEYV{number:04d}",
                score=str(sent_ms),
                state=MessageState.READY,
                due_ms=sent_ms,
                sent_ms=sent_ms,
                rc=2 if late else 0,
                fr_ms=sent_ms + 60_000 if late else None,
                size=len(body),
                preview=body,
            )
        )
    return rows
