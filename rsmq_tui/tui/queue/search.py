"""Searches of a queue's messages, and their orders."""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from operator import attrgetter

from rsmq_tui.monitor import (
    Filter,
    MessageRow,
    SearchProgress,
)
from rsmq_tui.monitor.filters.matching import sent_by_id
from rsmq_tui.monitor.filters.search import INCOMPLETE, found_row, sent_by
from rsmq_tui.monitor.messages.peek import RowsAgain
from rsmq_tui.monitor.messages.reading import read_score
from rsmq_tui.monitor.text import count, duration, matches, printable
from rsmq_tui.protocol import PREVIEW_BYTES, RawMessage, leading_int, name_bytes
from rsmq_tui.protocol.kinds import Kind
from rsmq_tui.protocol.lists.naming import order_of
from rsmq_tui.tui.widgets.lines import cells_of, fitting
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Order

ROWS_MAX = 1_000
_NOW_MS = 1_000
# A queue of more messages is only read for another order if the user confirms it.
SORTED_AT_ONCE = 10_000
MATCH = "match"

_SortKey = tuple[float, bytes]


class MessageOrder(Order):
    """An order of messages by a column of their table."""

    __slots__ = ()

    @property
    def downwards(self) -> bool:
        """Whether the largest values come first: the oldest messages, most receives, longest bodies."""
        return (self.column not in ("due", "queue")) is not self.reverse

    @property
    def sign(self) -> int:
        """The factor for a value of the column in a sort key."""
        # The oldest messages were sent first.
        return -1 if self.downwards is not (self.column == "age") else 1

    def sort_key(self, row: MessageRow) -> _SortKey:
        """Return the sort key of a row; unknown values come last."""
        known = _VALUES[self.column](row)
        return float("inf") if known is None else self.sign * known, order_of(name_bytes(row.id))

    @property
    def words(self) -> str:
        """What comes first."""
        return f"{_FIRST[self.column][self.reverse]} first"


# The order in which queues keep their messages: any part of it can be read without reading the others.
DUE = MessageOrder("due")
# Which messages come first in the order by a column, and in the opposite one.
_FIRST = {
    "queue": ("first queue", "last queue"),
    "due": ("next due", "last due"),
    "age": ("oldest", "newest"),
    "rc": ("most received", "least received"),
    "size": ("largest", "smallest"),
}
_VALUES: Mapping[str, Callable[[MessageRow], float | None]] = {
    "due": lambda row: read_score(row.score)[0],
    "age": attrgetter("sent_ms"),
    "rc": attrgetter("rc"),
    "size": attrgetter("size"),
}


def orders_of(*kinds: Kind) -> tuple[str, ...]:
    """Return the columns that messages of these kinds can be sorted by."""
    return tuple(column for column in _VALUES if column != "rc" or any(kind.counts_receives for kind in kinds))


class SearchState(Enum):
    """The state of a search."""

    RUNNING = auto()
    STOPPED = auto()
    DONE = auto()
    FAILED = auto()


