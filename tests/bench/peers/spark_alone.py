"""Starts the Spark of a small run, and only reads the samples of a history and writes them: what no run can save."""

import sys
import tempfile
from pathlib import Path

from rsmq_tui.pipeline.spark import Amount, SparkOptions, open_engine


def main() -> None:
    history, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(SparkOptions(amount=Amount.SMALL), Path(folder), "bench")
        try:
            engine.spark.read.parquet(f"{history}/samples").write.mode("overwrite").parquet(out)
        finally:
            engine.close()


if __name__ == "__main__":
    main()
