"""The pipeline as a script for spark-submit, with the options of `rsmq-tui pipeline run`.

    spark-submit --master spark://db1:7077 --driver-memory 4g script.py --history DIR --out DIR

It needs this package and those of its extra `history` in the Python of the driver alone: the executors run none.
"""

import sys
from pathlib import Path


def _main() -> int:
    here = Path(__file__).resolve().parent
    # The script's own folder comes first in the path of modules, where its neighbours would pass for others.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    sys.path.append(str(here.parents[1]))
    from rsmq_tui.cli.main import main  # noqa: PLC0415 - it is found only now

    return main(["pipeline", "run", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(_main())
