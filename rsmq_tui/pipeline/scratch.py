"""A folder for what Spark writes on the way; what a killed run left of one is removed by the next run."""

import os
import shutil
import tempfile
from pathlib import Path

from rsmq_tui.locks import FileLock

_PREFIX = "rsmq-tui-spark-"
_LOCK = "lock"


class Scratch:
    """A temporary folder of this run, locked for as long as the process lives; raises ``OSError``."""

    def __init__(self) -> None:
        # Those who have a disk for it have told Spark.
        wanted = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0].strip()
        _remove_abandoned(Path(wanted or tempfile.gettempdir()))
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=wanted or None))
        self._lock = FileLock.acquire(self.folder / _LOCK)

    def remove(self) -> None:
        """Remove it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            # One that is being made has no lock yet.
            lock = FileLock.acquire(folder / _LOCK) if (folder / _LOCK).exists() else None
        except OSError:
            # Somebody else's.
            continue
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
