"""`rsmq-tui check`: checks queues once and prints the result for a monitoring system."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.options import complete_queues, reading
from rsmq_tui.cli.output import ProgressLine, print_json, print_words
from rsmq_tui.cli.parsing import Command, Options, at_least, natural, option, positive, span
from rsmq_tui.cli.places import KindPlace, ask_all, places_of
from rsmq_tui.cli.program import error_words
from rsmq_tui.cli.servers import profiles_of
from rsmq_tui.monitor.checks import Checked, CheckLimit, Limits, Problem, Status, reconcile, worst
from rsmq_tui.monitor.model import QueueState
from rsmq_tui.monitor.text import plural, printable, printable_name
from rsmq_tui.protocol.connections.connect import TIMEOUT_S
from rsmq_tui.protocol.kinds import kind_named

_SCHEMA = 1
# Monitoring systems keep a few KB of a plugin's output.
_QUEUES_MAX = 50
_PROBLEMS_MAX = 50
_SPAN_MAX_MS = 100_000 * 86_400_000
_EXIT_UNKNOWN = 3
_NOTES = """\
A plugin for Nagios, Icinga, Naemon, Zabbix, Sensu and others. It prints a summary line with performance data, then a
line for each of the worst 50 problems.

A limit N is critical, WARN:CRIT sets both, WARN: is only a warning; a duration is 90s, 10m, 1h30m, 2d.

--stalled compares with earlier checks, which are kept in the user's state folder. The first check only starts the
clock, except for queues that were never received from: there, the age of the first message is used. A list is stalled
while its next item stays the same. An empty list does not exist in Redis: name the lists to check (--lists orders
--lists mail), because a pattern finds only lists that have items.

Queues that `ignore` in the configuration names have no problems, unless --queue is given."""
_ALWAYS = (
    (
        "critical",
        "broken queues, whose keys disagree or have wrong types, or whose first message has no body; a server whose "
        "memory is full, as far as its user may see",
    ),
    (
        "warning",
        "list queues with leases past their deadline for a minute or longer, unless --max-expired counts them; "
        "poisoned queues (messages received 5 times or more, among the 100 around the first hidden one) unless "
        "--max-rc counts them; aged queues (the first ready message became due more than 10m ago) unless --max-age is "
        "given. A profile can set other thresholds than 5 and 10m. A replica that has lost its primary, as far as its "
        "user may see",
    ),
    (
        "unknown",
        "a server that cannot be read, a queue that is in no namespace, a namespace without queues; with --lists it is "
        "enough if the namespace or the lists contain the queue, or any queue",
    ),
)
_STATUSES = {
    0: "OK",
    1: "WARNING",
    2: "CRITICAL",
    3: "UNKNOWN (a usage error too); the worst status wins, in the order critical, unknown, warning",
    130: "interrupted",
}


class _Check(Command):
    """The usual exit status of a usage error, 2, would be CRITICAL for a monitoring system."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; a usage error is UNKNOWN, on the first line of the output, which a monitoring system shows."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _print_unknown(error_words(error.format_message()))
            print(ctx.get_usage(), file=sys.stderr)
            ctx.exit(_EXIT_UNKNOWN)


def _limit(read: Callable[[str], int]) -> Callable[[str], CheckLimit]:
    """Return a parser of WARN:CRIT for such numbers."""

    def read_limit(text: str) -> CheckLimit:
        before, colon, after = text.partition(":")
        warning, critical = (before, after) if colon else ("", before)
        if not (warning or critical):
            raise ValueError(f"{text!r} is not a number: write N, WARN:CRIT or WARN:")
        limit = CheckLimit(read(warning) if warning else None, read(critical) if critical else None)
        if limit.warning is not None and limit.critical is not None and limit.warning > limit.critical:
            raise ValueError(f"{text!r} has a critical limit below the warning limit: write WARN:CRIT")
        return limit

    return read_limit


