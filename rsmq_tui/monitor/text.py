"""Formats numbers, times and untrusted text for people, and reads durations and sizes."""

import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from itertools import accumulate

UNKNOWN = "–"
# Limits sentences that quote the server, which may return any text.
SENTENCE_MAX = 300

# 9,999 years: a score that was set by hand may be any number.
_CALENDAR_MS = 315_537_897_600_000
_S_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_INVISIBLE = {"Cf", "Cs", "Co", "Cn"}
_MARKS = {"Mn", "Mc", "Me"}
# Jamo that complete a syllable: they have no width either.
_JAMO = frozenset(map(chr, [*range(0x1160, 0x1200), *range(0xD7B0, 0xD7FC)]))
# Many terminals draw these on the character before: a filler of Hangul, and skin tones.
_STACKED = _JAMO | frozenset(map(chr, [0xFFA0, *range(0x1F3FB, 0x1F400)]))
# Some scripts stack four or five marks on one letter. A thousand marks would overwrite the lines around, and take a
# terminal very long to draw and this program very long to measure.
_STACKED_MAX = 8


def count(value: float | None) -> str:
    """Format a count with thousands separators: 38,112."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def lists_hint(patterns: Iterable[str]) -> str:
    """Return how the lists of these patterns are shown as queues; empty without patterns."""
    options = " ".join(f"--lists '{pattern}'" for pattern in patterns)
    return f"to see its Redis Lists as queues: rsmq-tui {options}" if options else ""


def compact(value: float | None) -> str:
    """Format a number in at most six characters: 38,112, then 381k, 38.1M."""
    if value is None:
        return UNKNOWN
    if value < 99_999.5:
        return f"{value:,.0f}"
    for divisor, unit in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        scaled = value / divisor
        # What rounds to 1,000 is 1.0 of the next unit.
        if scaled < 999.5:
            return f"{scaled:.1f}{unit}" if scaled < 99.95 else f"{scaled:.0f}{unit}"
    return f"{value:.0e}"


def rate(per_s: float | None) -> str:
    """Format a rate per second with one decimal: 812.0."""
    if per_s is None:
        return UNKNOWN
    return f"{per_s:,.1f}" if per_s < 99_999.95 else compact(per_s)


def net(per_s: float | None) -> str:
    """Format a net rate with its sign, in at most seven characters: +1.2, -1,204."""
    if per_s is None:
        return UNKNOWN
    words = rate(abs(per_s)) if abs(per_s) < 999.95 else compact(abs(per_s))
    return words if words == "0.0" else f"{'-' if per_s < 0 else '+'}{words}"


def _shown_unit_ms(ms: int) -> int:
    """Return the smaller of the two units in which a duration is shown."""
    if ms < _S_MS:
        return 1
    if ms < 10 * _MINUTE_MS:
        return _S_MS
    if ms < _DAY_MS:
        return _MINUTE_MS
    return _HOUR_MS if ms < 1000 * _DAY_MS else _DAY_MS


def duration(ms: float | None) -> str:
    """Format a duration in its two largest units: 850 ms, 12 s, 41m, 2h 14m, 3d 4h; beyond 9,999 years, unknown."""
    if ms is None or ms > _CALENDAR_MS:
        return UNKNOWN
    ms = round(max(0, ms))
    unit_ms = _shown_unit_ms(ms)
    if unit_ms == 1:
        return f"{ms} ms"
    minutes, s = divmod(ms // _S_MS, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if unit_ms == _S_MS:
        return f"{minutes}m {s}s" if minutes else f"{s} s"
    if unit_ms == _MINUTE_MS:
        return f"{hours}h {minutes}m" if hours else f"{minutes}m"
    return f"{days}d {hours}h" if unit_ms == _HOUR_MS else f"{days:,}d"


def round_duration(ms: int) -> str:
    """Format a duration that is usually a setting: 2 min, 1 h, otherwise as ``duration`` does."""
    for unit_ms, unit in ((3_600_000, "h"), (60_000, "min")):
        if ms >= unit_ms and ms % unit_ms == 0:
            return f"{ms // unit_ms} {unit}"
    return duration(ms)


def duration_up(ms: int) -> str:
    """Format a duration as ``duration`` does, rounded up: an upper bound stays one."""
    unit_ms = _shown_unit_ms(ms)
    return duration(-(-ms // unit_ms) * unit_ms)


def ago(ms: float | None) -> str:
    """Format how long ago something was: 12 s ago; below a second, just now."""
    return "just now" if ms is not None and ms < 1000 else f"{duration(ms)} ago"


def seconds(value: float | None) -> str:
    """Format a setting in seconds: 30 s, 15.5 s, 2h 0m."""
    if value is None:
        return UNKNOWN
    return f"{value:g} s" if value < 600 else duration(value * 1000)


def exact_seconds(value: int) -> str:
    """Format whole seconds without rounding: 45 s, 20m, 1h 1m 40s, 2d."""
    if value < 60:
        return f"{value} s"
    minutes, s = divmod(value, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (s, "s"))
    return " ".join(f"{number:,}{unit}" for number, unit in parts if number)


def size(bytes_: int | None) -> str:
    """Format a number of bytes: 212 B, 4.2 KiB, 12.0 MiB."""
    if bytes_ is None:
        return UNKNOWN
    scaled = float(bytes_)
    for unit in _UNITS[:-1]:
        # What rounds to 1,000.0 is 1.0 of the next unit.
        if scaled < 999.95:
            return f"{scaled:.0f} {unit}" if unit == "B" else f"{scaled:.1f} {unit}"
        scaled /= 1024
    return f"{scaled:,.1f} {_UNITS[-1]}"


# None for the time zone of the system.
_zone: tzinfo | None = UTC


def show_in_zone(zone: tzinfo | None) -> None:
    """Format times in this time zone from now on, None for that of the system; at first it is UTC."""
    global _zone  # noqa: PLW0603 - one program shows its times in one zone
    _zone = zone


def shown_zone() -> tzinfo | None:
    """Return the time zone in which times are formatted, None for that of the system."""
    return _zone


def zone_words(at_ms: float) -> str:
    """Return the abbreviation of the time zone at a time, such as UTC, CEST or +03."""
    moment = _moment(at_ms)
    return "" if moment is None else printable(moment.tzname() or "", 12)


def _moment(at_ms: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(_zone)
    except (OverflowError, OSError, ValueError):
        return None


def clock(at_ms: float | None, *, date: bool = False, zone: bool = False) -> str:
    """Format a time: 19:46:02.121, optionally with its date and zone; a time beyond the calendar is unknown.

    It is in UTC, unless ``show_in_zone`` was given another time zone. The zone has to be beside it, in the heading of
    its table, or on the screen.
    """
    moment = None if at_ms is None else _moment(at_ms)
    if at_ms is None or moment is None:
        return UNKNOWN
    words = f"{moment:{'%Y-%m-%d ' if date else ''}%H:%M:%S}.{moment.microsecond // 1000:03d}"
    return f"{words} {zone_words(at_ms)}" if zone else words


def date_clock(at_ms: float | None, *, zone: bool = False) -> str:
    """Format a time with its date, to the second: 2031-05-17 19:46:02, in the time zone of ``clock``."""
    words, _, rest = clock(at_ms, date=True, zone=zone).partition(".")
    return words + rest[3:]


def short_clock(at_ms: float | None, now_ms: float) -> str:
    """Format a time in at most 11 characters: 19:46:02; of another day, 11-22 06:36; of another year, 2030-11-22.

    Its day and year are compared with those of ``now_ms``. The time zone is that of ``clock``.
    """
    moment = None if at_ms is None else _moment(at_ms)
    if moment is None:
        return UNKNOWN
    now = _moment(now_ms) or moment
    if moment.date() == now.date():
        return f"{moment:%H:%M:%S}"
    return f"{moment:%m-%d %H:%M}" if moment.year == now.year else f"{moment:%Y-%m-%d}"


def plural(number: float, noun: str) -> str:
    """Format a count with its noun: 1 message, 3 messages."""
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def and_more(shown: Iterable[str], total: int, *, separator: str = ", ") -> str:
    """List the first of ``total`` texts, and count those that are not among them: a, b and 3 more."""
    texts = list(shown)
    left_out = total - len(texts)
    return f"{separator.join(texts)}{f' and {count(left_out)} more' if left_out > 0 else ''}"


def matches(number: int | None) -> str:
    """Format a number of matches: 1 match, 27 matches."""
    return f"{count(number)} {'match' if number == 1 else 'matches'}"


def passes(typed: str, holds: Callable[[str], bool]) -> bool:
    """Return whether ``holds`` is true of each word that was typed, and of none that begins with !."""
    # A lone ! is the start of a word that is still being typed.
    words = (word for word in typed.lower().split() if word != "!")
    return all(holds(word.removeprefix("!")) != word.startswith("!") for word in words)


def printable(text: str, limit: int | None = None) -> str:
    """Make untrusted text harmless on a terminal: one line, no controls, bidirectional overrides or lone surrogates.

    Control characters become their Unicode pictures (␛; escapes after ``escape_beyond``), bytes that were not UTF-8
    become \\xNN, other invisible or reordering characters become \\uNNNN, as do marks beyond the eighth on one letter.
    ``limit`` cuts the text to that many characters; the last one is then ….
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(_shown(text))
    # Escapes may be longer than the characters that they replace.
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def cells(text: str) -> int:
    """Return how many columns a printable text takes on most terminals.

    Some draw spacing marks, as of Devanagari, without a column of their own; so does Textual, by which the dashboard
    has to measure.
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def fitted(text: str, width: int) -> str:
    """Cut a printable text to so many columns, with … in the last one."""
    if cells(text) <= width:
        return text
    return text[: sum(taken < width for taken in accumulate(map(_cells_of, text)))] + "…"


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me") or character in _JAMO:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


NO_NAME = "(no name)"


def printable_name(queue: str, limit: int | None = None) -> str:
    """Make the name of a queue printable, as ``printable`` does; an empty one, as other clients may write, is said."""
    return printable(queue, limit) or NO_NAME


def printable_ns(ns: str, limit: int | None = None) -> str:
    """Make a namespace printable, as ``printable`` does; an empty one is said."""
    return printable(ns, limit) or "(no prefix)"


# What --ascii replaces. Of each pair of strings, the second has the replacements, in the same order.
ASCII_SIGNS = {
    sign: replacement
    for signs, replacements in (
        ("·…–—“”‘’←→↑↓❯✔🔎�", ".~--\"\"''<>^v>v/."),
        ("≥±", ">~"),
        # Verdicts, in the order of their severity.
        ("✗■▼▲☣◷○●", "X#v^!@.o"),
        ("◀▶‖◌★▸▾", "<>=?*>v"),
        # Sparklines and shades.
        ("▁▂▃▄▅▆▇░▒▓█", "_.:-=+#:+*#"),
        # Boxes and bars.
        ("─━╸═│┃║┊", "-=--|||:"),
    )
    for sign, replacement in zip(signs, replacements, strict=True)
}
# The rest of boxes, scrollbars and the edges of panels.
ASCII_SIGNS |= {chr(code): "+" for code in range(0x2500, 0x2580) if chr(code) not in ASCII_SIGNS}
ASCII_SIGNS |= {
    chr(code): "=" if chr(code) == "▔" else "|" for code in range(0x2580, 0x25A0) if chr(code) not in ASCII_SIGNS
}


# The encoding of a plain terminal, None for any other, and what is drawn there in another way than by ``printable``.
_encoding: str | None = None
_drawn: Container[str] = ()


def escape_beyond(encoding: str | None, drawn: Container[str] = ()) -> None:
    """Let ``printable`` escape control characters, and those that the encoding of a plain terminal lacks.

    Characters in ``drawn`` are left to the output. None restores the usual way, which expects UTF-8.
    """
    global _encoding, _drawn
    _encoding, _drawn = encoding, drawn


def is_encodable(character: str, encoding: str) -> bool:
    """Return whether an encoding has a character; an unknown encoding has those of ASCII."""
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    except LookupError:
        return character.isascii()
    return True


def _shown(text: str) -> Iterator[str]:
    stacked = 0
    for character in text:
        category = unicodedata.category(character)
        stacked = stacked + 1 if category in _MARKS or character in _STACKED else 0
        is_harmless = character.isprintable() and category not in _INVISIBLE and stacked <= _STACKED_MAX
        if is_harmless and _encoding is not None and character not in _drawn:
            is_harmless = is_encodable(character, _encoding)
        yield character if is_harmless else _pictured(character)


def _pictured(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}" if _encoding is not None else "␡" if code == 0x7F else chr(0x2400 + code)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if character.isspace():
        return " "
    if 0xA0 < code <= 0xFF and _encoding is not None:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_UNITS_MS = {
    unit: unit_ms
    for unit_ms, units in (
        (1, "ms msec millisecond milliseconds"),
        (1_000, "s sec secs second seconds"),
        (60_000, "m min mins minute minutes"),
        (3_600_000, "h hr hrs hour hours"),
        (86_400_000, "d day days"),
    )
    for unit in units.split()
}
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) ?([a-z]{1,12})")
_SPAN = re.compile(rf"-?{_PART.pattern}(?: ?{_PART.pattern})*|-?0")
_SECONDS = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?")
_WHOLE_SECONDS_MAX = 9_999_999
_EXAMPLES = "30s, 10m, 1h30m, 2d"

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def read_span(text: str) -> int | str:
    """Return a duration with a unit in ms, or a sentence that explains the syntax; 0 needs no unit."""
    parts = _PART.findall(text)
    if not _SPAN.fullmatch(text) or any(unit not in _UNITS_MS for _, unit in parts):
        return f"a duration has a unit: 250ms, {_EXAMPLES}"
    span_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    return round(-span_ms if text.startswith("-") else span_ms)


def read_seconds(text: str) -> float | str:
    """Return a duration in seconds, or a sentence that explains the syntax; a plain number is in seconds."""
    if _SECONDS.fullmatch(text):
        return float(text)
    span_ms = read_span(text)
    if isinstance(span_ms, str):
        return f"a duration is a number of seconds, or has a unit: {_EXAMPLES}"
    return span_ms / 1000


def read_whole_seconds(text: str) -> int | str:
    """As ``read_seconds``, for the whole seconds of RSMQ attributes: 0 to 9,999,999."""
    value_s = read_seconds(text)
    if isinstance(value_s, str):
        return value_s
    # A plain number follows the original rsmqctl: 5.0 is refused, 0.5m is not.
    is_whole = value_s == int(value_s) and not ("." in text and text[-1].isdigit())
    if not 0 <= value_s <= _WHOLE_SECONDS_MAX or not is_whole:
        return f"a duration must be a whole number of seconds from 0 to {_WHOLE_SECONDS_MAX:,}"
    return int(value_s)


def read_whole(text: str, least: int = 0, most: int = 10**12) -> int | None:
    """Return a number in decimal digits, None if it is not a number from ``least`` to ``most``."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= 15 and least <= int(text) <= most
    return int(text) if is_number else None


def read_size(text: str) -> int | str:
    """Return a size in bytes, or a sentence that explains the syntax."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return "a size must be a number of bytes, or have a unit of 1024: 512, 64k, 1m"
    return round(float(found[1]) * _SIZES[(found[2] or "").lower()])
