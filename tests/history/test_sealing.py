"""Sealed files: every row as it was, in the order that makes them small."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rsmq_tui.history.names import Place
from rsmq_tui.history.rows import SampleRows, inventory_end, message_rows
from rsmq_tui.history.schema import MESSAGES, SAMPLES, SCHEMAS
from rsmq_tui.history.writer import write_sealed
from rsmq_tui.protocol import RawMessage
from tests.history.made import NOON_MS, PLACE, state

OTHER = Place("another", PLACE.server, PLACE.ns)
POLLS = 40


def polls(sent: dict[str, int | None], place: Place = PLACE, by: int = 3) -> list[pa.RecordBatch]:
    """Polls in which every queue is sent some more messages."""
    rows = SampleRows("r", place)
    return [
        rows.polled(
            tuple(
                state(name, totalsent=None if total is None else total + by * number) for name, total in sent.items()
            ),
            NOON_MS + 5_000 * number,
            5_000,
        )
        for number in range(POLLS)
    ]


def written(path: Path, table: pa.Table) -> pa.Table:
    write_sealed(table, path)
    return pq.read_table(path)


def test_queues_come_by_their_counters_and_the_last_row_of_each_first(tmp_path: Path) -> None:
    sent = {"a": 10**6, "b": 5, "c": 10**9, "list": None}
    table = pa.Table.from_batches([*polls(sent), *polls({"x": 7}, OTHER)])
    rows = written(tmp_path / "a", table).to_pylist()

    assert [(row["profile"], row["queue"]) for row in rows[::POLLS]] == [
        ("another", "x"), ("another", None), ("prod", "b"), ("prod", "a"), ("prod", "c"), ("prod", None),
        ("prod", "list"),
    ]  # fmt: skip
    times = [NOON_MS + 5_000 * number for number in reversed(range(POLLS))]
    assert [row["at_ms"] for row in rows] == times * 7


def test_every_row_is_there_as_it_was(tmp_path: Path) -> None:
    batches = [*polls({"a": 9, "b\\xff": None, "c": 2**62}), SampleRows("r", PLACE).failed("refused", NOON_MS + 1)]
    table = pa.Table.from_batches(batches)
    found = written(tmp_path / "a", table)
    order = [("at_ms", "ascending"), ("queue", "ascending")]

    assert found.schema.equals(SCHEMAS[SAMPLES])
    assert found.sort_by(order).equals(table.sort_by(order).combine_chunks())


def test_counters_take_a_few_bits(tmp_path: Path) -> None:
    # By name, every other step between queues would be a long way down.
    sent: dict[str, int | None] = {f"q{number:03d}": number * 7_919_000 % 100_003 for number in range(100)}
    written(tmp_path / "a", pa.Table.from_batches(polls(sent)))
    metadata = pq.ParquetFile(tmp_path / "a").metadata.row_group(0)
    counters = next(column for number in range(26) if (column := metadata.column(number)).path_in_schema == "totalsent")

    assert "DELTA_BINARY_PACKED" in counters.encodings
    # Each 32 of the 4,040 differences are at most as wide as the widest step, of about 1,000, and all the same else.
    assert counters.total_compressed_size < 4_040


def test_inventories_that_repeat_each_other_take_little_more_than_one(tmp_path: Path) -> None:
    dice = random.Random(1)
    letters = "".join(map(chr, range(33, 127)))

    def message(due_ms: int) -> RawMessage:
        return RawMessage("".join(dice.choices(letters, k=32)).encode(), b"%d" % due_ms, None, None, 100, None)

    held = [message(NOON_MS + number) for number in range(1_000)]
    batches: list[pa.RecordBatch] = []
    for number in range(20):
        at_ms = NOON_MS + number * 60_000
        of = {"at_ms": at_ms, "inventory_ms": at_ms}
        batches += [message_rows("r", PLACE, "a", held, **of), inventory_end("r", PLACE, "a", **of)]
        # One in a hundred is received and deleted, and another is sent.
        held = [*held[10:], *(message(at_ms + number) for number in range(10))]
    one, many = pa.Table.from_batches(batches[:2]), pa.Table.from_batches(batches)
    written(tmp_path / "one", one)
    found = written(tmp_path / "many", many)

    assert (tmp_path / "many").stat().st_size < 2 * (tmp_path / "one").stat().st_size
    order = [("inventory_ms", "ascending"), ("id", "ascending")]
    assert found.schema.equals(SCHEMAS[MESSAGES])
    assert found.sort_by(order).equals(many.sort_by(order).combine_chunks())
    # Those of a message are in the order in which they were read.
    last = found.filter(pc.field("id") == held[0].id.decode()).column("at_ms").to_pylist()
    assert last == sorted(last)
