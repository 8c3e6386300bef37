"""Queues that are filled in batches."""

from random import Random

from rsmq_tui.monitor import QueueState
from tests.monitor.rows import Flow, Scripted


def far_batches(period_s: int, left: float, seconds: int, *, noise: float = 0) -> list[int]:
    """Return the depths, five seconds apart, of a queue to which about 1,000 messages are sent at once each period.

    In the first 60 % of the period all are worked off but this share, which adds up.
    """
    dice, depths, size = Random(period_s), list[int](), 0.0
    for second in range(0, seconds, 5):
        batch, passed = divmod(second, period_s)
        if passed < 5:
            size = 1000 * (1 + dice.uniform(-noise, noise))
        depths.append(round(1000 * left * (batch + 1) + (size - 1000 * left) * max(0, 1 - passed / (0.6 * period_s))))
    return depths


def follow(watched: Scripted, flow: Flow, depth: int, every_s: int = 5) -> QueueState:
    """Poll a busy queue that has this depth now; return its state."""
    arrived = 5 * every_s + max(0, depth - flow.depth)
    gone = arrived - (depth - flow.depth)
    flow.head_ms = watched.at_ms
    flow.move(sent=arrived, received=gone, deleted=gone)
    return watched.poll_one(flow.row(), after_s=every_s)
