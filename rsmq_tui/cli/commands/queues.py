"""`rsmq-tui queues`: lists, creates, changes, purges and deletes queues."""

import argparse
from collections.abc import Sequence

from rsmq_tui.cli.changes import make_change, queue_of
from rsmq_tui.cli.commands.snapshot import poll_lists_once, poll_once, queue_as_json
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.output import Column, Table, print_json, say, wants_json
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.monitor import QueueState, Snapshot
from rsmq_tui.monitor.text import count, duration, seconds
from rsmq_tui.triage.actions import Action, CreateQueue, DeleteQueue, Purge, PurgeList, SetAttributes


def run(options: argparse.Namespace) -> int:
    """Run one of the commands and return its exit status; raises ``UsageError``."""
    if options.action == "list":
        return run_interruptibly(lambda _: _list(options))
    queue, is_list, profile = queue_of(options, profile_of(options))
    if is_list:
        return make_change(options, _action_of_list(options, queue), profile=profile, is_list=True)
    if getattr(options, "processing", False):
        raise UsageError("--processing is for list queues: write list:KEY")
    return make_change(options, _action(options, queue), profile=profile)


def _action_of_list(options: argparse.Namespace, key: str) -> Action:
    if options.action == "purge":
        return PurgeList(queue=key, processing=options.processing)
    if options.action == "delete":
        return DeleteQueue(queue=key)
    raise UsageError(f"{options.action} is for RSMQ queues: a list exists only while it holds items")


def _action(options: argparse.Namespace, queue: str) -> Action:
    match options.action:
        case "create":
            return CreateQueue(queue=queue, vt=options.vt, delay=options.delay, maxsize=options.maxsize)
        case "set":
            return SetAttributes(queue=queue, vt=options.vt, delay=options.delay, maxsize=options.maxsize)
        case "delete":
            return DeleteQueue(queue=queue)
    return Purge(queue=queue)


async def _list(options: argparse.Namespace) -> int:
    profile = profile_of(options)
    snapshots = [await poll_once(profile)]
    if profile.lists:
        snapshots.append(await poll_lists_once(profile))
    for snapshot in snapshots:
        failure = snapshot.link.failure
        if failure is not None:
            raise UsageError(f"cannot read {snapshot.server}: {failure.sentence}; {failure.hint}")
    if wants_json(options):
        for snapshot in snapshots:
            for queue in snapshot.queues:
                print_json(queue_as_json(queue, snapshot.at_ms))
    else:
        _print(snapshots)
    return 0


def _print(snapshots: Sequence[Snapshot]) -> None:
    table = Table(
        Column("VERDICT", 8),
        Column("READY", 11, right=True),
        Column("HIDDEN", 11, right=True),
        Column("DEPTH", 11, right=True),
        Column("WAITING", 7, right=True),
        Column("VT", 7, right=True),
        Column("DELAY", 7, right=True),
        Column("QUEUE", 0),
    )
    queues = [(queue, snapshot.at_ms) for snapshot in snapshots for queue in snapshot.queues]
    for queue, at_ms in sorted(queues, key=lambda pair: _trouble(pair[0])):
        counts = count(queue.ready), count(queue.hidden), count(queue.depth)
        waiting = duration(queue.ready_for_ms(at_ms))
        table.print(queue.verdict, *counts, waiting, seconds(queue.vt_s), seconds(queue.delay_s), queue.name)
    if not queues:
        first = snapshots[0]
        say(f"no queues in namespace {first.ns} on {first.server}; rsmq-tui queues create creates one")
    for note in (note for snapshot in snapshots for note in snapshot.notes):
        say(note)


def _trouble(queue: QueueState) -> tuple[int, int]:
    oldest_ms = queue.ready_since_ms
    return queue.verdict.rank, 1 << 62 if oldest_ms is None else oldest_ms
