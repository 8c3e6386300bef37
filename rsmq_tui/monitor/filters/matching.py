r"""Whether a message matches a filter: terms, cheapest first, texts in bodies, and regexes.

Regexes run in RE2, in linear time: no regex and no body makes a search hang. They use Python's syntax. Syntax that
differs in RE2 is translated (``\Z``, ``$`` before a last newline, ``\w`` and ``\s`` for letters of all languages,
``\uXXXX``). Syntax that no linear engine supports is refused, with a sentence that says what to write instead. ``\d``
and ``\b`` support only the letters and digits of ASCII.
"""

import operator
import re
import string
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from itertools import accumulate
from typing import Any, NoReturn, cast

from rsmq_tui.monitor.filters.json_paths import Absent, JsonPath, load, value_at, value_text
from rsmq_tui.monitor.messages.peek import MessageState, item_place_of, item_state
from rsmq_tui.monitor.messages.reading import read_score
from rsmq_tui.protocol import RawMessage, ReadField, leading_int, name_bytes, name_of, sent_ms

# The characters beyond ASCII that become ASCII, or contain some, when texts are compared without case.
FOLDED_BY_TEXTS = (
    "\xdf\u0130\u0149\u017f\u01f0\u1e96\u1e97\u1e98\u1e99\u1e9a\u1e9e\u212a\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"
)

# Returns the indexes of the bodies that match.
BodySearch = Callable[[Sequence[bytes | None]], list[int]]


def holds_text(text: str) -> Callable[[bytes], bool]:
    """Return a test whether a body contains a text, ignoring case."""
    needle = text.casefold()
    needle_bytes = needle.encode() if needle.isascii() else None

    def holds(body: bytes) -> bool:
        if needle_bytes is not None:
            # Fast paths: the exact text, and bodies that are ASCII, which need no decoding.
            if needle_bytes in body:
                return True
            if body.isascii():
                return needle_bytes in body.lower()
        return needle in body.decode("utf-8", "surrogateescape").casefold()

    return holds


def search_for_text(text: str) -> BodySearch:
    """Return a search for the bodies that contain a text, ignoring case."""
    holds, needle = holds_text(text), text.casefold()
    if not (needle and needle.isascii()):
        return lambda bodies: [index for index, body in enumerate(bodies) if body is not None and holds(body)]
    raw = needle.encode()
    has_letters = raw != raw.upper()
    folded = [letter.encode() for letter in FOLDED_BY_TEXTS if not set(letter.casefold()).isdisjoint(needle)]

    def has_folded(text: bytes) -> bool:
        # To find one byte is much faster than to find several, and few texts have one of these.
        return any(letter[:1] in text and letter in text for letter in folded)

    def search(bodies: Sequence[bytes | None]) -> list[int]:
        there = cast("Sequence[bytes]", bodies) if None not in bodies else [body or b"" for body in bodies]
        joined = _BETWEEN.join(there)
        searched = joined.lower() if has_letters else joined
        positions, ends, at = [], _ends_of(there), searched.find(raw)
        while at >= 0:
            positions.append(bisect_right(ends, at))
            at = searched.find(raw, ends[positions[-1]])
        if not has_folded(joined):
            return positions
        # Only bodies with such a letter can match in another way.
        return sorted({*positions, *(index for index, body in enumerate(there) if has_folded(body) and holds(body))})

    return search


# The memory limit of RE2 for a compiled regex and its caches.
_MEMORY_BYTES = 4 << 20
# If RE2 cannot build its automaton, each byte costs a few ns for each instruction.
_INSTRUCTIONS_MAX = 3_000
_NS_PER_INSTRUCTION = 8
# The separator of bodies that are searched together: no regex matches a byte that is not UTF-8.
_BETWEEN = b"\xff"
# The rest of a body.
_REST = r"[\x{0}-\x{10FFFF}]*"

