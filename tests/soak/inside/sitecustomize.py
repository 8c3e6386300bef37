"""Python imports this module at the start of each process of a soak: it counts what is inside when a signal asks.

The counts are written to a file named by the process in the folder of ``RSMQ_TUI_SOAK``. SIGUSR1 asks for the cheap
ones, SIGUSR2 also for the objects by their type, which takes a moment. Objects and blocks are those that the last full
garbage collection has left: how much garbage waits for the next one is no growth. If the program had none of its own
for five minutes, the second question begins one. Little is imported before the first question.
"""

import gc
import os
import signal
import sys
import time
from contextlib import suppress
from types import FrameType

_TYPES = 60
_left: dict[str, int] = {}
_left_s = 0.0
_COLLECTED_WITHIN_S = 300.0


def _note_left(phase: str, about: dict[str, int]) -> None:
    global _left_s  # noqa: PLW0603 - the time of the counts
    if phase == "stop" and about["generation"] == 2:
        _left["blocks"] = sys.getallocatedblocks()
        _left["objects"] = len(gc.get_objects())
        _left_s = time.monotonic()


def _answer(number: int, _frame: FrameType | None) -> None:
    # What is raised here would be raised in the middle of the program.
    with suppress(Exception):
        _count(number)


def _count(number: int) -> None:
    import json
    from collections import Counter

    from tests.allocator import heap

    if number == signal.SIGUSR2 and time.monotonic() > _left_s + _COLLECTED_WITHIN_S:
        gc.collect()
    counts: dict[str, object] = {"blocks": sys.getallocatedblocks(), **_left}
    # Only glibc tells of its heaps.
    with suppress(AttributeError):
        found_heap = heap()
        counts |= {"heap_kb": found_heap.used_bytes >> 10, "heap_free_kb": found_heap.free_bytes >> 10}
    # Those of the loop of the main thread, as programs have no other. asyncio may be half imported, or none may run.
    counts["tasks"] = 0
    with suppress(KeyError, AttributeError, RuntimeError):
        counts["tasks"] = len(sys.modules["asyncio"].all_tasks())
    # Those of asyncio's pool, which has a limit, and begins one whenever all are busy.
    threading = sys.modules.get("threading")
    counts["pool_threads"] = sum(each.name.startswith("asyncio_") for each in threading.enumerate()) if threading else 0
    if number == signal.SIGUSR2:
        found = gc.get_objects()
        types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in found)
        counts |= {"objects": len(found), **_left, "types": dict(types.most_common(_TYPES))}
    # No Path: the parts of each would be interned anew, and make the table of interned strings grow.
    whole = os.path.join(os.environ["RSMQ_TUI_SOAK"], str(os.getpid()))  # noqa: PTH118
    with open(f"{whole}.{number}", "w") as part:  # noqa: PTH123
        part.write(json.dumps(counts))
    os.replace(part.name, f"{whole}.json")  # noqa: PTH105


if "RSMQ_TUI_SOAK" in os.environ:
    for _number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(_number, _answer)
    gc.callbacks.append(_note_left)
