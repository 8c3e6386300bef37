"""The figures of a run, what may become of each of them, and the table that says what became of them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from tests.soak.fit import Slope, Verdict, slope_of, verdict_of

# The programs that are watched; the workload and the server are there to keep them busy.
PROGRAMS = ("dashboard", "page", "serve", "recorder", "exporter", "watch")
# What a figure may gain in a day: a share of what it was at the start, or a number.
_SHARES = {"rss_kb": 0.1, "private_kb": 0.1, "blocks": 0.1, "objects": 0.1}
_NUMBERS = {"fds": 1.0, "threads": 1.0, "tasks": 1.0}
# Connections of programs are descriptors of theirs; most clients of the server are those of the workload.
_SERVER = {"keys": 1.0, "scripts": 1.0}
# Counted from the start: what a second has of them is shown.
_COUNTERS = {"cpu_ms", "commands"}
_ENDS = 5
_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = 30


@dataclass(frozen=True, slots=True)
class Row:
    """A figure: the median of its first and of its last samples, its slope, and its verdict, None if it is not judged.

    What grows by design, as a recording does, is not judged, nor is what the workload makes of itself.
    """

    name: str
    start: float
    end: float
    slope: Slope
    verdict: Verdict | None
    curve: str

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object; an end of the interval that is not known is null."""
        low, high = (each if isfinite(each) else None for each in (self.slope.low_per_h, self.slope.high_per_h))
        return {
            "figure": self.name,
            "start": self.start,
            "end": self.end,
            "per_h": self.slope.per_h,
            "interval_per_h": [low, high],
            "verdict": self.verdict,
            "curve": self.curve,
        }


@dataclass(frozen=True, slots=True)
class Judged:
    """The rows of a run, how long it was, what its users did, and what went wrong for them."""

    rows: list[Row]
    hours: float
    done: dict[str, int]
    troubles: list[str]

    @property
    def status(self) -> int:
        """The exit status: 1 if something grows or has ended, 3 if something is not proved, 0 if all is flat."""
        verdicts = {row.verdict for row in self.rows}
        if Verdict.GROWS in verdicts or any(each.endswith("has ended") for each in self.troubles):
            return 1
        return 3 if Verdict.UNPROVED in verdicts else 0


def settled_s(seconds: float) -> float:
    """Return the time from which on a run of that length is judged: ten minutes, or a third if that is shorter."""
    return min(600.0, seconds / 3)


def judged(path: Path) -> Judged:
    """Judge the samples of a file, also of a run that was cut; raises ``OSError`` and ``ValueError``."""
    samples: list[dict[str, Any]] = []
    done: dict[str, int] = {}
    troubles: list[str] = []
    for line in path.read_text().splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            # The last line of a run that was killed while it wrote.
            continue
        if "figures" in found:
            samples.append(found)
        else:
            done, troubles = found["done"], found["troubles"]
    if len(samples) < 2:
        raise ValueError(f"{path} has fewer than two samples")
    end_s = samples[-1]["at_s"]
    rows = sorted(_rows([each for each in samples if each["at_s"] >= settled_s(end_s)]), key=_order)
    return Judged(rows, end_s / 3600, done, troubles)


def lines(found: Judged) -> Iterator[str]:
    """Yield the report as text."""
    yield f"{found.hours:.2f} h, judged after the first ten minutes, or the first third if that is shorter"
    yield "per hour: Theil and Sen's slope, with its interval of 95 %"
    yield f"{'figure':29} {'start':>10} {'end':>10} {'per hour':>10} {'interval':>21}  {'verdict':11} curve"
    for row in found.rows:
        slope = row.slope
        interval = f"{_short(slope.low_per_h)} … {_short(slope.high_per_h)}"
        yield (
            f"{row.name:29} {row.start:10,.0f} {row.end:10,.0f} {_short(slope.per_h):>10} {interval:>21}"
            f"  {row.verdict or '–':11} {row.curve}"
        )
    yield "done: " + ", ".join(f"{count:,} {name}" for name, count in found.done.items())
    for trouble in found.troubles:
        yield f"trouble: {trouble}"


def _rows(samples: Sequence[dict[str, Any]]) -> Iterator[Row]:
    for name in {name for each in samples for name in each["figures"]}:
        points = [(each["at_s"], each["figures"][name]) for each in samples if name in each["figures"]]
        if name.split()[-1] in _COUNTERS:
            points = [(after[0], (after[1] - before[1]) / (after[0] - before[0])) for before, after in pairwise(points)]
        if len(points) < 2:
            continue
        times_h, values = [at_s / 3600 for at_s, _ in points], [value for _, value in points]
        start, end = median(values[:_ENDS]), median(values[-_ENDS:])
        bound = _bound(name, start)
        verdict, slope = (None, slope_of(times_h, values)) if bound is None else verdict_of(times_h, values, bound)
        shown = f"{name} /s" if name.split()[-1] in _COUNTERS else name
        yield Row(shown, start, end, slope, verdict, _curve(values))


def _bound(name: str, start: float) -> float | None:
    who, _, figure = name.partition(" ")
    if who == "server":
        return _SERVER.get(figure)
    if who not in PROGRAMS:
        return None
    return start * _SHARES[figure] if figure in _SHARES else _NUMBERS.get(figure)


def _order(row: Row) -> tuple[bool, int, str]:
    who = row.name.split()[0]
    return row.verdict is None, PROGRAMS.index(who) if who in PROGRAMS else len(PROGRAMS), row.name


def _short(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+.3g}"


def _curve(values: Sequence[float]) -> str:
    """Return the medians of equal parts as bars, from the lowest to the highest value."""
    count = min(_COLUMNS, len(values))
    parts = [values[len(values) * each // count : len(values) * (each + 1) // count] for each in range(count)]
    middles = [median(part) for part in parts]
    low, span = min(middles), max(middles) - min(middles)
    return "".join(_BARS[round((each - low) / span * (len(_BARS) - 1))] if span else _BARS[0] for each in middles)
