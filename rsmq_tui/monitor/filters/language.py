"""The filter language, the same on screens and on the command line, and its parser.

    state:ready|inflight  rc>=5  age>10m  due<30s  size>1k  id:prefix  body:"text"  body~regex  json.a.b=42  word

All terms must match; ``!`` before a term inverts it, and a single word is searched for in bodies. In quotes a backslash
stands for itself, except before a quote or another backslash. A search over queues may begin with ``queue:orders-*``.

For a search in bodies, a server can check a text, or a sequence of sets of bytes, that every match contains. A server
has no RE2, and its own patterns may take exponential time. So it gets a sequence without repeats, which it finds in
linear time, and the bodies that contain it are matched here.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from typing import NoReturn

from rsmq_tui.monitor.filters.json_paths import JsonPath, JsonPathError, path_text, quoted, read_path, unquote
from rsmq_tui.monitor.filters.matching import (
    FOLDED_BY_TEXTS,
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
        searches = [compile_regex(str(term.value)).positions for term in regexes]

        def matches(messages: Sequence[RawMessage], at_ms: int) -> list[int]:
            positions = [position for position, message in enumerate(messages) if others(message, at_ms)]
            for search in searches:
                found = search([messages[position].body for position in positions])
                positions = [positions[each] for each in found]
            return positions

        return matches

    def body_search(self) -> BodySearch | None:
        """Return a search of bodies alone, or None if other fields are tested.

        It is faster than ``predicate``, because no other field is read or matched.
        """
        if len(self.terms) != 1 or self.terms[0].inverted or self.terms[0].field != "body":
            return None
        text = str(self.terms[0].value)
        return search_for_text(text) if self.terms[0].operator == ":" else compile_regex(text).positions

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


# Words of other languages, which would silently be looked for in bodies.
_FOREIGN = {
    "OR": "there is no OR: a space means AND, ! negates a term",
    "AND": "write a space in place of AND",
    "NOT": "write ! right before the term in place of NOT",
}
_SAME_AS = {"||": "OR", "&&": "AND"}


def _meant_by(word: str, *, is_alone: bool) -> str | None:
    """Return what to write in place of a word that is probably meant as an operator; None for other words.

    Beside other terms, or, and and not in lower case are meant so too; alone, or after !, they are searched for.
    """
    if _OPERATOR.fullmatch(word):
        return f"write {word} without spaces around it: age>10m"
    name = _SAME_AS.get(word, word)
    return _FOREIGN.get(name if is_alone else name.upper())


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
            quote = '; a quote within quotes is \\"' if self._text[self._at - 1] == '"' else ""
            self._fail(f"separate terms with a space{quote}", self._at, self._word_end(self._at))
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
            start, word = self._at, self._value()
            others = self._text[: self._start] + self._text[self._at :]
            is_alone = start > self._start or not others.strip()
            if (meant := _meant_by(word, is_alone=is_alone)) is not None:
                self._fail(f"{meant}; to look for the text in bodies, quote it: {quoted(word)}", start, self._at)
            return Term("body", ":", word)
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


# The longest sequence, and the least information that it must have, in bits: a letter or digit has about five.
_LENGTH_MAX = 16
_BITS_MIN = 8.0
_BITS_OF_BYTE = 5.0
_ALPHABET = 128
_WORDS = re.compile(r"[\x00-\x7f]+")

_DIGITS = frozenset(b"0123456789")
_RANGES = (b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_REPEAT = re.compile(r"\*|\+|\?|\{([0-9]*)(,?)([0-9]*)\}")
_FLAGS = re.compile(r"\(\?([A-Za-z]*)(?:-[A-Za-z]+)?([:)])")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
# An escape with its arguments.
_ESCAPE = re.compile(r"\\(?:x\{[^}]*\}|x..|u....|U........|[pP]\{[^}]*\}|[pP].|0[0-7]{0,2}|.)", re.DOTALL)
# The only matches of case-insensitive ASCII letters beyond ASCII: the long s, and the kelvin sign.
_FOLDED_BY_REGEXES = {"s": "\u017f", "k": "\u212a"}

_Set = frozenset[int]


def filter_for_text(text: str) -> BodyFilter | None:
    """Return the filter for bodies that contain a text, ignoring case; None if it would not be selective enough."""
    longest = max(_WORDS.findall(text.casefold()), key=len, default="")
    if len(longest) * _BITS_OF_BYTE < _BITS_MIN:
        return None
    found = [folded for folded in FOLDED_BY_TEXTS if not set(folded.casefold()).isdisjoint(longest)]
    return BodyFilter(longest.encode(), True, True, tuple(letter.encode() for letter in found))


def filter_for_regex(text: str) -> BodyFilter | None:
    """Return the filter for bodies that a regex, which ``compile_regex`` accepts, may match; None if it is too weak."""
    runs = _Sequences(text)
    best = max(map(_most_selective, runs.found), key=_bits, default=())
    if _bits(best) < _BITS_MIN:
        return None
    letters = {chr(byte) for each in best for byte in each} if runs.ignores_case else set()
    texts = tuple(other.encode() for letter, other in _FOLDED_BY_REGEXES.items() if letter in letters)
    if all(len(each) == 1 for each in best):
        return BodyFilter(bytes(byte for each in best for byte in each), True, runs.ignores_case, texts)
    return BodyFilter(b"".join(map(_in_lua, best)), False, runs.ignores_case, texts)


def _bits(run: Sequence[_Set]) -> float:
    return sum(_BITS_OF_BYTE if len(each) == 1 else log2(_ALPHABET / len(each)) for each in run)


def _most_selective(run: Sequence[_Set]) -> Sequence[_Set]:
    """Return the most selective part of a sequence, of at most _LENGTH_MAX sets."""
    parts = (run[start : start + _LENGTH_MAX] for start in range(max(1, len(run) - _LENGTH_MAX + 1)))
    return max(parts, key=_bits)


def _in_lua(each: _Set) -> bytes:
    """Return a set of bytes as a pattern of Lua, which escapes signs by % and has no zeros."""
    if len(each) == 1:
        return b"".join(map(_byte_in_lua, each))
    ranges = [span for span in _RANGES if each.issuperset(span)]
    rest = sorted(each.difference(*ranges))
    return b"[%s%s]" % (b"".join(b"%c-%c" % (span[0], span[-1]) for span in ranges), b"".join(map(_byte_in_lua, rest)))


def _byte_in_lua(byte: int) -> bytes:
    return b"%z" if byte == 0 else b"%%%c" % byte if _is_sign(byte) else b"%c" % byte


def _is_sign(byte: int) -> bool:
    return 0x20 < byte < 0x7F and not chr(byte).isalnum()


class _Sequences:
    """The sequences of sets of bytes that each match of a regex contains: ``found``, none if they are not known.

    With ``ignores_case``, letters are lower case, and so must be the text that is searched.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._run: list[_Set] = []
        self._runs: list[list[_Set]] = []
        self.ignores_case = any("i" in flags[1] for flags in _FLAGS.finditer(pattern))
        while (flags := _FLAGS.match(pattern, self._at)) is not None and flags[2] == ")":
            self._at = flags.end()
        is_known = True
        while self._at < len(pattern) and is_known:
            # Later flags and comments are not elements: a repeat after them applies to the element before them.
            is_known = not (pattern[self._at] == "|" or self._is_comment_or_flags())
            self._take(self._element())
        self._end_run()
        self.found = [run for run in self._runs if run] if is_known else []

    def _is_comment_or_flags(self) -> bool:
        flags = _FLAGS.match(self._pattern, self._at)
        return self._pattern.startswith("(?#", self._at) or (flags is not None and flags[2] == ")")

    def _take(self, element: list[_Set] | None) -> None:
        """Add an element with its repeat; None for one that may be anything, or nothing."""
        repeat = _REPEAT.match(self._pattern, self._at)
        least, is_exact = 1, True
        while repeat is not None:
            least = min(least, 1) * _least(repeat)
            is_exact = is_exact and least > 0 and repeat[1] is not None and repeat[2] == ""
            self._at = repeat.end()
            # A repeat of a repeat, or the ? that makes it lazy.
            repeat = _REPEAT.match(self._pattern, self._at)
            is_exact = is_exact and repeat is None
            least = least if repeat is None or repeat[0] == "?" else 0
            if repeat is not None and repeat[0] == "?":
                self._at = repeat.end()
                repeat = None
        if element is None or not least:
            self._end_run()
            return
        copies = element * min(least, _LENGTH_MAX)
        self._run += copies
        if not is_exact or least > _LENGTH_MAX:
            self._end_run()
            self._run += copies

    def _end_run(self) -> None:
        self._runs.append(self._run)
        self._run = []

    def _element(self) -> list[_Set] | None:
        """Read one element, and return its sets of bytes; None if it may be anything."""
        sign = self._pattern[self._at]
        if sign == "\\":
            return self._escape()
        if sign == "[":
            found = self._class()
            return None if found is None else [found]
        if sign == "(":
            self._skip_group()
            return None
        self._at += 1
        return None if sign in ".^$|)" else self._bytes_of(sign)

    def _bytes_of(self, sign: str) -> list[_Set] | None:
        if sign.isascii():
            return [frozenset(sign.lower().encode() if self.ignores_case else sign.encode())]
        if self.ignores_case or "\ud800" <= sign <= "\udfff":
            return None
        return [frozenset((byte,)) for byte in sign.encode()]

    def _escape(self) -> list[_Set] | None:
        found = _ESCAPE.match(self._pattern, self._at)
        text = found[0] if found else self._pattern[self._at :]
        self._at += len(text)
        sign = text[1:]
        if sign == "d":
            return [_DIGITS]
        sign = _ESCAPED.get(sign, sign)
        if len(sign) != 1 or (sign.isascii() and sign.isalnum()):
            return None
        return self._bytes_of(sign)

    def _class(self) -> _Set | None:
        """Read a class, and return its bytes if all are ASCII and written plainly."""
        pattern = self._pattern
        is_known = not pattern.startswith("[^", self._at)
        self._at += 1 if is_known else 2
        members: set[str] = set()
        is_first = True
        while is_first or pattern[self._at] != "]":
            is_first = False
            posix = _POSIX.match(pattern, self._at)
            if posix is not None:
                is_known, self._at = False, posix.end()
                continue
            first, is_plain = self._member(members)
            is_known = is_known and is_plain
            if pattern.startswith("-", self._at) and pattern[self._at + 1] != "]":
                self._at += 1
                last, is_plain = self._member(members)
                is_known = is_known and is_plain and first.isascii() and last.isascii() and len(first + last) == 2
                if is_known:
                    members.update(map(chr, range(ord(first), ord(last) + 1)))
        self._at += 1
        if not (is_known and members and all(map(str.isascii, members))):
            return None
        return frozenset(ord(member.lower() if self.ignores_case else member) for member in members)

    def _member(self, members: set[str]) -> tuple[str, bool]:
        """Read a member of a class; return it, and whether it is understood."""
        if self._pattern[self._at] != "\\":
            sign = self._pattern[self._at]
            self._at += 1
            members.add(sign)
            return sign, True
        found = _ESCAPE.match(self._pattern, self._at)
        text = found[0] if found else self._pattern[self._at :]
        self._at += len(text)
        sign = text[1:]
        if sign == "d":
            members.update(map(chr, _DIGITS))
            return "", True
        sign = _ESCAPED.get(sign, sign)
        members.add(sign[:1])
        return sign, len(sign) == 1 and not (sign.isascii() and sign.isalnum())

    def _skip_group(self) -> None:
        """Continue after a group, a comment or flags."""
        pattern = self._pattern
        if pattern.startswith("(?#", self._at):
            self._at = pattern.index(")", self._at) + 1
            return
        flags = _FLAGS.match(pattern, self._at)
        if flags is not None and flags[2] == ")":
            self._at = flags.end()
            return
        self._at += 1
        while self._at < len(pattern) and pattern[self._at] != ")":
            if pattern[self._at] == "(":
                self._skip_group()
            elif pattern[self._at] == "[":
                self._class()
            elif pattern[self._at] == "\\":
                self._escape()
            else:
                self._at += 1
        self._at += 1


def _least(repeat: re.Match[str]) -> int:
    """Return the minimum number of repeats of an element."""
    if repeat[1] is None:
        return 1 if repeat[0] == "+" else 0
    return int(repeat[1] or 0)