# The ranges of \d, \w and \s: for texts that are ASCII, and beyond. Letters of other languages are matched by their
# blocks, because a regex with every letter is a hundred times as large. No block contains the surrogates that stand for
# bytes that are not UTF-8.
_Ranges = tuple[tuple[int, int], ...]
_DIGITS: _Ranges = ((0x30, 0x39),)
_WORDS: _Ranges = (*_DIGITS, (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_BLANKS: _Ranges = ((0x09, 0x0D), (0x1C, 0x20))
_MORE_WORDS: _Ranges = (
    (0xAA, 0xAA), (0xB2, 0xB3), (0xB5, 0xB5), (0xB9, 0xBA), (0xBC, 0xBE), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x167F),
    (0x1681, 0x1FFF), (0x2070, 0x209F), (0x2100, 0x218B), (0x2C00, 0x2DFF), (0x3005, 0x3007), (0x3021, 0xD7FF),
    (0xF900, 0xFDFF), (0xFE70, 0xFEFC), (0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0xFF66, 0xFFDC),
    (0x10000, 0x1EFFF), (0x20000, 0x3FFFF),
)  # fmt: skip
_MORE_BLANKS: _Ranges = (
    (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip


def _classes_of(digits: _Ranges, words: _Ranges, blanks: _Ranges) -> dict[str, str]:
    classes = {}
    for sign, ranges in (("d", digits), ("w", words), ("s", blanks)):
        others = zip((-1, *(last for _, last in ranges)), (*(first for first, _ in ranges), 0x110000), strict=True)
        classes[sign] = _written(ranges)
        classes[sign.upper()] = _written(tuple((last + 1, first - 1) for last, first in others))
    return classes


def _written(ranges: _Ranges) -> str:
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)


_ASCII_CLASSES = _classes_of(_DIGITS, _WORDS, _BLANKS)
_TEXT_CLASSES = _classes_of(_DIGITS, _WORDS + _MORE_WORDS, _BLANKS + _MORE_BLANKS)
# The ASCII part of the most common Unicode properties.
_ASCII_PROPERTIES = {"L": "A-Za-z", "Lu": "A-Z", "Ll": "a-z", "N": "0-9", "Nd": "0-9"}
_PROPERTY = re.compile(r"\\p(?:([A-Z])|\{([A-Za-z_]+)\})")
_REPEAT = re.compile(r"[*+?]|\{([0-9]*),?[0-9]*\}")
_FLAGS = re.compile(r"\(\?([A-Za-z]*)(-[A-Za-z]+)?([:)])")
_CODE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_KNOWN_ESCAPES = frozenset("0abfnrtvxABpPz")
# Those that match no byte that is not UTF-8: others may, such as \W and \x{dc80}.
_PLAIN_ESCAPES = frozenset("abdfnrstvwABZz" + string.punctuation)
_LOOKAROUND = 'lookaround is not supported: include the surrounding text, or use two terms: body~"a" !body~"b"'
_ATOMIC = "atomic groups are not supported, and not needed (searches take linear time): write (?:…)"
_CONDITION = "a condition on a group is not supported: write both cases, (?:…|…)"
_BACKREFERENCE = "backreferences are not supported: write out the repeated text"
_POSSESSIVE = "possessive repeats are not supported, and not needed (searches take linear time): write * instead of *+"
_VERBOSE = "the flag x is not supported: write the regex without blanks and comments"
_TOO_LARGE = "the regex is too large: shorten it, or its repeats such as {1000}"
# RE2's error -> our text; a trailing space means that the offending part of the regex follows.
_ERRORS = {
    "no argument for repetition operator": "nothing to repeat before ",
    "bad repetition operator": "multiple repeat: ",
    "invalid repetition size": "a repeat must be from 0 to 1000, not ",
    "invalid character class range": "unknown class or range: ",
    "invalid escape sequence": "unknown escape: ",
    "missing )": "missing )",
    "missing ]": "missing ]",
    "unexpected )": "unexpected )",
}


class RegexError(ValueError):
    """An invalid regex, or one that cannot run in linear time; its text says what to write instead."""


class Regex:
    """A regex for bodies; create it with ``compile_regex``.

    Each byte that is not UTF-8 counts as a character that only ``.`` and classes such as ``[^a]`` match.
    ``ns_per_byte`` is the worst cost of a byte.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        # For bodies that are ASCII, the smaller ASCII classes are enough.
        self._in_ascii = _compiled(_Translation(text, _ASCII_CLASSES).text)
        if self._in_ascii.programsize > _INSTRUCTIONS_MAX:
            raise RegexError(_TOO_LARGE)
        translation = _Translation(text, _TEXT_CLASSES)
        is_same = translation.text == _Translation(text, _ASCII_CLASSES).text
        self._in_text = self._in_ascii if is_same else _compiled(translation.text)
        self._is_anchored, self._matches_any = translation.is_anchored, translation.matches_any
        self.ns_per_byte = _NS_PER_INSTRUCTION * max(self._in_ascii.programsize, self._in_text.programsize)

    def is_in(self, body: bytes) -> bool:
        """Return whether a body contains a match."""
        if body.isascii():
            return self._in_ascii.search(body) is not None
        return self._in_text.search(_as_utf8(body)) is not None

    def positions(self, bodies: Sequence[bytes | None]) -> list[int]:
        """Return the indexes of the bodies that contain a match; all are searched at once, as one text."""
        are_all_there = None not in bodies
        there = cast("Sequence[bytes]", bodies) if are_all_there else [body or b"" for body in bodies]
        pattern, loose = self._in_text, self._loose[1]
        if self._matches_any:
            joined = b"\n".join(there)
            if joined.isascii():
                pattern, loose = self._in_ascii, self._loose[0]
            else:
                there = _all_as_utf8(there, joined)
        # A regex that matches the empty text may match in every body.
        found = _found(there, loose) if loose.search(b"") is None else list(range(len(there)))
        if self._is_anchored:
            found = [position for position in found if pattern.search(there[position]) is not None]
        return found if are_all_there else [position for position in found if bodies[position] is not None]

    @cached_property
    def _loose(self) -> tuple[Any, Any]:
        """The regexes without anchors: they match from where the originals do, or elsewhere, to the end of the body."""
        in_ascii, in_text = (
            _compiled(f"(?:{_Translation(self._text, classes, without_anchors=True).text}){_REST}")
            for classes in (_ASCII_CLASSES, _TEXT_CLASSES)
        )
        return in_ascii, in_text


@lru_cache(maxsize=64)
def compile_regex(text: str) -> Regex:
    """Return the regex; raises ``RegexError`` with a sentence that says what is wrong."""
    return Regex(text)


def _found(bodies: Sequence[bytes], pattern: Any) -> list[int]:
    """Return the indexes of the bodies with a match of a pattern that ends in ``_REST``: each has one, or few.

    All are searched at once, because a call for each body takes longer than the search itself.
    """
    ends = _ends_of(bodies)
    return list(dict.fromkeys(bisect_right(ends, match.start()) for match in pattern.finditer(_BETWEEN.join(bodies))))


def _ends_of(bodies: Sequence[bytes]) -> list[int]:
    """Return where each body ends if they are joined, with what is between it and the next one."""
    return list(accumulate([len(body) + len(_BETWEEN) for body in bodies]))


def _as_utf8(body: bytes) -> bytes:
    """Return a body with a surrogate, which RE2 treats as a character, for each byte that is not UTF-8."""
    if body.isascii():
        return body
    try:
        body.decode()
    except UnicodeDecodeError:
        return body.decode("utf-8", "surrogateescape").encode("utf-8", "surrogatepass")
    return body


def _all_as_utf8(bodies: Sequence[bytes], joined: bytes) -> Sequence[bytes]:
    """Return ``_as_utf8`` of each body; ``joined`` are the bodies with an ASCII character between them."""
    # To decode all at once takes a third of the time.
    try:
        joined.decode()
    except UnicodeDecodeError:
        return list(map(_as_utf8, bodies))
    return bodies


def _compiled(text: str) -> Any:
    # Imported on demand: it takes 10 ms, and few commands need it.
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(text.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace")
        if said.startswith("pattern too large"):
            raise RegexError(_TOO_LARGE) from error
        what, _, where = said.partition(": ")
        words = _ERRORS.get(what, f"{what} ")
        raise RegexError(f"not a regex: {words}{where if words.endswith(' ') else ''}".rstrip()) from error


class _Translation:
    """Translates a Python regex to RE2 syntax, ``text``; raises ``RegexError`` for what RE2 does not support.

    ``matches_any`` is False if no byte that is not UTF-8 can be part of a match.
    """

    def __init__(self, pattern: str, classes: dict[str, str], *, without_anchors: bool = False) -> None:
        self.is_anchored = False
        self.matches_any = not pattern.isascii()
        self._pattern = pattern
        self._classes = classes
        self._without_anchors = without_anchors
        self._at = 0
        # For each open group: whether ^ and $ hold at each line.
        self._by_line = [False]
        parts: list[str] = []
        while self._at < len(pattern):
            parts.append(self._next())
        self.text = "".join(parts)

    def _next(self) -> str:
        sign = self._pattern[self._at]
        if sign == "\\":
            return self._escape()
        if sign == "[":
            return self._class()
        if sign == "(":
            return self._group()
        if sign in "*+?{" and (repeat := _REPEAT.match(self._pattern, self._at)) is not None:
            self._at = repeat.end()
            if self._pattern.startswith("+", self._at) and self._at > 1:
                self._fail(_POSSESSIVE)
            # In RE2, {,3} is literal text.
            return "{0" + repeat[0][1:] if repeat[0].startswith("{,") else repeat[0]
        self._at += 1
        self.matches_any |= sign == "."
        if sign == ")" and len(self._by_line) > 1:
            self._by_line.pop()
        if sign == "^":
            return self._anchor("^")
        if sign == "$":
            return self._anchor("$" if self._by_line[-1] else r"(?:\n?\z)")
        return sign

    def _anchor(self, text: str) -> str:
        self.is_anchored = True
        return "(?:)" if self._without_anchors else text

    def _escape(self) -> str:
        sign = self._pattern[self._at + 1 : self._at + 2]
        self.matches_any |= sign not in _PLAIN_ESCAPES
        if sign in ("u", "U"):
            return self._code()
        self._at += 2
        if sign in ("A", "Z", "z"):
            return self._anchor(r"\A" if sign == "A" else r"\z")
        if sign and sign in self._classes:
            return f"[{self._classes[sign]}]"
        members = self._property(sign)
        return self._plain_escape(sign) if members is None else f"[{members}]"

    def _property(self, sign: str) -> str | None:
        r"""Translate a \p class for bodies that are ASCII; the full class would only make their regex large."""
        found = _PROPERTY.match(self._pattern, self._at - 2) if sign == "p" else None
        members = _ASCII_PROPERTIES.get(found[1] or found[2]) if found and self._classes is _ASCII_CLASSES else None
        if found and members:
            self._at = found.end()
        return members

    def _plain_escape(self, sign: str) -> str:
        if sign and sign in "123456789":
            self._fail(_BACKREFERENCE)
        if sign.isascii() and sign.isalnum() and sign not in _KNOWN_ESCAPES:
            self._fail(rf"not a regex: unknown escape: \{sign}")
        # Before any other character, the backslash has no effect.
        return "\\" + sign if sign.isascii() else sign

    def _code(self) -> str:
        code = _CODE.match(self._pattern, self._at)
        if code is None:
            self._fail(r"not a regex: \u needs four hexadecimal digits, as in \u00e9")
        self._at = code.end()
        return rf"\x{{{code[1] or code[2]}}}"

    def _class(self) -> str:
        pattern, start = self._pattern, self._at
        head = "[^" if pattern.startswith("[^", start) else "["
        self._at += len(head)
        parts = [head]
        is_first = True
        while is_first or not pattern.startswith("]", self._at):
            if self._at >= len(pattern):
                self._fail("not a regex: missing ]")
            is_first = False
            posix = _POSIX.match(pattern, self._at)
            self.matches_any |= head == "[^" or posix is not None
            if posix is not None:
                self._at = posix.end()
                parts.append(posix[0])
            elif pattern[self._at] == "\\":
                parts.append(self._escape_in_class())
            else:
                parts.append(pattern[self._at])
                self._at += 1
        self._at += 1
        return "".join((*parts, "]"))

    def _escape_in_class(self) -> str:
        sign = self._pattern[self._at + 1 : self._at + 2]
        self.matches_any |= sign not in _PLAIN_ESCAPES
        if sign in ("u", "U"):
            return self._code()
        self._at += 2
        if sign and sign in self._classes:
            return self._classes[sign]
        if sign == "b":
            return r"\x08"
        members = self._property(sign)
        return self._plain_escape(sign) if members is None else members

    def _group(self) -> str:
        pattern, start = self._pattern, self._at
        rest = pattern[start : start + 4]
        if rest.startswith(("(?=", "(?!", "(?<=", "(?<!")):
            self._fail(_LOOKAROUND)
        if rest.startswith("(?>"):
            self._fail(_ATOMIC)
        if rest.startswith("(?("):
            self._fail(_CONDITION)
        if rest.startswith("(?P="):
            self._fail(_BACKREFERENCE)
        if rest.startswith("(?#"):
            end = pattern.find(")", start)
            if end < 0:
                self._fail("not a regex: the comment is not closed")
            self._at = end + 1
            return ""
        if (flags := _FLAGS.match(pattern, start)) is not None:
            self._at = flags.end()
            return self._flags(flags[1], flags[2] or "", flags[3])
        self._at += 1
        self._by_line.append(self._by_line[-1])
        return "("

    def _flags(self, on: str, off: str, end: str) -> str:
        if "x" in on:
            self._fail(_VERBOSE)
        if unknown := set(on + off) - set("aimsu-"):
            self._fail(f"not a regex: unknown flag {min(unknown)}; flags are i, m, s and a")
        if "a" in on:
            self._classes = _ASCII_CLASSES
        by_line = ("m" in on or self._by_line[-1]) and "m" not in off
        if end == ":":
            self._by_line.append(by_line)
        else:
            self._by_line[-1] = by_line
        kept = on.replace("a", "").replace("u", "") + off
        return f"(?{kept}{end}" if kept or end == ":" else ""

    def _fail(self, sentence: str) -> NoReturn:
        raise RegexError(sentence)


Predicate = Callable[[RawMessage, int], bool]
# Returns the indexes of the messages that match at that server time.
Matches = Callable[[Sequence[RawMessage], int], list[int]]
# Returns when a message was sent, in ms; None if unknown. The second argument is the server time.
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
# The states that do not depend on receive counts; and for each state of a list item, the names in filters.
_COUNTLESS_STATES = {"ready", "hidden", "expired", "unleased"}
_ITEM_STATES = {
    MessageState.READY: {"ready"},
    MessageState.IN_FLIGHT: {"hidden", "inflight"},
    MessageState.EXPIRED: {"hidden", "expired"},
    MessageState.UNLEASED: {"hidden", "unleased"},
}
# The worst costs: decoding and case-folding text; parsing and writing JSON that consists of brackets.
_TEXT_NS_PER_BYTE = 20
_JSON_NS_PER_BYTE = 120
_JSON_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")
_JSON_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: spans are in ms, sizes in bytes, states a tuple; an empty ``operator`` tests that a path exists.

    ``is_quoted`` marks a JSON value that can only be a string.
    """

    field: str
    operator: str
    value: str | int | tuple[str, ...] = ""
    path: JsonPath = ()
    is_quoted: bool = False
    inverted: bool = False

    @property
    def needs_counts(self) -> bool:
        """True if it tests the receive count."""
        states = self.value if self.field == "state" and isinstance(self.value, tuple) else ()
        return self.field == "rc" or not _COUNTLESS_STATES.issuperset(states)

    @property
    def needs_body(self) -> bool:
        """True if it tests the body."""
        return self.field in ("body", "json")

    @property
    def ns_per_byte(self) -> int:
        """The worst cost of matching a byte of a body, in ns."""
        if not self.needs_body:
            return 0
        costs = _JSON_NS_PER_BYTE if self.field == "json" else _TEXT_NS_PER_BYTE
        return costs + (compile_regex(str(self.value)).ns_per_byte if self.operator == "~" else 0)

    def needs(self, *, ages_in_bodies: bool = False) -> frozenset[ReadField]:
        """Return the fields of a message that the term needs, besides id and score.

        ``ages_in_bodies`` is True if ages are read from bodies.
        """
        in_body = self.needs_body or (ages_in_bodies and self.field == "age")
        needed: dict[ReadField, bool] = {"counts": self.needs_counts, "size": self.field == "size", "body": in_body}
        return frozenset(field for field, is_needed in needed.items() if is_needed)


def sent_by_id(raw: RawMessage, at_ms: int) -> int | None:
    """Return when a message was sent, from its id."""
    return sent_ms(name_of(raw.id), now_ms=at_ms)


def term_tests(terms: Sequence[Term], poison_rc: int, sent_at: SentAt) -> list[Predicate]:
    """Return a test for each term, the cheapest first; ``sent_at`` says when a message was sent."""
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
            # A missing body contains no text; one that is too long to read might contain it.
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
        # List items have no receive counts.
        return lambda raw, at_ms: item_place_of(raw.id) is None and compare(leading_int(raw.rc) or 0, value)
    if term.field == "due":
        return lambda raw, at_ms: compare(_due_ms(raw) - at_ms, value)

    def age_holds(raw: RawMessage, at_ms: int) -> bool:
        sent = sent_at(raw, at_ms)
        return sent is not None and compare(at_ms - sent, value)

    return age_holds


def _state_test(states: tuple[str, ...], poison_rc: int) -> Predicate:
    wanted = set(states)

    def holds(raw: RawMessage, at_ms: int) -> bool:
        place = item_place_of(raw.id)
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
    # Fast path: a body that contains neither the key nor any escape need not be parsed.
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
            # Unquoted, 42 also equals the string "42"; but strings and numbers have no order.
            return compare(value, text) if is_equality or number is None else False
        if value is None or isinstance(value, bool):
            same = is_word and value is _JSON_WORDS[text]
            return is_equality and same is (term.operator == "=")
        if isinstance(value, int | float) and number is not None:
            return compare(value, number)
        # A number does not equal a text, and lists and objects equal nothing.
        return term.operator == "!="

    return holds


class _Document:
    """A cache of the last parsed body: several terms of a filter read the same one."""

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