@click.command(
    cls=_Check,
    notes=_NOTES,
    examples=(
        "",
        "--queue orders --queue 'mail-*' --max-depth 1000:5000 --max-age 10m",
        "--max-rc 5 --stalled 2m:10m --json",
        "--lists queue:orders --lists queue:mail --max-depth 1000:5000 --max-expired 0:10",
    ),
    sections={"Always checked, whatever the limits": _ALWAYS},
    statuses=_STATUSES,
)
@option(
    "--queue Q",
    "only this queue, or the queues that match this pattern (* ? [...]); may be repeated",
    name="queues",
    multiple=True,
    shell_complete=complete_queues,
)
@option("--max-depth N", "more than N messages stored", _limit(natural))
@option("--max-age T", "the first ready message became due longer than T ago", _limit(span(0, _SPAN_MAX_MS)))
@option("--max-rc N", "a message received N times or more; checks all messages", _limit(positive))
@option("--stalled T", "messages ready, but none received for T or longer", _limit(span(0, _SPAN_MAX_MS)))
@option("--max-expired N", "more than N leases of a list past their deadline", _limit(natural))
@option(
    "--scan-limit N",
    "with --max-rc: check at most about N messages per queue",
    positive,
    default="100000",
)
@option("--timeout T", "time limit for the whole check of a server: 0.5, 1m", at_least(0.1), default="10")
@option("--json", "print the result as one line of JSON")
@reading
def command(options: Options) -> int:
    """Check, print, and return the exit status of a monitoring plugin: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""
    try:
        return run_interruptibly(lambda _: _check(options))
    except UsageError as error:
        _print_unknown(str(error))
        return _EXIT_UNKNOWN


def _print_unknown(sentence: str) -> None:
    print(f"RSMQ UNKNOWN - {_plain(sentence)}", flush=True)


def _plain(text: str) -> str:
    """Return a text without a bar, after which a monitoring system expects performance data."""
    return printable(text).replace("|", "\\x7c")


async def _check(options: Options) -> int:
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
    of_profiles = [places_of(profile) for profile in profiles_of(options)]
    places = [place for of_profile in of_profiles for place in of_profile]

    def scanned(queue: str, messages: int, depth: int) -> None:
        line.show(f"{queue}: {messages:,} of {depth:,} messages checked")

    patience_s = min(TIMEOUT_S, limits.timeout_s)
    found = await ask_all(places, lambda place: place.check(limits, scanned), line, patience_s)
    left = iter(found)
    for of_profile in of_profiles:
        reconcile([next(left) for _ in of_profile])
    if not limits.queues:
        for place, checked in zip(places, found, strict=True):
            checked.leave_out(place.profile.expected)
    status = worst(checked.status for checked in found)
    if options.json:
        print_json(_as_json(status, places, found))
    else:
        _print(status, list(zip(_names(places), found, strict=True)), limits)
    return status.exit_status


def _names(places: Sequence[KindPlace]) -> list[str]:
    """Return labels that distinguish the servers and namespaces; empty if there is only one."""
    if sum(place.kind.has_namespaces for place in places) == 1:
        return [place.kind.ns for place in places]
    return [f"{place.profile.name or place.server}/{place.ns}" for place in places]


def _print(status: Status, found: Sequence[tuple[str, Checked]], limits: Limits) -> None:
    problems = [(name, checked, problem) for name, checked in found for problem in checked.problems]
    problems.sort(key=lambda entry: entry[2].status.rank)
    summary = _counts([checked for _, checked in found])
    if problems:
        summary = f"{summary}: {_problem_words(*problems[0])}"
    elif not limits.any_given:
        summary += " (without limits: see --stalled and --max-age)"
    shown = [(name, checked, queue) for name, checked in found for queue in checked.queues]
    data = [part for name, checked in found for part in _totals(name, checked)]
    if len(shown) <= _QUEUES_MAX:
        data += [part for name, checked, queue in shown for part in _measured(name, checked, queue, limits)]
    print_words(f"RSMQ {status.upper()} - {summary}{' | ' if data else ''}{' '.join(data)}")
    for name, checked, problem in problems[:_PROBLEMS_MAX]:
        print_words(f"{problem.status.upper()}: {_problem_words(name, checked, problem)}")
    if len(problems) > _PROBLEMS_MAX:
        print_words(f"and {plural(len(problems) - _PROBLEMS_MAX, 'more problem')}; --json has all")
    for name, checked in found:
        for note in checked.notes:
            print_words(_plain(f"{_at(name)}{note}"))
    if len(shown) > _QUEUES_MAX:
        print_words(f"performance data per queue is left out: there are more than {_QUEUES_MAX} queues")


def _counts(found: Sequence[Checked]) -> str:
    """Return the number of queues by status, each counted once, and of problems that concern no queue."""
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


def _problem_words(name: str, checked: Checked, problem: Problem) -> str:
    what = checked.server if problem.queue is None else printable_name(problem.queue)
    return _plain(f"{_at(name)}{what}: {problem.text}")


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
        # In a queue without ready messages, nothing waits; for a list, the waiting time may be unknown.
        if waiting_ms is not None or kind_named(queue.kind).counts_arrivals or not queue.ready:
            yield _datum(f"{prefix}.age", waiting_ms or 0, limits.age_ms, is_time=True)
    if queue.expired is not None:
        yield _datum(f"{prefix}.expired", queue.expired, limits.expired)
    if limits.stalled_ms is not None:
        yield _datum(f"{prefix}.idle", checked.idle_ms.get(queue.name, 0), limits.stalled_ms, is_time=True)
    if queue.name in checked.poison:
        yield _datum(f"{prefix}.poison", checked.poison[queue.name])


def _datum(label: str, value: int, limit: CheckLimit | None = None, *, is_time: bool = False) -> str:
    """Return 'label'=value[unit];warn;crit;min; durations are given in ms and printed in seconds."""
    bounds = (None, None) if limit is None else (limit.warning, limit.critical)
    numbers = ["" if number is None else f"{number / 1000:g}" if is_time else str(number) for number in bounds]
    shown = f"{value / 1000:.3f}s" if is_time else str(value)
    # Different names stay different.
    safe = re.sub(r"[^ -~]", _escaped, re.sub(r"['=|]", "_", label))
    return f"'{safe}'={shown};{numbers[0]};{numbers[1]};0"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _as_json(status: Status, places: Sequence[KindPlace], found: Sequence[Checked]) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "status": status.value,
        "exit_status": status.exit_status,
        "servers": [
            {
                "profile": place.profile.name or None,
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
            for place, checked in zip(places, found, strict=True)
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
        **({"expired": queue.expired} if kind_named(queue.kind).has_leases else {}),
    }
