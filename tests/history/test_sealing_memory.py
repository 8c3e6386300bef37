"""What a recorder takes of memory for a moment is given back: its process stays as it was."""

import sys
from pathlib import Path

import pytest

from tests.cli.running import printed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc, and glibc alone gives back all")

_BEGIN = """
import sys
from pathlib import Path

from tests.history.made import NOON_MS, ClockedWriter

def private_kb():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

folder = Path(sys.argv[1])
clocked = ClockedWriter(folder / "history", folder / "state")
"""
_SEALS = """
for number in range(200):
    clocked.poll(NOON_MS + 1_000 * number, 300)
before_kb = private_kb()
clocked.now_s += 601
clocked.writer.tend()
assert clocked.writer.sealed_files == 1
print(private_kb() - before_kb)
clocked.writer.close()
"""


_INVENTORIES = """
clocked.writer.tend()
before_kb = private_kb()
kept = [bytes(700) for _ in range(100_000)][::100]
clocked.now_s += 9
clocked.writer.tend()
assert private_kb() > before_kb + 60_000
clocked.now_s += 2
clocked.writer.tend()
print(private_kb() - before_kb)
clocked.writer.close()
"""


_STARTED = """
import sys
from rsmq_tui.cli.commands.recorded import started_recorder

recorder = started_recorder(sys.argv[1])
recorder.close()
assert recorder.wait(60)
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""


def said(script: str, folder: Path, **given: str) -> str:
    """What a process prints that runs a script in a folder."""
    return printed(script, folder, env={"XDG_STATE_HOME": str(folder / "state"), **given}).strip()


def grown_kb(script: str, folder: Path) -> int:
    """What a process has gained at the end of a script."""
    return int(said(_BEGIN + script, folder, ARROW_DEFAULT_MEMORY_POOL="system"))


def test_a_recorder_takes_its_memory_from_the_system(tmp_path: Path) -> None:
    assert said(_STARTED, tmp_path) == "system"


def test_the_memory_of_a_seal_is_given_back(tmp_path: Path) -> None:
    # Sealing these 60,000 rows takes 90 MB, of which Arrow's own allocator would keep 12 MB.
    assert grown_kb(_SEALS, tmp_path) < 4_000


def test_memory_is_given_back_every_ten_seconds(tmp_path: Path) -> None:
    assert grown_kb(_INVENTORIES, tmp_path) < 20_000
