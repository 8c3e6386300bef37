"""An analysis for the picture of the history screen: in memory, under a name that is the same on every machine."""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from rsmq_tui.tui.history.loading import AnalysisLocation
from tests.history.analysis.made import scripted

_URL = "s3://queues/analysis"


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
