"""WAIT and WORK: the columns of the overview, and the facts and the chart of a queue, on a real server."""

import re

import pytest
import redis

from rsmq_tui.monitor.tracking.series import FlightTimes
from rsmq_tui.protocol import make_id
from rsmq_tui.tui.queue.screen import time_pieces
from rsmq_tui.tui.widgets.charts import ChartPanel
from tests.protocol.keyspace import plant
from tests.tui.changing import Orders, on_queue
from tests.tui.driving import until
from tests.tui.reading import app_of, lines_of, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import poll_of, queue_of

WIDE = (210, 40)


def _in_flight(client: redis.Redis, waited_s: int, worked_s: int) -> None:
    """Write a message of ``other`` as a receive leaves it."""
    received_ms = client.time()[0] * 1000 - worked_s * 1000
    id = make_id((received_ms - waited_s * 1000) * 1000)
    plant(client, "other", id, due_ms=received_ms + 600_000, body="x")
    client.hset("rsmq:other:Q", mapping={f"{id}:rc": 1, f"{id}:fr": received_ms})


async def test_times_are_in_the_overview_and_on_the_queue(orders: Orders, client: redis.Redis) -> None:
    _in_flight(client, 7_200, 240)
    async with orders.dashboard(size=WIDE) as pilot:
        await on_queue(pilot, "other")

        def row() -> str:
            return " ".join(next(line for line in lines_of(table_of(pilot)) if " other " in line).split())

        await until(pilot, lambda: re.search(r" 2h 0m 4m \d+s ", row()), "both times are in their columns")
        head = lines_of(table_of(pilot))[0].split()
        assert head[head.index("WAIT") + 1] == "WORK"
        await pilot.press("enter")
        await until(
            pilot,
            lambda: re.search(
                r"wait 2h 0m, longest 2h 0m · work 4m \d+s, longest 4m \d+s · of 1 in flight", text_of(app_of(pilot))
            ),
            "facts",
        )
        chart = pilot.app.screen.query_one("#flights", ChartPanel)
        await until(pilot, lambda: chart.size.width > 20, "the chart has its room")


@pytest.mark.parametrize(
    ("hidden", "sampled", "words"),
    [
        (12, 12, "wait 1 s, longest 2 s · work 3 s, longest 4 s · of 12 in flight"),
        (20, 20, "wait 1 s, p95 2 s · work 3 s, p95 4 s · of 20 in flight"),
        (500, 20, "wait 1 s, p95 2 s · work 3 s, p95 4 s · of 20 sampled in flight"),
    ],
)
def test_the_facts_say_of_how_many_messages_they_are(
    source: ScriptedSource, hidden: int, sampled: int, words: str
) -> None:
    times = FlightTimes(START_MS, sampled, 1_000, 2_000, 3_000, 4_000)
    state = queue_of("q", hidden=hidden, times=times)
    said = "".join(text for text, _ in time_pieces(state, poll_of(source, [state])))
    assert words in said
