"""What the allocator keeps, and how many heaps it has."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")

# Each tenth block stays, so that nothing can be returned from the end of the heap.
_FREED = """
from rsmq_tui.heap import keep_little_free
from tests.allocator import heap
{before}
blocks = [bytes(100_000) for _ in range(300)]
blocks = blocks[::10]
print(heap().free_bytes)
"""


# A command whose threads allocate prints what glibc says of its heaps.
_THREADED = """
import asyncio, ctypes
from rsmq_tui.cli.interrupts import run_interruptibly

async def command(_):
    await asyncio.gather(*(asyncio.to_thread(bytearray, 10_000) for _ in range(4)))
    return 0

run_interruptibly(command, runs_for_days={for_days})
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


def _output_of(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def _free_bytes(before: str) -> int:
    return int(_output_of(_FREED.format(before=before)))


def test_little_is_kept_of_large_blocks_that_were_freed() -> None:
    assert _free_bytes("") > 20_000_000
    assert _free_bytes("keep_little_free()") < 2_000_000


def test_a_command_that_runs_for_days_has_one_heap_for_all_threads() -> None:
    assert _output_of(_THREADED.format(for_days=False)).count("<heap nr=") > 1
    assert _output_of(_THREADED.format(for_days=True)).count("<heap nr=") == 1
