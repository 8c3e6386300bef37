from itertools import pairwise
from random import Random

import pytest

from rsmq_tui.cli.demo import scenarios
from rsmq_tui.cli.demo.scenarios import (
    BURSTING,
    DELAYED,
    GROWING,
    OK,
    POISONED,
    SCENARIOS,
    STALLED,
    Backlog,
    Scenario,
    VariedRate,
)
from rsmq_tui.cli.demo.workload import messages_of
from rsmq_tui.protocol import StoredMessage, sent_ms

NOW_MS = 1_795_000_000_000


def backlog_of(scenario: Scenario) -> list[StoredMessage]:
    return list(messages_of(scenario, Random(7), now_ms=NOW_MS))


def age_s(message: StoredMessage) -> float:
    sent = sent_ms(message.id, now_ms=NOW_MS)
    assert sent is not None
    return (NOW_MS - sent) / 1000


def test_the_queues_of_the_demo() -> None:
    assert [scenario.queue for scenario in SCENARIOS] == [
        "thumbnails",
        "emails",
        "invoices",
        "reminders",
        "webhooks",
        "orders",
    ]


def test_a_pace_sways_around_its_rate_and_bursts() -> None:
    pace = VariedRate(100.0, sway=0.1, sway_every_s=40.0, burst=50, burst_every_s=20.0)
    assert pace.rate(0.5) == pytest.approx(150.8, abs=0.1)
    assert pace.rate(10.0) == pytest.approx(110.0)
    assert pace.rate(30.0) == pytest.approx(90.0)
    assert VariedRate(100.0).rate(0.5) == 100.0


def test_the_ok_queue_keeps_up_in_the_mean_and_not_always() -> None:
    assert OK.consumer is not None
    capacity = OK.consumer.pace.rate(0.0)
    rates = [OK.arrivals.rate(float(second)) for second in range(90)]
    assert sum(rates) / len(rates) < capacity < max(rates)


def test_growing_exceeds_its_consumers_until_it_is_relieved() -> None:
    assert GROWING.consumer is not None
    assert GROWING.bounds is not None
    deletes = GROWING.consumer.pace.per_s * (1 - GROWING.consumer.fails)
    assert min(GROWING.arrivals.rate(float(second)) for second in range(90)) > GROWING.consumer.pace.per_s
    assert GROWING.bounds.relief_per_s < deletes
    assert GROWING.backlog is not None
    assert 30_000 <= GROWING.bounds.low < GROWING.backlog.count < GROWING.bounds.high <= 60_000


def test_every_queue_is_bounded() -> None:
    for scenario in SCENARIOS:
        keeps_up = scenario.consumer is not None and scenario.consumer.pace.per_s > scenario.arrivals.per_s
        assert keeps_up or scenario.bounds is not None, scenario.queue


@pytest.mark.parametrize(
    ("scenario", "count", "oldest_s"), [(GROWING, 38_000, 8_040), (STALLED, 3_000, 2_460), (POISONED, 9, 1_320)]
)
def test_a_backlog_is_as_old_as_it_says_and_in_order(scenario: Scenario, count: int, oldest_s: int) -> None:
    messages = backlog_of(scenario)
    assert len(messages) == count
    assert len({message.id for message in messages}) == count
    assert age_s(messages[0]) == pytest.approx(oldest_s)
    assert all(one.id[:10] < other.id[:10] for one, other in pairwise(messages))
    assert all(message.due_ms <= NOW_MS for message in messages if message.rc == 0)


def test_most_of_the_growing_backlog_is_old() -> None:
    messages = backlog_of(GROWING)
    assert age_s(messages[len(messages) // 2]) > 6_500


def test_poison_was_received_often_and_is_ready() -> None:
    messages = backlog_of(POISONED)
    assert sum(message.rc >= 7 for message in messages) >= 3
    for message in messages:
        assert message.due_ms <= NOW_MS
        assert message.fr_ms is not None
        assert message.fr_ms > NOW_MS - 1_320_000
        assert not scenarios.is_readable_json(message.body)


def test_delayed_messages_are_due_within_ten_minutes() -> None:
    messages = backlog_of(DELAYED)
    assert all(NOW_MS <= message.due_ms < NOW_MS + 600_000 for message in messages)
    assert all(0 <= age_s(message) <= 600 for message in messages)
    assert all(message.rc == 0 and message.fr_ms is None for message in messages)


def test_the_first_page_of_the_stalled_queue_shows_every_kind_of_body() -> None:
    bodies = [message.body for message in backlog_of(STALLED)[:100]]
    assert b"" in bodies
    assert any(body.startswith(b"\x1f\x8b") for body in bodies)
    assert any(body.startswith(b"From:") for body in bodies)
    assert any(body.startswith(b"{") for body in bodies)


def test_no_backlog_is_no_message() -> None:
    assert backlog_of(BURSTING) == []


def test_the_same_seed_gives_the_same_bodies() -> None:
    scenario = Scenario("q", scenarios.order_body, VariedRate(1.0), None, backlog=Backlog(20, oldest_s=10.0))
    assert [message.body for message in backlog_of(scenario)] == [message.body for message in backlog_of(scenario)]
