"""The filter language, the same on screens and on the command line, and its parser.

    state:ready|inflight  rc>=5  age>10m  due<30s  size>1k  id:prefix  body:"text"  body~regex  json.a.b=42  word

All terms must match; ``!`` before a term inverts it, and a single word is searched for in bodies. In quotes a backslash
stands for itself, except before a quote or another backslash. A search over queues may begin with ``queue:orders-*``.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import NoReturn

from rsmq_tui.monitor.filters.json_paths import JsonPath, JsonPathError, path_text, quoted, read_path, unquote
from rsmq_tui.monitor.filters.literals import filter_for_regex, filter_for_text
from rsmq_tui.monitor.filters.matching import (
    BodySearch,
    Matches,
    Predicate,
    RegexError,
    SentAt,
    Term,
    compile_regex,
    search_for_text,
    sent_by_id,
    term_tests,
)
from rsmq_tui.monitor.text import read_size, read_span
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.protocol import RawMessage, ReadField, name_bytes
from rsmq_tui.protocol.keys import RAW_ID_OF_ANY_CLIENT
from rsmq_tui.protocol.kinds import Kind
from rsmq_tui.protocol.rsmq.scan_strategies import BodyFilter

TEXT_MAX = 4_000
_POISON_RC = Thresholds().poison_rc
STATES = ("ready", "inflight", "delayed", "hidden", "poison", "expired", "unleased")
# Other names of states, for list queues.
_ALSO_CALLED = {"processing": "hidden", "nolease": "unleased"}
_ORDER = ("=", "!=", ">", ">=", "<", "<=")
# field -> its operators; ":" is an alias of the first.
_OPERATORS = {
    "state": (":",),
    "rc": _ORDER,
    "age": _ORDER,
    "due": _ORDER,
    "size": _ORDER,
    "id": (":", "=", "~"),
    "body": (":", "~"),
    "json": (":", *_ORDER, "~"),
}
_EXAMPLES = {
    "state": "state:ready, or state:inflight|delayed",
    "rc": "rc>=5",
    "age": "age>10m",
    "due": "due<30s",
    "size": "size>1k",
    "id": "id:prefix, id=whole or id~regex",
    "body": 'body:"text", or body~regex',
    "json": "json.customer.id=42",
}
# The lengths of whole ids: an id of this length is no prefix of another. Those of 42 characters are from 2013.
_WHOLE_LENGTHS = (32, 36, 42)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = re.compile(r">=|<=|!=|[=<>~:]")
_WORD = re.compile(r"\S*")
_NUMBER = re.compile(r"-?[0-9]{1,15}")


class FilterError(ValueError):
    """An invalid filter: the error is between ``start`` and ``end`` of ``text``, in characters."""

    def __init__(self, message: str, text: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.start = start
        self.end = max(start, end)


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter; ``text`` is as typed, ``str`` returns the normalized form."""

    text: str = field(compare=False)
    terms: tuple[Term, ...] = ()
    poison_rc: int = _POISON_RC

    @property
    def is_empty(self) -> bool:
        """True if every message matches."""
        return not self.terms

    def needs(self, *, ages_in_bodies: bool = False) -> frozenset[ReadField]:
        """Return the fields of a message to read; ``ages_in_bodies`` is True if ages are read from bodies."""
        return frozenset[ReadField]().union(*(term.needs(ages_in_bodies=ages_in_bodies) for term in self.terms))

    @property
    def ns_per_byte(self) -> int:
        """The worst cost of matching a byte of a body, in ns."""
        return sum(term.ns_per_byte for term in self.terms)

    @property
    def pinned_id(self) -> tuple[bytes, bool] | None:
        """The id that the filter names, if any, and whether no other id can match; False for a possible prefix."""
        for term in self.terms:
            if term.field == "id" and term.operator in ("=", ":") and not term.inverted:
                id = name_bytes(str(term.value))
                if term.operator == "=" or RAW_ID_OF_ANY_CLIENT.fullmatch(id):
                    return id, term.operator == "=" or len(id) in _WHOLE_LENGTHS
        return None

    def predicate(self, sent_at: SentAt | None = None) -> Predicate:
        """Return a test whether a message matches at a server time in ms; use it for one scan only.

        ``sent_at`` reads from bodies when messages were sent, if ids carry no time. A message whose body is needed but
        could not be read does not match, inverted or not.
        """
        tests = term_tests(self.terms, self.poison_rc, sent_at or sent_by_id)
        if sent_at is not None and any(term.field == "age" for term in self.terms):
            # The age of a body that is too long to read is unknown: it matches no term on age, inverted or not.
            tests.insert(0, lambda raw, at_ms: raw.body is not None or raw.size == 0)
        if len(tests) < 2:
            return tests[0] if tests else lambda raw, at_ms: True
        return lambda raw, at_ms: all(test(raw, at_ms) for test in tests)

    def matches(self, sent_at: SentAt | None = None) -> Matches:
        """As ``predicate``, for many messages: regexes search all bodies at once.

        The overhead of one regex call is larger than the search of most bodies.
        """
        regexes = [term for term in self.terms if term.field == "body" and term.operator == "~" and not term.inverted]
        others = replace(self, terms=tuple(term for term in self.terms if term not in regexes)).predicate(sent_at)
        searches = [compile_regex(str(term.value)).places for term in regexes]

        def matches(messages: Sequence[RawMessage], at_ms: int) -> list[int]:
            places = [place for place, message in enumerate(messages) if others(message, at_ms)]
            for search in searches:
                found = search([messages[place].body for place in places])
                places = [places[each] for each in found]
            return places

        return matches

    def body_search(self) -> BodySearch | None:
        """Return a search of bodies alone, or None if other fields are tested.

        It is faster than ``predicate``, because no other field is read or matched.
        """
        if len(self.terms) != 1 or self.terms[0].inverted or self.terms[0].field != "body":
            return None
        text = str(self.terms[0].value)
        return search_for_text(text) if self.terms[0].operator == ":" else compile_regex(text).places

    def body_filter(self) -> BodyFilter | None:
        """Return what a server can check for ``body_search``, or None if it can check nothing useful."""
        if self.body_search() is None:
            return None
        text = str(self.terms[0].value)
        return filter_for_text(text) if self.terms[0].operator == ":" else filter_for_regex(text)

    def searched(self, *, ages_in_bodies: bool = False) -> Predicate:
        """Return a test whether a message could be evaluated: False if its body is needed but was not read."""
        others = tuple(term for term in self.terms if "body" not in term.needs(ages_in_bodies=ages_in_bodies))
        if len(others) == len(self.terms):
            return lambda raw, at_ms: True
        without_bodies = replace(self, terms=others).predicate()
        return lambda raw, at_ms: raw.body is not None or raw.size == 0 or not without_bodies(raw, at_ms)

    def __str__(self) -> str:
        return " ".join(map(_written, self.terms))


