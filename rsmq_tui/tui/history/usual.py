"""What an analysis says is usual at this hour of the week, beside the live numbers of a queue."""

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from rsmq_tui.files import reason_of
from rsmq_tui.history.analysis.values import UsualRange
from rsmq_tui.history.names import HistoryError
from rsmq_tui.monitor.text import count, rate
from rsmq_tui.tui.history.loading import MISSING

if TYPE_CHECKING:
    from rsmq_tui.history.analysis.reading import Analysis

# How often a new run of the pipeline is looked for.
RENEW_MS = 10 * 60_000
# When an hour begins on the clocks of any time zone: some are half an hour from UTC, or a quarter.
QUARTER_MS = 15 * 60_000


class UsualValues:
    """The usual values of the queues of the analysis at ``out``, at the hour that was read last.

    ``problem`` says why something cannot be read.
    """

    def __init__(self, out: str) -> None:
        self._out = out
        self._analysis: Analysis | None = None
        self._known: Mapping[tuple[str, str, str], Mapping[str, UsualRange]] = {}
        self._quarter: int | None = None
        self._renewed_ms = 0
        self._reading = Lock()
        self.problem = ""

    def read(self, at_ms: int) -> bool:
        """Read the hour of a time, unless it is known, and return whether that changed anything.

        It blocks, but not while another thread reads: a store may take long, or not answer.
        """
        if not self._reading.acquire(blocking=False):
            return False
        try:
            is_changed = self._read(at_ms)
            self.problem = "; ".join(self._analysis.left_out) if self._analysis is not None else ""
            return is_changed
        except ImportError:
            self.problem = MISSING
        except HistoryError as error:
            self.problem = str(error)
        except Exception as error:
            # A damaged file or a filesystem may raise any exception.
            self.problem = f"what is usual cannot be read from {self._out}: {reason_of(error)}"
        finally:
            self._reading.release()
        return False

    def _read(self, at_ms: int) -> bool:
        if self._analysis is None:
            from rsmq_tui.history.analysis.reading import Analysis  # noqa: PLC0415 - its packages may be missing

            self._analysis, self._renewed_ms = Analysis(self._out), at_ms
        elif not 0 <= at_ms - self._renewed_ms < RENEW_MS:
            if self._analysis.renew():
                self._quarter = None
            self._renewed_ms = at_ms
        if at_ms // QUARTER_MS == self._quarter:
            return False
        usual = self._analysis.usual(at_ms, "depth", "arrivals_s")
        self._known = {(ref.server, ref.ns, ref.queue): ranges for ref, ranges in usual.items()}
        self._quarter = at_ms // QUARTER_MS
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
