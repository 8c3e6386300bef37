"""The messages that a change selects, the guard of each, and the numbers of a preview.

A selection may hold millions of messages: a large one is stored in a temporary file, so memory use stays low.
Only a change from RSMQ to a list holds all of it in memory, to sort it.

A guard is a condition that a message must still meet when it is changed; otherwise it is skipped. A marked or named
message must not have been received or changed since. A message that a filter selected must still be in the queue and
still match, so a poison message that is received during the preview is still changed. The server compares what can
change (state, rc, due) atomically with the change. A message's body, size and id never change; ages are compared when
the batch is prepared.
"""

import asyncio
import marshal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from os import SEEK_END
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from rsmq_tui.monitor.filters.language import Filter, parse_filter
from rsmq_tui.monitor.filters.matching import Predicate, Term
from rsmq_tui.monitor.messages.peek import MessageState, count_states
from rsmq_tui.monitor.messages.reading import ScoreUnit, score_units
from rsmq_tui.monitor.text import plural, printable, size
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.rsmq.editor import QueueFields
from rsmq_tui.protocol.rsmq.edits import Comparison, EditCondition
from rsmq_tui.protocol.rsmq.operations import Messages
from rsmq_tui.triage import actions
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.jsonl import FileSeen, file_seen, read_file

_IN_MEMORY_BYTES = 8_000_000
_LENGTH_BYTES = 8
_ID, _SCORE, _RC, _SIZE, _BODY = map(RawMessage._fields.index, ("id", "score", "rc", "size", "body"))
# A selection stores bodies up to this total; the bodies of later messages are read again.
_BODIES_BYTES = 64_000_000
_NONE = Messages.of(())


class Selection:
    """Messages of one queue, in the order they were added; ``close`` frees the file.

    ``states`` counts them by their state when read, ``bytes`` is the total length of their bodies, and ``units`` counts
    those whose scores are not in ms. A message whose body is None has none, or its body must be read before removal.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 # it lives as long as this does
        self.clear()

    def clear(self) -> None:
        """Remove all messages."""
        self.count = 0
        self.bytes = 0
        self.at_ms = 0
        self.states = dict.fromkeys(MessageState, 0)
        self.units: Counter[ScoreUnit] = Counter()
        self._file.seek(0)
        self._file.truncate()

    def add(self, messages: Iterable[RawMessage], at_ms: int) -> None:
        """Add messages that were read at that server time."""
        added = Messages.of(messages)
        if not added:
            return
        # Columns take half the time of rows, to write and to read.
        columns = list(added.columns)
        self.at_ms = at_ms
        self.count += len(added)
        self.bytes += sum(columns[_SIZE])
        if self.bytes > _BODIES_BYTES:
            del columns[_BODY]
        for state, count in count_states(columns[_SCORE], columns[_RC], at_ms, columns[_ID]).items():
            self.states[state] += count
        self.units.update(score_units(columns[_SCORE]))
        # Only this process reads the file, so marshal is safe; it is the fastest format.
        packed = marshal.dumps(columns)
        self._file.seek(0, SEEK_END)
        self._file.write(len(packed).to_bytes(_LENGTH_BYTES, "big"))
        self._file.write(packed)

    def chunks(self, messages_max: int, bytes_max: int) -> Iterator[Messages]:
        """Yield the messages in chunks of at most ``messages_max``, with bodies of at most ``bytes_max`` together.

        A message with a longer body is a chunk of its own.
        """
        chunk, chunk_bytes = _NONE, 0
        for block in self._blocks():
            start = 0
            while start < len(block):
                part = block[start : start + messages_max - len(chunk)]
                part_bytes = sum(part.sizes)
                if chunk_bytes + part_bytes > bytes_max:
                    # Continue one by one, since the whole part does not fit.
                    part = part[:1]
                    part_bytes = sum(part.sizes)
                if chunk and chunk_bytes + part_bytes > bytes_max:
                    yield chunk
                    chunk, chunk_bytes = _NONE, 0
                    continue
                chunk += part
                chunk_bytes += part_bytes
                start += len(part)
                if len(chunk) == messages_max:
                    yield chunk
                    chunk, chunk_bytes = _NONE, 0
        if chunk:
            yield chunk

    def __iter__(self) -> Iterator[RawMessage]:
        return chain.from_iterable(self._blocks())

    def _blocks(self, place: int = 0) -> Iterator[Messages]:
        while True:
            self._file.seek(place)
            head = self._file.read(_LENGTH_BYTES)
            if not head:
                return
            packed = self._file.read(int.from_bytes(head, "big"))
            place += _LENGTH_BYTES + len(packed)
            columns = marshal.loads(packed)
            if len(columns) == _BODY:
                columns.append([None] * len(columns[0]))
            yield Messages(columns)

    def close(self) -> None:
        """Free the file."""
        self._file.close()


_CHANGING = ("state", "rc", "due")
_READY, _HIDDEN = Comparison("due", "<=", 0), Comparison("due", ">", 0)


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition that a message must still meet when it is changed.

    The server compares ``conditions``; None means that a message must be unchanged. ``ages`` tests the terms on age,
    None if there are none. ``sentence`` explains the guard in a preview.
    """

    sentence: str
    conditions: tuple[EditCondition, ...] | None = None
    ages: Predicate | None = None
    _matches: Predicate | None = None

    def letter(self, seen: RawMessage, now: RawMessage | None, at_ms: int) -> Outcome:
        """Return the outcome of a message that was read again at that server time; ``DONE`` if it may be changed."""
        if now is None:
            return Outcome.GONE
        if self._matches is not None:
            return Outcome.DONE if self._matches(now, at_ms) else Outcome.UNMATCHED
        is_same = now.rc == seen.rc and float(now.score) == float(seen.score)
        return Outcome.DONE if is_same else Outcome.CHANGED


