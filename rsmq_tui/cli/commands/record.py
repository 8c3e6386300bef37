"""`rsmq-tui record`: records the state of all queues until it is stopped."""

import argparse
import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.interrupts import EXIT_INTERRUPTED, run_interruptibly
from rsmq_tui.cli.output import ProgressLine, say
from rsmq_tui.cli.servers import list_poller_of, profiles_of, reader_of
from rsmq_tui.monitor import LivePoller
from rsmq_tui.monitor.text import duration, plural, printable, size
from rsmq_tui.protocol.lists.naming import LISTS_NS

if TYPE_CHECKING:
    from rsmq_tui.cli.interrupts import Interrupts
    from rsmq_tui.history.recorder import Recorder, Watched
    from rsmq_tui.profiles import Profile

EXIT_TERMINATED = 143
_LOOK_S = 0.25


def run(options: argparse.Namespace) -> int:
    """Record until the time is over, or a signal ends it, and return the exit status.

    Raises ``UsageError`` where the packages for it are missing, and for a folder that cannot be a history.
    """
    if options.bodies and options.messages is None:
        raise UsageError("--bodies needs --messages, which sets the interval: --messages 5m --bodies")
    return run_interruptibly(lambda interrupts: _record(options, interrupts))


def started_recorder(out: str, keep_ms: int | None = None, max_bytes: int | None = None) -> "Recorder":
    """Return a recorder that has begun; raises ``UsageError`` where its packages are missing or it cannot begin."""
    try:
        import fsspec  # noqa: F401, PLC0415
        import pyarrow  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError(
            "recording needs the packages of the extra `history`: pip install 'rsmq-tui[history]'"
        ) from error
    from rsmq_tui.history.names import HistoryError  # noqa: PLC0415
    from rsmq_tui.history.recorder import Recorder  # noqa: PLC0415
    from rsmq_tui.history.writer import Settings  # noqa: PLC0415

    try:
        recorder = Recorder(out, Settings(keep_ms=keep_ms, max_bytes=max_bytes))
        recorder.start()
    except HistoryError as error:
        raise UsageError(printable(str(error))) from error
    return recorder


async def _record(options: argparse.Namespace, interrupts: "Interrupts") -> int:
    stop = asyncio.Event()
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        stop.set()

    interrupts.gently = stop.set
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGHUP"):
        # Windows and threads other than the main one have no such handlers: there it ends at once.
        with suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):
            # nohup lets it be ignored, and means it.
            if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
                loop.add_signal_handler(getattr(signal, name), terminate)
    profiles = profiles_of(options)
    recorder = started_recorder(options.out, options.keep, options.max_size)
    from rsmq_tui.history.recorder import Pace, record  # noqa: PLC0415 - its packages are there

    watched = _watched(profiles)
    if options.for_ms is not None:
        loop.call_later(options.for_ms / 1000, stop.set)
    pace = Pace(options.every / 1000, None if options.messages is None else options.messages / 1000, options.bodies)
    telling = asyncio.create_task(_Telling(recorder, watched, loop).run())
    try:
        await record(watched, recorder, pace, stop)
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
    tally = recorder.tally
    where = printable(recorder.label)
    say(f"recorded {plural(len(watched), 'place')} into {where}: {_amount(recorder)}")
    if tally.lost:
        say(f"{plural(tally.lost, 'poll')} could not be written: {tally.problem}")
    elif tally.is_failing:
        say(f"the last part is not sealed yet in {where}: {tally.problem}")
    if interrupts.taken:
        return EXIT_INTERRUPTED
    if terminated:
        return EXIT_TERMINATED
    return 1 if tally.lost or tally.is_failing else 0


def _watched(profiles: "Sequence[Profile]") -> "list[Watched]":
    from rsmq_tui.history.names import Place  # noqa: PLC0415
    from rsmq_tui.history.recorder import Watched  # noqa: PLC0415

    found: dict[Place, Watched] = {}
    for profile in profiles:
        for ns in profile.namespaces:
            reader = reader_of(profile, ns)
            place = Place(profile.name, reader.label, ns)
            poller = LivePoller(
                reader, interval_s=profile.interval_s, place=profile.name, thresholds=profile.thresholds
            )
            # The same one twice would be each row twice.
            found.setdefault(place, Watched(place, poller, reader_of(profile, ns)))
        if profile.lists:
            place = Place(profile.name, profile.address.label, LISTS_NS)
            found.setdefault(place, Watched(place, list_poller_of(profile, profile.name), None))
    return list(found.values())


class _Telling:
    """Tells people how it goes: on a line that is written over at a terminal, and what goes wrong anywhere."""

    def __init__(self, recorder: "Recorder", watched: "Sequence[Watched]", loop: asyncio.AbstractEventLoop) -> None:
        self._recorder = recorder
        self._watched = watched
        self._loop = loop
        self._line = ProgressLine()
        self._told: dict[str, str | None] = {}

    async def run(self) -> None:
        """Tell until cancelled."""
        begun_s = self._loop.time()
        say(f"recording {plural(len(self._watched), 'place')} into {printable(self._recorder.label)}; Ctrl+C stops it")
        try:
            while True:
                self._tell_changes()
                lasted = duration((self._loop.time() - begun_s) * 1000)
                self._line.show(f"{lasted}: {_amount(self._recorder)}{self._last_failure()}")
                await asyncio.sleep(_LOOK_S)
        finally:
            self._tell_changes()
            self._line.clear()

    def _tell_changes(self) -> None:
        """Say what has begun to fail, and what works again."""
        tally = self._recorder.tally
        now = {_named(watched): watched.failure for watched in self._watched}
        now["the history"] = tally.problem if tally.is_failing else None
        for name, problem in now.items():
            before = self._told.get(name)
            if problem != before:
                self._line.clear()
                say(f"{name}: {problem or 'it works again'}")
        self._told = now

    def _last_failure(self) -> str:
        failing = [name for name, problem in self._told.items() if problem]
        return f"; failing: {', '.join(failing)}" if failing else ""


def _named(watched: "Watched") -> str:
    place = watched.place
    return f"{place.profile or place.server} {place.ns}"


def _amount(recorder: "Recorder") -> str:
    tally = recorder.tally
    messages = f", {plural(tally.messages, 'message')}" if tally.messages else ""
    written = f" and {size(tally.open_bytes)} not sealed yet" if tally.open_bytes else ""
    files = f"{plural(tally.sealed_files, 'file')} of {size(tally.sealed_bytes)}"
    return f"{plural(tally.polls, 'poll')}, {plural(tally.rows, 'row')}{messages}, {files}{written}"
