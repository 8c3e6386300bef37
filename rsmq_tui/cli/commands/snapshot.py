"""`rsmq-tui snapshot`: one poll, as JSON."""

import json
from dataclasses import replace
from typing import Any

import click

from rsmq_tui.cli.errors import EXIT_USAGE
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.options import reading
from rsmq_tui.cli.output import limit_as_json, queue_as_json, say
from rsmq_tui.cli.parsing import POLL_STATUSES, Command, Options
from rsmq_tui.cli.places import poll_all, say_notes
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.monitor import Snapshot
from rsmq_tui.profiles import Profile

_SCHEMA = 1
# Failures that concern the namespace, and not the server.
_OF_RSMQ_ALONE = ("noperm", "crossslot")


@click.command(cls=Command, statuses=POLL_STATUSES)
@reading
def command(options: Options) -> int:
    """Print one poll; for a server that cannot be read, one sentence on stderr and exit status 2.

    With lists, it does not matter if the user has no permission to read RSMQ queues. Raises ``UsageError`` for an
    invalid URL.
    """
    profile = profile_of(options)
    # Its JSON has one namespace.
    return run_interruptibly(lambda _: _print_poll(replace(profile, namespaces=(profile.ns,))))


async def _print_poll(profile: Profile) -> int:
    snapshot, *lists = await poll_all(profile)
    for part in (*lists, snapshot):
        failure = part.connection.failure
        if failure is not None:
            say(f"cannot read {part.server}: {failure.words}")
            if not (lists and part is snapshot and failure.kind in _OF_RSMQ_ALONE):
                return EXIT_USAGE
    status = say_notes([snapshot, *lists])
    print(json.dumps(as_json(profile, snapshot, *lists), indent=2))
    return status


def as_json(profile: Profile, snapshot: Snapshot, *lists: Snapshot) -> dict[str, Any]:
    """Return a snapshot as the documented JSON value; null means unknown, ages and dates are in ms.

    The queues of ``lists`` follow its own. All parts are of the server of the ``profile``.
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
        **limit_as_json("memory_full", polled.memory_limit, polled.at_ms),
        "queues": [queue_as_json(queue, part.at_ms, profile) for part in parts for queue in part.queues],
    }
