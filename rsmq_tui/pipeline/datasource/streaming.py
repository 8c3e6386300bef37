"""A stream of samples: the rows that a recorder would write, poll by poll, without a file in between."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rsmq_tui.history.rows import SampleRows
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.list_poller import SEARCH_EVERY_S, ListPoller
from rsmq_tui.monitor.wording import printable
from rsmq_tui.pipeline.datasource.bridge import opened_poller
from rsmq_tui.pipeline.datasource.errors import ERRORS, SourceError, briefly
from rsmq_tui.pipeline.datasource.options import Options
from rsmq_tui.pipeline.datasource.queues import fitted, place_of

# A trigger that comes this much of the time between two polls too early is made to wait for it.
_EARLY = 0.1

_Offset = dict[str, Any]


class SampleStreamReader(SimpleDataSourceStreamReader):
    """Polls when a trigger asks and ``every_s`` has passed, and yields a row for each queue and poll.

    As in recorded history, one row without a queue tells how each poll went, and an outage is a row that says so.

    The offset counts polls. What a queue was like a moment ago cannot be asked again: of a batch that Spark had planned
    and not finished when it was ended, no row comes after a restart, which is a gap, with ``interval_ms`` null behind
    it. So each row comes once at most, and none is made up. A server that is not there when a query begins for the
    first time ends it; later that is an outage.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        # Made where the polls are: Spark also copies this object to where they are not.
        self._polls: _Polls | None = None

    @briefly
    def initialOffset(self) -> _Offset:  # noqa: N802 - Spark's name
        """Return the offset before the first poll; raises ``SourceError`` where there is nothing to poll."""
        self._polls = self._polls or _Polls(self._options)
        try:
            self._polls.check()
        except SourceError:
            self.close()
            raise
        return {"polls": 0, "at_ms": 0}

    def read(self, start: _Offset) -> tuple[Iterator[Any], _Offset]:
        """Poll, if it is time, and return the rows and the offset behind them."""
        self._polls = self._polls or _Polls(self._options)
        if not self._polls.is_due():
            return iter(()), start
        rows, at_ms = self._polls.poll()
        batch = fitted(rows, to_arrow_schema(self._schema, timezone="UTC"))
        return iter([batch]), {"polls": start["polls"] + 1, "at_ms": at_ms}

    def readBetweenOffsets(self, start: _Offset, end: _Offset) -> Iterator[Any]:  # noqa: N802 - Spark's name
        """Return nothing: what was polled before a restart is not known any more."""
        return iter(())

    def close(self) -> None:
        """Close the connections; Spark does not ask for it, and ends the process."""
        if self._polls is not None:
            self._polls.close()


class _Polls:
    """The polls of one run of a query."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._poller = opened_poller(options, interval_s=options.every_s)
        self._searched_s = -SEARCH_EVERY_S
        self._recorder = uuid4().hex[:12]
        self._rows: SampleRows | None = None
        self._polled_s: float | None = None
        self._last_ms: int | None = None
        self._ahead_ms = 0

    def check(self) -> None:
        """Raise ``SourceError`` where the server cannot be read."""
        snapshot = self._polled()
        failure = snapshot.link.failure
        if failure is not None:
            raise SourceError(printable(f"{snapshot.server}: {failure.sentence}; {failure.hint}"))

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._poller.aclose())
        self._runner.close()

    def is_due(self) -> bool:
        """Tell whether it is time for a poll; when it nearly is, wait until then."""
        if self._polled_s is None:
            return True
        every_s = self._options.every_s
        rest_s = self._polled_s + every_s - time.monotonic()
        if rest_s > _EARLY * every_s:
            return False
        time.sleep(max(0.0, rest_s))
        return True

    def poll(self) -> tuple[pa.RecordBatch, int]:
        """Poll, and return the rows and the server's time."""
        self._polled_s = time.monotonic()
        snapshot = self._polled()
        wall_ms = round(time.time() * 1000)
        if self._rows is None:
            self._rows = SampleRows(self._recorder, place_of(self._options, snapshot))
        if snapshot.link.failure is not None:
            self._last_ms = None
            at_ms = wall_ms + self._ahead_ms
            return self._rows.failed(snapshot.link.failure.sentence, at_ms), at_ms
        at_ms, self._ahead_ms = snapshot.at_ms, snapshot.at_ms - wall_ms
        interval_ms = None if self._last_ms is None or at_ms <= self._last_ms else at_ms - self._last_ms
        self._last_ms = at_ms
        return self._rows.polled(self._wanted(snapshot), at_ms, interval_ms), at_ms

    def _polled(self) -> Snapshot:
        """Poll; lists are looked for before, now and then."""
        if isinstance(self._poller, ListPoller) and time.monotonic() - self._searched_s >= SEARCH_EVERY_S:
            # A server that cannot be read is told by the poll.
            with suppress(*ERRORS):
                self._runner.run(self._poller.discover())
                self._searched_s = time.monotonic()
        return self._runner.run(self._poller.poll())

    def _wanted(self, snapshot: Snapshot) -> tuple[Any, ...]:
        name = self._options.queue
        return tuple(queue for queue in snapshot.queues if name is None or queue.name == name)
