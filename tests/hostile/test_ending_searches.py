"""A search ends at once whatever it is doing: by Esc on the screen, by Ctrl+C and SIGTERM as a command."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache

import pytest
from redis import Redis

from rsmq_tui.protocol.keys import make_id
from tests.cli.running import environment
from tests.hostile.proxy import Proxy
from tests.hostile.watching import dashboard, open_queue, press, until

pytestmark = pytest.mark.slow

# Of the processor, which a busy machine does not take more of. It is less than 0.1 s; to its end, a search takes more.
SECONDS_MAX = 5.0
_COUNT = 100
_LONG = 900_000


@cache
def _letters() -> bytes:
    return bytes(random.Random(1).choices(b"ab", k=_LONG))


# What makes each step long: the filter, the bodies, and how the command looks at them.
STEPS: dict[str, tuple[str, Callable[[], bytes], tuple[str, ...]]] = {
    # The automaton of such a regex has 2^900 states, so that each letter costs 1,800 instructions.
    "a regex without an automaton": ("body~(a|b)*a(a|b){900}c", _letters, ()),
    "a regex in JSON": ("json[0]~(a|b)*a(a|b){900}c", lambda: b'["' + _letters()[:_LONG] + b'"]', ()),
    "JSON of brackets": ("json~nothing", lambda: b"[" + b"[]," * (_LONG // 3) + b"[]]", ()),
    "groups": ("size>0", lambda: b"[" + b"[]," * (_LONG // 3) + b"[]]", ("--group-by", "shape")),
    "text in large and small letters": ("body:ſnothing", lambda: "é".encode() * (_LONG // 2), ()),
}


@pytest.fixture
def planted(client: Redis, request: pytest.FixtureRequest) -> tuple[str, tuple[str, ...]]:
    """A queue of long bodies, with the filter that makes them take long."""
    wanted, body, options = STEPS[request.param]
    ids = [make_id(1_750_000_000_000_000 + number) for number in range(_COUNT)]
    client.hset("rsmq:orders:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65_536})
    client.sadd("rsmq:QUEUES", "orders")
    client.zadd("rsmq:orders", dict.fromkeys(ids, 1_750_000_000_000))
    long = body()
    for id in ids:
        client.hset("rsmq:orders:Q", id, long)
    return wanted, options


def _until_looked_at(client: Redis, process: "subprocess.Popen[bytes]") -> None:
    """Wait until bodies were read."""
    ends_s = time.monotonic() + 60
    read = client.info("stats")["total_net_output_bytes"]
    while client.info("stats")["total_net_output_bytes"] < read + 2 * _LONG:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def _ended(process: "subprocess.Popen[bytes]", number: signal.Signals) -> int:
    before_s = _of_children_s()
    process.send_signal(number)
    output = process.communicate(timeout=100)
    # Its start and the two messages that it has looked at are counted too.
    assert _of_children_s() - before_s < 2 * SECONDS_MAX
    assert b"Traceback" not in output[1]
    return process.returncode


def _of_children_s() -> float:
    """The processor time of the processes that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def _command(url: str, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "rsmq_tui", "-r", url, "messages", "list", "orders", *arguments],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


# What a signal ends does not depend on what the search is doing.
@pytest.mark.parametrize(
    ("planted", "number"),
    [(step, (signal.SIGINT, signal.SIGTERM)[place % 2]) for place, step in enumerate(STEPS)],
    indirect=["planted"],
)
def test_a_command_ends(
    planted: tuple[str, tuple[str, ...]], number: signal.Signals, client: Redis, redis_url: str
) -> None:
    process = _command(redis_url, "--filter", planted[0], *planted[1])
    _until_looked_at(client, process)
    assert _ended(process, number) == (130 if number is signal.SIGINT else -signal.SIGTERM)


def test_a_search_that_was_given_up_does_not_abort_the_process() -> None:
    # While Python ends, the thread of the search comes back from C++ again and again.
    code = """
import re2, sys, threading, time
from rsmq_tui.cli.main import main

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)

def search(regex=re2.compile("(a|b)*a(a|b){12}c"), text="ab" * 10_000):
    while True:
        regex.search(text)

slow = Slow()
threading.Thread(target=search, daemon=True).start()
sys.argv[1:] = ["--no-such-option"]
sys.exit(main())
"""
    ended = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, check=False)
    assert ended.returncode == 2, ended


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl+C", "SIGTERM"])
def test_a_command_ends_while_the_server_hangs(number: signal.Signals, proxy: Proxy) -> None:
    proxy.swallow()
    process = _command(proxy.url, "--filter", "rc>=0")
    while not proxy.asked:
        assert process.poll() is None
        time.sleep(0.01)
    assert _ended(process, number) == (130 if number is signal.SIGINT else -signal.SIGTERM)


@pytest.mark.parametrize("planted", [name for name in STEPS if name != "groups"], indirect=True)
async def test_esc_ends_it_on_the_screen(planted: tuple[str, tuple[str, ...]], redis_url: str) -> None:
    async with dashboard(redis_url) as pilot:
        await until(pilot, "● live")
        await open_queue(pilot, "orders")
        await press(pilot, "slash")
        await press(pilot, *planted[0], "enter")
        await until(pilot, "esc stops")
        before_s = time.process_time()
        await press(pilot, "escape")
        await until(pilot, "stopped at")
        assert time.process_time() - before_s < SECONDS_MAX
