"""Sorting the overview: by each column, both ways, by key and by mouse, with the unknown last."""

import random

import pytest
from textual.pilot import Pilot

from rsmq_tui.events.known import Known
from rsmq_tui.monitor import QueueState, Snapshot, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.monitor.tracking.series import FlightTimes
from rsmq_tui.tui.overview.columns import columns_of
from rsmq_tui.tui.overview.known import Silenced
from rsmq_tui.tui.overview.rows import BY_TROUBLE, Arrangement, ByTrouble, QueueRows, sort_queues
from rsmq_tui.tui.widgets.row_table import Order
from tests.tui.driving import opened, press, settled
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import broken_queue, queue_of

# Each column sorts these in another order; "nil" knows nothing but its name and verdict.
QUEUES = [
    queue_of("ant", ready=2, hidden=9, oldest_ready_ms=START_MS - 5000, arrivals_s=1.0, deletes_s=8.0, receives_s=3.0,
             verdict=Verdict.AGED, drain_s=70.0, times=FlightTimes(START_MS, 1, 5, 5, 8, 8),
             limit=Limit("depth", START_MS + 60_000, None)),
    queue_of("bee", ready=7, hidden=1, oldest_ready_ms=START_MS - 9000, arrivals_s=4.0, deletes_s=2.0, receives_s=9.0,
             verdict=Verdict.OK, drain_s=5.0, times=FlightTimes(START_MS, 1, 7, 7, 1, 1),
             limit=Limit("age", START_MS + 50_000, START_MS + 70_000)),
    queue_of("cow", ready=5, hidden=5, oldest_ready_ms=START_MS - 1000, arrivals_s=2.5, deletes_s=5.0, receives_s=6.0,
             verdict=Verdict.GROWING, drain_s=900.0, times=FlightTimes(START_MS, 1, 9, 9, 2, 2),
             limit=Limit("depth", START_MS + 90_000, START_MS + 90_000)),
    broken_queue("nil", "gone"),
]  # fmt: skip
# Column -> the names of the queues whose value is known, in the order that one wants to see first.
EXPECTED = {
    "verdict": ["nil", "cow", "ant", "bee"],
    "queue": ["ant", "bee", "cow", "nil"],
    "ready": ["bee", "cow", "ant"],
    "hidden": ["ant", "cow", "bee"],
    "depth": ["ant", "cow", "bee"],
    "waiting": ["bee", "ant", "cow"],
    "oldest": ["bee", "ant", "cow"],
    "wait": ["cow", "bee", "ant"],
    "work": ["ant", "cow", "bee"],
    "in": ["bee", "cow", "ant"],
    "out": ["ant", "cow", "bee"],
    "recv": ["bee", "cow", "ant"],
    "trend": ["bee", "cow", "ant"],
    "drains": ["cow", "ant", "bee"],
    "limit": ["bee", "ant", "cow"],
}
UNKNOWN = ["nil"]


def _last(known: list[str]) -> list[str]:
    return known if "nil" in known else known + UNKNOWN


def _marked(pilot: Pilot[None]) -> list[str]:
    """The titles that say that they are sorted by."""
    return [word for word in lines_of(table_of(pilot))[0].split() if "↑" in word or "↓" in word]


def test_every_column_can_be_sorted_by() -> None:
    assert tuple(column.id for column in columns_of()) == tuple(EXPECTED)


async def test_s_goes_through_all_columns_and_capital_s_turns_each_around(source: ScriptedSource) -> None:
    async with opened(source, QUEUES, size=(180, 30)) as pilot:
        by_trouble = ["nil", "cow", "ant", "bee"]
        assert names_in(pilot) == by_trouble
        assert _marked(pilot) == []
        for column, known in EXPECTED.items():
            await press(pilot, "s")
            assert names_in(pilot) == _last(known), column
            (mark,) = _marked(pilot)
            await press(pilot, "S")
            assert names_in(pilot) == _last(known[::-1]), column
            (turned,) = _marked(pilot)
            assert {mark.strip("↑↓"), turned.strip("↑↓")} == {mark.strip("↑↓")}
            assert mark != turned
        await press(pilot, "s")
        assert names_in(pilot) == by_trouble
        assert _marked(pilot) == []
        await press(pilot, "S")
        assert names_in(pilot) == by_trouble[::-1]


async def test_equal_values_keep_the_order_of_names_both_ways(source: ScriptedSource) -> None:
    async with opened(source, [queue_of(name, ready=3) for name in ("d", "a", "c", "b")]) as pilot:
        await press(pilot, "s", "s", "s")
        assert names_in(pilot) == ["a", "b", "c", "d"]
        await press(pilot, "S")
        assert names_in(pilot) == ["a", "b", "c", "d"]


async def test_escape_sorts_by_trouble_again(source: ScriptedSource) -> None:
    async with opened(source, QUEUES) as pilot:
        await press(pilot, "s", "s", "S")
        assert names_in(pilot) == ["nil", "cow", "bee", "ant"]
        await press(pilot, "escape")
        assert names_in(pilot) == ["nil", "cow", "ant", "bee"]
        assert _marked(pilot) == []


async def test_after_a_column_that_was_hidden_s_sorts_by_trouble_again(source: ScriptedSource) -> None:
    async with opened(source, QUEUES) as pilot:
        await press(pilot, "s", "V", "space", "escape")
        assert "VERDICT" not in lines_of(table_of(pilot))[0]
        await press(pilot, "s")
        assert names_in(pilot) == ["nil", "cow", "ant", "bee"]
        await press(pilot, "s")
        assert _marked(pilot) == ["QUEUE↑"]


