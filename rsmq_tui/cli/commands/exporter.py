"""`rsmq-tui exporter`: serves Prometheus metrics over HTTP until it is stopped."""

import argparse
import asyncio
import signal
import sys
from contextlib import suppress

from rsmq_tui.cli.arguments.tools import HOST
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import run_interruptibly
from rsmq_tui.cli.output import say
from rsmq_tui.cli.servers import list_poller_of, profiles_of, reader_of
from rsmq_tui.exporter.poller import Target, Watch, Watches
from rsmq_tui.exporter.server import ALERT_RULES, DASHBOARD, MetricsServer, read_example, serving
from rsmq_tui.monitor import LivePoller
from rsmq_tui.monitor.text import printable
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol.kinds import LIST


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl+C, or print one of the example files, and return the exit status.

    Raises ``UsageError`` for an address that cannot be one, and where it cannot listen.
    """
    if options.print_rules or options.print_dashboard:
        sys.stdout.write(read_example(ALERT_RULES if options.print_rules else DASHBOARD))
        return 0
    return run_interruptibly(lambda _: _serve(options))


async def _serve(options: argparse.Namespace) -> int:
    stop = asyncio.Event()
    # Windows and threads other than the main one have no such handlers: there it ends at once.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    watches = _watches(profiles_of(options), max_age_s=options.min_interval, patience_s=options.timeout)
    try:
        server = MetricsServer(options.host, options.port)
    except (OSError, UnicodeError) as error:
        raise UsageError(_cannot_listen(options, error)) from error
    async with serving(server, watches):
        only_here = (
            " on this machine only (--host 0.0.0.0 accepts connections from others)" if options.host == HOST else ""
        )
        say(f"listening{only_here}: {server.url}/metrics")
        await stop.wait()
    return 0


def _watches(profiles: tuple[Profile, ...], *, max_age_s: float, patience_s: float) -> Watches:
    watches: dict[Target, Watch] = {}
    for profile in profiles:
        for ns in profile.namespaces:
            reader = reader_of(profile, ns)
            target = Target(profile.name, reader.label, ns)
            poller = LivePoller(reader, interval_s=profile.interval_s, thresholds=profile.thresholds)
            # The same one twice would be the same series twice, which spoils a scrape.
            watches.setdefault(target, Watch(target, poller, interval_s=profile.interval_s))
        if profile.lists:
            target = Target(profile.name, profile.address.label, LIST.ns, LIST.name)
            watches.setdefault(target, Watch(target, list_poller_of(profile), interval_s=profile.interval_s))
    return Watches(tuple(watches.values()), max_age_s=max_age_s, patience_s=patience_s)


def _cannot_listen(options: argparse.Namespace, error: Exception) -> str:
    why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a host name"
    where = f"{printable(options.host)} port {options.port}"
    return f"cannot listen on {where}: {why}; choose another with --host and --port"
