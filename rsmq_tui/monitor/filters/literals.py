"""What a server can check for a search in bodies: a text, or a sequence of sets of bytes, that every match contains.

A server has no RE2, and its own patterns may take exponential time. So it gets a sequence without repeats, which it
finds in linear time, and the bodies that contain it are matched here.
"""

import re
from collections.abc import Sequence
from math import log2

from rsmq_tui.protocol.rsmq.scan_strategies import BodyFilter

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

# The characters beyond ASCII that become ASCII, or contain some, when texts are compared without case.
FOLDED_BY_TEXTS = (
    "\xdf\u0130\u0149\u017f\u01f0\u1e96\u1e97\u1e98\u1e99\u1e9a\u1e9e\u212a\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"
)

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
    best = max(map(_most_telling, runs.found), key=_bits, default=())
    if _bits(best) < _BITS_MIN:
        return None
    letters = {chr(byte) for each in best for byte in each} if runs.ignores_case else set()
    texts = tuple(other.encode() for letter, other in _FOLDED_BY_REGEXES.items() if letter in letters)
    if all(len(each) == 1 for each in best):
        return BodyFilter(bytes(byte for each in best for byte in each), True, runs.ignores_case, texts)
    return BodyFilter(b"".join(map(_in_lua, best)), False, runs.ignores_case, texts)


def _bits(run: Sequence[_Set]) -> float:
    return sum(_BITS_OF_BYTE if len(each) == 1 else log2(_ALPHABET / len(each)) for each in run)


def _most_telling(run: Sequence[_Set]) -> Sequence[_Set]:
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
