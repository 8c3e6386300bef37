"""The pipeline as it is started and ended: as a process with a Spark of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import rsmq_tui.pipeline.script
from rsmq_tui.history.analysis.schema import EPISODES, ROLLUP_1M
from tests.history.made import NOON_MS
from tests.pipeline.running import DAY, Workspace

PATIENCE_S = 110
ROOT = Path(__file__).parents[2]
# As little as possible of each Java: these runs are short.
QUICK = (
    *("--master", "local[2]", "--spark-conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"),
    *("--spark-conf", "spark.sql.shuffle.partitions=1"),
)


@pytest.fixture
def workspace(spark: SparkSession, tmp_path: Path) -> Workspace:
    return Workspace(spark, tmp_path)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of the process: the user's folders and temporary files are the test's own."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    names = ("SPARK_HOME", "SPARK_REMOTE", "SPARK_LOCAL_DIRS", "JAVA_HOME", "PYSPARK_PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return kept | {"XDG_STATE_HOME": str(tmp_path / "home"), "TMPDIR": str(temporary)}


def command(workspace: Workspace, *arguments: str, how: str | None = "plain") -> list[str]:
    begin = ["-m", "rsmq_tui", "pipeline", "run"] if how is None else ["-m", "tests.pipeline.program", how]
    return [sys.executable, *begin, "--history", str(workspace.history), "--out", str(workspace.out), *arguments]


def run(arguments: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@contextmanager
def started(arguments: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_one_that_is_killed_is_made_up_for(workspace: Workspace, environment: dict[str, str]) -> None:
    workspace.record(NOON_MS)
    killed = run(command(workspace, *QUICK, how="written"), environment)
    assert killed.returncode == -signal.SIGKILL
    assert workspace.manifest() is None
    assert list((workspace.out / "tables").rglob("*.parquet"))
    done = run(command(workspace, *QUICK), environment)

    assert (done.returncode, done.stderr) == (0, "")
    *output, last = map(json.loads, done.stdout.splitlines())
    assert {line["kind"] for line in output} == {"progress"}
    manifest = workspace.manifest()
    assert manifest is not None
    assert (last["kind"], last["run"], last["days"]["samples"]) == ("done", manifest.run, [DAY])
    assert last["rows"] == sum(last["tables"].values())
    assert {path.name for path in (workspace.out / "tables").glob("*/[!_]*")} == {manifest.run}
    # Nothing of Spark's is left, not even of the one that was killed.
    assert list(Path(environment["TMPDIR"]).iterdir()) == []
    # One with nothing new needs no Java.
    again = run(command(workspace, how=None), environment | {"PATH": ""})
    assert (again.returncode, again.stderr) == (0, "")
    assert json.loads(again.stdout)["kind"] == "nothing new"


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_what_spark_does(
    workspace: Workspace, environment: dict[str, str], sent: signal.Signals, status: int
) -> None:
    workspace.record(NOON_MS)
    with started(command(workspace, *QUICK, how="endless"), environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output = json.loads(line)
            if output["doing"].startswith("rollup") and output["tasks"]:
                break
        process.send_signal(sent)
        _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == status
    assert err == "rsmq-tui: stopped: the tables are those of the previous run\n"
    assert workspace.manifest() is None
    assert list(Path(environment["TMPDIR"]).iterdir()) == []


def test_a_script_for_spark_submit_makes_the_real_tables_on_a_cluster_without_python(
    workspace: Workspace, environment: dict[str, str]
) -> None:
    times = range(NOON_MS, NOON_MS + 120_000, 5_000)
    workspace.record(*times)
    workspace.inventory(DAY, NOON_MS, "a")
    (spoilt,) = workspace.record(NOON_MS + 300_000)
    spoilt.write_bytes(b"no file of a history")
    home, quick = Path(pyspark.__file__).parent, "-XX:TieredStopAtLevel=1"
    submit = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", "--driver-java-options", quick]
    submit += ["--conf", f"spark.executor.extraJavaOptions={quick}", str(rsmq_tui.pipeline.script.__file__)]
    surroundings = environment | {
        # No executor can start a Python.
        "PYSPARK_PYTHON": "/nowhere/python",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": os.environ["JAVA_HOME"],
    }
    done = subprocess.run(
        [*submit, *command(workspace)[4:], "--spark-conf", "spark.sql.shuffle.partitions=1"],
        cwd=workspace.state.parent,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    name = spoilt.relative_to(workspace.history)
    assert done.returncode == 4, done.stderr
    # spark-submit gives both on as one.
    assert f"rsmq-tui: {workspace.history}/{name} was left out: " in done.stdout
    tables = workspace.tables()
    assert sum(int(dict(row)["samples"]) for _, row in tables[ROLLUP_1M]) == 2 * len(times)
    last = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    assert (last["kind"], EPISODES in last["tables"]) == ("done", True)


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
from rsmq_tui.cli.main import main
sys.exit(main(["pipeline", "run", "--history", "h", "--out", "o"]))
"""


def test_without_pyspark_it_says_what_to_install(environment: dict[str, str]) -> None:
    done = run([sys.executable, "-c", BLOCKED], environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rsmq-tui: the pipeline needs its packages: pip install 'rsmq-tui[pipeline]'\n"
