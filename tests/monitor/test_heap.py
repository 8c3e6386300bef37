"""Memory that is free is given back, in a process of its own."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc, and needs glibc")

_SCRIPT = """
from pathlib import Path

from rsmq_tui.monitor.heap import give_back

def rss_kb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4

before_kb = rss_kb()
# One in a hundred is kept, so the end of the heap is not free.
kept = [bytes(700) for _ in range(100_000)][::100]
between_kb = rss_kb()
give_back()
print(between_kb - before_kb, rss_kb() - before_kb)
"""


def test_what_is_free_between_what_is_used_is_given_back() -> None:
    found = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True, timeout=100)
    between_kb, after_kb = map(int, found.stdout.split())
    assert between_kb > 60_000
    assert after_kb < 20_000