class Hits:
    """The first ``rows_max`` matches in an order; later ones are only counted, so that memory stays bounded.

    ``rows`` and ``keys`` stay the same objects until a row is added or changes. ``before`` has the earlier results of
    the same search, ``gone`` the ids of rows that have left the queue since, ``unknown`` those of items that were not
    found again, and ``error`` the reason of a failure. A repeated search keeps the error of the earlier one until the
    server has answered.
    """

    def __init__(
        self, wanted: Filter, before: "Hits | None" = None, order: MessageOrder = DUE, rows_max: int = ROWS_MAX
    ) -> None:
        self.wanted = wanted
        self.order = order
        self._rows_max = rows_max
        self.at_ms: int = 0
        self.error: str = "" if before is None else before.error
        self.before: Hits | None = None if before is None or not before.listed.at_ms else before.listed
        self.state = SearchState.RUNNING
        # The poll at which it started, or failed.
        self.asked_for_ms: int | None = None
        self.scanned = self.depth = self.matched = self.not_searched = self.restarts = 0
        self.rows: tuple[MessageRow, ...] = ()
        self.keys: tuple[str, ...] = ()
        self.gone: set[str] = set()
        self.unknown: set[str] = set()
        # The current rows, by the ids under which they were found.
        self._again: dict[str, MessageRow] = {}
        self._kept: list[_Kept] = []
        self._arranged = True

    def add(self, progress: SearchProgress) -> None:
        """Add the matches of one step of the search."""
        self.error = ""
        self.at_ms, self.depth = progress.at_ms, progress.depth
        self.scanned, self.matched = progress.scanned, progress.matched
        self.not_searched, self.restarts = progress.not_searched, progress.restarts
        if progress.messages:
            self._keep(progress)

    @property
    def number_kept(self) -> int:
        """How many matches ``rows`` has after ``arrange``."""
        return len(self._kept)

    def keep_first(self, number: int) -> None:
        """Keep only that many of the first matches."""
        del self._kept[number:]
        self._arranged = False

    def arrange(self) -> None:
        """Update ``rows`` and ``keys``."""
        if not self._arranged:
            self._arranged = True
            self.rows = tuple(self._again.get(each.row.id, each.row) for each in self._kept)
            self.keys = tuple(row.id for row in self.rows)

    def update_rows(self, again: RowsAgain) -> None:
        """Update some rows that were read again; the order stays, and rows that are gone stay listed."""
        self.arrange()
        for each, row in zip(self._kept, self.rows, strict=True):
            if (now := again.rows.get(row.id)) is not None:
                self._again[each.row.id] = now
        self.gone = (self.gone - again.rows.keys()) | {id for id, row in again.rows.items() if row is None}
        self.unknown = (self.unknown - again.rows.keys()) | again.unknown
        self._arranged = False
        keys = self.keys
        self.arrange()
        # The same object signals that the rows have not changed.
        self.keys = keys if keys == self.keys else self.keys

    def end(self, state: SearchState, error: str = "") -> None:
        """End the search; the first end counts. A stopped search that still has an error counts as failed."""
        if self.state is SearchState.RUNNING:
            is_as_failed = state is SearchState.STOPPED and self.error
            self.state, self.error = (SearchState.FAILED, self.error) if is_as_failed else (state, error)
        if self.state in (SearchState.STOPPED, SearchState.DONE):
            self.before = None

    @property
    def is_running(self) -> bool:
        """Whether more matches may be found."""
        return self.state is SearchState.RUNNING

    @property
    def is_stale(self) -> bool:
        """Whether the listed results could not be refreshed."""
        return bool(self.error and self.listed.at_ms)

    def is_of_now(self, now_ms: int) -> bool:
        """Return whether the results are less than a second old."""
        return now_ms - self.at_ms < _NOW_MS

    @property
    def listed(self) -> "Hits":
        """The results to list: the earlier ones until a repeated search has ended."""
        if self.before is not None and self.state in (SearchState.RUNNING, SearchState.FAILED):
            return self.before
        return self

    def _keep(self, progress: SearchProgress) -> None:
        """Keep the first matches; they may be found in the opposite order."""
        last = self._kept[-1].sort_key if len(self._kept) == self._rows_max else None
        sort_key = _sort_key_of(self.order, progress)
        found = [(sort_key(message), message) for message in progress.messages]
        belonging = [_Kept(key, message, progress) for key, message in found if last is None or key < last]
        if belonging:
            self._kept += belonging
            self._kept.sort(key=attrgetter("sort_key"))
            del self._kept[self._rows_max :]
            self._arranged = False


class _Kept:
    """A match among the first; its row is made on demand, because most are displaced by earlier matches before that."""

    __slots__ = ("_at", "_message", "_row", "sort_key")

    def __init__(self, sort_key: _SortKey, message: RawMessage, progress: SearchProgress) -> None:
        self.sort_key = sort_key
        self._row: MessageRow | None = None
        if progress.age is None:
            # Only the part of the body that is shown is kept.
            body = message.body and message.body[:PREVIEW_BYTES]
            self._at, self._message = progress.at_ms, message._replace(body=body)
        else:
            self._row = progress.row(message)

    @property
    def row(self) -> MessageRow:
        """The match as the table shows it."""
        if self._row is None:
            self._row = found_row(self._message, self._at)
        return self._row


def _sort_key_of(order: MessageOrder, progress: SearchProgress) -> Callable[[RawMessage], _SortKey]:
    """Return the sort key of an order; unknown values come last."""
    sent_at = sent_by_id if progress.age is None else sent_by(progress.age)
    values: dict[str, Callable[[RawMessage], float | None]] = {
        "due": lambda message: read_score(message.score.decode("latin-1"))[0],
        "age": lambda message: sent_at(message, progress.at_ms),
        "rc": lambda message: leading_int(message.rc) or 0,
        "size": lambda message: message.size,
    }
    value, sign = values[order.column], order.sign

    def sort_key(message: RawMessage) -> _SortKey:
        known = value(message)
        return float("inf") if known is None else sign * known, order_of(message.id)

    return sort_key


