import json
from datetime import datetime
from itertools import pairwise
from random import Random
from statistics import mean

import pytest

from rsmq_tui.cli.demo.scenarios import (
    ABANDONED,
    BURSTING,
    CLEARING,
    CRASHING,
    LIST_SCENARIOS,
    MIXED,
    SCENARIOS,
    ListScenario,
)
from rsmq_tui.cli.demo.workload import abandoned_of, items_of
from rsmq_tui.protocol import Lease

NOW_MS = 1_795_000_000_000


def age_s(item: bytes) -> float:
    return NOW_MS / 1000 - datetime.fromisoformat(json.loads(item)["created"]).timestamp()


def backlog_of(scenario: ListScenario) -> list[bytes]:
    return list(items_of(scenario, Random(7), now_ms=NOW_MS))


def left_in(scenario: ListScenario) -> list[tuple[bytes, Lease | None]]:
    return list(abandoned_of(scenario, Random(7), now_ms=NOW_MS))


def test_the_list_queues_of_the_demo() -> None:
    assert [scenario.queue for scenario in LIST_SCENARIOS] == [
        "queue:thumbnails",
        "queue:webhooks-out",
        "queue:imports",
    ]
    assert set(MIXED.queues) == {*SCENARIOS, *LIST_SCENARIOS}


@pytest.mark.parametrize("scenario", LIST_SCENARIOS, ids=lambda scenario: scenario.queue)
def test_every_queue_is_bounded(scenario: ListScenario) -> None:
    assert scenario.bounds is not None
    worker = scenario.worker
    capacity = 0.0 if worker is None else worker.count / mean(worker.work_s)
    assert scenario.bounds.relief_per_s <= capacity / 2
    assert 0 < scenario.bounds.low < scenario.bounds.high <= 2_000


def test_a_crashing_worker_keeps_up_all_the_same() -> None:
    worker = CRASHING.worker
    assert worker is not None
    assert worker.dies_after_s is not None
    alive_s = mean(worker.dies_after_s)
    done_per_s = worker.count / mean(worker.work_s) * alive_s / (alive_s + worker.down_s)
    again_per_s = worker.count / (alive_s + worker.down_s)
    assert done_per_s > CRASHING.arrivals.per_s + again_per_s


def test_no_lease_ends_before_the_work_does_and_each_is_seen_to_have_ended() -> None:
    worker, every_s = CRASHING.worker, CRASHING.reap_every_s
    assert worker is not None
    assert worker.lease_ms is not None
    assert every_s is not None
    assert worker.work_s[1] < worker.lease_ms / 1000 < every_s / 2


def test_the_backlog_of_webhooks_clears_at_first() -> None:
    assert CLEARING.backlog is not None
    assert CLEARING.bounds is not None
    assert CLEARING.worker is not None
    done_per_s = CLEARING.worker.count / mean(CLEARING.worker.work_s)
    assert CLEARING.backlog.count > CLEARING.bounds.high
    assert CLEARING.bounds.relief_per_s < done_per_s < CLEARING.arrivals.per_s


@pytest.mark.parametrize(("scenario", "count", "oldest_s"), [(CLEARING, 1_900, 1_500), (ABANDONED, 240, 2_790)])
def test_a_backlog_is_as_old_as_it_says_and_in_order(scenario: ListScenario, count: int, oldest_s: int) -> None:
    items = backlog_of(scenario)
    assert len(items) == len(set(items)) == count
    assert age_s(items[0]) == pytest.approx(oldest_s)
    assert all(age_s(one) >= age_s(other) >= 0 for one, other in pairwise(items))


def test_no_backlog_is_no_item() -> None:
    assert backlog_of(CRASHING) == []
    assert left_in(CLEARING) == []
    assert BURSTING.backlog is None


@pytest.mark.parametrize("scenario", [ABANDONED, CRASHING], ids=lambda scenario: scenario.queue)
def test_what_was_abandoned_was_taken_in_order_and_its_leases_have_ended(scenario: ListScenario) -> None:
    abandoned, left = scenario.abandoned, left_in(scenario)
    assert abandoned is not None
    leases = [lease for _, lease in left if lease is not None]
    assert (len(leases), len(left)) == (abandoned.leased, abandoned.leased + abandoned.unleased)
    assert all(lease.item == item and lease.queue == scenario.queue for item, lease in left if lease is not None)
    deadlines = [lease.deadline_ms for lease in leases]
    assert deadlines == sorted(deadlines)
    assert max(deadlines) <= NOW_MS - 1000 * abandoned.ended_s
    assert len({lease.token for lease in leases}) == len(leases)
    for item, lease in left:
        taken_s = age_s(item) if lease is None else (NOW_MS - lease.deadline_ms) / 1000
        assert age_s(item) >= taken_s


def test_what_is_ready_came_when_the_worker_was_dead() -> None:
    oldest_ready_s = age_s(backlog_of(ABANDONED)[0])
    assert all(age_s(item) > oldest_ready_s for item, _ in left_in(ABANDONED))


def test_the_same_seed_gives_the_same_items() -> None:
    assert backlog_of(CLEARING) == backlog_of(CLEARING)
    assert [item for item, _ in left_in(ABANDONED)] == [item for item, _ in left_in(ABANDONED)]
