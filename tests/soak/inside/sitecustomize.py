"""Python imports this module at the start of each process of a soak: it counts what is inside when a signal asks.

The counts are written to a file named by the process in the folder of ``RSMQ_TUI_SOAK``. SIGUSR1 asks for the cheap
ones, SIGUSR2 also for the objects by their type, which takes a moment. Nothing is imported before the first question.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_TYPES = 60


def _answer(number: int, _frame: FrameType | None) -> None:
    # What is raised here would be raised in the middle of the program.
    with suppress(Exception):
        _count(number)


def _count(number: int) -> None:
    import gc
    import json
    from collections import Counter
    from pathlib import Path

    counts: dict[str, object] = {"blocks": sys.getallocatedblocks()}
    # Of all loops: all_tasks() knows those of one. asyncio may be half imported, or have another name for them.
    tasks = sys.modules.get("asyncio.tasks")
    counts["tasks"] = sum(not task.done() for task in list(getattr(tasks, "_all_tasks", ())))
    if number == signal.SIGUSR2:
        found = gc.get_objects()
        types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in found)
        counts |= {"objects": len(found), "types": dict(types.most_common(_TYPES))}
    part = Path(os.environ["RSMQ_TUI_SOAK"], f"{os.getpid()}.{number}")
    part.write_text(json.dumps(counts))
    part.replace(part.with_suffix(".json"))


if "RSMQ_TUI_SOAK" in os.environ:
    for _number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(_number, _answer)