UNCHANGED = Guard("Messages changed since this preview are skipped and counted.")


SAME_MESSAGE = Guard(
    "Messages received since this preview are changed too; only what is gone is skipped.",
    conditions=(),
    _matches=lambda raw, at_ms: True,
)


def still_matching(wanted: Filter) -> Guard:
    """Return the guard of messages that a filter selected."""
    if wanted.is_empty:
        return SAME_MESSAGE
    changing = [term for term in wanted.terms if term.field in (*_CHANGING, "age")]
    ages = [term for term in changing if term.field == "age"]
    return Guard(
        "Each must still match when it is changed, also if received since this preview; others are skipped.",
        tuple(_condition(term, wanted.poison_rc) for term in changing if term.field != "age"),
        replace(wanted, terms=tuple(ages)).predicate() if ages else None,
        replace(wanted, terms=tuple(changing)).predicate(),
    )


def _condition(term: Term, poison_rc: int) -> EditCondition:
    """Return the condition for a term on state, rc or due; raises ValueError for any other."""
    match term:
        case Term(
            field="rc" | "due" as field, operator="=" | "!=" | "<" | "<=" | ">" | ">=" as operator, value=int(value)
        ):
            return EditCondition(((Comparison(field, operator, value),),), term.inverted)
        case Term(field="state", value=tuple(states)):
            groups = {
                "ready": (_READY,),
                "hidden": (_HIDDEN,),
                "inflight": (_HIDDEN, Comparison("rc", "!=", 0)),
                "delayed": (_HIDDEN, Comparison("rc", "=", 0)),
                "poison": (Comparison("rc", ">=", poison_rc),),
            }
            return EditCondition(tuple(groups[state] for state in states if state in groups), term.inverted)
    raise ValueError(f"no condition on {term.field}")


_BODY_SHOWN = 60
# How many bodies a preview shows, and what it keeps of each: a character has up to 4 bytes.
BODIES_SHOWN = 3
_SHOWN_BYTES = 4 * _BODY_SHOWN


def starts_of(bodies: Iterable[bytes | None]) -> tuple[bytes, ...]:
    """Return what a preview keeps of bodies: previews of many queues may be in memory."""
    return tuple(body[:_SHOWN_BYTES] for body in bodies if body is not None)


class Shown(NamedTuple):
    """A message as a screen showed it: id, raw score, and receive count."""

    id: str
    score: str
    rc: int


