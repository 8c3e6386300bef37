"""Batches of edits as rows of the journal, and back. Each kind of queue has a ``batches`` module for its columns."""

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, cast

from rsmq_tui.protocol import name_bytes, name_of
from rsmq_tui.protocol.editing import Batch
from rsmq_tui.protocol.kinds import kind_of_batch
from rsmq_tui.protocol.lists.edits import TAKEN_BACK
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.edits import Edit, Edits
from rsmq_tui.protocol.rsmq.operations import Messages

_ABSENT = -1
_BEFORE = 6
_LETTERS = frozenset((*Outcome, TAKEN_BACK))


class DamageError(ValueError):
    """A row was changed after it was written, or holds what rsmq-tui never writes."""


def pack(columns: Sequence[Sequence[bytes | None]]) -> bytes:
    """Return columns of equal length as one byte string."""
    rows = len(columns[0]) if columns else 0
    parts = [array("q", (len(columns), rows)).tobytes()]
    for column in columns:
        absent = column.count(None)
        if absent == rows:
            parts.append(array("q", (_ABSENT,)).tobytes())
            continue
        if not absent:
            values = cast("Sequence[bytes]", column)
            parts += (array("q", (rows, *map(len, values))).tobytes(), b"".join(values))
            continue
        lengths = array("q", [_ABSENT if value is None else len(value) for value in column])
        parts += (array("q", (rows,)).tobytes(), lengths.tobytes(), b"".join(filter(None, column)))
    return b"".join(parts)


def unpack(packed: bytes) -> list[list[bytes | None]]:
    """Return the columns; raises ValueError for what ``pack`` did not make."""
    (columns, rows), offset = _numbers(packed, 0, 2)
    if min(columns, rows) < 0 or rows * array("q").itemsize > len(packed):
        raise ValueError("more rows than it can hold")
    found: list[list[bytes | None]] = []
    for _ in range(columns):
        (present,), offset = _numbers(packed, offset, 1)
        if present == _ABSENT:
            found.append([None] * rows)
            continue
        lengths, offset = _numbers(packed, offset, rows)
        if present != rows or min(lengths, default=0) < _ABSENT:
            raise ValueError("invalid lengths")
        ends = list(accumulate((max(0, length) for length in lengths), initial=offset))
        found.append(
            [
                None if length == _ABSENT else packed[start:end]
                for length, (start, end) in zip(lengths, pairwise(ends), strict=True)
            ]
        )
        offset = ends[-1]
    if offset != len(packed):
        raise ValueError("cut short, or too long")
    return found


def _numbers(packed: bytes, offset: int, count: int) -> tuple[Sequence[int], int]:
    numbers: array[int] = array("q")
    end = offset + count * numbers.itemsize
    numbers.frombytes(packed[offset:end])
    if len(numbers) != count:
        raise ValueError("cut short")
    return numbers, end


def name_for_row(name: str | None) -> str | bytes | None:
    """Return a queue's name as stored in a table: bytes if it is not UTF-8, which SQLite does not accept as text."""
    try:
        return None if name is None else name_bytes(name).decode()
    except UnicodeDecodeError:
        return name_bytes(name or "")


def name_from_row(stored: object) -> str:
    """Return the name: the inverse of ``name_for_row``; raises ``DamageError``."""
    if not isinstance(stored, str | bytes):
        raise DamageError("it has no name")
    return name_of(stored) if isinstance(stored, bytes) else stored


def row_of(batch: Batch) -> dict[str, object]:
    """Return the columns of the table ``batches`` that describe a batch."""
    row: dict[str, object] = dict.fromkeys(("must_exist", "sent", "listed_before", "listed_after"), 0)
    row |= {"kind": str(batch.kind), "queue": name_for_row(batch.queue), "target": None, "lists": None}
    found: dict[str, object] = kind_of_batch(batch.kind).part("batches").row_of(batch)
    return row | found


def batch_of(row: Mapping[str, Any]) -> Batch:
    """Return the batch of a row; messages that it put into a queue have no bodies. Raises ``DamageError``."""
    try:
        if not isinstance(row["kind"], str):
            raise DamageError("it has no kind")
        batch: Batch = kind_of_batch(row["kind"]).part("batches").batch_of(row, name_from_row(row["queue"]))
        if row["outcome"]:
            letters = letters_of(row["outcome"])
            if len(letters) != batch.size or not _LETTERS.issuperset(letters):
                raise DamageError("it has an outcome of another batch")
            batch.inverse(row["outcome"])
    except DamageError:
        raise
    # A row without a checksum, from an earlier version, may hold anything.
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DamageError("its contents are invalid") from error
    return batch


def packed_edits(edits: Sequence[Edit], *, bodies: bool = True) -> bytes:
    """Return the column ``edits`` for edits of messages; without ``bodies``, only the lengths of the bodies."""
    sides = Edits.of(edits)
    absent: list[bytes | None] = [None] * len(sides)
    before, after = (side.columns if side else (absent,) * _BEFORE for side in (sides.before, sides.after))
    sizes = [b"%d" % size for size in sides.known.sizes]
    return pack([*before[:4], sizes, before[5] if bodies else absent, *after[:4]])


def edits_of(packed: bytes) -> Edits:
    """Return the edits in the column ``edits``; raises ValueError for what ``packed_edits`` did not make."""
    columns = unpack(packed)
    sizes = [int(size or 0) for size in columns[4]]
    ids, scores, rcs, frs = columns[_BEFORE:]
    before = _side(*columns[:4], sizes, columns[5])
    return Edits(before, _side(ids, scores, rcs, frs, sizes, [None] * len(ids)))


def new_ids(packed: bytes) -> list[bytes]:
    """Return the ids of a batch's messages after the change."""
    return [id for id in unpack(packed)[_BEFORE] if id is not None]


def _side(ids: Sequence[bytes | None], scores: Sequence[bytes | None], *rest: Sequence[Any]) -> Messages | None:
    absent = ids.count(None)
    if absent == len(ids):
        return None
    if absent:
        raise ValueError("a batch must have all messages or none")
    return Messages((ids, [score or b"" for score in scores], *rest))
