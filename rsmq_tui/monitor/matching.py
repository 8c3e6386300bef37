"""Matching messages: a filter's terms made into one function, which tries what costs least first."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rsmq_tui.monitor.body_search import BodySearch, holds_text, search_for_text
from rsmq_tui.monitor.json_paths import Absent, JsonPath, load, value_at, value_text
from rsmq_tui.monitor.reading import read_score
from rsmq_tui.monitor.regexes import compile_regex
from rsmq_tui.monitor.states import MessageState, item_state, place_of
from rsmq_tui.protocol import RawMessage, ReadField, leading_int, name_bytes, name_of, sent_ms

Predicate = Callable[[RawMessage, int], bool]
Searched = Callable[[RawMessage, int], bool]
# Which of some messages match at that server time, by their places.
Matches = Callable[[Sequence[RawMessage], int], list[int]]
# When a message was sent, in ms, at that server time; None where nothing tells.
SentAt = Callable[[RawMessage, int], int | None]
_OnBody = Callable[[bytes], bool]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_COST = {"size": 0, "rc": 1, "state": 2, "due": 2, "id": 2, "age": 3, "body": 4, "json": 5}
# The states that messages are in whatever their receive count is, and what those of list items are called.
_COUNTLESS_STATES = {"ready", "hidden", "expired", "unleased"}
_ITEM_STATES = {
    MessageState.READY: {"ready"},
    MessageState.IN_FLIGHT: {"hidden", "inflight"},
    MessageState.EXPIRED: {"hidden", "expired"},
    MessageState.UNLEASED: {"hidden", "unleased"},
}
# To decode and to fold a text; to parse JSON of nothing but brackets, and to write it out again.
_TEXT_NS_PER_BYTE = 20
_JSON_NS_PER_BYTE = 120
_JSON_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")
_JSON_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: spans are in ms, sizes in bytes, states a tuple; ``operator`` is empty where a place must exist.

    ``is_quoted`` tells a JSON value that can only be a string.
    """

    field: str
    operator: str
    value: str | int | tuple[str, ...] = ""
    path: JsonPath = ()
    is_quoted: bool = False
    inverted: bool = False

    @property
    def needs_counts(self) -> bool:
        """True when it asks for the receive count."""
        states = self.value if self.field == "state" and isinstance(self.value, tuple) else ()
        return self.field == "rc" or not _COUNTLESS_STATES.issuperset(states)

    @property
    def needs_body(self) -> bool:
        """True when it asks for the body."""
        return self.field in ("body", "json")

    @property
    def ns_per_byte(self) -> int:
        """What a byte of a body may cost at worst, in ns, when it is matched."""
        if not self.needs_body:
            return 0
        costs = _JSON_NS_PER_BYTE if self.field == "json" else _TEXT_NS_PER_BYTE
        return costs + (compile_regex(str(self.value)).ns_per_byte if self.operator == "~" else 0)

    def needs(self, *, ages_in_bodies: bool = False) -> frozenset[ReadField]:
        """What of a message must have been read to tell whether it holds, besides its id and score.

        ``ages_in_bodies`` says that bodies tell when they were made.
        """
        in_body = self.needs_body or (ages_in_bodies and self.field == "age")
        told: dict[ReadField, bool] = {"counts": self.needs_counts, "size": self.field == "size", "body": in_body}
        return frozenset(field for field, is_needed in told.items() if is_needed)


def sent_by_id(raw: RawMessage, at_ms: int) -> int | None:
    """Return when a message was sent, as its id tells."""
    return sent_ms(name_of(raw.id), now_ms=at_ms)


def predicate_of(terms: Sequence[Term], poison_rc: int, sent_at: SentAt | None = None) -> Predicate:
    """Return what tells whether all terms hold; ``sent_at`` tells by bodies when messages were sent."""
    tests = _tests(terms, poison_rc, sent_at or sent_by_id)
    if sent_at is not None and any(term.field == "age" for term in terms):
        # Of a body that is too long to be read, nobody knows whether it is old, nor whether it is not.
        tests.insert(0, lambda raw, at_ms: raw.body is not None or raw.size == 0)
    if not tests:
        return lambda raw, at_ms: True
    if len(tests) == 1:
        return tests[0]

    return lambda raw, at_ms: all(test(raw, at_ms) for test in tests)


def body_search_of(terms: Sequence[Term]) -> BodySearch | None:
    """Return what tells which of some bodies match, where the terms want nothing else of a message, or None.

    A search through a million bodies is made of nothing else: bytes that are ASCII are searched as they are.
    """
    if len(terms) != 1 or terms[0].inverted or terms[0].field != "body":
        return None
    text = str(terms[0].value)
    return search_for_text(text) if terms[0].operator == ":" else compile_regex(text).places


def matches_of(terms: Sequence[Term], poison_rc: int, sent_at: SentAt | None = None) -> Matches:
    """Return what tells which of some messages match all terms, as ``predicate_of``: regexes see their bodies at once.

    To try a regex on one body costs more than most bodies take to be searched.
    """
    regexes = [term for term in terms if term.field == "body" and term.operator == "~" and not term.inverted]
    others = predicate_of([term for term in terms if term not in regexes], poison_rc, sent_at)
    searches = [compile_regex(str(term.value)).places for term in regexes]

    def matches(messages: Sequence[RawMessage], at_ms: int) -> list[int]:
        places = [place for place, message in enumerate(messages) if others(message, at_ms)]
        for search in searches:
            found = search([messages[place].body for place in places])
            places = [places[each] for each in found]
        return places

    return matches


