"""`rsmq-tui check`: checks queues once and prints the result for a monitoring system."""

import argparse
import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rsmq_tui.cli.arguments.tools import EXIT_UNKNOWN, plain
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.output import ProgressLine, print_json, print_words
from rsmq_tui.cli.servers import list_reader_of, profiles_of, reader_of
from rsmq_tui.files import state_folder
from rsmq_tui.monitor.checks import Checked, LastSeen, Limit, Limits, Problem, Status, check, worst
from rsmq_tui.monitor.model import QueueState
from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.lists.naming import LISTS_NS

_SCHEMA = 1
# Monitoring systems keep a few KB of what a plugin says.
_QUEUES_MAX = 50


def run(options: argparse.Namespace) -> int:
    """Check, print, and return the exit status of a monitoring plugin: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""
    try:
        return run_interruptibly(lambda _: _check(options))
    except UsageError as error:
        print_words(f"RSMQ UNKNOWN - {plain(str(error))}")
        return EXIT_UNKNOWN


async def _check(options: argparse.Namespace) -> int:
    limits = Limits(
        queues=tuple(dict.fromkeys(options.queues)),
        depth=options.max_depth,
        age_ms=options.max_age,
        rc=options.max_rc,
        stalled_ms=options.stalled,
        expired=options.max_expired,
        scan_limit=options.scan_limit,
        timeout_s=options.timeout,
    )
    line = ProgressLine()
    profiles = profiles_of(options)
    targets = [(profile, ns) for profile in profiles for ns in _places(profile)]
    found = await asyncio.gather(*(_check_one(profile, ns, limits, line) for profile, ns in targets))
    line.clear()
    for profile in profiles:
        if profile.lists:
            from rsmq_tui.monitor.checks import reconcile  # noqa: PLC0415 - only who checks lists needs it

            reconcile([checked for (of, _), checked in zip(targets, found, strict=True) if of is profile])
    status = worst(checked.status for checked in found)
    names = _names(targets)
    if options.json:
        print_json(_as_json(status, targets, found))
    else:
        _print(status, list(zip(names, found, strict=True)), limits)
    return status.exit_status


def _places(profile: Profile) -> Iterator[str]:
    """Yield the namespaces of a profile, and what stands for its lists."""
    yield from profile.namespaces
    if profile.lists:
        yield LISTS_NS


async def _check_one(profile: Profile, ns: str, limits: Limits, line: ProgressLine) -> Checked:
    if ns == LISTS_NS and profile.lists:
        return await _check_lists(profile, limits)
    reader = reader_of(profile, ns)

    def scanned(queue: str, messages: int, depth: int) -> None:
        line.show(f"{queue}: {messages:,} of {depth:,} messages checked")

    try:
        last_seen = LastSeen(state_folder() / "check", reader.label, ns)
        return await check(reader, limits, profile.thresholds, last_seen, scanned)
    finally:
        await reader.aclose()


async def _check_lists(profile: Profile, limits: Limits) -> Checked:
    from rsmq_tui.monitor.checks import check_lists  # noqa: PLC0415
    from rsmq_tui.monitor.list_tracker import AGE_BYTES, age_path  # noqa: PLC0415 - only who checks lists needs it

    age = None if profile.list_age is None else age_path(profile.list_age)
    reader = list_reader_of(profile, shown_bytes=0 if age is None else AGE_BYTES)
    try:
        # Another check of the same server may be about other lists, and must not forget these.
        last_seen = LastSeen(state_folder() / "check", reader.label, "\n".join((LISTS_NS, *profile.lists)))
        return await check_lists(reader, profile.lists, limits, profile.thresholds, last_seen, age)
    finally:
        await reader.aclose()


def _names(targets: Sequence[tuple[Profile, str]]) -> list[str]:
    """Return what tells the servers and namespaces apart: nothing where there is only one."""
    if sum(ns != LISTS_NS for _, ns in targets) == 1:
        return ["" if ns != LISTS_NS else ns for _, ns in targets]
    return [f"{profile.name or profile.address.label}/{ns}" for profile, ns in targets]


def _print(status: Status, found: Sequence[tuple[str, Checked]], limits: Limits) -> None:
    problems = [(name, checked, problem) for name, checked in found for problem in checked.problems]
    problems.sort(key=lambda entry: entry[2].status.rank)
    told = _counts([checked for _, checked in found])
    if problems:
        told = f"{told}: {_told(*problems[0])}"
    shown = [(name, checked, queue) for name, checked in found for queue in checked.queues]
    data = [part for name, checked in found for part in _totals(name, checked)]
    if len(shown) <= _QUEUES_MAX:
        data += [part for name, checked, queue in shown for part in _measured(name, checked, queue, limits)]
    print_words(f"RSMQ {status.upper()} - {told}{' | ' if data else ''}{' '.join(data)}")
    for name, checked, problem in problems:
        print_words(f"{problem.status.upper()}: {_told(name, checked, problem)}")
    for name, checked in found:
        for note in checked.notes:
            print_words(plain(f"{_at(name)}{note}"))
    if len(shown) > _QUEUES_MAX:
        print_words(f"performance data per queue is left out: there are more than {_QUEUES_MAX} queues")


def _counts(found: Sequence[Checked]) -> str:
    """Say how many queues are how bad, each counted once, and how many problems are those of no queue."""
    levels: Counter[Status] = Counter()
    others = 0
    for checked in found:
        queues = {queue.name: Status.OK for queue in checked.queues}
        for problem in checked.problems:
            if problem.queue in queues:
                queues[problem.queue] = worst((queues[problem.queue], problem.status))
            else:
                others += 1
        levels.update(queues.values())
    many = plural(levels.total(), "queue")
    if not others and levels.total() == levels[Status.OK]:
        return f"nothing wrong in {many}"
    parts = [", ".join(f"{levels[level]} {level}" for level in Status if levels[level]) + f" in {many}"]
    if others:
        parts = [*(parts if levels else []), plural(others, "other problem" if levels else "problem")]
    return ", ".join(parts)


def _told(name: str, checked: Checked, problem: Problem) -> str:
    what = checked.server if problem.queue is None else problem.queue
    return plain(f"{_at(name)}{printable(what)}: {problem.text}")


def _at(name: str) -> str:
    return f"{name} " if name else ""


def _totals(name: str, checked: Checked) -> Iterator[str]:
    if not checked.at_ms:
        return
    prefix = f"{name}." if name else ""
    yield _datum(f"{prefix}queues", len(checked.queues))
    yield _datum(f"{prefix}depth", sum(queue.depth or 0 for queue in checked.queues))
    yield _datum(f"{prefix}ready", sum(queue.ready or 0 for queue in checked.queues))


def _measured(name: str, checked: Checked, queue: QueueState, limits: Limits) -> Iterator[str]:
    prefix = f"{name}/{queue.name}" if name else queue.name
    if queue.depth is not None:
        yield _datum(f"{prefix}.depth", queue.depth, limits.depth)
    if queue.ready is not None:
        yield _datum(f"{prefix}.ready", queue.ready)
        waiting_ms = queue.waiting_ms(checked.at_ms)
        # Nothing waits in a queue that has nothing ready; of a list it may be unknown how long.
        if waiting_ms is not None or queue.kind != "list" or not queue.ready:
            yield _datum(f"{prefix}.age", waiting_ms or 0, limits.age_ms, is_time=True)
    if queue.expired is not None:
        yield _datum(f"{prefix}.expired", queue.expired, limits.expired)
    if limits.stalled_ms is not None:
        yield _datum(f"{prefix}.idle", checked.idle_ms.get(queue.name, 0), limits.stalled_ms, is_time=True)
    if queue.name in checked.poison:
        yield _datum(f"{prefix}.poison", checked.poison[queue.name])


def _datum(label: str, value: int, limit: Limit | None = None, *, is_time: bool = False) -> str:
    """Return 'label'=value[unit];warn;crit;min; spans of time come in ms and are told in seconds."""
    bounds = (None, None) if limit is None else (limit.warning, limit.critical)
    numbers = ["" if number is None else f"{number / 1000:g}" if is_time else str(number) for number in bounds]
    told = f"{value / 1000:.3f}s" if is_time else str(value)
    safe = re.sub(r"[^ -~]|['=|]", "_", label)
    return f"'{safe}'={told};{numbers[0]};{numbers[1]};0"


def _as_json(status: Status, targets: Sequence[tuple[Profile, str]], found: Sequence[Checked]) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "status": status.value,
        "exit_status": status.exit_status,
        "servers": [
            {
                "profile": profile.name or None,
                "server": checked.server,
                "ns": checked.ns,
                "status": checked.status.value,
                "at_ms": checked.at_ms or None,
                "queues": [_queue_json(checked, queue) for queue in checked.queues],
                "problems": [
                    {
                        "status": problem.status.value,
                        "kind": problem.kind,
                        "queue": problem.queue,
                        "value": problem.value,
                        "limit": problem.limit,
                        "text": problem.text,
                    }
                    for problem in checked.problems
                ],
                "notes": checked.notes,
            }
            for (profile, _), checked in zip(targets, found, strict=True)
        ],
    }


def _queue_json(checked: Checked, queue: QueueState) -> dict[str, Any]:
    return {
        "name": queue.name,
        "kind": queue.kind,
        "depth": queue.depth,
        "ready": queue.ready,
        "oldest_ready_age_ms": queue.oldest_ready_age_ms(checked.at_ms),
        "oldest_ready_waiting_ms": queue.waiting_ms(checked.at_ms),
        "idle_ms": checked.idle_ms.get(queue.name),
        "poison": checked.poison.get(queue.name),
        **({"expired": queue.expired} if queue.kind == "list" else {}),
    }
