"""The arguments of `rsmq-tui pipeline`: each of its commands adds its own."""

import argparse
import re
from collections.abc import Callable

from rsmq_tui.cli.command_parser import Commands, Parents, leaf, span
from rsmq_tui.cli.pipeline_generate_arguments import add_generate

_STATUSES = """\
exit status: 0 done, or nothing new; 1 Spark failed: the tables of the previous run are unchanged; 2 a usage error, a
folder or URL that cannot be used, a package that is not installed, or another run is writing to the same --out; 4 done,
but a file could not be read: it is named and left out, and later runs do not report it again; 70 a defect in rsmq-tui
itself; 130 ended by Ctrl+C, 143
by SIGTERM: the tables of the previous run are unchanged"""
_NOTES = """\
Each run reads the new files and recomputes the days that they belong to. The new tables become visible all at once;
days that are no longer in the history stay in the tables. It needs pip install 'rsmq-tui[pipeline]', which installs
Spark and, if it is missing, Java.

With --master it runs on a cluster; DIR is then a folder or a URL that every machine of the cluster can read. The
executors need no Python. For spark-submit, use rsmq_tui/pipeline/script.py with the same options; spark-submit itself
then takes the master, the memory and the Spark settings."""
_EXAMPLES = (
    "rsmq-tui pipeline run --history history --out analysis",
    "rsmq-tui pipeline run --history history --out analysis --depth-limit 100000 --driver-memory 4g",
    "rsmq-tui pipeline run --history /srv/history --out /srv/analysis --master spark://db1:7077",
    "spark-submit --master yarn script.py --history hdfs:///rsmq/history --out hdfs:///rsmq/analysis",
)
_MEMORY = re.compile(r"[1-9][0-9]{0,6}[kmgt]b?", re.IGNORECASE)
_LEAST_MEMORY = 512 << 20


def add_pipeline(commands: Commands) -> None:
    """Add the command, with those that it has."""
    parser = leaf(commands, "pipeline", "analyse a recorded history with Spark", (), (), statuses=_STATUSES)

    def fill() -> None:
        actions = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
        _add_run(actions, ())
        add_generate(actions, ())

    parser.fill = fill


def _add_run(actions: Commands, common: Parents) -> None:
    words = "compute the tables of an analysis from the new files of a history"
    parser = leaf(actions, "run", words, common, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
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
    from rsmq_tui.monitor.spans import read_size  # noqa: PLC0415 - only this option needs it

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