def searched_of(terms: Sequence[Term], poison_rc: int, *, ages_in_bodies: bool = False) -> Searched:
    """Return what tells whether the terms could be decided on without a body that is too long to be read."""
    others = [term for term in terms if "body" not in term.needs(ages_in_bodies=ages_in_bodies)]
    if len(others) == len(terms):
        return lambda raw, at_ms: True
    without_bodies = predicate_of(others, poison_rc)
    return lambda raw, at_ms: raw.body is not None or raw.size == 0 or not without_bodies(raw, at_ms)


def _tests(terms: Sequence[Term], poison_rc: int, sent_at: SentAt) -> list[Predicate]:
    document = _Document()
    return [
        _on_body(term, document) if term.needs_body else _inverted(_test(term, poison_rc, sent_at), term.inverted)
        for term in sorted(terms, key=lambda term: _COST[term.field])
    ]


def _inverted(test: Predicate, inverted: bool) -> Predicate:
    return (lambda raw, at_ms: not test(raw, at_ms)) if inverted else test


def _on_body(term: Term, document: "_Document") -> Predicate:
    inverted, test = term.inverted, _body_test(term, document)

    def holds(raw: RawMessage, at_ms: int) -> bool:
        body = raw.body
        if body is None:
            # No body holds nothing; one that is too long to be read might.
            return inverted and raw.size == 0
        return test(body) is not inverted

    return holds


def _test(term: Term, poison_rc: int, sent_at: SentAt) -> Predicate:
    value: Any = term.value
    if term.field == "state":
        return _state_test(value, poison_rc)
    if term.field == "id":
        return _id_test(term)
    compare = _COMPARE[term.operator]
    if term.field == "size":
        return lambda raw, at_ms: compare(raw.size, value)
    if term.field == "rc":
        # How often an item of a list was received, nobody knows.
        return lambda raw, at_ms: place_of(raw.id) is None and compare(leading_int(raw.rc) or 0, value)
    if term.field == "due":
        return lambda raw, at_ms: compare(_due_ms(raw) - at_ms, value)

    def age_holds(raw: RawMessage, at_ms: int) -> bool:
        sent = sent_at(raw, at_ms)
        return sent is not None and compare(at_ms - sent, value)

    return age_holds


def _state_test(states: tuple[str, ...], poison_rc: int) -> Predicate:
    wanted = set(states)

    def holds(raw: RawMessage, at_ms: int) -> bool:
        place = place_of(raw.id)
        if place is not None:
            return not wanted.isdisjoint(_ITEM_STATES[item_state(place, raw.score, at_ms)])
        is_ready = _due_ms(raw) <= at_ms
        found = {"ready"} if is_ready else {"hidden", "inflight" if leading_int(raw.rc) else "delayed"}
        return not wanted.isdisjoint(found) or ("poison" in wanted and (leading_int(raw.rc) or 0) >= poison_rc)

    return holds


def _id_test(term: Term) -> Predicate:
    text = str(term.value)
    if term.operator == "~":
        is_in = compile_regex(text).is_in
        return lambda raw, at_ms: is_in(raw.id)
    wanted = name_bytes(text)
    if term.operator == "=":
        return lambda raw, at_ms: raw.id == wanted
    return lambda raw, at_ms: raw.id.startswith(wanted)


def _body_test(term: Term, document: "_Document") -> _OnBody:
    text = str(term.value)
    if term.field == "json":
        return _json_test(term, document)
    if term.operator == "~":
        return compile_regex(text).is_in
    return holds_text(text)


def _json_test(term: Term, document: "_Document") -> _OnBody:
    path, compare = term.path, _json_compare(term)
    # A key that is not there in plain letters, nor perhaps escaped, need not be looked for in a parsed body.
    keys = [key.encode("utf-8", "surrogatepass") for key in path if isinstance(key, str)]
    rarest = max(keys, key=len, default=b"")

    def holds(body: bytes) -> bool:
        if rarest not in body and b"\\" not in body:
            return False
        value = value_at(document.of(body), path)
        return not isinstance(value, Absent) and compare(value)

    return holds


def _json_compare(term: Term) -> Callable[[Any], bool]:
    text = str(term.value)
    if term.operator == "":
        return lambda value: True
    if term.operator == ":":
        needle = text.casefold()
        return lambda value: needle in value_text(value).casefold()
    if term.operator == "~":
        is_in = compile_regex(text).is_in
        return lambda value: is_in(value_text(value).encode("utf-8", "surrogatepass"))
    compare = _COMPARE[term.operator]
    number = None if term.is_quoted or not _JSON_NUMBER.fullmatch(text) else _number(text)
    is_word = not term.is_quoted and text in _JSON_WORDS
    is_equality = term.operator in ("=", "!=")

    def holds(value: Any) -> bool:
        if isinstance(value, str):
            # Unquoted, 42 is also the text "42"; but a text is neither more nor less than a number.
            return compare(value, text) if is_equality or number is None else False
        if value is None or isinstance(value, bool):
            same = is_word and value is _JSON_WORDS[text]
            return is_equality and same is (term.operator == "=")
        if isinstance(value, int | float) and number is not None:
            return compare(value, number)
        # A number is no text, and lists and objects are equal to nothing.
        return term.operator == "!="

    return holds


class _Document:
    """The body parsed last: several terms of a filter ask for places in the same one."""

    def __init__(self) -> None:
        self._body: bytes | None = None
        self._parsed: Any = Absent.JSON

    def of(self, body: bytes) -> Any:
        if body is not self._body:
            self._body, self._parsed = body, load(body)
        return self._parsed


def _due_ms(raw: RawMessage) -> float:
    due_ms, _ = read_score(raw.score.decode("latin-1"))
    return float("inf") if due_ms is None else due_ms


def _number(text: str) -> float:
    return float(text) if set(text) & set(".eE") else int(text)