@pytest.mark.parametrize(("title", "column"), [("VERDICT", "verdict"), ("READY", "ready"), ("RECV/s", "recv"),
                                               ("DRAINS IN", "drains")])  # fmt: skip
async def test_a_click_on_a_title_sorts_by_it_and_a_second_one_turns_it(
    source: ScriptedSource, title: str, column: str
) -> None:
    async with opened(source, QUEUES) as pilot:
        for known in (EXPECTED[column], EXPECTED[column][::-1]):
            place = lines_of(table_of(pilot))[0].index(title) + 1
            await pilot.click("#queues", offset=(place, 0))
            await settled(pilot)
            assert names_in(pilot) == _last(known)
            assert _marked(pilot)[0].strip("↑↓") == title.rsplit(maxsplit=1)[-1]


async def test_a_click_right_of_all_titles_does_nothing(source: ScriptedSource) -> None:
    async with opened(source, QUEUES, size=(40, 20)) as pilot:
        await pilot.click("#queues", offset=(39, 0))
        await settled(pilot)
        assert names_in(pilot) == ["nil", "cow", "ant", "bee"]
        assert len(pilot.app.screen_stack) == 1


async def test_the_mark_is_ascii_where_only_ascii_may_be_drawn(source: ScriptedSource) -> None:
    async with opened(source, QUEUES, ascii_only=True) as pilot:
        await press(pilot, "s", "s", "s")
        assert "vREADY" in text_of(app_of(pilot))
        await press(pilot, "S")
        assert "^READY" in text_of(app_of(pilot))


@pytest.mark.parametrize("seed", range(20))
def test_queues_that_few_polls_change_are_where_sorting_all_would_put_them(seed: int) -> None:
    rng = random.Random(seed)

    def some(name: str) -> QueueState:
        since_ms = rng.choice([None, START_MS - 1000 * rng.randrange(5)])
        return queue_of(name, ready=rng.randrange(3), oldest_ready_ms=since_ms, verdict=rng.choice(list(Verdict)))

    queues = [some(f"q{number}") for number in range(30)]
    names = rng.sample([queue.name for queue in queues], 3)
    silenced = Silenced({"": {name: Known("", "", name, "", 0) for name in names}}, {"": Expected(("q1?",))})
    rows = ByTrouble.of(queues, silenced)
    for _ in range(10):
        before = rng.sample(queues, 4)
        after = [rng.choice([some(queue.name), queue._replace(receives_s=9.0)]) for queue in before]
        again = rows.changed(before, after)
        assert again is not None
        replaced = dict(zip([queue.name for queue in before], after, strict=True))
        queues = [replaced.get(queue.name, queue) for queue in queues]
        wanted = list(queues)
        sort_queues(wanted, BY_TROUBLE, silenced)
        assert (again.queues, again.keys) == (wanted, [queue.key for queue in wanted])
        assert again == ByTrouble.of(queues, silenced)
        rows = again


def test_keys_of_queues_that_do_not_move_are_the_same_object() -> None:
    queues = [queue_of("a", verdict=Verdict.STALLED), queue_of("b", verdict=Verdict.OK)]
    rows = ByTrouble.of(queues)
    again = rows.changed([queues[0]], [queues[0]._replace(receives_s=9.0)])
    assert again is not None
    assert again.keys is rows.keys
    assert again.queues[0].receives_s == 9.0


def test_a_queue_that_is_not_among_them_is_not_replaced() -> None:
    one, other = queue_of("one", verdict=Verdict.OK), queue_of("other", verdict=Verdict.STALLED)
    rows = ByTrouble.of([one, other])
    for another in (one._replace(ready=1), one._replace(vt_s=7)):
        assert rows.changed([another], [one]) is None


def test_the_rows_of_a_snapshot_keep_their_positions_until_they_may_move() -> None:
    wanted = Arrangement("", Order("ready"), "", frozenset(), frozenset(), Silenced(), may_move=True)
    first = queue_of("a:1", ready=3), queue_of("a:2", ready=2), queue_of("b", ready=1)
    rows = QueueRows()
    rows.arrange(Snapshot(START_MS, "", "", first), wanted)
    assert ([row.name for row in rows.rows], rows.sorted_by) == (["a:1", "a:2", "b"], ("ready", True))
    before = rows.rows
    rows.arrange(Snapshot(START_MS + 1, "", "", first), wanted)
    assert rows.rows is before
    then = Snapshot(START_MS + 2, "", "", (*first[:2], first[2]._replace(ready=9), queue_of("c", ready=8)))
    rows.arrange(then, wanted._replace(may_move=False))
    assert [(row.name, row.ready) for row in rows.rows] == [("a:1", 3), ("a:2", 2), ("b", 9), ("c", 8)]
    rows.arrange(then, wanted)
    assert [row.name for row in rows.rows] == ["b", "c", "a:1", "a:2"]
    # Favourites come first, and groups are unfolded by their keys.
    grouped = wanted._replace(separators=":", favourites=frozenset({("", "c")}))
    rows.arrange(then, grouped)
    assert ([row.name for row in rows.rows], rows.members) == (["c", "b", "a:"], frozenset())
    rows.arrange(then, grouped._replace(unfolded=frozenset({rows.keys[2]})))
    assert [row.name for row in rows.rows] == ["c", "b", "a:", "a:1", "a:2"]
    assert rows.members == {first[0].key, first[1].key}
