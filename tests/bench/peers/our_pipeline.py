"""Runs the pipeline on request, several times in one Spark: a line with the folders in, a line with its cost out."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from rsmq_tui.pipeline.run import Job, PipelineRun
from rsmq_tui.pipeline.spark import SparkOptions, open_engine


class _Lasting:
    """A Spark that a run leaves as it is, for the next."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def close(self, *, is_done: bool = False) -> None:
        pass


def _spent_s(engine: Any) -> float:
    """Return the processor time of Spark's Java so far, where the system tells it, and of this process."""
    path = Path(f"/proc/{engine._java.pid}/stat")
    spent_s = time.process_time()
    if path.exists():
        user, system = path.read_text().rpartition(")")[2].split()[11:13]
        spent_s += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return spent_s


def main() -> None:
    master, memory = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(SparkOptions(master, driver_memory=memory), Path(folder), "bench")
        lasting = _Lasting(engine)
        try:
            print(json.dumps("ready"), flush=True)
            for line in sys.stdin:
                history, out = json.loads(line)
                spent_s, begun_s = _spent_s(engine), time.perf_counter()
                outcome = PipelineRun(Job(history, out), Path(folder), cast(Any, lambda *_: lasting)).run()
                found = {
                    "seconds": time.perf_counter() - begun_s,
                    "cpu_s": _spent_s(engine) - spent_s,
                    "days": outcome.days,
                    "problems": outcome.problems,
                }
                print(json.dumps(found), flush=True)
        finally:
            engine.close()


if __name__ == "__main__":
    main()
