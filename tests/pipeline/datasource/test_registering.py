"""The example of the documentation, as a program of its own."""

import os
import subprocess
import sys

import pytest
import redis

from rsmq_tui.protocol import Rsmq

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from rsmq_tui.pipeline.datasource import register

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
print(spark.read.format("rsmq").option("url", sys.argv[1]).option("table", "messages").load().count())
"""


@pytest.mark.spark
def test_a_local_session_needs_no_settings(client: redis.Redis, redis_url: str) -> None:
    """The python3 that is first in the PATH has no rsmq_tui."""
    Rsmq(client).create_queue("orders")
    Rsmq(client).send_messages("orders", ["a", "b"])
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment["PATH"] = "/usr/bin:/bin"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, redis_url], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["2"], done.stderr[-3_000:]
