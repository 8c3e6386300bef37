"""`rsmq-tui demo`: the dashboard on a private server, with healthy and failing consumers."""

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.options import namespace, read_only, screen
from rsmq_tui.cli.parsing import Command, Options, at_least, option
from rsmq_tui.embedded import EmbeddedError, EmbeddedServer, ServerNotFound, WorkloadProcess
from rsmq_tui.listserver import ListServer
from rsmq_tui.monitor import Thresholds
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import ENDED, Address, Failure

# Nobody watching a demo wants to wait for the usual minute or two before trouble is called by its name.
DEMO_THRESHOLDS = Thresholds(
    stalled_ms=8_000, growing_ms=20_000, growing_messages=100, growing_share=0.1, clear_ms=15_000, leaking_ms=30_000
)
DEMO_LISTS = ("queue:*",)
DEMO_LIST_AGE = "created"


_STATUSES = {
    0: "you quit, or the time of --seconds is over",
    2: "a usage error, or its server cannot be started, or has ended",
}


@click.command(cls=Command, examples=("", "--plain", "--headless", "--headless --seconds 10m"), statuses=_STATUSES)
@option("--headless", "only run the workload, and print the server's URL")
@option("--seconds N", "with --headless: end after this time: 30, 10m", at_least(0.1))
# Taken so that the refusal says why.
@option("-r --redis-url URL", "", hidden=True)
@namespace
@read_only
@screen
def command(options: Options) -> int:
    """Run the demo; raises ``UsageError`` for a server that cannot be started."""
    if options.seconds is not None and not options.headless:
        raise UsageError("--seconds goes with --headless; q ends the dashboard")
    if options.redis_url is not None:
        raise UsageError("demo starts its own server and takes no -r; `rsmq-tui -r URL` watches yours")
    if options.profile:
        raise UsageError("demo starts its own server and takes no --profile; `rsmq-tui --profile NAME` watches yours")
    if options.lists:
        raise UsageError("demo has its own list queues and takes no --lists; `rsmq-tui --lists PATTERN` watches yours")
    try:
        with ExitStack() as stack:
            server = _started(stack)
            return _headless(server, options) if options.headless else _with_dashboard(server, options)
    except EmbeddedError as error:
        raise UsageError(str(error)) from error


Server = EmbeddedServer | ListServer


def _started(stack: ExitStack) -> Server:
    """Start Valkey or Redis until the end of ``stack``, or where there is neither, the list server of this package."""
    try:
        return stack.enter_context(EmbeddedServer())
    except ServerNotFound:
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


def _with_dashboard(server: Server, options: Options) -> int:
    # Headless runs must not load the screens.
    if options.plain:
        from rsmq_tui.cli.plain import print_overview as watch  # noqa: PLC0415
    else:
        from rsmq_tui.cli.dashboard import open_dashboard as watch  # noqa: PLC0415

    # What is undone here is of no use once the server is gone.
    with (
        WorkloadProcess(server.url, ns=_ns(options), scripts=_runs_scripts(server)) as workload,
        tempfile.TemporaryDirectory(prefix="rsmq-tui-") as folder,
    ):
        print("Filling the demo's queues …", file=sys.stderr)
        workload.wait_ready()
        _when_ended(server, workload.stop)
        profile = Profile(
            "",
            address_of(server),
            (_ns(options),),
            options.read_only,
            interval_s=options.interval or 1.0,
            thresholds=DEMO_THRESHOLDS,
            lists=DEMO_LISTS,
            list_age=DEMO_LIST_AGE,
        )
        return watch(options, (profile,), Path(folder))


_ENDED = Failure(ENDED, "the demo's server has ended", "restart rsmq-tui demo")


def address_of(server: Server) -> Address:
    """Return the address of the demo's server; a failed connection says that the server has ended, if it has."""
    return Address(server.url, ended=lambda: None if server.is_running else _ENDED)


def _headless(server: Server, options: Options) -> int:
    # With a screen it runs in its own process.
    from rsmq_tui.embedded.workload import DEMO, DEMO_WITHOUT_SCRIPTS, run_workload  # noqa: PLC0415

    is_lost = False

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def lose() -> None:
            nonlocal is_lost
            is_lost = True
            stop.set()

        def when_ended() -> None:
            # RuntimeError: the loop has ended already.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lose)

        _when_ended(server, when_ended)
        if options.seconds is not None:
            loop.call_later(options.seconds, stop.set)
        scenarios = DEMO if _runs_scripts(server) else DEMO_WITHOUT_SCRIPTS
        await run_workload(server.url, ns=_ns(options), stop=stop, scenarios=scenarios)

    print(server.url, flush=True)
    asyncio.run(work())
    if is_lost:
        raise EmbeddedError(f"{_ENDED.sentence}: {_ENDED.hint}")
    return 0


def _when_ended(server: Server, do: Callable[[], object]) -> None:
    """Call ``do`` in a thread once the server has ended: another server at its address must not get the workload."""

    def watch() -> None:
        server.wait()
        do()

    threading.Thread(target=watch, name="demo-server", daemon=True).start()


def _ns(options: Options) -> str:
    named: str | None = options.ns
    return os.environ.get("RSMQ_NS", "rsmq") if named is None else named
