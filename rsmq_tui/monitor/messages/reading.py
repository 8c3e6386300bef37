"""Tolerant reading of data that other clients wrote: the most probable meaning, and a sentence for each deviation.

The readers do not raise: a value that cannot be read is None, with a sentence that says so.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from rsmq_tui.monitor.text import duration, printable
from rsmq_tui.protocol import MICROSECONDS_FROM, SECONDS_BELOW, TIME_FROM, leading_int, sent_ms
from rsmq_tui.protocol.keys import CANONICAL_ID
from rsmq_tui.protocol.replies import text_date_ms

_VT_LIMIT_S = 9_999_999
_NUMBER = re.compile(r"\s*([+-]?\d{1,18}(?:\.\d+)?)\s*")


class Attributes(NamedTuple):
    """A queue's attributes as read; ``broken`` says why clients cannot use the queue, or is None."""

    vt_s: float | None = None
    delay_s: float | None = None
    maxsize: int | None = None
    created_ms: int | None = None
    modified_ms: int | None = None
    problems: tuple[str, ...] = ()
    broken: str | None = None


def read_attributes(fields: list[bytes | None]) -> Attributes:
    """Read the raw values of vt, delay, maxsize, created and modified, in this order."""
    raw_vt, raw_delay, raw_maxsize, raw_created, raw_modified = fields
    problems: list[str] = []
    if raw_vt is None:
        return Attributes(broken="its attributes hold no vt: clients report queueNotFound")
    vt_s = _read_seconds("vt", raw_vt, problems)
    if vt_s is None:
        return Attributes(broken=f"its vt is not a number: {_shown(raw_vt)}")
    return Attributes(
        vt_s=vt_s,
        delay_s=_read_seconds("delay", raw_delay, problems),
        maxsize=_read_maxsize(raw_maxsize, problems),
        created_ms=_read_date("created", raw_created, problems),
        modified_ms=_read_date("modified", raw_modified, problems),
        problems=tuple(problems),
    )


def read_total(name: str, raw: bytes | None, problems: list[str]) -> int | None:
    """Read a counter; it is absent until its first use, which means 0."""
    if raw is None:
        return 0
    value = leading_int(raw)
    if value is None:
        problems.append(f"{name} is not a number: {_shown(raw)}")
    return value


def read_score(raw: str) -> tuple[float | None, str | None]:
    """Return when a message becomes visible, in ms, and a sentence if the score is not in ms.

    The time is None for never (a score of +inf), and for a score that is not a number.
    """
    try:
        score = float(raw)
    except ValueError:
        return None, f"a score is not a number: {printable(raw, 40)}"
    if math.isnan(score) or score == math.inf:
        return None, "a score is infinite: that message never becomes visible"
    if score < TIME_FROM:
        return max(score, 0.0), None
    if score < SECONDS_BELOW:
        return score * 1000, "scores are in seconds: clients that write milliseconds see every message as ready"
    if score < MICROSECONDS_FROM:
        return score, None
    return score / 1000, "scores are in microseconds: clients that write milliseconds see every message as hidden"


class ScoreUnit(StrEnum):
    """The unit of a score that is not in ms."""

    SECONDS = "seconds"
    MICROSECONDS = "microseconds"


def score_units(scores: Sequence[bytes]) -> Counter[ScoreUnit]:
    """Count the raw scores that are not in ms, by unit."""
    numbers = list(map(float, scores))
    if not numbers or (min(numbers) >= SECONDS_BELOW and max(numbers) < MICROSECONDS_FROM):
        # Fast path: there may be millions, usually all in ms.
        return Counter()
    return Counter(unit for number in numbers if (unit := _unit_of(number)) is not None)


def score_like(score: bytes, due_ms: int) -> bytes:
    """Return the raw score for ``due_ms``, in the unit of ``score``."""
    match _unit_of(float(score)):
        case ScoreUnit.SECONDS:
            return b"%d" % (due_ms // 1000)
        case ScoreUnit.MICROSECONDS:
            return b"%d" % (due_ms * 1000)
    return b"%d" % due_ms


def _unit_of(score: float) -> ScoreUnit | None:
    if TIME_FROM <= score < SECONDS_BELOW:
        return ScoreUnit.SECONDS
    return ScoreUnit.MICROSECONDS if MICROSECONDS_FROM <= score < math.inf else None


def read_id(identity: str, now_ms: int) -> tuple[int | None, str | None]:
    """Return when a message was sent, in ms, if its id carries a time, and a sentence if the id is not canonical."""
    sent = sent_ms(identity, now_ms=now_ms)
    if not CANONICAL_ID.fullmatch(identity):
        return sent, (
            f"message ids are not canonical ({printable(identity, 42)}): "
            "the canonical client can receive but never delete them"
        )
    if sent is None:
        return None, "message ids carry no time: ages count from when a message became visible"
    return sent, None


def _read_seconds(name: str, raw: bytes | None, problems: list[str]) -> float | None:
    if raw is None:
        problems.append(f"no {name}: clients report queueNotFound")
        return None
    number = _NUMBER.fullmatch(raw.decode("latin-1"))
    if number is None:
        value = leading_int(raw)
        if value is not None:
            problems.append(f"{name} {_shown(raw)} is not a number: read as {value}")
        elif name != "vt":
            problems.append(f"{name} is not a number: {_shown(raw)}")
        return value
    value_s = float(number[1])
    if _is_milliseconds(value_s):
        problems.append(
            f"{name} {value_s:.0f} is probably in milliseconds: clients that read seconds use "
            f"{duration(value_s * 1000)}"
        )
        return value_s / 1000
    if value_s != int(value_s):
        problems.append(f"{name} {value_s:g} is not whole: the canonical client reads {int(value_s)}")
        return value_s
    if value_s < 0:
        problems.append(f"{name} is negative: {value_s:.0f}")
    return int(value_s)


def _is_milliseconds(value: float) -> bool:
    """Return whether a vt or delay was probably written by a client that stores ms.

    A multiple of 1,000 that is not a whole number of hours is in ms: 30000 is 30 s, but 36000 is 10 hours. So is one
    beyond eleven days of seconds, and any value beyond the limit of the protocol.
    """
    if value > _VT_LIMIT_S:
        return True
    return value >= 1000 and value % 1000 == 0 and (value % 3600 != 0 or value >= 1_000_000)


def _read_maxsize(raw: bytes | None, problems: list[str]) -> int | None:
    if raw is None:
        problems.append("no maxsize: clients report queueNotFound")
        return None
    value = leading_int(raw)
    if value is None:
        problems.append(f"maxsize is not a number: {_shown(raw)}")
    return value


def _read_date(name: str, raw: bytes | None, problems: list[str]) -> int | None:
    if raw is None:
        problems.append(f"no {name} date")
        return None
    text = raw.decode("latin-1").strip()
    if number := _NUMBER.fullmatch(text):
        value = float(number[1])
        if value < SECONDS_BELOW:
            return int(value * 1000)
        unit, divisor = ("milliseconds", 1) if value < MICROSECONDS_FROM else ("microseconds", 1000)
        problems.append(f"{name} is in {unit}, not in seconds")
        return int(value / divisor)
    date_ms = text_date_ms(raw)
    if date_ms is None:
        problems.append(f"{name} is not a date: {_shown(raw)}")
        return None
    problems.append(f"{name} is a text date: the canonical client reads {text[:4]}")
    return date_ms


def _shown(raw: bytes) -> str:
    return printable(raw[:60].decode("utf-8", "surrogateescape"), 40)
