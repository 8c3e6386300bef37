"""Spark's own log: kept in a file that nobody has to read, and what it says when something fails, in one sentence."""

import hashlib
import re
from contextlib import suppress
from pathlib import Path

_SAID_MAX = 300
_READ_AT_MOST = 1 << 20
_THROWN = re.compile(r"(?:Exception in thread \"[^\"]*\" |Caused by: |: )?((?:[a-z]\w*\.)+\w*(?:Exception|Error)\b.*)")
_ERROR_CLASS = re.compile(r"^(?:\w+(?:\.\w+)*\.)?(?:\w+(?:Exception|Error)): |\[[A-Z0-9_.]+\] ?")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*$")


def log_file(state: Path, label: str) -> Path:
    """Return where the log of the last run goes that wrote to the place named ``label``; raises ``OSError``."""
    digest = hashlib.sha256(label.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = state / "pipeline"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{digest}.log"


def failure_in(log: Path) -> str | None:
    """Return the last failure that a log tells of."""
    with suppress(OSError), log.open("rb") as opened:
        opened.seek(max(0, log.stat().st_size - _READ_AT_MOST))
        lines = opened.read().decode("utf-8", "replace").splitlines()
        for line in reversed(lines):
            if (found := _THROWN.match(line)) is not None or line.startswith("Error"):
                return _short(found[1] if found is not None else line)
        return _short(lines[-1]) if lines else None
    return None


def why(error: BaseException) -> str:
    """Say what failed, of what Spark raised, and what to do where that is known."""
    text = str(error)
    if "OutOfMemoryError" in text:
        return "not enough memory: use a larger --driver-memory, such as 4g"
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return "no space left on the disk: free some space, or set SPARK_LOCAL_DIRS to another disk"
    if type(error).__module__.startswith("py4j") and "An error occurred while calling" not in text:
        return "its Java process has ended"
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
