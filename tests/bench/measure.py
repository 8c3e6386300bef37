"""Interleaved measuring: ours, other, ours, other, and the median of each, so that noise meets both alike."""

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median

import redis

from tests.bench.row import Measured, Run, Sense

Sample = Callable[[], float]
"""Does the work once and returns its figure."""

Side = Callable[[], Sample]
"""Gets one sample ready, outside its figure."""

Call = Callable[[], object]

Prepare = Callable[[int], Sequence[Call]]
"""Gets that many calls ready, outside their figures."""

_CALLS = 25


def interleave(run: Run, ours: Side, other: Side, *, pairs: int, warm_up: int = 2, limit_s: float = 30.0) -> Measured:
    """Take ``pairs`` samples of each side in turn; after ``limit_s`` the sampling ends, but not before five pairs."""
    figures: tuple[list[float], list[float]] = ([], [])
    wanted = run.size(pairs, 2)
    for _ in range(run.size(warm_up, 1)):
        _sample(ours)
        _sample(other)
    deadline_s = time.monotonic() + limit_s
    for number in range(wanted):
        if number >= 5 and time.monotonic() > deadline_s:
            break
        figures[0].append(_sample(ours))
        figures[1].append(_sample(other))
        run.say(f"pair {number + 1} of {wanted}")
    return Measured(median(figures[0]), median(figures[1]))


def interleave_calls(
    run: Run, ours: Prepare, other: Prepare, *, rounds: int, warm_up: int = 10, limit_s: float = 8.0
) -> Measured:
    """Make prepared calls of each side in turn, one by one, and return what the median call took, in microseconds.

    A call takes a fraction of a millisecond: only its neighbour of the other side has met the same machine.
    """
    figures: tuple[list[float], list[float]] = ([], [])
    count, wanted, clock = run.size(_CALLS, 3), run.size(rounds, 2), time.perf_counter
    deadline_s = time.monotonic() + limit_s
    for number in range(-run.size(warm_up, 1), wanted):
        if number >= 5 and time.monotonic() > deadline_s:
            break
        pairs = list(zip(ours(count), other(count), strict=True))
        gc.collect()
        taken = []
        for our_call, other_call in pairs:
            before_s = clock()
            our_call()
            between_s = clock()
            other_call()
            taken.append((between_s - before_s, clock() - between_s))
        if number >= 0:
            figures[0].extend(our_s for our_s, _ in taken)
            figures[1].extend(other_s for _, other_s in taken)
            run.say(f"round {number + 1} of {wanted}")
    return Measured(median(figures[0]) * 1e6, median(figures[1]) * 1e6)


class ProcessorTimes:
    """The processor time of samples, of this process and of a server: on a busy machine it is more reliable than wall
    time."""

    def __init__(self, server: redis.Redis) -> None:
        self._server = server
        self._taken_s: dict[str, list[float]] = {"ours": [], "other": []}

    def of(self, side: str, sample: Sample, count: int = 1) -> Sample:
        """Return a sample that also keeps what each of ``count`` things took; ``side`` is ours or other."""

        def timed() -> float:
            before_s = self._spent_s()
            figure = sample()
            self._taken_s[side].append((self._spent_s() - before_s) / count)
            return figure

        return timed

    def note(self, sense: Sense) -> str:
        """Return the medians, and their ratio."""
        ours_s, other_s = median(self._taken_s["ours"]), median(self._taken_s["other"])
        ratio = other_s / ours_s if sense is Sense.TIMES_LESS else ours_s / other_s
        scale, unit = (1e6, "us") if max(ours_s, other_s) < 0.1 else (1, "s")
        return f"processor time {ours_s * scale:.3g} {unit} against {other_s * scale:.3g} {unit}, ratio {ratio:.3f}"

    def _spent_s(self) -> float:
        found = self._server.info("cpu")
        return time.process_time() + float(found["used_cpu_user"]) + float(found["used_cpu_sys"])


def _sample(side: Side) -> float:
    sample = side()
    # The collector stays on, since programs run with it; collecting first makes each sample pay for its own garbage
    # and not for what the other side or the preparation left.
    gc.collect()
    return sample()
