"""Writes on a cluster of two processes, which are killed in the middle of each; run as a program of its own.

    python -m tests.pipeline.datasource.killing URL ROWS IDS…

Each write goes to a queue that is named after its option ``ids``, and is slow enough to be watched. It prints a line of
JSON for each: how it ended, and how many processes were killed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pyspark
import redis
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from rsmq_tui.pipeline.datasource import register


def executors() -> list[int]:
    """The executors that this program's Spark has started, by their process ids."""
    mine = str(os.getpid())
    table = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in table.splitlines()[1:]]
    parents = {pid: parent for pid, parent, _ in rows}

    def is_mine(pid: str) -> bool:
        while pid in parents and pid != mine:
            pid = parents[pid]
        return pid == mine

    return [int(pid) for pid, _, args in rows if "CoarseGrainedExecutorBackend" in args and is_mine(pid)]


class Killer(threading.Thread):
    """Kills the executors when a quarter of the rows is there, and consumes some of these before."""

    def __init__(self, url: str, queue: str, rows: int) -> None:
        super().__init__()
        self.done = threading.Event()
        self.killed = 0
        self._url = url
        self._queue = queue
        self._rows = rows

    def run(self) -> None:
        zset, attributes = f"rsmq:{self._queue}", f"rsmq:{self._queue}:Q"
        with redis.Redis.from_url(self._url) as client:
            while client.zcard(zset) < self._rows // 4:
                if self.done.wait(0.01):
                    return
            for id in client.zrange(zset, 0, self._rows // 8 - 1):
                client.zrem(zset, id)
                client.rpush(f"consumed-{self._queue}", client.hget(attributes, id))
                client.hdel(attributes, id)
        for pid in executors():
            os.kill(pid, signal.SIGKILL)
            self.killed += 1


def write(spark: SparkSession, url: str, rows: int, ids: str) -> dict[str, object]:
    """Send the rows while the executors are killed."""
    # The last of each hundred is equal to the one before: equal rows are rows of their own. Each takes some ms, and is
    # so long that Spark does not gather them all before a task sees the first.
    body = "concat('body ', if(id % 100 = 99, id - 1, id), if(slept = 'well', slept, repeat(' ', 3000)))"
    slow = spark.range(0, rows, 1, 2).withColumn("slept", expr("reflect('java.lang.Thread', 'sleep', 2L)"))
    sent = slow.selectExpr(f"{body} body")
    killer = Killer(url, ids, rows)
    killer.start()
    ended = "well"
    try:
        sent.write.format("rsmq").options(url=url, queue=ids, ids=ids).mode("append").save()
    except Exception as error:
        ended = str(error)[-600:]
    killer.done.set()
    killer.join()
    return {"ids": ids, "ended": ended, "killed": killer.killed}


def main() -> None:
    url, rows, *ways = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    for ids in ways:
        sys.stdout.write(json.dumps(write(spark, url, int(rows), ids)) + "\n")
        sys.stdout.flush()
    # Executors of a local cluster work in a folder of the package's own.
    folder = Path(pyspark.__file__).parent / "work"
    name = spark.sparkContext.applicationId
    spark.stop()
    shutil.rmtree(folder / name, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


if __name__ == "__main__":
    main()
