"""The format, made known to the session, and queues whose names and bodies no client would choose."""

from collections.abc import Callable

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.pipeline.datasource import register

Load = Callable[..., DataFrame]
BODIES = [b"", b"plain", b"\x00\xff\xfe", "ünï ✓".encode(), b'{"a": [1, 2]}', b"[/foo]\x1b[31m", b"x" * 5_000]


@pytest.fixture
def rsmq(spark: SparkSession) -> SparkSession:
    """The session, which knows the format."""
    register(spark)
    return spark


@pytest.fixture
def load(rsmq: SparkSession, redis_url: str) -> Load:
    """Reads a table with options; ``schema`` names its columns."""

    def read(table: str = "messages", schema: str | None = None, **options: object) -> DataFrame:
        reader = rsmq.read.format("rsmq").option("url", redis_url).option("table", table)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return (reader if schema is None else reader.schema(schema)).load()

    return read


def make_queue(client: redis.Redis, name: str = "orders", maxsize: int = 65_536) -> None:
    """Make an empty queue by hand, whatever its name."""
    client.sadd("rsmq:QUEUES", name)
    client.hset(f"rsmq:{name}:Q", mapping={"vt": 30, "delay": 0, "maxsize": maxsize, "created": 1, "modified": 1})
