"""How a read of messages is split into tasks: which queues, or which parts of a deep one, each of them reads.

A part of a deep queue is a share of its table of ids (``rsmq_tui.protocol.scan_parts``), not of its ranks: a message
that is received gets another score, and with that another rank, but stays where it is in the table.

Where a filter wants one state only, and the messages that can be in it are few, or lie together, they are read by
score instead. The ready ones of now are cut into parts: whatever is ready throughout keeps its score. The hidden ones
are read by one task, rising, since a message that is received again moves on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from rsmq_tui.history.names import stored_name
from rsmq_tui.monitor import MessageState
from rsmq_tui.monitor.wording import printable
from rsmq_tui.pipeline.datasource.errors import SourceError
from rsmq_tui.pipeline.datasource.filters import Pushed
from rsmq_tui.pipeline.datasource.options import Options
from rsmq_tui.protocol import MICROSECONDS_FROM, SECONDS_BELOW, QueueReader, RsmqError
from rsmq_tui.protocol.scan_parts import WHOLE, ScanPart
from rsmq_tui.protocol.score_ranges import QueueSize, ScoreRange

# A task costs some ms to start, and a part of a scan one round trip more: this many messages are worth it.
_PART_MESSAGES_MIN = 20_000
# A scan by score beats one of everything where it reads less than this share of the messages.
_HIDDEN_SHARE = 4
_HIDDEN_MAX = 500_000


@dataclass(frozen=True, slots=True)
class Piece:
    """What is read in one go: a queue, or a part of one; by score where ``ranges`` are given.

    ``rises`` tells that scores may rise within the ranges. ``size`` is how many messages it was about, when planned.
    """

    queue: str
    part: ScanPart = WHOLE
    ranges: tuple[ScoreRange, ...] = ()
    rises: bool = False
    size: int = 0


@dataclass
class MessagePartition(InputPartition):
    """What one task reads."""

    pieces: tuple[Piece, ...]

    def __init__(self, pieces: Iterable[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


async def plan(reader: QueueReader, options: Options, pushed: Pushed) -> list[MessagePartition]:
    """Return the tasks; raises ``SourceError``, and what reading raises."""
    if not pushed.states:
        return [MessagePartition(())]
    queues = await _queues(reader, options, pushed)
    now_ms = await reader.ranges.now_ms()
    ready, hidden = _ranges_of(now_ms)
    sizes = await reader.ranges.sizes(queues, (*ready, *hidden))
    if options.queue is not None and queues:
        _check_there(options.queue, sizes[0], reader)
    total = sum(size.depth for size in sizes)
    wanted = max(_PART_MESSAGES_MIN, -(-total // options.partitions))
    pieces: list[Piece] = []
    for queue, size in zip(queues, sizes, strict=True):
        in_ready = sum(size.in_ranges[: len(ready)])
        in_hidden = sum(size.in_ranges[len(ready) :])
        if size.depth == 0:
            continue
        if pushed.states == {MessageState.READY}:
            pieces += await _ready_pieces(reader, queue, ready, size.in_ranges, in_ready, wanted)
        elif MessageState.READY not in pushed.states and in_hidden <= min(_HIDDEN_MAX, size.depth // _HIDDEN_SHARE):
            pieces.append(Piece(queue, ranges=hidden, rises=True, size=in_hidden))
        else:
            pieces += await _parts(reader, queue, size.depth, wanted)
    return packed(pieces, options.partitions)


def _check_there(queue: str, size: QueueSize, reader: QueueReader) -> None:
    name = printable(queue)
    if size.problem is not None:
        raise SourceError(f"the messages of {name} cannot be read: {printable(size.problem)}")
    if not size.exists and not size.depth:
        raise SourceError(f"no queue {name} in namespace {printable(reader.ns)} of {reader.label}")


async def _queues(reader: QueueReader, options: Options, pushed: Pushed) -> list[str]:
    if options.queue is not None:
        names: Sequence[str] = (options.queue,)
    else:
        index = await reader.rows.index()
        if index.problem is not None:
            raise SourceError(printable(index.problem))
        names = index.names
    return [name for name in names if pushed.wants_queue(stored_name(name))]


def _ranges_of(now_ms: int) -> tuple[tuple[ScoreRange, ...], tuple[ScoreRange, ...]]:
    """Return the scores of what is ready at a time, and of what is hidden, in each unit that clients write."""
    # Seconds are not always whole.
    second_bound, ms_bound, micro_bound = repr(now_ms / 1000).encode(), b"%d" % now_ms, b"%d" % (now_ms * 1000)
    ms_from, micros_from = b"%d" % SECONDS_BELOW, b"%d" % MICROSECONDS_FROM
    ready = (
        ScoreRange(b"-inf", second_bound),
        ScoreRange(ms_from, ms_bound),
        ScoreRange(micros_from, micro_bound),
    )
    hidden = (
        ScoreRange(b"(" + second_bound, b"(" + ms_from),
        ScoreRange(b"(" + ms_bound, b"(" + micros_from),
        ScoreRange(b"(" + micro_bound, b"+inf"),
    )
    return ready, hidden


async def _ready_pieces(
    reader: QueueReader, queue: str, ranges: Sequence[ScoreRange], counts: Sequence[int], total: int, wanted: int
) -> list[Piece]:
    if total <= wanted:
        return [Piece(queue, ranges=tuple(ranges), size=total)] if total else []
    pieces: list[Piece] = []
    for bounds, count in zip(ranges, counts, strict=False):
        if not count:
            continue
        try:
            cuts = await reader.ranges.scores_at(queue, bounds, count, wanted)
        except RsmqError:
            cuts = []
        low = bounds.low
        # Those of one score stay together.
        for cut in dict.fromkeys(cuts):
            pieces.append(Piece(queue, ranges=(ScoreRange(low, b"(" + cut),), size=wanted))
            low = cut
        pieces.append(Piece(queue, ranges=(ScoreRange(low, bounds.high),), size=wanted))
    return pieces


async def _parts(reader: QueueReader, queue: str, depth: int, wanted: int) -> list[Piece]:
    """Split a queue into parts of about that many messages; their number has to be a power of two."""
    count = 1
    while depth > wanted * count:
        count *= 2
    if count > 1 and not await reader.ranges.can_split(queue):
        count = 1
    return [Piece(queue, ScanPart(index, count), size=depth // count) for index in range(count)]


def packed(pieces: list[Piece], partitions: int) -> list[MessagePartition]:
    """Share pieces out among tasks, the large ones first, each to that which has least to do."""
    bins: list[list[Piece]] = [[] for _ in range(min(partitions, len(pieces)) or 1)]
    loads = [0] * len(bins)
    for piece in sorted(pieces, key=lambda piece: -piece.size):
        place = loads.index(min(loads))
        bins[place].append(piece)
        loads[place] += piece.size + 100
    return [MessagePartition(each) for each in bins]