def search_pieces(
    hits: Hits, text: str, width: int, *, noun: str = MATCH, position: int, now_ms: int, refresh: str
) -> list[Piece]:
    """Return the filter, the cursor's ``position`` among the matches, and the progress, in at most ``width`` cells.

    The order, and the reasons why the results are incomplete, are left out last, and are shortened first. ``position``
    counts from 1; 0 if nothing is listed. ``refresh`` is the key that searches again.
    """
    counted = hits.listed if hits.error else hits
    number = counted.matched if counted.at_ms or not hits.error else None
    matched = matches(number) if noun == MATCH else f"{count(number)} {noun}"
    if position:
        matched = f"{count(position)} of {matched}"
    pieces: list[Piece] = []
    for is_short in (False, True):
        ranked: list[tuple[int, Piece]] = [(0, (matched, "strong"))]
        if hits.order != DUE:
            ranked.append((0, (f", {hits.order.words}", "muted")))
        if hits.listed.matched > ROWS_MAX:
            ranked.append((3, (f", first {count(ROWS_MAX)} shown", "muted")))
        if hits.not_searched:
            too_long = "too long" if is_short else "too long to search"
            ranked.append((0, (f" · {count(hits.not_searched)} {too_long}", "notice")))
        ranked += _state_words(hits, now_ms, refresh, is_short=is_short)
        if hits.restarts:
            ranked.append((1, (f" · {INCOMPLETE}", "notice")))
        pieces = fitting(ranked, width - 1)
        if cells_of(pieces) < width:
            break
    wanted = f"filter: {printable(text)}   " if text else ""
    room = width - 1 - cells_of(pieces)
    if cells_of([(wanted, "")]) > room:
        wanted = f"{printable(text, room - 3)}   " if text and room > 6 else ""
    return [(f" {wanted}", ""), *pieces]


def nothing_found(hits: Hits, refresh: str) -> str:
    """Return the text for a search that was stopped before it found anything; empty if it searched all.

    ``refresh`` is the key that searches all.
    """
    if hits.state is not SearchState.STOPPED:
        return ""
    if not hits.at_ms:
        return f"Nothing was searched: the search was stopped before the first reply. Press {refresh} to search."
    searched = f"{count(hits.scanned)} of {count(hits.depth)} messages searched"
    return f"No match in the {searched}. Press {refresh} to search all."


def _state_words(hits: Hits, now_ms: int, refresh: str, *, is_short: bool = False) -> list[tuple[int, Piece]]:
    """Return the progress of the search, or the age of its results: pieces with their ranks."""
    if hits.error:
        return [(0, (f" · ✗ {_staleness(hits.listed, now_ms)}{printable(hits.error, 200)}", "alarm"))]
    if hits.is_running:
        how_far = f"scanned {count(hits.scanned)} of {count(hits.depth)}" if hits.at_ms else "searching"
        return [(1, (f" · {how_far}", "muted")), (2, (" · esc stops", "muted"))]
    is_of_now, is_stopped = hits.is_of_now(now_ms), hits.state is SearchState.STOPPED
    age = "before the first reply"
    if hits.at_ms:
        age = "as of now" if is_of_now else f"{duration(now_ms - hits.at_ms)} old"
    token = "notice" if is_stopped else "muted"
    share = f"{hits.scanned / max(1, hits.depth):.0%}" if is_short else f"{count(hits.scanned)} of {count(hits.depth)}"
    stopped = f" · stopped at {share}" if is_stopped else ""
    refreshes = "" if is_of_now and not is_stopped else f" · {refresh} refreshes"
    return [(0, (stopped, token)), (2, (f"{',' if stopped else ' ·'} {age}", token)), (5, (refreshes, token))]


def _staleness(listed: Hits, now_ms: int) -> str:
    """Describe the age of the listed results, and the progress of an incomplete search; empty if nothing is listed."""
    if not listed.at_ms:
        return ""
    part = "" if listed.state is SearchState.DONE else f", at {count(listed.scanned)} of {count(listed.depth)}"
    return f"stale {max(0, now_ms - listed.at_ms) / 1000:.0f} s{part}: "
