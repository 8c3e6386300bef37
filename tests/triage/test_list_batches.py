"""How much one call may change of a list: each holds the server for a moment, and all of them are for everything."""

import random
from itertools import pairwise

import pytest

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.edits import Edit
from rsmq_tui.protocol.lists.edits import Spot, spot_of
from rsmq_tui.triage.list_batches import HOLDS_AT_MOST_MS, insertion_us, insertions, removals, walk_us

MILLION = 1_000_000


def items(places: list[int], size: int = 100) -> list[RawMessage]:
    return [RawMessage(Spot("q", place, "0" * 40).id, b"0", None, None, size, None) for place in places]


@pytest.mark.parametrize("backwards", [False, True])
def test_scattered_items_go_in_parts_in_order_each_a_region(backwards: bool) -> None:
    places = sorted(random.Random(1).sample(range(MILLION), 10_000))
    given = items(places[::-1] if backwards else places)
    parts = [[spot_of(item.id).position for item in part] for part in removals(given, MILLION)]
    assert sorted(place for part in parts for place in part) == places
    assert all(part == sorted(part) for part in parts)
    edges = sorted((part[0], part[-1]) for part in parts)
    assert all(one[1] < other[0] for one, other in pairwise(edges))
    # The walk alone leaves room for what is done on it.
    assert max(walk_us(part[0], part[-1], MILLION) for part in parts) / 1000 < HOLDS_AT_MOST_MS * 0.6
    assert 100 < len(parts) < 600


def test_at_an_end_many_go_at_once() -> None:
    assert len(list(removals(items(list(range(10_000))), MILLION))) <= 10
    assert len(list(removals(items(list(range(MILLION - 10_000, MILLION))[::-1]), MILLION))) <= 10


def test_heavy_items_go_in_few() -> None:
    parts = list(removals(items(list(range(100)), size=300_000), 100))
    assert max(len(part) for part in parts) == 3


@pytest.mark.parametrize("take_from", ["right", "left"])
def test_putting_back_takes_one_at_a_time_where_the_walk_is_long(take_from: str) -> None:
    near, deep = list(range(500)), list(range(500_000, 500_020))
    for places, least in ((near, 1), (deep, 20)):
        edits = [Edit(None, item) for item in items(places)]
        parts = list(insertions(edits, MILLION, take_from))
        assert [edit for part in parts for edit in part] == edits
        assert least <= len(parts) <= 20
    assert insertion_us(1, MILLION - 1, MILLION - 1, MILLION - 1, MILLION, take_from) < 1_000
