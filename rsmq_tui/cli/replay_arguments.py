"""The arguments of `rsmq-tui replay`."""

import argparse

from rsmq_tui.cli.command_parser import Commands, Parents, leaf

_NOTES = """\
DIR is the history that `rsmq-tui record` or `rsmq-tui --record` wrote: a folder, or a URL that fsspec supports. Replay
contacts no server and changes nothing. T is 21:50, 2031-05-17 21:50, 2031-05-17, -10m (before the end of the
recording), or seconds since 1970, all in UTC; a time without a date is the last such time, or the first one after
--from. Without --from, replay starts an hour before the end. Playing stops at --to; stepping and seeking can go beyond
it. Files that a recorder is still writing appear when they are sealed, some minutes later; playing on at the end checks
for them.

keys: p plays and pauses, [ ] step from poll to poll, { } go to the previous and next verdict change, @ goes to a time,
< > change the speed, m marks a time and D compares another time with it, ? shows all keys"""
_STATUSES = """\
exit status: 0 you quit; 2 a usage error, or nothing to replay; 70 a defect in rsmq-tui itself. Files that cannot be
read are left out, and are named on stderr at the end."""
_EXAMPLES = (
    "rsmq-tui replay history",
    "rsmq-tui replay history --from '2031-05-17 21:50' --to 22:30 --speed 10",
    "rsmq-tui replay s3://bucket/queues --from -2h",
)
SPEED_MAX = 3600.0


def add_replay(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "replay a recorded history in the dashboard"
    parser = leaf(commands, "replay", words, common, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("history", metavar="DIR", help="the history: a folder or a URL")
    parser.add_argument("--from", metavar="T", dest="from_text", help="where to start")
    parser.add_argument("--to", metavar="T", dest="to_text", help="where playing stops")
    parser.add_argument(
        "--speed",
        metavar="N",
        type=_speed,
        default=60.0,
        help="recorded seconds played per second, from 1 to 3600 (default 60)",
    )
    parser.add_argument("--paused", action="store_true", help="start paused")
    # As for the other screens, where they may also stand before the command.
    shown = argparse.SUPPRESS
    parser.add_argument(
        "--theme", default=shown, help="rsmq-dark, rsmq-light, rsmq-ansi, or the name of your own theme"
    )
    parser.add_argument("--ascii", action="store_true", default=shown, help="draw with ASCII characters only")


def _speed(text: str) -> float:
    try:
        speed = float(text.removeprefix("x"))
    except ValueError:
        speed = 0.0
    if not 1.0 <= speed <= SPEED_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a speed from 1 to 3600")
    return speed
