"""What a command costs the processor from its start to its end, against only importing what every one of them needs."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.bench.measure import interleave
from tests.bench.queues import filled
from tests.bench.row import Measured, Row, Run, Sense

_ROOT = Path(__file__).parents[2]
# Not those of this environment: a user's interpreter keeps compiled modules.
_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


def _spent_ms(*arguments: str) -> float:
    """Run Python with these arguments and return the processor time that it took."""
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=_ROOT, env=_ENVIRONMENT, stdout=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def _against_redis(run: Run, *arguments: str) -> Measured:
    ours = partial(_spent_ms, "-m", "rsmq_tui", *arguments)
    other = partial(_spent_ms, "-c", "import redis")
    return interleave(run, lambda: ours, lambda: other, pairs=20, warm_up=2, limit_s=25)


def _version(run: Run) -> Measured:
    return _against_redis(run, "--version")


def _snapshot(run: Run) -> Measured:
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        filled(run, client, run.size(100, 5))
        return _against_redis(run, "snapshot", "-r", server.url)


ROWS = (
    Row("rsmq-tui --version, processor time", "python -c 'import redis'", "ms", Sense.AT_MOST, 1.2, _version),
    Row("rsmq-tui snapshot, 100 queues, processor time", "python -c 'import redis'", "ms", Sense.AT_MOST, 2, _snapshot),
)
