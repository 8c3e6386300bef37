"""The messages that a change selects, the guard of each, and the numbers of a preview.

A selection may hold millions of messages: once they are many they are kept in a file, so memory stays flat.

A guard says what must still be true of a message when it is changed; otherwise it is left alone. A message that was
marked or named is changed if nobody has received or changed it since. A message that a filter selected is changed if it
is still in the queue and still matches, so a poison message that is received while the preview is read is still
changed. The server compares what can change (state, rc, due) in the same step as the change. A body, its size and its
id never change, and ages are compared when the batch is prepared.
"""

import asyncio
import marshal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from os import SEEK_END
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.filters.matching import Predicate, Term, predicate_of
from rsmq_tui.monitor.peek import MessageState, count_states
from rsmq_tui.monitor.reading import ScoreUnit, score_units
from rsmq_tui.monitor.text import plural, printable, size
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.protocol.rsmq.editor import QueueFields
from rsmq_tui.protocol.rsmq.edits import Comparison, Condition, Outcome
from rsmq_tui.protocol.rsmq.operations import raw_message
from rsmq_tui.triage.actions import (
    Action,
    Copy,
    CreateQueue,
    DeleteQueue,
    Fix,
    Hide,
    Import,
    MessageAction,
    Send,
    SetAttributes,
    Undo,
)
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.jsonl import FileSeen, file_seen, read_file

_IN_MEMORY_BYTES = 8_000_000
_LENGTH_BYTES = 8
# The fields of a message that are looked at here.
_ID, _SCORE, _RC, _SIZE, _BODY = map(RawMessage._fields.index, ("id", "score", "rc", "size", "body"))
# Bodies that were read while looking are kept up to this much; those of later messages are read again.
_BODIES_BYTES = 64_000_000


class Selection:
    """Messages of one queue in the order they were added; ``close`` frees the file.

    ``states`` counts them by what they were when seen, ``bytes`` sums the lengths of their bodies, and ``units`` counts
    those whose scores are not in ms. A message whose body is None has none, or is to be read before it is taken away.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 # it lives as long as this does
        self.clear()

    def clear(self) -> None:
        """Forget what was added."""
        self.count = 0
        self.bytes = 0
        self.at_ms = 0
        self.states = dict.fromkeys(MessageState, 0)
        self.units: Counter[ScoreUnit] = Counter()
        self._file.seek(0)
        self._file.truncate()

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Add messages that were read at that server time."""
        # A column for each field: half as long to keep, and to read again, as a row for each message.
        columns: list[Sequence[Any]] = list(zip(*messages, strict=True))
        if not columns:
            return
        self.at_ms = at_ms
        self.count += len(columns[0])
        self.bytes += sum(columns[_SIZE])
        if self.bytes > _BODIES_BYTES:
            del columns[_BODY]
        for state, count in count_states(columns[_SCORE], columns[_RC], at_ms, columns[_ID]).items():
            self.states[state] += count
        self.units.update(score_units(columns[_SCORE]))
        # Our own file, never anybody else's: marshal is the fastest way there and back.
        packed = marshal.dumps(columns)
        self._file.seek(0, SEEK_END)
        self._file.write(len(packed).to_bytes(_LENGTH_BYTES, "big"))
        self._file.write(packed)

    def chunks(self, messages: int, size: int) -> Iterator[list[RawMessage]]:
        """Walk through it in runs of at most that many messages and about that many bytes of bodies."""
        chunk: list[RawMessage] = []
        heavy = 0
        for block in self._blocks():
            start = 0
            while start < len(block):
                part = block[start : start + messages - len(chunk)]
                weight = sum([message.size for message in part])
                if heavy + weight > size:
                    # One by one; a message that is heavier than that comes alone.
                    part = part[:1]
                    weight = part[0].size
                if chunk and heavy + weight > size:
                    yield chunk
                    chunk, heavy = [], 0
                    continue
                chunk += part
                heavy += weight
                start += len(part)
                if len(chunk) == messages:
                    yield chunk
                    chunk, heavy = [], 0
        if chunk:
            yield chunk

    def __iter__(self) -> Iterator[RawMessage]:
        return chain.from_iterable(self._blocks())

    def _blocks(self, place: int = 0) -> Iterator[list[RawMessage]]:
        while True:
            self._file.seek(place)
            head = self._file.read(_LENGTH_BYTES)
            if not head:
                return
            packed = self._file.read(int.from_bytes(head, "big"))
            place += _LENGTH_BYTES + len(packed)
            columns = marshal.loads(packed)
            if len(columns) == _BODY:
                columns.append(repeat(None, len(columns[0])))
            yield list(map(raw_message, zip(*columns, strict=True)))

    def close(self) -> None:
        """Free the file."""
        self._file.close()


_CHANGING = ("state", "rc", "due")
_READY, _HIDDEN = Comparison("due", "<=", 0), Comparison("due", ">", 0)


