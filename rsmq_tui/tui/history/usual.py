"""What an analysis says is usual at this hour of the week, beside the live numbers of a queue."""

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from rsmq_tui.files import reason_of
from rsmq_tui.history.analysis.values import UsualRange
from rsmq_tui.history.moments import HOUR_MS
from rsmq_tui.history.names import HistoryError
from rsmq_tui.monitor.text import count, rate
from rsmq_tui.tui.history.loading import MISSING

if TYPE_CHECKING:
    from rsmq_tui.history.analysis.reading import Analysis

# How often a new run of the pipeline is looked for.
RENEW_MS = 10 * 60_000


class UsualValues:
    """The usual values of the queues of the analysis at ``out``, at the hour that was read last.

    ``problem`` says why nothing can be read.
    """

    def __init__(self, out: str) -> None:
        self._out = out
        self._analysis: Analysis | None = None
        self._known: Mapping[tuple[str, str, str], Mapping[str, UsualRange]] = {}
        self._hour: int | None = None
        self._renewed_ms: int | None = None
        self._reading = Lock()
        self.problem = ""

    def read(self, at_ms: int) -> bool:
        """Read the hour of a time, unless it is known, and return whether that changed anything; blocks."""
        with self._reading:
            try:
                return self._read(at_ms)
            except ImportError:
                self.problem = MISSING
            except HistoryError as error:
                self.problem = str(error)
            except Exception as error:
                # A damaged file or a filesystem may raise any exception.
                self.problem = f"what is usual cannot be read from {self._out}: {reason_of(error)}"
            return False

    def _read(self, at_ms: int) -> bool:
        is_new = False
        if self._analysis is None:
            from rsmq_tui.history.analysis.reading import Analysis  # noqa: PLC0415 - its packages may be missing

            self._analysis, self._renewed_ms = Analysis(self._out), at_ms
        elif self._renewed_ms is None or not 0 <= at_ms - self._renewed_ms < RENEW_MS:
            is_new, self._renewed_ms = self._analysis.renew(), at_ms
        if at_ms // HOUR_MS == self._hour and not is_new:
            return False
        usual = self._analysis.usual(at_ms, "depth", "arrivals_s")
        self._known = {(ref.server, ref.ns, ref.queue): ranges for ref, ranges in usual.items()}
        self._hour, self.problem = at_ms // HOUR_MS, ""
        return True

    def words(self, server: str, ns: str, queue: str) -> str:
        """Return what is usual for a queue: usual at this hour of the week: 90 to 210 messages; empty if not known."""
        known = self._known.get((server, ns, queue), {})
        depth, arrivals = known.get("depth"), known.get("arrivals_s")
        parts = [f"{_between(count(depth.low), count(depth.high))} messages"] if depth else []
        parts += [f"{_between(rate(arrivals.low), rate(arrivals.high))} arrivals/s"] if arrivals else []
        return f"usual at this hour of the week: {', '.join(parts)}" if parts else ""


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