def parse_filter(text: str, poison_rc: int = _POISON_RC) -> Filter:
    """Parse a filter; ``state:poison`` means ``rc >= poison_rc``. Raises only ``FilterError``."""
    if len(text) > TEXT_MAX:
        raise FilterError(
            f"a filter can have at most {TEXT_MAX:,} characters, not {len(text):,}", text, TEXT_MAX, len(text)
        )
    terms: list[Term] = []
    at = _spaces_end(text, 0)
    while at < len(text):
        term, at = _Reader(text, at).term()
        terms.append(term)
        at = _spaces_end(text, at)
    return Filter(text, tuple(terms), poison_rc)


_PATTERN = re.compile(r"\s*queue:(\S+)(?:\s+|$)")


def split_pattern(text: str) -> tuple[str, str]:
    """Split ``queue:PATTERN`` off the start of a search over queues; without it, the pattern is ``*``."""
    found = _PATTERN.match(text)
    return ("*", text) if found is None else (found[1], text[found.end() :])


def is_pattern(text: str) -> bool:
    """Return whether a text may name several queues."""
    return not set(text).isdisjoint("*?[")


def names_queue(pattern: str, kind: Kind, queue: str) -> bool:
    """Return whether a pattern matches a queue's name, or its name with the prefix of its kind: ``list:*``."""
    return fnmatchcase(queue, pattern) or fnmatchcase(f"{kind.prefix}{queue}", pattern)


