"""`rsmq-tui exporter`: serves Prometheus metrics over HTTP until it is stopped."""

import asyncio
import signal
import sys
from collections.abc import Sequence

import click

from rsmq_tui.cli.errors import cannot_listen
from rsmq_tui.cli.interrupts import call_at, run_interruptibly
from rsmq_tui.cli.options import complete_queues, reading
from rsmq_tui.cli.output import say
from rsmq_tui.cli.parsing import Command, OneOf, Options, at_least, option, whole
from rsmq_tui.cli.places import places_of
from rsmq_tui.cli.servers import profiles_of
from rsmq_tui.monitor.text import printable_name
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.kinds import is_among, kind_named
from rsmq_tui.web.exporter.poller import Target, TargetPoller, TargetPollers
from rsmq_tui.web.exporter.server import ALERT_RULES, DASHBOARD, MetricsServer, read_example, serving

_PORT = "9767"
_HOST = "127.0.0.1"
_NOTES = """\
An unreachable server does not end the exporter: rsmq_up is 0 and /healthz answers 503 until the server is back.

List queues (--lists) are exposed beside RSMQ queues, as ns="(lists)". All of their series have the label kind="list",
which series of RSMQ queues do not have: rsmq_queue_depth_messages (items in the list and in its processing list),
rsmq_queue_ready_messages, rsmq_queue_hidden_messages (items in processing), rsmq_queue_expired_leases,
rsmq_queue_oldest_ready_age_seconds and rsmq_queue_oldest_ready_waiting_seconds (the same value for a list) if the items
contain their time, rsmq_queue_problems and rsmq_queue_verdict. Values that lists do not count, such as messages sent
and received, have no series."""
_EXAMPLES = """\
rsmq-tui exporter
rsmq-tui -r redis://db1:6379 exporter --host 0.0.0.0 --port 9767
rsmq-tui exporter --lists 'queue:*' --lists mail
rsmq-tui exporter --queue orders --queue 'mail-*'
rsmq-tui exporter --print-rules > rsmq-alerts.yml
rsmq-tui exporter --print-dashboard > rsmq-dashboard.json"""
_PRINTED = OneOf()


@click.command(
    cls=Command,
    notes=_NOTES,
    sections={"Examples": _EXAMPLES},
    statuses={
        0: "ended by SIGTERM, or --print-rules or --print-dashboard printed its text",
        2: "a usage error, or it cannot listen on the address",
        130: "ended by Ctrl+C",
    },
)
@option("--port N", "port to listen on; 0: any free port", whole(0, 65_535, "port"), default=_PORT)
@option(
    "--host ADDRESS",
    "address to listen on (127.0.0.1: only this machine, because anyone who can connect can read the names "
    "of the queues; most exporters listen on 0.0.0.0, all addresses)",
    default=_HOST,
)
@option(
    "--interval T",
    "time between background polls, which verdicts are based on, instead of the profile's: 0.5, 1m (default 1 s)",
    at_least(0.1),
)
@option(
    "--min-interval T",
    "answer a scrape within T of a poll from the result of that poll: 0.5, 1m",
    at_least(0),
    default="1",
)
@option(
    "--timeout T",
    "answer a scrape from the last poll if the next one takes longer than T: 0.5, 1m",
    at_least(0.1),
    default="3",
)
@option(
    "--queue Q",
    "export only this queue, or the queues that match this pattern (* ? [...]); may be repeated",
    name="queues",
    multiple=True,
    shell_complete=complete_queues,
)
@option("--print-rules", "print example alert rules for Prometheus, as YAML", one_of=_PRINTED)
@option("--print-dashboard", "print a dashboard to import into Grafana", one_of=_PRINTED)
@reading
def command(options: Options) -> int:
    """Serve until SIGTERM or Ctrl+C, or print one of the example files, and return the exit status.

    Raises ``UsageError`` for an invalid address, and if it cannot listen.
    """
    if options.print_rules or options.print_dashboard:
        sys.stdout.write(read_example(ALERT_RULES if options.print_rules else DASHBOARD))
        return 0
    return run_interruptibly(lambda _: _serve(options), runs_for_days=True)


async def _serve(options: Options) -> int:
    stop = asyncio.Event()
    call_at(signal.SIGTERM, stop.set)
    pollers = _target_pollers(profiles_of(options), max_age_s=options.min_interval, patience_s=options.timeout)
    try:
        server = MetricsServer(options.host, options.port, options.queues)
    except (OSError, UnicodeError) as error:
        raise cannot_listen(options.host, options.port, error) from error
    async with serving(server, pollers):
        only_here = (
            " on this machine only (--host 0.0.0.0 accepts connections from others)" if options.host == _HOST else ""
        )
        say(f"listening{only_here}: {server.url}/metrics")
        async with asyncio.TaskGroup() as group:
            missing = group.create_task(_print_missing(pollers, options.queues))
            await stop.wait()
            missing.cancel()
    return 0


async def _print_missing(pollers: TargetPollers, wanted: Sequence[str]) -> None:
    """Print which of the queues of --queue are not there, as the first polls find, if all of these succeed."""
    readings = [reading.current for reading in await pollers.scrape()] if wanted else []
    there = [
        (queue.name, kind_named(queue.kind), snapshot.ns)
        for snapshot in readings
        if snapshot
        for queue in snapshot.queues
    ]
    missing = [each for each in wanted if not any(is_among(name, kind, [each], ns=ns) for name, kind, ns in there)]
    if missing and all(readings):
        say(f"there is no queue {' or '.join(map(printable_name, missing))} yet; once there is, it is exported")


def _target_pollers(profiles: tuple[Profile, ...], *, max_age_s: float, patience_s: float) -> TargetPollers:
    pollers: dict[Target, TargetPoller] = {}
    for profile in profiles:
        for place in places_of(profile):
            target = Target(profile.name, place.server, place.ns, place.kind.name, profile.expected)
            # The same one twice would be the same series twice, which spoils a scrape.
            pollers.setdefault(target, TargetPoller(target, place.follower(), interval_s=profile.interval_s))
    return TargetPollers(tuple(pollers.values()), max_age_s=max_age_s, patience_s=patience_s)