@dataclass(frozen=True, slots=True)
class Guard:
    """Tells whether a message may still be changed.

    ``conditions`` are those that the server compares; None where a message must be as it was seen. ``ages`` tells
    whether the terms on age hold, None where there are none. ``sentence`` says it to people.
    """

    sentence: str
    conditions: tuple[Condition, ...] | None = None
    ages: Predicate | None = None
    _matches: Predicate | None = None

    def letter(self, seen: RawMessage, now: RawMessage | None, at_ms: int) -> Outcome:
        """Return what becomes of a message that was read again at that server time, ``DONE`` where it may change."""
        if now is None:
            return Outcome.GONE
        if self._matches is not None:
            return Outcome.DONE if self._matches(now, at_ms) else Outcome.UNMATCHED
        is_same = now.rc == seen.rc and float(now.score) == float(seen.score)
        return Outcome.DONE if is_same else Outcome.CHANGED


UNCHANGED = Guard("Messages changed since this preview are skipped and listed.")


SAME_MESSAGE = Guard(
    "Messages received since this preview are changed too; only what is gone is skipped.",
    conditions=(),
    _matches=lambda raw, at_ms: True,
)


def still_matching(wanted: Filter) -> Guard:
    """Return the guard of what a filter counted."""
    if wanted.is_empty:
        return SAME_MESSAGE
    changing = [term for term in wanted.terms if term.field in (*_CHANGING, "age")]
    ages = [term for term in changing if term.field == "age"]
    return Guard(
        "Each must still match when it is changed, also if received since this preview; others are skipped.",
        tuple(_condition(term, wanted.poison_rc) for term in changing if term.field != "age"),
        predicate_of(ages, wanted.poison_rc) if ages else None,
        predicate_of(changing, wanted.poison_rc),
    )


def _condition(term: Term, poison_rc: int) -> Condition:
    """Return what a term on state, rc or due wants; raises ValueError for any other."""
    match term:
        case Term(
            field="rc" | "due" as field, operator="=" | "!=" | "<" | "<=" | ">" | ">=" as operator, value=int(value)
        ):
            return Condition(((Comparison(field, operator, value),),), term.inverted)
        case Term(field="state", value=tuple(states)):
            groups = {
                "ready": (_READY,),
                "hidden": (_HIDDEN,),
                "inflight": (_HIDDEN, Comparison("rc", "!=", 0)),
                "delayed": (_HIDDEN, Comparison("rc", "=", 0)),
                "poison": (Comparison("rc", ">=", poison_rc),),
            }
            return Condition(tuple(groups[state] for state in states if state in groups), term.inverted)
    raise ValueError(f"no condition on {term.field}")


_BODY_SHOWN = 60


class Shown(NamedTuple):
    """A message as a screen or a list showed it: id, raw score, and receive count as a number."""

    id: str
    score: str
    rc: int


@dataclass(frozen=True, slots=True)
class Marked:
    """These messages, as they were shown; ``even_if_received``: whatever they are by now."""

    messages: tuple[Shown, ...]
    even_if_received: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """The messages of these ids, whatever they are by the time of the preview; ``even_if_received``: or after it."""

    ids: tuple[str, ...]
    even_if_received: bool = False


@dataclass(frozen=True, slots=True)
class Matching:
    """Every message of the queue that matches, or the ``limit`` of them that are due first; an empty filter is all.

    A release takes those due first of the hidden ones, for the others are visible. An export takes any so many; a
    change of a list queue those that are taken next, or with a filter any. ``even_if_received``: those that matched
    when they were counted, also if that is because nobody had received them yet.
    """

    filter: Filter
    limit: int | None = None
    even_if_received: bool = False


@dataclass(frozen=True, slots=True)
class Everything:
    """Every message of the queue."""


Scope = Marked | Named | Matching | Everything


