"""One Spark session for all tests of a process: it takes seconds to start, and nobody stops it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rsmq_tui.pipeline.spark import SQL, java_home
from tests.pipeline.running import Workspace
from tests.pipeline.stand_ins import take_their_places

LOOPBACK = "127.0.0.1"
OF_THEIR_OWN = {"test_processes", "test_executor_killed", "test_java"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes a Spark; where tests are dealt out to several processes, one of them takes all with the session.

    ``OF_THEIR_OWN`` are modules whose tests start one of their own.
    """
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        has_session = "spark" in getattr(item, "fixturenames", ())
        if has_session:
            item.add_marker(pytest.mark.xdist_group("spark"))
        if has_session or item.path.stem in OF_THEIR_OWN or item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.spark)
            # "-m 'not slow'" replaces the "-m 'not spark'" of pyproject.toml.
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The Java that the pipeline would find is that of all tests, where there is none of this machine's own too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_HOME", str(java_home(tmp_path_factory.mktemp("java"))))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two local cores, without a web page, in UTC, that says errors only and leaves no file behind."""
    scratch = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patched:
        # Spark asks the machine's name for its own address: on a laptop that changes networks it is not there.
        patched.setenv("SPARK_LOCAL_IP", LOOPBACK)
        # Its workers are to be of this interpreter, with what is installed for it; else the first python3 is taken.
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        patched.setenv("SPARK_LOCAL_DIRS", str(scratch))
        session = (
            SparkSession.builder.master("local[2]")
            .appName("rsmq-tui tests")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            # As runs have them: what a null or an overflow becomes depends on them.
            .config(map={**SQL})
            .config("spark.driver.host", LOOPBACK)
            .config("spark.driver.bindAddress", LOOPBACK)
            # Queries of tests are over before they are worth more of the compiler.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
            .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture
def workspace(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A history, and runs of the pipeline over it in this process, with tables that are quick to make."""
    take_their_places(monkeypatch.setattr)
    return Workspace(spark, tmp_path)
