"""`rsmq-tui snapshot`: one poll, as JSON."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from rsmq_tui.cli.errors import EXIT_USAGE
from rsmq_tui.cli.options import reading
from rsmq_tui.cli.parsing import Command, Options
from rsmq_tui.cli.places import places_of
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.monitor import QueueState, Snapshot
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.kinds import kind_named

_SCHEMA = 1
_TIMES = ("wait_p50", "wait_p95", "work_p50", "work_p95")
# What keeps somebody from the namespace, and not from the server.
_OF_RSMQ_ALONE = ("noperm", "crossslot")


@click.command(cls=Command, statuses={0: "done", 2: "a usage error, or the server cannot be read", 130: "interrupted"})
@reading
def command(options: Options) -> int:
    """Print one poll; a server that cannot be read is one sentence on stderr and exit status 2.

    Where lists are wanted, it does not matter that their reader may not look for queues of RSMQ. Raises ``UsageError``
    for a URL that cannot be one.
    """
    snapshot, *lists = asyncio.run(poll_all(profile_of(options)))
    for part in (*lists, snapshot):
        failure = part.link.failure
        if failure is not None:
            sentence = f"rsmq-tui: cannot read {part.server}: {failure.sentence}; {failure.hint}"
            print(sentence, file=sys.stderr)
            if not (lists and part is snapshot and failure.kind in _OF_RSMQ_ALONE):
                return EXIT_USAGE
    for note in (note for part in lists for note in part.notes):
        print(f"rsmq-tui: {note}", file=sys.stderr)
    print(json.dumps(as_json(snapshot, *lists), indent=2))
    return 0


def as_json(snapshot: Snapshot, *lists: Snapshot) -> dict[str, Any]:
    """Return a snapshot as the documented JSON value; null means unknown, ages and dates are in ms.

    The queues of ``lists`` stand behind its own. All parts are of one server.
    """
    parts = (snapshot, *lists)
    polled = next((part for part in parts if part.info is not None), snapshot)
    info = polled.info
    return {
        "schema": _SCHEMA,
        "at_ms": max(part.at_ms for part in parts),
        "ns": snapshot.ns,
        "used_memory_bytes": info.used_memory or None if info is not None else None,
        "maxmemory_bytes": info.maxmemory or None if info is not None else None,
        **_until("memory_full", polled.memory_limit, polled.at_ms),
        "queues": [queue_as_json(queue, part.at_ms) for part in parts for queue in part.queues],
    }


def queue_as_json(queue: QueueState, at_ms: int) -> dict[str, Any]:
    """Return one queue of the documented JSON value; some kinds have keys of their own behind it."""
    kind = kind_named(queue.kind)
    times = queue.times_at(at_ms)
    more = {"expired": queue.expired} if kind.has_leases else {}
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
        "oldest_ready_waiting_ms": queue.waiting_ms(at_ms),
        **{f"{name}_ms": None if times is None else getattr(times, f"{name}_ms") for name in _TIMES},
        "limit": None if queue.limit is None else queue.limit.name,
        **_until("limit", queue.limit, at_ms),
        "verdict": queue.verdict.value,
        "problems": [*((queue.broken,) if queue.broken else ()), *queue.problems],
        **more,
        **({} if kind.counts_arrivals else {"net_s": queue.net_s}),
    }


def _until(name: str, limit: Limit | None, at_ms: int) -> dict[str, Any]:
    soonest_ms, latest_ms = (None, None) if limit is None else limit.until_ms(at_ms)
    return {f"{name}_soonest_ms": soonest_ms, f"{name}_latest_ms": latest_ms}


async def poll_all(profile: Profile) -> Sequence[Snapshot]:
    """Poll the first namespace of a profile, and behind it what else it watches; raises ``UsageError``."""
    places = places_of(replace(profile, namespaces=(profile.ns,)))
    return await asyncio.gather(*(place.poll_once() for place in places))
