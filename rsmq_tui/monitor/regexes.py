"""Regexes that people type: read with a sentence for what is wrong, and kept from taking for ever."""

import re
import warnings
from collections.abc import Callable

BytesSearch = Callable[..., re.Match[bytes] | None]

_UNBOUNDED = re.compile(r"[*+]|\{[0-9]*,\}")
_ESCAPED_SIGN = re.compile(r"\\[^A-Za-z0-9]")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)


def compile_regex(text: str) -> tuple[re.Pattern[str] | None, str | None]:
    """Return the regex, or a sentence that says why it cannot be one.

    A repeat of what repeats itself, such as (a+)+, is refused: it can take for ever on some bodies.
    """
    if _repeats_repeat(text):
        return None, "a repeat within a repeat can take for ever: leave one out, or make the inner group atomic, (?>…)"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(text), None
    except re.error as error:
        return None, f"not a regex: {error.msg}"
    except (OverflowError, RecursionError):
        return None, "not a regex: it is too large"


def text_search(text: str) -> Callable[[str, int, int], re.Match[str] | None]:
    """Return what searches a text for the regex; raises ValueError for what is none."""
    pattern, problem = compile_regex(text)
    if pattern is None:
        raise ValueError(problem)
    return pattern.search


def bytes_search(text: str) -> BytesSearch | None:
    """Return the same regex for bytes that are ASCII, or None where it says something about other characters."""
    if not text.isascii():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(text.encode()).search
    except re.error:
        return None


def is_bytewise(text: str) -> bool:
    """Tell whether a regex finds in UTF-8 bytes just what it finds in their text.

    It does where it names what it wants, in ASCII: what stands for any other character would take single bytes for it.
    """
    plain = _ESCAPED_SIGN.sub("", text)
    return text.isascii() and not any(sign in plain for sign in (".", "\\", "[^", "(?"))


def _repeats_repeat(pattern: str) -> bool:
    """Tell whether a group that repeats something without bound is itself repeated so."""
    # For each open group: whether it is atomic, and whether it repeats something.
    groups = [[False, False]]
    at, closed_repeats = 0, False
    while at < len(pattern):
        sign = pattern[at]
        repeat = _UNBOUNDED.match(pattern, at)
        if repeat and at:
            is_possessive = pattern[repeat.end() : repeat.end() + 1] == "+"
            if closed_repeats and not is_possessive:
                return True
            groups[-1][1] = groups[-1][1] or not is_possessive
            at, closed_repeats = repeat.end() + is_possessive, False
            continue
        closed_repeats = False
        if sign == "\\":
            at += 1
        elif sign == "[" and (found := _CLASS.match(pattern, at)):
            at = found.end() - 1
        elif sign == "(":
            groups.append([pattern.startswith("(?>", at), False])
        elif sign == ")" and len(groups) > 1:
            is_atomic, repeats = groups.pop()
            closed_repeats = repeats and not is_atomic
            groups[-1][1] = groups[-1][1] or closed_repeats
        at += 1
    return False
