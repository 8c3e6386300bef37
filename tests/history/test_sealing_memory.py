"""What sealing takes of memory is given back: the process of a recorder stays as it was."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc, and glibc alone gives back all")

_SEALS = """
import sys
from pathlib import Path

from tests.history.made import NOON_MS, Hand

def private_kb():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private"))

folder = Path(sys.argv[1])
hand = Hand(folder / "history", folder / "state")
for number in range(200):
    hand.poll(NOON_MS + 1_000 * number, 300)
before_kb = private_kb()
hand.now_s += 601
hand.writer.tend()
assert hand.writer.sealed_files == 1
print(private_kb() - before_kb)
hand.writer.close()
"""


def test_the_memory_of_a_seal_is_given_back(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", _SEALS, tmp_path], capture_output=True, text=True, check=True, timeout=100
    )
    # Sealing these 60,000 rows takes 90 MB; the code that is loaded for it, and its constants, 7 MB.
    assert int(found.stdout) < 30_000
