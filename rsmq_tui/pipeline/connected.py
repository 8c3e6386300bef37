"""Spark where it runs already, behind a Connect server."""

import re
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsmq_tui.pipeline.errors import NotInstalledError, PipelineError
from rsmq_tui.pipeline.spark_log import why

_PATIENCE_S = 10.0
_PORT = 15002
_ADDRESS = re.compile(r"sc://(?:\[([^\]]+)\]|([^:/;\[\]]+))(?::([0-9]{1,5}))?(?:/.*)?")


class Connected:
    """A Spark Connect server, such as sc://host:15002; raises ``PipelineError`` where it cannot be used."""

    spark: Any
    log: Path | None = None

    def __init__(self, remote: str) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        self._lock = threading.Lock()
        self._at_work: dict[str, tuple[int, int]] = {}
        _check_answers(remote)
        try:
            from pyspark.sql.connect.utils import check_dependencies  # noqa: PLC0415

            check_dependencies()
        except ImportError as error:
            raise NotInstalledError(
                "--remote needs the packages of Spark's client: pip install 'pyspark[connect]'"
            ) from error
        try:
            session: Any = SparkSession.builder.remote(remote).appName("rsmq-tui pipeline").getOrCreate()
            session.registerProgressHandler(self._progressed)
            self.spark = session
        except Exception as error:
            raise PipelineError(f"{without_secrets(remote)} cannot be used: {why(error)}") from error

    def _progressed(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        del inflight_tasks
        with self._lock:
            self._at_work.pop(operation_id or "", None)
            if stages and not done:
                told = list(stages)
                tasks = sum(stage.num_completed_tasks for stage in told), sum(stage.num_tasks for stage in told)
                self._at_work[operation_id or ""] = tasks

    def fitting(self) -> dict[str, str]:
        """Return nothing: how many partitions fit is the server's own affair."""
        return {}

    def tasks(self) -> tuple[int, int]:
        """Return what the server last said of the operations at work."""
        with self._lock:
            told = list(self._at_work.values())
        return sum(done for done, _ in told), sum(total for _, total in told)

    def cancel(self) -> None:
        """Interrupt all that this session runs."""
        self.spark.interruptAll()

    def close(self) -> None:
        """End the session; the server goes on."""
        with suppress(Exception):
            self.spark.stop()


def without_secrets(remote: str) -> str:
    """Return the address of a server without what follows it, such as a token."""
    scheme, separator, rest = remote.partition("://")
    return f"{scheme}{separator}{rest.partition('/')[0]}"


def _check_answers(remote: str) -> None:
    """Say at once that nobody listens, where Spark's client would try again for minutes."""
    found = _ADDRESS.fullmatch(remote)
    if found is None:
        raise PipelineError("--remote takes the address of a Spark Connect server: sc://HOST:15002")
    host, port = found[1] or found[2], int(found[3] or _PORT)
    try:
        socket.create_connection((host, port), timeout=_PATIENCE_S).close()
    except (OSError, UnicodeError, OverflowError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PipelineError(f"no answer from {host} port {port}: {said}; start a Spark Connect server there") from error
