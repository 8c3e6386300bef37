"""What the allocator keeps after large blocks were freed."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")

# Each tenth block stays, so that nothing can be returned from the end of the heap.
_FREED = """
import ctypes
from rsmq_tui.monitor.heap import keep_little_free

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Info
{before}
blocks = [bytes(100_000) for _ in range(300)]
blocks = blocks[::10]
print(mallinfo2().fordblks)
"""


def _free_bytes(before: str) -> int:
    run = subprocess.run(
        [sys.executable, "-c", _FREED.format(before=before)], check=True, capture_output=True, text=True
    )
    return int(run.stdout)


def test_little_is_kept_of_large_blocks_that_were_freed() -> None:
    assert _free_bytes("") > 20_000_000
    assert _free_bytes("keep_little_free()") < 2_000_000
