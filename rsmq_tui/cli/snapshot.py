"""`rsmq-tui snapshot`: one poll, as JSON."""

import argparse
import asyncio
import json
import sys
from typing import Any

from rsmq_tui.cli.target import profile_of, reader_of
from rsmq_tui.monitor import LivePoller, QueueState, Snapshot
from rsmq_tui.profiles import Profile

_SCHEMA = 1
_EXIT_UNREACHABLE = 2


def run(options: argparse.Namespace) -> int:
    """Print one poll; a server that cannot be read is one sentence on stderr and exit status 2.

    Raises ``UsageError`` for a URL that cannot be one.
    """
    snapshot = asyncio.run(poll_once(profile_of(options)))
    failure = snapshot.link.failure
    if failure is not None:
        print(f"rsmq-tui: cannot read {snapshot.server}: {failure.sentence}; {failure.hint}", file=sys.stderr)
        return _EXIT_UNREACHABLE
    print(json.dumps(as_json(snapshot), indent=2))
    return 0


def as_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as the documented JSON value; null means unknown, ages and dates are in ms."""
    return {
        "schema": _SCHEMA,
        "at_ms": snapshot.at_ms,
        "ns": snapshot.ns,
        "queues": [queue_as_json(queue, snapshot.at_ms) for queue in snapshot.queues],
    }


def queue_as_json(queue: QueueState, at_ms: int) -> dict[str, Any]:
    """Return one queue of the documented JSON value."""
    return {
        "name": queue.name,
        "kind": queue.kind,
        "depth": queue.depth,
        "ready": queue.ready,
        "hidden": queue.hidden,
        "oldest_ready_age_ms": queue.oldest_ready_age_ms(at_ms),
        "vt_s": queue.vt_s,
        "delay_s": queue.delay_s,
        "maxsize": queue.maxsize,
        "totalsent": queue.totalsent,
        "totalrecv": queue.totalrecv,
        "created_ms": queue.created_ms,
        "modified_ms": queue.modified_ms,
        "verdict": queue.verdict.value,
        "problems": [*((queue.broken,) if queue.broken else ()), *queue.problems],
    }


async def poll_once(profile: Profile) -> Snapshot:
    """Poll once; raises ``UsageError`` for an address that cannot be one."""
    poller = LivePoller(reader_of(profile), thresholds=profile.thresholds)
    try:
        first = await poller.poll()
        # The first poll looks at receive counts after the rows; the second one's verdicts know them.
        return first if first.link.failure else await poller.poll()
    finally:
        await poller.aclose()
