"""The dashboard on 40 scripted queues, of which one changes whenever the bench says so."""

import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from rsmq_tui.monitor import (
    Connection,
    Drain,
    Page,
    QueueState,
    Snapshot,
    Thresholds,
    Totals,
    TotalsPoint,
    Trend,
    Verdict,
)
from rsmq_tui.monitor.tracking.series import BUCKET_MS, Sample
from rsmq_tui.protocol import PageRequest
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.bench.peers.channel import Channel

ROWS = 40
_BUCKETS = 60
_NOW_MS = 1_800_000_000_000


class Scripted:
    """A source of one snapshot, and of another for each line that is told.

    ``cell 38,113`` changes the depth of the first queue to that number and nothing else. ``second`` is what one second
    brings in which one message arrives: the clock, all ages, the sums and their history go on too.
    """

    def __init__(self, channel: Channel) -> None:
        self.thresholds = Thresholds()
        self._channel = channel

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield the first snapshot, then what the lines ask for."""
        self._channel.listen()
        snapshot = _first()
        yield snapshot
        while (line := await self._channel.next()) is not None:
            words = line.split()
            snapshot = _cell(snapshot, int(words[1].replace(",", ""))) if words[0] == "cell" else _second(snapshot)
            yield snapshot

    async def peek(self, request: PageRequest) -> Page:
        """Return a page without messages, for the pane below the table."""
        return Page(request, _NOW_MS, 0, 0, 0, ())

    async def aclose(self) -> None:
        """Nothing is open."""


def _first() -> Snapshot:
    trend = Trend()
    queues = tuple(_queue(number) for number in range(ROWS))
    all_series = [trend.add_queue(queue.name) for queue in queues]
    for number in range(_BUCKETS):
        at_ms = _NOW_MS - (_BUCKETS - number) * BUCKET_MS
        trend.open_bucket(at_ms)
        for place, series in enumerate(all_series):
            moved = number * 500 + 100 * ((number + place) % 7)
            series.append(Sample(at_ms, 30_000 + number, 29_000 + number, moved, moved))
        wave = float(number % 9)
        trend.totals.append(TotalsPoint(at_ms, 1_200_000 + number, 9_000, 600 + wave, 580 + wave, 590.0))
    totals = _totals(queues)
    link = Connection(None, 0.0, None)
    return Snapshot(_NOW_MS, "redis://127.0.0.1:6379/0", "rsmq", queues, totals, trend, connection=link)


def _queue(number: int) -> QueueState:
    ready, hidden = 30_000 + number, 212 + number
    sent_ms = _NOW_MS - 8_000_000 + 200_000 * number
    # fmt: off
    return QueueState(
        f"jobs-orders-{number:05d}", "rsmq", ready + hidden, ready, hidden, sent_ms,
        30, 0, 65536, _NOW_MS - 10**9, _NOW_MS - 10**8, 10**6, 10**6, 612.0, 401.3, 440.1, 0, 0,
        Verdict.GROWING, _NOW_MS - 2_000_000, Drain.GROWING, None, None, (), oldest_ready_due_ms=sent_ms,
    )
    # fmt: on


def _totals(queues: tuple[QueueState, ...]) -> Totals:
    ready, hidden = sum(queue.ready or 0 for queue in queues), sum(queue.hidden or 0 for queue in queues)
    verdicts = {**dict.fromkeys(Verdict, 0), Verdict.GROWING: len(queues)}
    oldest = min(queues, key=lambda queue: queue.oldest_ready_ms or 0)
    rates = (24_480.0, 16_052.0, 17_604.0)
    return Totals(ready + hidden, ready, hidden, *rates, oldest.name, oldest.oldest_ready_ms, verdicts)


def _cell(snapshot: Snapshot, depth: int) -> Snapshot:
    first, *others = snapshot.queues
    return replace(snapshot, queues=(first._replace(depth=depth), *others))


def _second(snapshot: Snapshot) -> Snapshot:
    first, *others = snapshot.queues
    queues = (first._replace(depth=(first.depth or 0) + 1, ready=(first.ready or 0) + 1), *others)
    totals, at_ms = _totals(queues), snapshot.at_ms + 1000
    rates = (totals.arrivals_s, totals.deletes_s, totals.receives_s)
    snapshot.trend.totals.append(TotalsPoint(at_ms, totals.ready, totals.hidden, *rates))
    return replace(snapshot, at_ms=at_ms, queues=queues, totals=totals)


if __name__ == "__main__":
    # The clock stands still: the bench counts what changes, not what waits.
    source: Any = Scripted(Channel(*sys.argv[1:]))
    RsmqApp([WatchedServer(source)], clock=lambda: 0.0).run()
