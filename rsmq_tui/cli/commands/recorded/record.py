"""`rsmq-tui record`: records the state of all queues until it is stopped."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rsmq_tui.cli.commands.recorded import started_recorder
from rsmq_tui.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TERMINATED, UsageError
from rsmq_tui.cli.interrupts import call_at_end, run_interruptibly
from rsmq_tui.cli.options import reading
from rsmq_tui.cli.output import ProgressLine, say, say_when
from rsmq_tui.cli.parsing import Command, Options, at_least, folder, option, span
from rsmq_tui.cli.places import KindPlace, places_of, words_of
from rsmq_tui.cli.servers import profiles_of
from rsmq_tui.history.names import Place
from rsmq_tui.monitor.moments import DAY_MS
from rsmq_tui.monitor.text import duration, plural, printable, read_size, size

if TYPE_CHECKING:
    from rsmq_tui.cli.interrupts import Interrupts
    from rsmq_tui.history.recorder import RecordedPlace, Recorder
    from rsmq_tui.profiles import Profile

_LOOK_S = 0.25


_NOTES = """\
DIR is a folder, or a URL that fsspec supports (s3://bucket/queues with the package s3fs). Several recorders may write
to the same DIR. It contains Parquet files by UTC day; DIR/_schema.json describes the columns. An unreachable server
does not end the recording: the outage is recorded.

List queues (--lists) are recorded beside RSMQ queues, with namespace (lists) and kind "list". Values that lists do not
count are null: arrivals, deletes and receives. --messages skips lists: their items have no ids, so inventories of them
cannot be compared."""
_EXAMPLES = """\
rsmq-tui record --out history
rsmq-tui --profile eu,us record --out /var/lib/rsmq --interval 5s --messages 5m --keep 90d --max-size 20G
rsmq-tui record --out incident --interval 1s --for 1h
rsmq-tui record --out history --lists 'queue:*' --lists mail"""
_STATUSES = {
    0: "the time of --for is over",
    1: "the same, but something could not be written",
    2: "a usage error, or a folder that cannot be a history",
    130: "ended by Ctrl+C; all polls are written first",
    143: "ended by SIGTERM or SIGHUP; all polls are written first",
}


INTERVAL_S = 5.0


def _size(text: str) -> int:
    wanted = read_size(text)
    if isinstance(wanted, str) or not 1 << 20 <= wanted <= 1 << 60:
        raise ValueError(f"{text!r} is not a size of at least 1M, such as 500M, 20G or 1.5T")
    return wanted


@click.command(cls=Command, notes=_NOTES, sections={"Examples": _EXAMPLES}, statuses=_STATUSES)
@option("--out DIR", "the destination: a folder or a URL", folder, required=True)
@option(
    "--interval --every T",
    f"time between polls, not that of the profile: 0.5, 500ms, 1m (default {INTERVAL_S:g} s)",
    at_least(0.1, DAY_MS / 1000),
    name="interval",
)
@option("--for SPAN", "stop after this time: 1h", span(100, 10_000 * DAY_MS), name="for_ms")
@option(
    "--messages SPAN",
    "also record every message of RSMQ queues at this interval, without its body: 5m",
    span(1_000, 10_000 * DAY_MS),
)
@option("--bodies", "with --messages: record the bodies too; anyone who can read the files can read the bodies")
@option("--keep SPAN", "delete days older than this: 90d", span(DAY_MS, 100_000 * DAY_MS))
@option("--max-size SIZE", "delete the oldest days when the files take more than this: 20G", _size)
@reading
def command(options: Options) -> int:
    """Record until the time is over, or a signal ends it, and return the exit status.

    Raises ``UsageError`` if packages are missing, and for a folder that cannot be a history.
    """
    if options.bodies and options.messages is None:
        raise UsageError("--bodies needs --messages, which sets the interval: --messages 5m --bodies")
    return run_interruptibly(lambda interrupts: _record(options, interrupts), runs_for_days=True)


async def _record(options: Options, interrupts: "Interrupts") -> int:
    stop = asyncio.Event()
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        stop.set()

    interrupts.gently = stop.set
    loop = asyncio.get_running_loop()
    call_at_end(terminate)
    profiles = profiles_of(options)
    recorder = started_recorder(options.out, options.keep, options.max_size)
    from rsmq_tui.history.recorder import Pace, record  # noqa: PLC0415 - its packages are there

    watched = _watched(profiles)
    places = words_of([place for place, _ in watched])
    if options.for_ms is not None:
        loop.call_later(options.for_ms / 1000, stop.set)
    pace = Pace(
        options.interval or INTERVAL_S, None if options.messages is None else options.messages / 1000, options.bodies
    )
    where = printable(recorder.label)
    say(f"recording {places} into {where}; Ctrl+C stops it")
    reporting = asyncio.create_task(_Reporting(recorder, watched, loop).run())
    try:
        await record([each for _, each in watched], recorder, pace, stop)
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
    tally = recorder.tally
    say(f"recorded {places} into {where}: {_amount(recorder)}")
    if tally.lost:
        say(f"{plural(tally.lost, 'poll')} could not be written: {tally.problem}")
    elif tally.is_failing:
        say(f"the last part is not sealed yet in {where}: {tally.problem}")
    if interrupts.taken:
        return EXIT_INTERRUPTED
    if terminated:
        return EXIT_TERMINATED
    return EXIT_FAILED if tally.lost or tally.is_failing else 0


def _watched(profiles: "Sequence[Profile]") -> "list[tuple[KindPlace, RecordedPlace]]":
    from rsmq_tui.history.recorder import RecordedPlace  # noqa: PLC0415

    found: dict[Place, tuple[KindPlace, RecordedPlace]] = {}
    for profile in profiles:
        for place in places_of(profile):
            recorded = Place(profile.name, place.server, place.ns)
            # The same place twice would record each row twice.
            watched = RecordedPlace(recorded, place.follower(profile.name), place.inventory())
            found.setdefault(recorded, (place, watched))
    return list(found.values())


class _Reporting:
    """Prints the progress, on a terminal as a line that is overwritten, and problems anywhere."""

    def __init__(
        self,
        recorder: "Recorder",
        watched: "Sequence[tuple[KindPlace, RecordedPlace]]",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._recorder = recorder
        self._watched = watched
        self._loop = loop
        self._line = ProgressLine()
        self._reported: dict[str, str | None] = {}

    async def run(self) -> None:
        begun_s = self._loop.time()
        try:
            while True:
                self._print_changes()
                lasted = duration((self._loop.time() - begun_s) * 1000)
                self._line.show(f"{lasted}: {_amount(self._recorder)}{self._last_failure()}")
                await asyncio.sleep(_LOOK_S)
        finally:
            self._print_changes()
            self._line.clear()

    def _print_changes(self) -> None:
        """Print what has begun to fail, and what works again."""
        tally = self._recorder.tally
        now = {place.full_title: watched.failure for place, watched in self._watched}
        now["the history"] = tally.problem if tally.is_failing else None
        for name, problem in now.items():
            before = self._reported.get(name)
            if problem != before:
                self._line.clear()
                say_when(f"{name}: {problem or 'works again'}")
        self._reported = now

    def _last_failure(self) -> str:
        failing = [name for name, problem in self._reported.items() if problem]
        return f"; failing: {', '.join(failing)}" if failing else ""


def _amount(recorder: "Recorder") -> str:
    tally = recorder.tally
    messages = f", {plural(tally.messages, 'message')}" if tally.messages else ""
    written = f" and {size(tally.open_bytes)} not sealed yet" if tally.open_bytes else ""
    files = f"{plural(tally.sealed_files, 'file')} of {size(tally.sealed_bytes)}"
    return f"{plural(tally.polls, 'poll')}, {plural(tally.rows, 'row')}{messages}, {files}{written}"
