"""The arguments of `rsmq-tui record`, `replay`, `history`, `report` and `pipeline`."""

import argparse
import re
from collections.abc import Callable
from datetime import UTC, datetime

from rsmq_tui.cli.parsing import Commands, Parents, leaf, span

_DAY_MS = 86_400_000
_RECORD_STATUSES = """\
exit status: 0 the time of --for is over; 1 the same, but something could not be written; 2 a usage error, or a folder
that cannot be a history; 70 a defect in rsmq-tui
itself; 130 ended by Ctrl+C, 143 by SIGTERM or SIGHUP: all polls are written first. An unreachable
server does not end the recording: the outage is recorded."""
_RECORD_NOTES = """\
DIR is a folder, or a URL that fsspec supports (s3://bucket/queues with the package s3fs). Several recorders may write
to the same DIR. It contains Parquet files by UTC day; DIR/_schema.json describes the columns.

List queues (--lists) are recorded beside RSMQ queues, with namespace (lists) and kind "list". Values that lists do not
count are null: arrivals, deletes and receives. --messages skips lists: their items have no ids, so inventories of them
cannot be compared."""
_RECORD_EXAMPLES = (
    "rsmq-tui record --out history",
    "rsmq-tui --profile eu,us record --out /var/lib/rsmq --every 5s --messages 5m --keep 90d --max-size 20G",
    "rsmq-tui record --out incident --every 1s --for 1h",
    "rsmq-tui record --out history --lists 'queue:*' --lists mail",
)
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([KMGT]?)i?B?", re.IGNORECASE)
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_record(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "record the state of all queues at every poll, as Parquet files"
    parser = leaf(commands, "record", words, common, _RECORD_EXAMPLES, notes=_RECORD_NOTES, statuses=_RECORD_STATUSES)
    parser.fill = lambda: _fill_record(parser)


def _fill_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", required=True, type=_out, help="the destination: a folder or a URL")
    parser.add_argument(
        "--every", metavar="SPAN", type=span(100, _DAY_MS), default=5_000, help="time between polls (default 5s)"
    )
    parser.add_argument(
        "--for", metavar="SPAN", type=span(100, 10_000 * _DAY_MS), dest="for_ms", help="stop after this time: 1h"
    )
    parser.add_argument(
        "--messages",
        metavar="SPAN",
        type=span(1_000, 10_000 * _DAY_MS),
        help="also record every message of RSMQ queues at this interval, without its body: 5m",
    )
    parser.add_argument(
        "--bodies",
        action="store_true",
        help="with --messages: record the bodies too; anyone who can read the files can read the bodies",
    )
    parser.add_argument(
        "--keep", metavar="SPAN", type=span(_DAY_MS, 100_000 * _DAY_MS), help="delete days older than this: 90d"
    )
    parser.add_argument(
        "--max-size", metavar="SIZE", type=_size, help="delete the oldest days when the files take more than this: 20G"
    )


def _out(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("must not be empty: name a folder, such as --out history")
    return text


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = round(float(found[1]) * _SIZES[found[2].upper()]) if found else 0
    if not 1 << 20 <= size <= 1 << 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of at least 1M, such as 500M, 20G or 1.5T")
    return size


_REPLAY_NOTES = """\
DIR is the history that `rsmq-tui record` or `rsmq-tui --record` wrote: a folder, or a URL that fsspec supports. Replay
contacts no server and changes nothing. T is 21:50, 2031-05-17 21:50, 2031-05-17, -10m (before the end of the
recording), or seconds since 1970, all in UTC; a time without a date is the last such time, or the first one after
--from. Without --from, replay starts an hour before the end. Playing stops at --to; stepping and seeking can go beyond
it. Files that a recorder is still writing appear when they are sealed, some minutes later; playing on at the end checks
for them.

keys: p plays and pauses, [ ] step from poll to poll, { } go to the previous and next verdict change, @ goes to a time,
< > change the speed, m marks a time and D compares another time with it, ? shows all keys"""
_REPLAY_STATUSES = """\
exit status: 0 you quit; 2 a usage error, or nothing to replay; 70 a defect in rsmq-tui itself. Files that cannot be
read are left out, and are named on stderr at the end."""
_REPLAY_EXAMPLES = (
    "rsmq-tui replay history",
    "rsmq-tui replay history --from '2031-05-17 21:50' --to 22:30 --speed 10",
    "rsmq-tui replay s3://bucket/queues --from -2h",
)
SPEED_MAX = 3600.0


def add_replay(commands: Commands, common: Parents) -> None:
    """Add the command."""
    words = "replay a recorded history in the dashboard"
    parser = leaf(commands, "replay", words, common, _REPLAY_EXAMPLES, notes=_REPLAY_NOTES, statuses=_REPLAY_STATUSES)
    parser.fill = lambda: _fill_replay(parser)


def _fill_replay(parser: argparse.ArgumentParser) -> None:
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


ANALYSIS_VARIABLE = "RSMQ_TUI_ANALYSIS"
_HISTORY_STATUSES = "exit status: 0 done, 2 a usage error, or no terminal, 70 a defect in rsmq-tui itself"
_HISTORY_NOTES = """\
OUT is an analysis that `rsmq-tui pipeline run --out OUT` wrote: a folder, or a URL that fsspec supports. The command
contacts no server. With rsmq-tui --analysis OUT, the key H opens the same screen in the dashboard."""
_HISTORY_EXAMPLES = (
    "rsmq-tui history analysis",
    "rsmq-tui history s3://bucket/analysis --history s3://bucket/history",
)


def add_history(commands: Commands, screen: Parents) -> None:
    """Add the command."""
    words = "show the history: charts, episodes, a heat map and forecasts from recorded data"
    parser = leaf(
        commands, "history", words, screen, _HISTORY_EXAMPLES, notes=_HISTORY_NOTES, statuses=_HISTORY_STATUSES
    )
    parser.fill = lambda: _fill_history(parser)


def _fill_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="OUT", nargs="?", help=f"the analysis (env {ANALYSIS_VARIABLE})")
    parser.add_argument(
        "--history", metavar="DIR", help="the history that Enter replays (default: the one that the analysis names)"
    )


_REPORT_STATUSES = """\
exit status: 0 the file is written; 1 the same, but some files of the analysis could not be read and are named; 2 a
usage error, no such analysis, or the file cannot be written; 70 a defect in rsmq-tui itself"""
_REPORT_NOTES = """\
T is 21:50, 2031-05-17 21:50, 2031-05-17, -10m (before the end of the analysis), or seconds since 1970, all in UTC; a
time without a date is the last such time, or for --to the first one after --from. Without --from, the report covers the
last day. The HTML is a single file that needs no network: mail it, print it, or add it to a wiki."""
_REPORT_EXAMPLES = (
    "rsmq-tui report --analysis analysis --out night.html --from '2031-05-17 21:50' --to 23:30",
    "rsmq-tui report --analysis analysis --out orders.md --from -2h --queue orders --title 'Orders stood still'",
)


def add_report(commands: Commands) -> None:
    """Add the command."""
    words = "write a post-mortem of a time range, as HTML or Markdown"
    parser = leaf(commands, "report", words, [], _REPORT_EXAMPLES, notes=_REPORT_NOTES, statuses=_REPORT_STATUSES)
    parser.fill = lambda: _fill_report(parser)


def _fill_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", required=True, help="the file to write; its name ends in .html or .md")
    parser.add_argument(
        "--analysis", metavar="OUT", help=f"the tables that `rsmq-tui pipeline` wrote (env {ANALYSIS_VARIABLE})"
    )
    parser.add_argument("--from", metavar="T", dest="from_text", help="start of the range")
    parser.add_argument("--to", metavar="T", dest="to_text", help="end of the range")
    parser.add_argument(
        "--queue", metavar="QUEUE", action="append", default=[], help="only this queue; may be repeated"
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the report")


_QUEUES_MAX = 100_000
_GENERATE_STATUSES = """\
exit status: 0 done, or everything existed already; 2 a usage error, a folder that cannot be written or that contains
another history; 70 a defect in rsmq-tui
itself; 130 ended by Ctrl+C: the same command continues from there"""
_GENERATE_NOTES = """\
It writes what `rsmq-tui record` would have written: quiet queues, queues with a daily and weekly rhythm, bursts,
stalls, growth, old messages, poison messages, dead letters, a queue that is recreated every few days, some list queues
(without arrivals and deletes, which lists do not count), outages of the server, and gaps in the recording. The same
options give the same files; a later --until, or more --days, adds to the existing files. It uses all cores, and neither
a server nor Spark.

The defaults are for trying out: 2.4 million rows in some seconds. 30 days of 1,000 queues every 5 s are 518 million
rows and take some minutes per processor core; 25 to 30 MB per day."""
_GENERATE_EXAMPLES = (
    "rsmq-tui pipeline generate --out history",
    "rsmq-tui pipeline generate --out history --days 30 --queues 1000 --every 5s --messages 1h",
    "rsmq-tui pipeline run --history history --out analysis",
)


def add_generate(commands: Commands, parents: Parents) -> None:
    """Add the command."""
    words = "generate a synthetic history of any size, for trying out or for benchmarks"
    parser = leaf(
        commands, "generate", words, parents, _GENERATE_EXAMPLES, notes=_GENERATE_NOTES, statuses=_GENERATE_STATUSES
    )
    parser.add_argument("--out", metavar="DIR", required=True, type=_out, help="the destination: a folder or a URL")
    parser.add_argument("--days", metavar="N", type=_days, default=7 * _DAY_MS, help="number of days (default 7)")
    parser.add_argument("--queues", metavar="N", type=_queues, default=40, help="number of RSMQ queues (default 40)")
    parser.add_argument(
        "--list-queues", metavar="N", type=_lists, default=3, help="number of additional list queues (default 3)"
    )
    parser.add_argument(
        "--every", metavar="SPAN", type=span(100, 600_000), default=10_000, help="time between polls (default 10s)"
    )
    parser.add_argument(
        "--messages",
        metavar="SPAN",
        type=span(60_000, 30 * _DAY_MS),
        help="also write inventories of all messages at this interval: 1h",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        type=_time,
        help=(
            "end of the history: 2031-05-17 or 2031-05-17T12:00, UTC; rounded down to ten minutes (default: "
            "the last midnight)"
        ),
    )
    parser.add_argument("--seed", metavar="N", type=_seed, default=1, help="seed of the random numbers (default 1)")


def _days(text: str) -> int:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0.01 <= days <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 0.01 to 10,000")
    return round(days * _DAY_MS)


def _queues(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _QUEUES_MAX and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of queues from 1 to {_QUEUES_MAX:,}")
    return int(text)


def _lists(text: str) -> int:
    return 0 if text == "0" else _queues(text)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _time(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or not 2000 <= found.year <= 2200:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2031-05-17 or 2031-05-17T12:00")
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


_PIPELINE_STATUSES = """\
exit status: 0 done, or nothing new; 1 Spark failed: the tables of the previous run are unchanged; 2 a usage error, a
folder or URL that cannot be used, a package that is not installed, or another run is writing to the same --out; 4 done,
but a file could not be read: it is named and left out, and later runs do not report it again; 70 a defect in rsmq-tui
itself; 130 ended by Ctrl+C, 143
by SIGTERM: the tables of the previous run are unchanged"""
_PIPELINE_NOTES = """\
Each run reads the new files and recomputes the days that they belong to. The new tables become visible all at once;
days that are no longer in the history stay in the tables. It needs pip install 'rsmq-tui[pipeline]', which installs
Spark and, if it is missing, Java.

With --master it runs on a cluster; DIR is then a folder or a URL that every machine of the cluster can read. The
executors need no Python. For spark-submit, use rsmq_tui/pipeline/script.py with the same options; spark-submit itself
then takes the master, the memory and the Spark settings."""
_PIPELINE_EXAMPLES = (
    "rsmq-tui pipeline run --history history --out analysis",
    "rsmq-tui pipeline run --history history --out analysis --depth-limit 100000 --driver-memory 4g",
    "rsmq-tui pipeline run --history /srv/history --out /srv/analysis --master spark://db1:7077",
    "spark-submit --master yarn script.py --history hdfs:///rsmq/history --out hdfs:///rsmq/analysis",
)
_MEMORY = re.compile(r"[1-9][0-9]{0,6}[kmgt]b?", re.IGNORECASE)
_LEAST_MEMORY = 512 << 20


def add_pipeline(commands: Commands) -> None:
    """Add the command, with those that it has."""
    parser = leaf(commands, "pipeline", "analyse a recorded history with Spark", (), (), statuses=_PIPELINE_STATUSES)

    def fill() -> None:
        actions = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
        _add_run(actions, ())
        add_generate(actions, ())

    parser.fill = fill


def _add_run(actions: Commands, common: Parents) -> None:
    words = "compute the tables of an analysis from the new files of a history"
    parser = leaf(actions, "run", words, common, _PIPELINE_EXAMPLES, notes=_PIPELINE_NOTES, statuses=_PIPELINE_STATUSES)
    parser.add_argument(
        "--history", metavar="DIR", required=True, type=_folder, help="the history that `rsmq-tui record` wrote"
    )
    parser.add_argument("--out", metavar="DIR", required=True, type=_folder, help="the folder or URL of the tables")
    parser.add_argument("--full", action="store_true", help="compute all days of the history again")
    parser.add_argument(
        "--poison-rc",
        metavar="N",
        type=_whole(1),
        default=5,
        help="messages received N times or more are poison (default 5)",
    )
    parser.add_argument(
        "--depth-limit", metavar="N", type=_whole(1), help="the depth that no queue should reach, for the forecast"
    )
    parser.add_argument(
        "--age-limit",
        metavar="SPAN",
        type=span(1_000, 100_000 * 86_400_000),
        default=600_000,
        help="the age that no ready message should reach, for the forecast (default 10m)",
    )
    parser.add_argument(
        "--master", metavar="URL", help="the Spark master: local[*] (default), local[2], spark://HOST:7077, ..."
    )
    parser.add_argument("--remote", metavar="URL", help="a Spark Connect server to use instead: sc://HOST:15002")
    parser.add_argument(
        "--driver-memory",
        metavar="SIZE",
        type=_memory,
        help="memory of the Spark driver, which includes a local Spark: 2g",
    )
    parser.add_argument(
        "--spark-conf",
        metavar="K=V",
        type=_setting,
        action="append",
        default=[],
        help="a Spark setting; may be repeated",
    )
    parser.add_argument("--spark-log", action="store_true", help="show Spark's own log on stderr")
    parser.add_argument(
        "--json", action="store_true", help="print JSON lines (the default when the output is not a terminal)"
    )


def _folder(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("must not be empty: name a folder")
    return text


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 15 and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return read


def _memory(text: str) -> str:
    from rsmq_tui.monitor.text import read_size  # noqa: PLC0415 - only this option needs it

    size = read_size(text)
    if not _MEMORY.fullmatch(text) or isinstance(size, str):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of memory such as 2g or 1500m")
    if size < _LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text!r} is too little for Spark, which needs 512m or more")
    return text.lower().rstrip("b")


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is not a Spark setting such as spark.executor.memory=4g")
    return name, value
