"""The messages of a replay: those of the last whole inventory before the moment, in pages, by id, and searched."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.messages import Inventories, Inventory
from rsmq_tui.history.replay.player import Player, ReplaySource
from rsmq_tui.history.rows import inventory_end, message_rows
from rsmq_tui.history.schema import MESSAGES as MESSAGES_TABLE
from rsmq_tui.history.store import day_of
from rsmq_tui.history.writer import write_sealed
from rsmq_tui.monitor import MessageState, PageRequest, PeekError, parse_filter
from rsmq_tui.protocol import RawMessage, make_id, name_of
from tests.history.replayed import NOON_MS, PLACE, Tape, replay_of, said

MINUTE_MS = 60_000


def message(
    number: int, due_ms: int, *, rc: int = 0, body: bytes | None = b"{}", size: int | None = None
) -> RawMessage:
    id = f"{make_id((NOON_MS - 3_600_000 + number) * 1000)[:10]}{number:022d}"
    fr = str(NOON_MS).encode() if rc else None
    length = len(body or b"") if size is None else size
    return RawMessage(id.encode(), str(due_ms).encode(), str(rc).encode() if rc else None, fr, length, body)


# Fifty ready, ten in flight, five delayed.
MESSAGES = (
    *(message(n, NOON_MS - 50 + n, rc=n % 3, body=b'{"n":%d}' % n) for n in range(50)),
    *(message(50 + n, NOON_MS + 20_000 + n, rc=1) for n in range(10)),
    *(message(60 + n, NOON_MS + 120_000 + n) for n in range(5)),
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    tape = Tape(tmp_path)
    for minute in range(10):
        tape.poll(NOON_MS + minute * MINUTE_MS, said("ok"))
    tape.seal()
    tape.inventory(NOON_MS, "orders", list(MESSAGES))
    tape.inventory(NOON_MS + 2 * MINUTE_MS, "orders", list(MESSAGES[:3]))
    tape.inventory(NOON_MS + 4 * MINUTE_MS, "orders", list(MESSAGES[:2]), is_whole=False)
    tape.inventory(NOON_MS + 3 * MINUTE_MS, "other\udcff", [message(1, NOON_MS, body=None, size=99)])
    tape.inventory(NOON_MS + 5 * MINUTE_MS, "empty", [])
    return tmp_path


def source_at(out: Path, at_ms: int) -> ReplaySource:
    replay = replay_of(out, from_ms=at_ms)
    player = Player(replay, playing=False)
    return ReplaySource(player, PLACE, Inventories(replay.timeline.history))


async def first_of(out: Path) -> Inventory:
    return await Inventories(History(out)).last(PLACE, "orders", NOON_MS)


def numbers(rows: Sequence[object]) -> list[int]:
    return [int(str(row.id)[10:]) for row in rows]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("minute", "depth"), [(0, 65), (1, 65), (2, 3), (3, 3), (9, 3)])
async def test_the_last_whole_inventory_counts(out: Path, minute: int, depth: int) -> None:
    source = source_at(out, NOON_MS + minute * MINUTE_MS)
    page = await source.peek(PageRequest("orders", count=5))

    assert page.depth == depth
    assert page.at_ms == source.seen["orders"] == NOON_MS + (0 if minute < 2 else 2 * MINUTE_MS)


async def test_where_there_is_none_it_says_what_would_help(out: Path) -> None:
    source = source_at(out, NOON_MS + MINUTE_MS)
    for queue in ("other\udcff", "unheard"):
        with pytest.raises(PeekError, match="record --messages 5m"):
            await source.peek(PageRequest(queue, count=5))
    with pytest.raises(PeekError, match="record --messages"):
        await Inventories(History(out)).last(Place("else", *PLACE[1:]), "orders", NOON_MS)
    with pytest.raises(PeekError, match="this is a recording"):
        await source.namespaces()
    with pytest.raises(PeekError, match="audit the server itself"):
        await anext(source.audit(None))


async def test_an_old_inventory_tells_nothing(out: Path) -> None:
    with pytest.raises(PeekError):
        await Inventories(History(out)).last(PLACE, "orders", NOON_MS + 25 * 60 * MINUTE_MS)


async def test_pages_go_on_where_the_one_before_ended(out: Path) -> None:
    inventory = await first_of(out)
    seen, page = [], inventory.page(PageRequest("orders", count=7))
    while True:
        seen += numbers(page.rows)
        if page.is_last:
            break
        page = inventory.page(PageRequest("orders", where="after", anchor=page.rows[-1].anchor, count=7))
    assert seen == list(range(65))
    before = inventory.page(PageRequest("orders", where="before", anchor=page.rows[0].anchor, count=7))
    assert numbers(before.rows) == list(range(page.start - 7, page.start))
    again = inventory.page(PageRequest("orders", where="at", anchor=before.rows[0].anchor, count=7))
    assert again.rows == before.rows


async def test_pages_of_parts(out: Path) -> None:
    inventory = await first_of(out)
    ready = inventory.page(PageRequest("orders", part="ready", where="last", count=4))
    hidden = inventory.page(PageRequest("orders", part="hidden", count=100))

    assert (numbers(ready.rows), ready.is_last, ready.ready) == ([46, 47, 48, 49], True, 50)
    assert (numbers(hidden.rows), hidden.is_first) == (list(range(50, 65)), True)
    assert [row.state for row in hidden.rows] == [MessageState.IN_FLIGHT] * 10 + [MessageState.DELAYED] * 5
    assert {row.sent_ms for row in ready.rows} == {NOON_MS - 3_600_000 + n for n in range(46, 50)}


async def test_one_message(out: Path) -> None:
    inventory = await first_of(out)
    view = inventory.view(name_of(MESSAGES[41].id))

    assert (view.body, view.size, view.row and view.row.rc) == (b'{"n":41}', 8, 2)
    assert inventory.view("nobody").row is None


async def test_bodies_that_were_not_recorded_are_said_to_be(out: Path) -> None:
    source = source_at(out, NOON_MS + 4 * MINUTE_MS)
    (row,) = (await source.peek(PageRequest("other\udcff", count=5))).rows
    view = await source.read("other\udcff", row.id)

    assert (row.preview, row.size) == ("– not recorded".encode(), 99)
    assert (view.body, view.size) == (None, 99)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", 65),
        ("state:inflight", 10),
        ("state:delayed", 5),
        ("rc>=2", 16),
        ("json.n>40", 9),
        ("!state:ready", 15),
    ],
)
async def test_a_search_finds_what_a_live_one_would(out: Path, words: str, found: int) -> None:
    source = source_at(out, NOON_MS)
    steps = [progress async for progress in source.search("orders", parse_filter(words))]

    assert steps[-1].matched == sum(len(step.messages) for step in steps) == found
    assert steps[-1].scanned == steps[-1].depth == 65


async def test_when_they_become_visible(out: Path) -> None:
    source = source_at(out, NOON_MS + 30_000)
    due = await source.due("orders", NOON_MS + 30_000)

    # What was in flight would be ready by now, had nothing happened.
    assert due == (("now", 60), ("< 10 s", 0), ("< 1 min", 0), ("< 10 min", 5), ("< 1 h", 0), ("later", 0))


async def test_an_empty_queue_is_empty(out: Path) -> None:
    source = source_at(out, NOON_MS + 6 * MINUTE_MS)
    page = await source.peek(PageRequest("empty", count=5))

    assert (page.depth, page.rows, page.is_first, page.is_last) == (0, (), True, True)


async def test_places_of_one_recorder_are_told_apart(tmp_path: Path) -> None:
    Tape(tmp_path)
    known: dict[str, Any] = {"at_ms": NOON_MS, "inventory_ms": NOON_MS}
    other, rows = PLACE._replace(ns="other"), []
    for number, place in enumerate((PLACE, other)):
        messages = [message(n, NOON_MS) for n in range(number + 1)]
        rows += [message_rows("a" * 12, place, "orders", messages, **known)]
        rows += [inventory_end("a" * 12, place, "orders", **known)]
    path = tmp_path / "messages" / f"day={day_of(NOON_MS)}" / f"{'a' * 12}-000001.parquet"
    path.parent.mkdir(parents=True)
    write_sealed(pa.Table.from_batches(rows), path)
    inventories = Inventories(History(tmp_path))

    assert (await inventories.last(PLACE, "orders", NOON_MS)).page(PageRequest("orders", count=9)).depth == 1
    assert (await inventories.last(other, "orders", NOON_MS)).page(PageRequest("orders", count=9)).depth == 2


async def test_messages_that_were_removed_meanwhile_are_said_to_be_gone(out: Path) -> None:
    history = History(out)
    history.refresh()
    inventories = Inventories(history)
    # It knows which inventories there are, and has read none of them.
    for file in history.files(None, MESSAGES_TABLE):
        inventories._ends_in(file.name)
    shutil.rmtree(out / "messages")
    with pytest.raises(PeekError, match="can no longer be read"):
        await inventories.last(PLACE, "orders", NOON_MS + 2 * MINUTE_MS)


async def test_an_inventory_that_was_cut_short_is_said_to_be(tmp_path: Path) -> None:
    tape = Tape(tmp_path)
    tape.inventory(NOON_MS, "orders", list(MESSAGES), is_whole=False)
    inventories = Inventories(History(tmp_path))
    with pytest.raises(PeekError, match="recorded only in part before this time"):
        await inventories.last(PLACE, "orders", NOON_MS)
    with pytest.raises(PeekError, match="no messages were recorded here before"):
        await inventories.last(PLACE, "orders", NOON_MS - 1)
