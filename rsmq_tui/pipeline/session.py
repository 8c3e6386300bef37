"""Spark, started for one run, or reached where it runs already: on this machine, on a cluster, behind Connect."""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rsmq_tui.pipeline.connected import Connected
from rsmq_tui.pipeline.errors import NotInstalledError, PipelineError
from rsmq_tui.pipeline.java import java_home
from rsmq_tui.pipeline.scratch import Scratch
from rsmq_tui.pipeline.spark_log import failure_in, log_file, why

_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 10.0
_GATEWAY = "PYSPARK_GATEWAY_PORT"
# Rows of fifty columns make methods that Java would interpret for ever, for their length.
_JAVA = "-XX:-DontCompileHugeMethods"
# What would make another Spark of it than the one that is installed with us.
_OTHERS = (
    "SPARK_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_API_MODE",
    "SPARK_TESTING",
    "PYSPARK_SUBMIT_ARGS",
    "MASTER",
)

SQL = {
    "spark.sql.session.timeZone": "UTC",
    # A number that no queue has by itself spoils its own row, and not the run.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
    # A day is text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Asking a disk for some hundred files takes less than sending jobs to do it.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "4000",
}
"""The settings that every session has in which the pipeline runs, wherever Spark is."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Which Spark: a master or a Connect server; None for what spark-submit says, or for all cores of this machine."""

    master: str | None = None
    remote: str | None = None
    driver_memory: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    shows_log: bool = False


class Engine(Protocol):
    """A Spark at work; ``log`` is the file that its own words go to."""

    spark: Any
    log: Path | None

    def tasks(self) -> tuple[int, int]:
        """Return how many tasks of what runs now are done, and how many there are; 0, 0 where nothing runs."""

    def cancel(self) -> None:
        """Cancel what runs now."""

    def fitting(self) -> dict[str, str]:
        """Return the settings that depend on how many cores there are."""

    def close(self) -> None:
        """End it, and remove what it left on this machine."""


def open_engine(options: SparkOptions, state: Path, label: str) -> Engine:
    """Start Spark, or connect to it; ``state`` is the user's folder, ``label`` names what it is for.

    Raises ``PipelineError``.
    """
    check_installed()
    if options.remote is None:
        engine: Engine = _Started(options, state, label)
    else:
        _forget_others()
        engine = Connected(options.remote)
    given = dict(options.settings)
    try:
        for name, value in (SQL | engine.fitting() | given).items():
            if name.startswith("spark.sql."):
                # Some are fixed when Spark starts; there they were given.
                with suppress(Exception):
                    engine.spark.conf.set(name, value)
    except BaseException:
        engine.close()
        raise
    return engine


def check_installed() -> None:
    """Raise ``NotInstalledError`` where the packages of the pipeline are missing."""
    try:
        import fsspec  # noqa: F401, PLC0415
        import pyarrow  # noqa: F401, PLC0415
        import pyspark  # noqa: F401, PLC0415
    except ImportError as error:
        raise NotInstalledError("the pipeline needs its packages: pip install 'rsmq-tui[pipeline]'") from error


class _Started:
    """Spark with its driver in a Java of ours, or in the one of the spark-submit that started us."""

    def __init__(self, options: SparkOptions, state: Path, label: str) -> None:
        self.log: Path | None = None
        self._scratch: Scratch | None = None
        self._java: subprocess.Popen[bytes] | None = None
        self.spark: Any = None
        try:
            if _GATEWAY in os.environ:
                self._join(options)
            else:
                self._start(options, state, label)
        except BaseException:
            self.close()
            raise

    def _join(self, options: SparkOptions) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        if options.driver_memory is not None:
            raise PipelineError(
                "the driver's memory is an option of spark-submit itself: spark-submit --driver-memory 2g script.py"
            )
        builder = SparkSession.builder.appName("rsmq-tui pipeline")
        for name, value in (("spark.master", options.master), *options.settings):
            if value is not None:
                builder = builder.config(name, value)
        try:
            self.spark = builder.getOrCreate()
        except Exception as error:
            raise PipelineError(f"Spark could not start: {why(error)}") from error

    def _start(self, options: SparkOptions, state: Path, label: str) -> None:
        import pyspark  # noqa: PLC0415
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415

        home = java_home(state)
        try:
            self._scratch = Scratch()
            self.log = None if options.shows_log else log_file(state, label)
            written = None if self.log is None else self.log.open("wb")
        except OSError as error:
            raise PipelineError(f"{error.filename} cannot be written: {error.strerror}") from error
        _forget_others()
        os.environ |= {
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "JAVA_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(self._scratch.folder),
        }
        conf = SparkConf()
        for name, value in self._settings(options).items():
            conf.set(name, value)
        streams = {} if written is None else {"stdout": written, "stderr": written}
        try:
            gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
            self._java = gateway.proc
            context = SparkContext(conf=conf, gateway=gateway)
            if not options.shows_log:
                context.setLogLevel("WARN")
            self.spark = SparkSession(context)
        except Exception as error:
            said = failure_in(self.log) if self.log is not None and self._java is None else why(error)
            told = f"; its log: {self.log}" if self.log is not None else ""
            raise PipelineError(f"Spark could not start: {said or why(error)}{told}") from error
        finally:
            if written is not None:
                written.close()

    def _settings(self, options: SparkOptions) -> dict[str, str]:
        assert self._scratch is not None
        master = options.master or "local[*]"
        given = dict(options.settings)
        # What Java unpacks on the way goes with the rest.
        asked = given.pop("spark.driver.extraJavaOptions", "")
        java = f'-Djava.io.tmpdir="{self._scratch.folder}" {_JAVA} {asked}'.strip()
        settings = {
            "spark.master": master,
            "spark.app.name": "rsmq-tui pipeline",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(self._scratch.folder / "warehouse"),
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": _JAVA,
            **SQL,
        }
        if master.startswith("local"):
            # A laptop's own name may not lead to it.
            os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
            settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
        if options.driver_memory is not None:
            settings["spark.driver.memory"] = options.driver_memory
        return settings | given

    def fitting(self) -> dict[str, str]:
        """Return the settings that depend on how many cores there are."""
        cores = int(self.spark.sparkContext.defaultParallelism)
        # Adaptive execution joins the small ones; many are needed where one would not fit into memory.
        return {"spark.sql.shuffle.partitions": str(max(32, 3 * cores))}

    def tasks(self) -> tuple[int, int]:
        """Return what Spark's status says of the stages at work."""
        tracker = self.spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)

    def cancel(self) -> None:
        """Cancel all its jobs."""
        if self.spark is not None:
            self.spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """End it, and its Java where that is ours, and remove what it wrote on the way."""
        with suppress(Exception):
            if self.spark is not None:
                self.spark.stop()
        if self._java is not None:
            with suppress(Exception):
                from pyspark import SparkContext  # noqa: PLC0415

                if SparkContext._gateway is not None:
                    SparkContext._gateway.shutdown()
                    SparkContext._gateway = None
                    SparkContext._jvm = None
            # It ends when nobody can tell it anything any more.
            if self._java.stdin is not None:
                self._java.stdin.close()
            try:
                self._java.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._java.kill()
                self._java.wait()
        if self._scratch is not None:
            self._scratch.remove()


def _forget_others() -> None:
    for name in _OTHERS:
        os.environ.pop(name, None)
