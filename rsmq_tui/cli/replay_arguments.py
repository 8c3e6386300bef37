"""The arguments of `rsmq-tui replay`."""

import argparse

from rsmq_tui.cli.command_parser import Commands, Parents, leaf

_NOTES = """\
DIR is what `rsmq-tui record` or `rsmq-tui --record` wrote, a folder or a URL that fsspec knows. Nothing is asked of
any server, and nothing can be changed. T is 21:50, 2031-05-17 21:50, 2031-05-17, -10m (before the end of what was
recorded), or seconds since 1970, all in UTC; a time without a date is the last such time, or the first one after
--from. Without --from it begins an hour before the end. With --to playing stops there; stepping and seeking go
wherever something was recorded. What a recorder is still writing is there once it has sealed that, which is minutes
later; playing on at the end looks for it.

keys: p plays and pauses, [ ] step from poll to poll, { } go to the change of a verdict before and after, @ goes to a
moment, < > change the speed, m marks an instant and D compares another one with it, ? shows all of them"""
_STATUSES = """\
exit status: 0 when it is left; 2 a usage error, or nothing there that could be replayed. Files that cannot be read are
left out, and named on stderr at the end."""
_EXAMPLES = (
    "rsmq-tui replay history",
    "rsmq-tui replay history --from '2031-05-17 21:50' --to 22:30 --speed 10",
    "rsmq-tui replay s3://bucket/queues --from -2h",
)
SPEED_MAX = 3600.0


def add_replay(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "open the dashboard on recorded time"
    parser = leaf(commands, "replay", words, common, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.fill = lambda: _fill(parser)


def _fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("history", metavar="DIR", help="the history: a folder or a URL")
    parser.add_argument("--from", metavar="T", dest="from_text", help="where to begin")
    parser.add_argument("--to", metavar="T", dest="to_text", help="where playing stops")
    parser.add_argument(
        "--speed", metavar="N", type=_speed, default=60.0, help="recorded seconds in one, from 1 to 3600 (default 60)"
    )
    parser.add_argument("--paused", action="store_true", help="begin paused")
    # As for the other screens, where they may also stand before the command.
    shown = argparse.SUPPRESS
    parser.add_argument("--theme", default=shown, help="rsmq-dark, rsmq-light, rsmq-ansi or one of yours")
    parser.add_argument("--ascii", action="store_true", default=shown, help="draw with ASCII characters only")


def _speed(text: str) -> float:
    try:
        speed = float(text.removeprefix("x"))
    except ValueError:
        speed = 0.0
    if not 1.0 <= speed <= SPEED_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no speed from 1 to 3600")
    return speed
