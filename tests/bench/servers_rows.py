"""Several servers in one table: one that is far away must not hold up the others."""

import time
from contextlib import ExitStack
from math import inf
from statistics import mean

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.bench.measure import Sample, interleave
from tests.bench.queues import filled
from tests.bench.row import Measured, Row, Run, Sense
from tests.hostile.proxy import Proxy

_SERVERS, _QUEUES = 5, 2_000
_AWAY_S = 0.3
_SETTLING_S, _SEEN_S = 12.0, 5.0


def _far_away(run: Run) -> Measured:
    from tests.bench.terminal import Terminal

    with ExitStack() as stack:
        urls = []
        for _ in range(_SERVERS):
            server = stack.enter_context(EmbeddedServer())
            filled(run, stack.enter_context(redis.Redis.from_url(server.url)), run.size(_QUEUES, 5))
            urls.append(server.url)
        # The last one is the one that may be far away.
        proxy = stack.enter_context(Proxy(server.port))
        terminal = stack.enter_context(Terminal("tests.bench.peers.our_servers", *urls[:-1], proxy.url, channel=True))
        spent_ms: dict[float, list[float]] = {_AWAY_S: [], 0.0: []}

        def seen() -> tuple[float, float]:
            """Return how long numbers of the others lasted on the screen, in ms, and the processor time spent."""
            terminal.tell("seen")
            lasted_s, spent_s, _ = terminal.hear().split()
            return float(lasted_s) * 1000, float(spent_s) * 1000

        def wait(seconds: float) -> None:
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                terminal.wait_until_quiet(0.05)

        def away(seconds: float) -> Sample:
            proxy.slow(inf, seconds)
            # What is under way is of the time before.
            wait(1.5 if not run.quick else 0.1)
            seen()

            def sample() -> float:
                wait(run.size(int(_SEEN_S), 2))
                lasted_ms, spent = seen()
                spent_ms[seconds].append(spent)
                return lasted_ms

            return sample

        wait(_SETTLING_S if not run.quick else 1.0)
        measured = interleave(run, lambda: away(_AWAY_S), lambda: away(0.0), pairs=5, warm_up=1, limit_s=60)
    far, near = (mean(spent_ms[seconds]) / _SEEN_S / 10 for seconds in (_AWAY_S, 0.0))
    return Measured(measured.ours, measured.other, f"share of a core {far:.1f} %, with all at hand {near:.1f} %")


ROWS = (
    Row(
        "how long numbers of 4 servers last, a fifth 300 ms away",
        "the same with the fifth at hand",
        "ms",
        Sense.AT_MOST,
        1.05,
        _far_away,
    ),
)