class _Reader:
    """Parses the term at ``start``."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = self._at = start

    def term(self) -> tuple[Term, int]:
        inverted = False
        while self._rest("!"):
            inverted = not inverted
            self._at += 1
        term = self._body_of_term()
        if self._at < len(self._text) and not self._text[self._at].isspace():
            self._fail("separate terms with a space", self._at, self._word_end(self._at))
        return replace(term, inverted=term.inverted is not inverted), self._at

    def _body_of_term(self) -> Term:
        if self._rest('"'):
            return Term("body", ":", self._value())
        name = _NAME.match(self._text, self._at)
        known = name[0].lower() if name else ""
        after = self._text[name.end() : name.end() + 1] if name else ""
        if name and known == "json" and (not after or after in ".[=!<>~:" or after.isspace()):
            self._at = name.end()
            return self._json()
        operator = _OPERATOR.match(self._text, name.end()) if name else None
        if name is None or operator is None:
            return Term("body", ":", self._value())
        if known not in _OPERATORS:
            self._unknown(name)
        self._at = operator.end()
        return self._compared(known, operator)

    def _unknown(self, name: re.Match[str]) -> NoReturn:
        close = difflib.get_close_matches(name[0].lower(), _OPERATORS, n=1, cutoff=0.7)
        word = self._text[name.start() : self._word_end(name.start())]
        if "://" in word:
            meant = f"To look for the text in bodies, quote it: {quoted(word)}"
        else:
            # An unknown field is usually a field of the JSON body.
            meant = f"Did you mean {close[0] if close else f'json.{name[0]}'}?"
        self._fail(f'unknown field "{name[0]}". {meant}', name.start(), name.end())

    def _json(self) -> Term:
        try:
            path, self._at = read_path(self._text, self._at)
        except JsonPathError as error:
            self._fail(str(error), error.at, self._word_end(error.at))
        operator = _OPERATOR.match(self._text, self._at)
        if operator is None:
            return Term("json", "", path=path)
        self._at = operator.end()
        return self._compared("json", operator, path)

    def _compared(self, name: str, operator: re.Match[str], path: JsonPath = ()) -> Term:
        sign, allowed = operator[0], _OPERATORS[name]
        inverted = False
        if name in ("state", "id") and sign == "!=":
            sign, inverted = "=", True
        if (sign == "=" and name == "state") or (sign == ":" and ":" not in allowed):
            sign = allowed[0]
        if sign not in allowed:
            self._fail(f"{name} does not support {sign}: write {_EXAMPLES[name]}", operator.start(), operator.end())
        start = self._at
        is_quoted = self._rest('"')
        value = self._value()
        if not value and not is_quoted:
            self._fail(f"{name}{sign} needs a value: {_EXAMPLES[name]}", operator.start(), operator.end())
        read = _READERS.get(name)
        if sign == "~":
            try:
                compile_regex(value)
            except RegexError as error:
                self._fail(str(error), start, self._at)
        elif read is not None:
            found = read(value)
            if isinstance(found, str):
                self._fail(found, start, self._at)
            return Term(name, sign, found, inverted=inverted)
        return Term(name, sign, value, path, name == "json" and is_quoted, inverted)

    def _value(self) -> str:
        if not self._rest('"'):
            start, self._at = self._at, self._word_end(self._at)
            if start == self._at and start > self._start and self._text[start - 1] == "!":
                self._fail("! needs a term right after it: !state:ready", self._start, start)
            return self._text[start : self._at]
        found = unquote(self._text, self._at)
        if found is None:
            self._fail('the quote is not closed: write "text"', self._at, len(self._text))
        value, self._at = found
        return value

    def _rest(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at)

    def _word_end(self, start: int) -> int:
        found = _WORD.match(self._text, start)
        return found.end() if found else start

    def _fail(self, message: str, start: int, end: int) -> NoReturn:
        raise FilterError(message, self._text, start, end)


def _spaces_end(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


# Readers return the value of a field, or a sentence that says what is wrong.
_Value = int | tuple[str, ...]


def _read_states(text: str) -> _Value | str:
    said = text.lower().replace("-", "").split("|")
    states = tuple(dict.fromkeys(_ALSO_CALLED.get(state, state) for state in said))
    for state in states:
        if state not in STATES:
            close = difflib.get_close_matches(state, STATES, n=1, cutoff=0.5)
            meant = f"Did you mean {close[0]}?" if close else f"States are {', '.join(STATES)}."
            return f'unknown state "{state}". {meant}'
    return states


def _read_count(text: str) -> _Value | str:
    return int(text) if _NUMBER.fullmatch(text) else "a receive count must be a whole number: rc>=5"


_READERS: dict[str, Callable[[str], _Value | str]] = {
    "state": _read_states,
    "rc": _read_count,
    "age": read_span,
    "due": read_span,
    "size": read_size,
}


def _written(term: Term) -> str:
    sign = "!" if term.inverted else ""
    value = term.value
    if term.field in ("age", "due"):
        shown = f"{value}ms"
    elif isinstance(value, tuple):
        shown = "|".join(value)
    elif isinstance(value, str) and term.operator and (term.field != "json" or term.is_quoted):
        shown = quoted(value)
    else:
        shown = str(value)
    return f"{sign}{term.field}{path_text(term.path)}{term.operator}{shown}"
