"""An analysis for the picture of the history screen: in memory, under a name that is the same on every machine."""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from rsmq_tui.tui.history.loading import AnalysisLocation
from tests.history.analysis.made import scripted
from tests.history.analysis.queues import PROD, START_MS
from tests.monitor.test_changes import change, log, undo

_URL = "s3://queues/analysis"
# Orders begin to grow.
_GREW_MS = START_MS + 3 * DAY_MS + 14 * HOUR_MS


class _Bucket(MemoryFileSystem):  # type: ignore[misc] # fsspec has no types
    """Stands in for a bucket."""

    protocol = "s3"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = MemoryFileSystem._strip_protocol(str(path).removeprefix("s3://"))
        return stripped


def scripted_analysis() -> AnalysisLocation:
    """Return where the scripted analysis lies; it is made when it is first asked for."""
    fsspec.register_implementation("s3", _Bucket, clobber=True)
    if not _Bucket.store:
        with tempfile.TemporaryDirectory() as folder:
            made = scripted(Path(folder) / "analysis", history="s3://queues/history")
            _Bucket().put(str(made.out), "s3://queues/analysis", recursive=True)
    return AnalysisLocation(_URL)


def scripted_changes(folder: Path) -> list[Path]:
    """Return the audit log of two changes: half of what had piled up was moved away, and some of it back again."""
    moved = change(
        41, server=PROD.server, at_ms=_GREW_MS + 2 * HOUR_MS, queue="orders", target="orders-later", action="move",
        past="moved", planned=19_200, done=19_200,
    )  # fmt: skip
    back = undo(
        42,
        41,
        server=PROD.server,
        at_ms=_GREW_MS + 3 * HOUR_MS,
        past="moved back",
        planned=6_000,
        done=6_000,
        part=True,
    )
    return [log(folder / "audit.jsonl", moved, back)]
