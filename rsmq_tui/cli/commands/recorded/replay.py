"""`rsmq-tui replay`: the dashboard on a recorded history."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rsmq_tui.cli.commands.recorded import change_logs, changes_option, require_packages
from rsmq_tui.cli.errors import UsageError, refusing
from rsmq_tui.cli.options import appearance, config, link, zone_for
from rsmq_tui.cli.output import has_screen, say
from rsmq_tui.cli.parsing import Command, Options, option
from rsmq_tui.cli.servers import expected_of, keys_of, zones_of
from rsmq_tui.history.names import HistoryError
from rsmq_tui.monitor.moments import HOUR_MS, MomentError, read_end, read_moment
from rsmq_tui.monitor.text import date_clock, printable

if TYPE_CHECKING:
    from rsmq_tui.history.reading import History, RecordedSpan
    from rsmq_tui.tui.replay.session import ReplaySession

_PROBLEMS_SHOWN = 20


_NOTES = """\
DIR is the history that `rsmq-tui record` or `rsmq-tui --record` wrote: a folder, or a URL that fsspec supports. Replay
contacts no server and changes nothing. T is 21:50, 2031-05-17 21:50, 2031-05-17, -10m (before the end of the
recording), or seconds since 1970, all in UTC; a time without a date is the last such time, or the first one after
--from. Without --from, replay starts an hour before the end. Playing stops at --to; stepping and seeking can go beyond
it. Files that a recorder is still writing appear when they are sealed, some minutes later; playing on at the end checks
for them. Files that cannot be read are left out, and are named on stderr at the end."""
_KEYS = (
    ("p", "play and pause"),
    ("[ ]", "step from poll to poll"),
    ("{ }", "go to the previous and next start or end of an incident; on a queue, of a verdict"),
    ("@", "go to a time"),
    ("< >", "change the speed"),
    ("m D", "mark a time, and compare another time with it"),
    ("?", "show all keys"),
)
_SPEED_MAX = 3600.0


def _speed(text: str) -> float:
    try:
        speed = float(text.removeprefix("x"))
    except ValueError:
        speed = 0.0
    if not 1.0 <= speed <= _SPEED_MAX:
        raise ValueError(f"{text!r} is not a speed from 1 to 3600")
    return speed


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=(
        "history",
        "history --from '2031-05-17 21:50' --to 22:30 --speed 10",
        "s3://bucket/queues --from -2h",
    ),
    sections={"Keys": _KEYS},
    statuses={0: "you quit", 2: "a usage error, or nothing to replay"},
)
@click.argument("history", metavar="DIR", help="the history: a folder or a URL")
@option("--from T", "where to start", name="from_text")
@option("--to T", "where playing stops", name="to_text")
@option("--speed N", "recorded seconds played per second, from 1 to 3600", _speed, default="60")
@option("--paused", "start paused")
@link
@changes_option
@config
@appearance
def command(options: Options) -> int:
    """Open the dashboard on a history and return the exit status; raises ``UsageError`` if there is none."""
    logs = change_logs(options)
    history = _history_of(options)
    with refusing(HistoryError):
        replaying = _opened(history, options, logs)
    if not has_screen():
        raise UsageError("the dashboard needs a terminal; the files of a history are Parquet, for scripts to read")
    from rsmq_tui.tui.app import RsmqApp  # noqa: PLC0415

    app = RsmqApp(
        replaying.servers,
        replay=replaying,
        expected=expected_of(options),
        ascii_only=options.ascii,
        theme=options.theme,
        zone=zone_for(options, zones_of(options).values()),
        keys=keys_of(options),
        link=options.link,
    )
    app.run()
    _print_problems(history)
    return app.return_code or 0


def refuse(options: Options) -> None:
    """Raise ``UsageError`` if there is no history."""
    change_logs(options)
    _history_of(options)


def _history_of(options: Options) -> "History":
    require_packages("replaying")
    from rsmq_tui.history.reading import History  # noqa: PLC0415 - its packages are there

    with refusing(HistoryError):
        return History(options.history)


def _opened(history: "History", options: Options, logs: Sequence[Path]) -> "ReplaySession":
    from rsmq_tui.tui.replay.session import replay_session  # noqa: PLC0415

    from_ms = to_ms = None
    at_ms = None if options.link is None else options.link.at_ms
    if options.from_text is not None or options.to_text is not None:
        history.refresh()
        span = history.span()
        if span is not None:
            from_ms = None if options.from_text is None else _moment(options.from_text, "--from", span)
            to_ms = None if options.to_text is None else _moment(options.to_text, "--to", span, from_ms)
            if from_ms is None:
                from_ms = max(span.from_ms, (to_ms or span.to_ms) - HOUR_MS)
            if to_ms is not None and to_ms <= from_ms:
                raise UsageError(
                    f"--to is {date_clock(to_ms, zone=True)}, which is not after --from, {date_clock(from_ms)}"
                )
    if at_ms is not None:
        from_ms = at_ms
    return replay_session(
        history,
        from_ms=from_ms,
        to_ms=to_ms,
        speed=options.speed,
        playing=not options.paused and at_ms is None,
        expected=expected_of(options),
        change_logs=logs,
    )


def _moment(text: str, option: str, span: "RecordedSpan", after_ms: int | None = None) -> int:
    """Read a moment within the recording; a time without a date is the first one after ``after_ms``, if given."""
    try:
        at_ms = read_moment(text, span.to_ms) if after_ms is None else read_end(text, after_ms, span.to_ms)
        if after_ms is not None and at_ms > span.to_ms:
            at_ms = read_moment(text, span.to_ms)
    except MomentError as error:
        raise UsageError(f"{option}: {error}") from error
    if text.strip().startswith("-"):
        at_ms = max(span.from_ms, at_ms)
    # A minute that has begun counts.
    if not span.from_ms - 60_000 < at_ms <= span.to_ms + 60_000:
        raise UsageError(
            f"{option}: nothing was recorded at {date_clock(at_ms)}: the recording covers {date_clock(span.from_ms)} "
            f"to {date_clock(span.to_ms, zone=True)}"
        )
    return at_ms


def _print_problems(history: "History") -> None:
    for problem in history.problems[:_PROBLEMS_SHOWN]:
        say(printable(problem))
    if (more := len(history.problems) - _PROBLEMS_SHOWN) > 0:
        say(f"{more} more files were left out")
