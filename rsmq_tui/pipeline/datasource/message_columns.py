"""From messages as their keys hold them to columns: whole columns at once where all is as usual, and one by one else.

Usual is what every client in use writes: canonical ids, scores in ms, counts that are plain numbers. Both ways give the
same values, which are those of ``rsmq_tui.history.rows``.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.columns import array_of
from rsmq_tui.history.names import stored_name
from rsmq_tui.monitor.reading import read_score
from rsmq_tui.monitor.states import MessageState, state_of
from rsmq_tui.protocol import MICROSECONDS_FROM, SECONDS_BELOW, leading_int, name_of, sent_ms
from rsmq_tui.protocol.ids import EARLIEST_MS, SLACK_MS

_LONG, _TEXT, _RAW = pa.int64(), pa.string(), pa.binary()
# Made once: Arrow looks for numpy each time that it is given a plain number.
_ZERO, _THOUSAND = pa.scalar(0, _LONG), pa.scalar(1000, _LONG)
_STATES = {state: pa.scalar(str(state), _TEXT) for state in MessageState}
# An id of 32 characters that begins with a time; what is all hexadecimal carries none.
_ID_LENGTH, _TIME_LENGTH = 32, 10
_TIMED_IDS = re.compile(rb"(?:[0-9a-z]{10}[0-9a-zA-Z:]{22})*")
_HEXADECIMAL = "^[0-9a-f]{32}$"
# What ``leading_int`` reads whole.
_DIGITS_MAX = 18


class MessageColumns:
    """Some messages of one queue, found at one time each, and the columns of a table that are made of them."""

    def __init__(self, at_ms: Sequence[int], columns: Sequence[Sequence[Any]]) -> None:
        self.ids, self.scores, self.rcs, self.frs, self.sizes, self.bodies = columns
        self._at_ms = at_ms
        self._made: dict[str, pa.Array] = {}
        self._numbers: dict[str, pa.Array | None] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> pa.Array:
        """Return one column."""
        if name not in self._made:
            self._made[name] = _MAKERS[name](self)
        return self._made[name]

    def _plain(self, what: str, raw: Sequence[bytes | None]) -> pa.Array | None:
        if what not in self._numbers:
            self._numbers[what] = _plain_numbers(raw)
        return self._numbers[what]

    def _make_at_ms(self) -> pa.Array:
        return pa.array(self._at_ms, _LONG)

    def _make_id(self) -> pa.Array:
        joined = b"".join(self.ids)
        if joined.isascii() and b"\\" not in joined:
            return pa.array(self.ids, _RAW).cast(_TEXT)
        return pa.array([stored_name(name_of(id)) for id in self.ids], _TEXT)

    def _make_sent_ms(self) -> pa.Array:
        usual = self._usual_sent_ms()
        if usual is not None:
            return usual
        moments = zip(self.ids, self._at_ms, strict=True)
        return array_of([sent_ms(name_of(id), now_ms=at_ms) for id, at_ms in moments], _LONG)

    def _usual_sent_ms(self) -> pa.Array | None:
        joined = b"".join(self.ids)
        if set(map(len, self.ids)) != {_ID_LENGTH} or _TIMED_IDS.fullmatch(joined) is None:
            return None
        raw = pa.array(self.ids, _RAW)
        if pc.any(pc.match_substring_regex(raw.cast(_TEXT), _HEXADECIMAL)).as_py():
            return None
        found = pc.divide(pa.array([int(id[:_TIME_LENGTH], 36) for id in self.ids], _LONG), _THOUSAND)
        earliest, latest = pc.min_max(found).values()
        is_plausible = earliest.as_py() >= EARLIEST_MS and latest.as_py() <= min(self._at_ms) + SLACK_MS
        return found if is_plausible else None

    def _make_due_ms(self) -> pa.Array:
        usual = self._usual_due_ms()
        if usual is not None:
            return usual
        return array_of([read_score(score.decode("latin-1"))[0] for score in self.scores], _LONG)

    def _usual_due_ms(self) -> pa.Array | None:
        found = self._plain("score", self.scores)
        if found is None:
            return None
        lowest, highest = (bound.as_py() for bound in pc.min_max(found).values())
        return found if lowest >= SECONDS_BELOW and highest < MICROSECONDS_FROM else None

    def _make_rc(self) -> pa.Array:
        usual = self._plain("rc", self.rcs)
        if usual is not None:
            return pc.fill_null(usual, _ZERO)
        return array_of([0 if rc is None else leading_int(rc) for rc in self.rcs], _LONG)

    def _make_fr_ms(self) -> pa.Array:
        usual = self._plain("fr", self.frs)
        return array_of([leading_int(fr) for fr in self.frs], _LONG) if usual is None else usual

    def _make_state(self) -> pa.Array:
        due_ms, rc = self._usual_due_ms(), self._plain("rc", self.rcs)
        if due_ms is None or rc is None:
            moments = zip(self.scores, self.rcs, self._at_ms, strict=True)
            return pa.array([str(state_of(*moment)) for moment in moments], _TEXT)
        was_received = pc.not_equal(pc.fill_null(rc, _ZERO), _ZERO)
        hidden = pc.if_else(was_received, _STATES[MessageState.IN_FLIGHT], _STATES[MessageState.DELAYED])
        is_ready = pc.less_equal(due_ms, self.column("at_ms"))
        return pc.if_else(is_ready, _STATES[MessageState.READY], hidden)

    def _make_size(self) -> pa.Array:
        return pa.array(self.sizes, _LONG)

    def _make_body(self) -> pa.Array:
        return pa.array(self.bodies, _RAW)


def _plain_numbers(raw: Sequence[bytes | None]) -> pa.Array | None:
    """Read numbers that are written plainly, or None where one of them is not; what is absent stays null."""
    texts = pa.array(raw, _RAW)
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _LONG)
    # Arrow also reads hexadecimal ones.
    if not b"".join(filter(None, raw)).isdigit() or pc.max(pc.binary_length(texts)).as_py() > _DIGITS_MAX:
        return None
    try:
        return texts.cast(_TEXT).cast(_LONG)
    except pa.ArrowInvalid:
        return None


_MAKERS: dict[str, Callable[[MessageColumns], pa.Array]] = {
    name: getattr(MessageColumns, f"_make_{name}")
    for name in ("at_ms", "id", "sent_ms", "due_ms", "rc", "fr_ms", "state", "size", "body")
}
