"""Reading a queue of a million messages by Spark on two cores, against a bare loop over the same reads.

The loop is what one writes without Spark: one process with one connection, the same commands for as many messages at a
time (a step of ZSCAN with the clock and the depth, then HMGET of rc and fr), and nothing made of the replies. Spark has
two cores for its tasks, and is started before the clock is; planning the query is in its figure.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.bench.measure import Sample, interleave
from tests.bench.peek_rows import _QUEUE, _fill
from tests.bench.queues import NS
from tests.bench.row import Measured, Row, Run, Sense

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEPTH = 1_000_000
_COUNTS_PER_CALL = 250
_ZSET, _HASH = f"{NS}:{_QUEUE}", f"{NS}:{_QUEUE}:Q"
_LOOPBACK = "127.0.0.1"


@contextmanager
def _spark() -> "Iterator[SparkSession]":
    # Imported late: other rows do not need it.
    from pyspark.sql import SparkSession

    from rsmq_tui.pipeline.datasource import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", _LOOPBACK)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    try:
        yield session
    finally:
        session.stop()


def _scan(spark: "SparkSession", url: str, depth: int) -> float:
    """Read every row of the table, with all of its usual columns, into an aggregate; return the seconds it took."""
    started_s = time.perf_counter()
    rows = spark.read.format("rsmq").options(url=url, ns=NS, table="messages", queue=_QUEUE).load()
    found = rows.selectExpr(
        "count(id) n", "sum(rc) rc", "max(fr_ms) fr", "max(due_ms) due", "min(sent_ms) sent"
    ).first()
    taken_s = time.perf_counter() - started_s
    if found is None or found.n != depth or found.rc == 0:
        raise RuntimeError(f"{found} of {depth:,}")
    return taken_s


def _loop(client: redis.Redis, depth: int, chunk: int) -> float:
    """Make the same reads one after the other; return the seconds it took."""
    client.set_response_callback("ZSCAN", _as_it_is)
    started_s, read, cursor = time.perf_counter(), 0, b"0"
    while True:
        with client.pipeline(transaction=False) as pipeline:
            pipeline.execute_command("TIME")
            pipeline.execute_command("ZCARD", _ZSET)
            pipeline.execute_command("ZSCAN", _ZSET, cursor, "COUNT", chunk)
            _, _, (cursor, found) = pipeline.execute()
        ids = found[::2]
        with client.pipeline(transaction=False) as pipeline:
            for start in range(0, len(ids), _COUNTS_PER_CALL):
                part = ids[start : start + _COUNTS_PER_CALL]
                pipeline.execute_command("HMGET", _HASH, *(name for id in part for name in (id + b":rc", id + b":fr")))
            read += sum(map(len, pipeline.execute())) // 2
        if cursor == b"0":
            break
    taken_s = time.perf_counter() - started_s
    if read < depth:
        raise RuntimeError(f"{read:,} read of {depth:,}")
    return taken_s


def _as_it_is(response: Any, **_: Any) -> Any:
    return response


def _measure(run: Run) -> Measured:
    from rsmq_tui.pipeline.datasource.options import read_options

    chunk = read_options({}).chunk
    depth = run.size(_DEPTH, 2_000)
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        _fill(run, client, depth)
        with _spark() as spark:

            def ours() -> Sample:
                return lambda: _scan(spark, server.url, depth)

            def other() -> Sample:
                return lambda: _loop(client, depth, chunk)

            return interleave(run, ours, other, pairs=5, warm_up=1, limit_s=120)


ROWS = (
    Row(
        "Spark's scan of 1,000,000 messages on local[2]",
        "a redis-py loop over the same reads, one process, which makes nothing of them",
        "s",
        Sense.TIMES_LESS,
        0.9,
        _measure,
    ),
)
