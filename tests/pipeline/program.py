"""The command in a process of its own, with tables that are quick to make: `python -m tests.pipeline.program HOW ...`.

HOW is ``plain``; or ``endless``, where the tables of samples take until somebody ends it; or the name of a step, at
which it is killed.
"""

import os
import signal
import sys
from collections.abc import Collection
from unittest import mock

from pyspark.sql import DataFrame

from rsmq_tui.cli.main import main
from rsmq_tui.pipeline.run import PipelineRun
from tests.pipeline.stand_ins import TARGETS, Keep, endless, sample_tables, take_their_places


def _endless_tables(samples: DataFrame, hours: Collection[int], keep: Keep) -> dict[str, DataFrame]:
    return sample_tables(endless(samples), hours, keep)


def _main(how: str, *arguments: str) -> int:
    take_their_places(lambda name, value: mock.patch(name, value).start())
    if how == "endless":
        mock.patch(TARGETS["sample_tables"], _endless_tables).start()
    elif how != "plain":

        def killed(self: PipelineRun, name: str) -> None:
            del self
            if name == how:
                os.kill(os.getpid(), signal.SIGKILL)

        mock.patch.object(PipelineRun, "_step", killed).start()
    return main(["pipeline", "run", *arguments])


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
