"""The pipeline as a script for spark-submit, with the options of `rsmq-tui pipeline run`.

    spark-submit --master spark://db1:7077 --driver-memory 4g script.py --history DIR --out DIR

The driver's Python needs this package and those of its extra `history`; the executors run no Python.
"""

import sys
from pathlib import Path


def _main() -> int:
    here = Path(__file__).resolve().parent
    # The script's folder is first on sys.path, where its modules would shadow others.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    sys.path.append(str(here.parents[1]))
    from rsmq_tui.cli.main import main  # noqa: PLC0415 - it is found only now

    return main(["pipeline", "run", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(_main())