@dataclass(frozen=True, slots=True)
class Marked:
    """These messages if unchanged since they were shown, or in any state with ``even_if_received``."""

    messages: tuple[Shown, ...]
    even_if_received: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """The messages with these ids, in any state at the preview; with ``even_if_received``, in any state later too."""

    ids: tuple[str, ...]
    even_if_received: bool = False


@dataclass(frozen=True, slots=True)
class Matching:
    """Every message that matches, or the first ``limit`` of them by due time; an empty filter matches all.

    A release selects the first hidden ones. A change of a list queue selects those that are taken next, or any with a
    filter. With ``even_if_received``, messages that matched at the preview are changed even if they no longer match;
    with ``if_unchanged``, only those that were neither received nor changed since.
    """

    filter: Filter
    limit: int | None = None
    even_if_received: bool = False
    if_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Everything:
    """Every message of the queue."""


Scope = Marked | Named | Matching | Everything


def if_unchanged(scope: Scope) -> Scope:
    """Return a scope whose messages are changed only if they were neither received nor changed since the preview.

    One that includes received messages on purpose stays as it is.
    """
    match scope:
        case Everything():
            return Matching(parse_filter(""), if_unchanged=True)
        case Matching():
            return replace(scope, if_unchanged=True)
    return scope


@dataclass(frozen=True, slots=True)
class Preview:
    """A change before it is made; ``selection`` has its messages, and ``close`` frees it.

    ``scope`` is what it was asked for, and ``count`` how many messages (or queues) it applies to. ``elsewhere`` is how
    many are left out because they have changed since they were marked, or were named and do not exist; ``unsearched``
    is how many could not be matched because their bodies are too long. ``notes`` are sentences for the user. ``fields``
    are the queue's attributes, and ``file`` identifies the imported file, at the time of the preview. ``guard`` says
    which messages are skipped; with ``collects_changed``, the report has the ids of those that have changed, so that
    the user can retry them. ``changed`` counts those of ``elsewhere`` that are still in the queue, and ``wider`` is a
    scope that includes them. ``keep_days`` is how long the journal keeps the change, None for a demo. ``bodies`` are
    the starts of those of some messages that it applies to.
    """

    action: actions.Action
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
    collects_changed: bool = False
    changed: int = 0
    wider: Marked | None = None
    bodies: tuple[bytes, ...] = ()
    scope: Scope | None = None

    @property
    def title(self) -> str:
        """The title of the preview: the action and its count."""
        return self.action.title(self.count, self.unleased)

    @property
    def unleased(self) -> int:
        """How many of its messages are in processing without a lease."""
        return 0 if self.selection is None else self.selection.states[MessageState.UNLEASED]

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The lines of the preview, as (label, text), without a key of the dashboard."""
        return self.rows_with("")

    def rows_with(self, undo_key: str) -> tuple[tuple[str, str], ...]:
        """Return the lines of the preview, as (label, text); ``undo_key`` undoes in the dashboard."""
        action = self.action
        leaves = action.takes_away or action.moves_away or action.to is not None
        rows = [("from" if leaves else "in", f"{action.queue} on {self.where}")]
        if action.to is not None:
            rows.append(("to", action.to))
        rows.append(("that", self.what))
        rows += self._bodies()
        rows += action.details
        if self.selection is not None:
            rows.append(("now", _now(self.selection.states)))
        if self.count and not isinstance(action, actions.Undo):
            rows.append(("undo", self._undo(undo_key)))
        return tuple(rows)

    @property
    def where(self) -> str:
        """The server with its profile, and the namespace if the kind has some."""
        server = f"{self.server}, ns {self.ns}" if kind_of(self.ns).has_namespaces else self.server
        return f"{self.profile} ({server})" if self.profile else server

    def close(self) -> None:
        """Free the selection."""
        if self.selection is not None:
            self.selection.close()

    def _bodies(self) -> list[tuple[str, str]]:
        """Return the starts of some bodies, so that the user can recognize what the change applies to."""
        bodies = self.action.bodies[:BODIES_SHOWN] if isinstance(self.action, actions.Send) else self.bodies
        rows = [printable(body[:_SHOWN_BYTES].decode("utf-8", "replace"), _BODY_SHOWN) for body in bodies]
        # The count of a deletion of a queue includes the queue.
        others = self.count - len(rows) - self.action.counts_queue
        if rows and others > 0:
            rows.append(f"and {plural(others, 'more message')}")
        labels = ["body" if self.count == 1 else "bodies", *[""] * BODIES_SHOWN]
        return list(zip(labels, rows, strict=False))

    def _undo(self, key: str) -> str:
        # `rsmq-tui undo` cannot reach the journal of a demo.
        by = ", or ".join(filter(None, (key, "" if self.keep_days is None else "rsmq-tui undo")))
        if self.action.inverse is actions.REMOVE and not isinstance(self.action, actions.QueueAction):
            return f"removes them again, except for those received meanwhile ({by})"
        if self.selection is None:
            return by
        if self.keep_days is None:
            return f"kept until the demo ends ({by})"
        return f"kept in the journal for {plural(self.keep_days, 'day')} ({by})"


def _now(states: Mapping[MessageState, int]) -> str:
    words = " · ".join(f"{count:,} {state}" for state, count in states.items() if count) or "nothing"
    # Consumers that give no leases work on items without one.
    working = states[MessageState.IN_FLIGHT] + states[MessageState.UNLEASED]
    if working:
        words += f" (a consumer may be working on {'it' if working == 1 else 'them'})"
    return words


_COUNTED_AT_ONCE = 500
# The size of a message in the journal, without its body.
_OVERHEAD_BYTES = 200


class ScanProgress(NamedTuple):
    """The progress of a scan: messages scanned of about ``depth``, and how many of them match."""

    scanned: int
    depth: int
    matched: int


ScanCallback = Callable[[ScanProgress], None]


def what_of(action: actions.Action, scope: Scope | None) -> str:
    """Describe the messages of a scope, for people."""
    match scope:
        case Marked(messages=messages):
            return f"the message {messages[0].id}" if len(messages) == 1 else f"the {len(messages):,} marked messages"
        case Named(ids=ids):
            return f"the message {ids[0]}" if len(ids) == 1 else f"the {len(ids):,} messages with these ids"
        case Matching(filter=wanted, limit=limit) if wanted.text.strip():
            first = f"the first {limit:,} that " if limit is not None else ""
            return f"{first}match {wanted.text}, in the whole queue"
        case Matching(limit=limit) if limit is not None:
            return f"the {plural(limit, 'message')} that would be taken next"
    if action.counts_queue:
        return "the queue and every message of it"
    return "every message of the queue" if isinstance(action, actions.MessageAction) else action.queue


async def preview_of_sending(base: Preview, on_progress: ScanCallback) -> Preview:
    """Return ``base``, completed with what is sent: bodies, or the messages of a file, which is read to its end.

    Raises ``TriageError`` if there is nothing to send or a line is invalid, and OSError.
    """
    match base.action:
        case actions.Send(bodies=bodies):
            if not bodies:
                raise TriageError("nothing to send: give a body")
            return replace(base, count=len(bodies), what=f"{size(sum(map(len, bodies)))} in all")
        case actions.Import(path=path):
            seen = file_seen(await asyncio.to_thread(path.stat))
            messages, count = read_file(path, seen), 0
            while found := await asyncio.to_thread(lambda: sum(1 for _ in islice(messages, _COUNTED_AT_ONCE))):
                count += found
                on_progress(ScanProgress(count, count, count))
            if not count:
                raise TriageError(f"{path} has no messages")
            return replace(base, count=count, what=printable(f"from {path}"), file=seen)
    return base


def check_room(limit_bytes: int, action: actions.Action, *selections: Selection) -> None:
    """Raise ``TriageError`` if a change of these messages would exceed the journal's limit.

    The journal keeps the bodies of messages that the action removes.
    """
    messages = sum(selection.count for selection in selections)
    bodies = sum(selection.bytes for selection in selections) if action.takes_away else 0
    wanted = bodies + _OVERHEAD_BYTES * messages
    if wanted > limit_bytes:
        raise TriageError(
            f"the journal would need {size(wanted)} for {plural(messages, 'message')}, and holds at most "
            f"{size(limit_bytes)}: change fewer at a time, or raise RSMQ_TUI_JOURNAL_MB"
        )
