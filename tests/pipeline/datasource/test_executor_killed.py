"""What is in the queues when executors are killed in the middle of a write, and Spark runs their tasks again."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Rsmq

ROOT = Path(__file__).parents[3]
ROWS = 1_000
# Less than a test may take: a cluster that hangs is ended, and nothing of it stays.
LONGEST_S = 110
WANTED = Counter(b"body %d" % (number - (number % 100 == 99)) for number in range(ROWS))

Write = Callable[[str], tuple[dict[str, Any], Counter[bytes]]]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Write]:
    """Waits for the next write of the cluster: tells how it went, and how often each body was sent."""
    scratch = tmp_path_factory.mktemp("cluster")
    surroundings = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
    }
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client, (scratch / "log").open("w+") as log:
        for queue in ("once", "new"):
            Rsmq(client).create_queue(queue)
        command = [sys.executable, "-m", "tests.pipeline.datasource.killing", server.url, str(ROWS), "once", "new"]
        with subprocess.Popen(
            command, cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as program:

            def end() -> None:
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)

            def wait(queue: str) -> tuple[dict[str, Any], Counter[bytes]]:
                watch = Timer(LONGEST_S, end)
                watch.start()
                assert program.stdout is not None
                line = program.stdout.readline()
                watch.cancel()
                if not line:
                    log.seek(0)
                    raise AssertionError(log.read()[-3_000:])
                ids = client.zrange(f"rsmq:{queue}", 0, -1)
                bodies = [*client.hmget(f"rsmq:{queue}:Q", ids), *client.lrange(f"consumed-{queue}", 0, -1)]
                return json.loads(line), Counter(body.rstrip() for body in bodies)

            try:
                yield wait
            finally:
                end()


def test_behind_a_fence_each_row_is_sent_once(write: Write) -> None:
    output, sent = write("once")
    assert (output["ids"], output["ended"]) == ("once", "well")
    assert output["killed"] >= 1
    assert sent == WANTED


def test_without_one_each_row_is_sent_at_least_once(write: Write) -> None:
    output, sent = write("new")
    assert (output["ids"], output["ended"]) == ("new", "well")
    assert output["killed"] >= 1
    assert sent >= WANTED
    # Else nothing was done twice, and the test before has shown nothing.
    assert sent != WANTED