@dataclass(frozen=True, slots=True)
class Preview:
    """A change that was not made yet; what was seen is in ``selection``, which ``close`` frees.

    ``count`` is how many messages (or queues) it is for, ``elsewhere`` how many of the marked ones have changed since
    they were shown, or of the named ones are not there, and are left out, ``unsearched`` how many could not be matched
    because their bodies are too long. ``notes`` are sentences that whoever decides should read. ``fields`` is what the
    queue was, and ``file`` which file was read, where the change is only for these. ``guard`` tells which messages are
    left alone; ``left_is_asked`` says that the ids of those that it leaves alone are wanted, to be offered again.
    ``changed`` counts those of ``elsewhere`` that are still in the queue, and ``wider`` is the scope that has them too.
    ``keep_days`` is how long the journal keeps it, None for that of a demo.
    """

    action: Action
    what: str
    server: str
    ns: str
    profile: str
    at_ms: int
    count: int
    selection: Selection | None = None
    elsewhere: int = 0
    unsearched: int = 0
    keep_days: int | None = 7
    notes: tuple[str, ...] = ()
    fields: QueueFields | None = None
    file: FileSeen | None = None
    guard: Guard = UNCHANGED
    left_is_asked: bool = False
    changed: int = 0
    wider: Marked | None = None

    @property
    def title(self) -> str:
        """What would be done, as a headline."""
        return f"{self.action.verb} {self.object}"

    @property
    def object(self) -> str:
        """What it would be done to: a number of messages, or a queue."""
        action = self.action
        if isinstance(action, CreateQueue | SetAttributes | Fix):
            return f"queue {action.queue}"
        if isinstance(action, DeleteQueue):
            return f"{action.queue} and its {plural(self.count - 1, 'message')}"
        if isinstance(action, Undo):
            return action.summary
        if isinstance(action, Send):
            return plural(len(action.bodies), "message")
        return plural(self.count, "message")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """What people should read before they decide, as (label, words)."""
        server = f"{self.server}, ns {self.ns}" if kind_of(self.ns).has_namespaces else self.server
        where = f"{self.profile} ({server})" if self.profile else server
        action = self.action
        rows = [("in" if not isinstance(action, MessageAction) else "from", f"{action.queue} on {where}")]
        target = action.to if isinstance(action, MessageAction) else None
        if target is not None:
            rows.append(("to", target))
        rows.append(("that", self.what))
        if (body := self._only_body()) is not None:
            rows.append(("body", body))
        if isinstance(action, Hide):
            rows.append(("for", f"{action.seconds:,} s from now"))
        if isinstance(action, Send) and action.delay_s is not None:
            rows.append(("after", f"{action.delay_s:,} s"))
        if self.selection is not None:
            rows.append(("now", _now(self.selection.states)))
        if self.count and not isinstance(action, Undo):
            rows.append(("undo", self._undo()))
        return tuple(rows)

    def close(self) -> None:
        """Free what was seen."""
        if self.selection is not None:
            self.selection.close()

    def _only_body(self) -> str | None:
        """Return the start of the body where it is for one message: with it people know that it is the right one."""
        only = next(iter(self.selection), None) if self.selection is not None and self.count == 1 else None
        body = None if only is None else only.body
        return None if body is None else printable(body[:_BODY_SHOWN].decode("utf-8", "replace"), _BODY_SHOWN)

    def _undo(self) -> str:
        # Other programs have their own journal, not that of a demo.
        by = "u" if self.keep_days is None else "u, or rsmq-tui undo"
        if isinstance(self.action, Copy | Send):
            return f"removes them again, except for those received meanwhile ({by})"
        if self.selection is None:
            return by
        if self.keep_days is None:
            return f"kept until the demo ends ({by})"
        return f"kept in the journal for {plural(self.keep_days, 'day')} ({by})"


def _now(states: Mapping[MessageState, int]) -> str:
    told = " · ".join(f"{count:,} {state}" for state, count in states.items() if count) or "nothing"
    if states[MessageState.IN_FLIGHT]:
        told += f" (a consumer may be working on {'it' if states[MessageState.IN_FLIGHT] == 1 else 'them'})"
    return told


_COUNTED_AT_ONCE = 500
# What the journal needs for a message besides its body.
_OVERHEAD_BYTES = 200


class Seeing(NamedTuple):
    """How far a look has come: messages scanned of about ``depth``, and how many of them match."""

    scanned: int
    depth: int
    matched: int


SeeingCallback = Callable[[Seeing], None]


def what_of(action: Action, scope: Scope | None) -> str:
    """Say which messages a scope means."""
    match scope:
        case Marked(messages=messages):
            return f"the message {messages[0].id}" if len(messages) == 1 else f"the {len(messages):,} marked messages"
        case Named(ids=ids):
            return f"the message {ids[0]}" if len(ids) == 1 else f"the {len(ids):,} messages with these ids"
        case Matching(filter=wanted, limit=limit) if wanted.text.strip():
            first = f"any {limit:,} that " if limit is not None else ""
            return f"{first}match {wanted.text}, in the whole queue"
        case Matching(limit=limit) if limit is not None:
            return f"any {plural(limit, 'message')} of the queue"
    return "every message of the queue" if isinstance(action, MessageAction) else action.queue


async def preview_of_sending(base: Preview, seeing: SeeingCallback) -> Preview:
    """Fill in what is sent: bodies, or the messages of a file, all of which can be read.

    Raises ``TriageError`` where there are none, and OSError.
    """
    match base.action:
        case Send(bodies=bodies):
            if not bodies:
                raise TriageError("nothing to send: give a body")
            return replace(base, count=len(bodies), what=f"{size(sum(map(len, bodies)))} in all")
        case Import(path=path):
            seen = file_seen(await asyncio.to_thread(path.stat))
            messages, count = read_file(path, seen), 0
            while found := await asyncio.to_thread(lambda: sum(1 for _ in islice(messages, _COUNTED_AT_ONCE))):
                count += found
                seeing(Seeing(count, count, count))
            if not count:
                raise TriageError(f"{path} has no messages")
            return replace(base, count=count, what=printable(f"from {path}"), file=seen)
    return base


def check_room(limit_bytes: int, selection: Selection, bodies: int) -> None:
    """Raise ``TriageError`` where a journal of that limit cannot hold what a change would write, with those bodies."""
    wanted = bodies + _OVERHEAD_BYTES * selection.count
    if wanted > limit_bytes:
        raise TriageError(
            f"the journal would need {size(wanted)} for {plural(selection.count, 'message')}, and holds at most "
            f"{size(limit_bytes)}: change fewer at a time, or raise RSMQ_TUI_JOURNAL_MB"
        )
