"""Round numbers and round times for axes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from math import ceil, floor, isfinite, log10

_UNITS = ("k", "M", "G", "T", "P", "E")

# Multiples of these keep two significant digits up to five steps, which is all that `tick_label` shows.
_STEPS = (1, 2, 3, 4, 5, 10)
# A scale of a single step has no multiples to keep short, so it can follow the data more closely.
_SINGLE_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)

# No step is more than twice the one before: halving seven labels must leave at least three.
_TIME_STEPS_S = (1, 2, 3, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MINUTE_S = 60
_DAY_S = 86400

# Smaller than any rate or count can be, and far from where powers of ten underflow.
_SMALLEST = 1e-9


def tick_label(value: float) -> str:
    """Write `value` short: 0, 0.25, 850, 1.2k, 38k, 4.1M, 1E.

    Prefixes are SI. Two significant digits are always kept: a tick is exact, any other number is rounded. What is not
    finite is "–".
    """
    if not isfinite(value):
        return "–"
    if value < 0:
        return f"-{tick_label(-value)}"
    if value < 999.5:
        return f"{value:.3g}" if value >= 1 else f"{value:.2g}"
    scaled = value
    for unit in _UNITS:
        scaled /= 1000
        if scaled < 9.95:
            return f"{scaled:.1f}".removesuffix(".0") + unit
        if scaled < 999.5:
            return f"{scaled:.0f}{unit}"
    return f"{value:.1e}".replace(".0", "").replace("+", "")


def value_ticks(largest: float, most_steps: int, *, whole: bool = False) -> list[float]:
    """Choose the ticks of an axis from zero that holds `largest`: at least two, the last one is the axis' end.

    `most_steps` bounds the distances between ticks (1 to 5 make sense). `whole` asks for ticks at integers.
    """
    if largest < _SMALLEST:
        return [0.0, 1.0]
    best: list[float] = []
    for steps in range(max(1, most_steps), 0, -1):
        step = _round_up(largest / steps, _STEPS if steps > 1 else _SINGLE_STEPS)
        step = max(1.0, step) if whole else step
        # The rounding error of a division must not add an empty step on top.
        ticks = [step * i for i in range(ceil(largest / step - _SMALLEST) + 1)]
        if not best or ticks[-1] < best[-1] * (1 - _SMALLEST):
            best = ticks
    return best if isfinite(best[-1]) else [0.0, largest]


def _round_up(value: float, mantissas: tuple[float, ...]) -> float:
    power = 10.0 ** floor(log10(value))
    return power * next((m for m in mantissas if m * power >= value * (1 - _SMALLEST)), 10)


def time_ticks(start_ms: int, end_ms: int, width: int) -> list[tuple[int, str]]:
    """Choose round UTC times between two epoch times, as (epoch ms, label), for an axis of `width` cells.

    Three to six where they fit, fewer on a narrow axis or over less than three seconds. Labels are HH:MM; HH:MM:SS when
    they are less than a minute apart; MM-DD when they are days apart; "" for a day no calendar has.
    """
    for step_s in _steps_s():
        label_width = len(_time_label(0, step_s))
        room = min(6, (width + 2) // (label_width + 2))
        first_s = -(-start_ms // 1000 // step_s) * step_s
        count = (end_ms // 1000 - first_s) // step_s + 1
        if count <= max(1, room):
            return [
                (at_s * 1000, _time_label(at_s, step_s)) for at_s in range(first_s, first_s + count * step_s, step_s)
            ]
    raise AssertionError("the steps never end")


def _steps_s() -> Iterator[int]:
    yield from _TIME_STEPS_S
    step_s = _DAY_S
    while True:
        step_s *= 2
        yield step_s


def _time_label(at_s: int, step_s: int) -> str:
    if step_s >= _DAY_S:
        try:
            return datetime.fromtimestamp(at_s, UTC).strftime("%m-%d")
        except (OverflowError, ValueError, OSError):
            return ""
    minutes, seconds = divmod(at_s % _DAY_S, 60)
    label = f"{minutes // 60:02}:{minutes % 60:02}"
    return label if step_s >= _MINUTE_S else f"{label}:{seconds:02}"
