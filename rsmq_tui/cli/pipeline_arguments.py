"""The arguments of `rsmq-tui pipeline`: each of its commands adds its own."""

import argparse
import re
from collections.abc import Callable

from rsmq_tui.cli.command_parser import Commands, Parents, leaf
from rsmq_tui.cli.pipeline_generate_arguments import add_generate

_STATUSES = """\
exit status: 0 done, or there was nothing new; 1 Spark failed: the tables are those of the run before; 2 a usage error,
a folder or URL that cannot be used, something that is not installed, or another run is at work on the same --out;
4 done, but a file was found that cannot be read: it is named and left out, and later runs say nothing more of it;
130 ended by Ctrl+C, 143 by SIGTERM: the tables are those of the run before"""
_NOTES = """\
Each run reads what is new, and works the days anew that it belongs to. The tables become visible all at once; days
that the history does not hold any more stay in them. It needs pip install 'rsmq-tui[pipeline]', which brings Spark and,
where there is none, Java.

With --master it runs on a cluster; DIR then is a folder or a URL that every machine of it sees. No Python is needed on
the executors. The same as a script for spark-submit is rsmq_tui/pipeline/script.py, with the same options; there it is
spark-submit that takes the master, the memory and the settings of Spark."""
_EXAMPLES = (
    "rsmq-tui pipeline run --history history --out analysis",
    "rsmq-tui pipeline run --history history --out analysis --depth-limit 100000 --driver-memory 4g",
    "rsmq-tui pipeline run --history /srv/history --out /srv/analysis --master spark://db1:7077",
    "spark-submit --master yarn script.py --history hdfs:///rsmq/history --out hdfs:///rsmq/analysis",
)
_MEMORY = re.compile(r"[1-9][0-9]{0,6}[kmgt]b?", re.IGNORECASE)
_LEAST_MEMORY = 512 << 20
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def add_pipeline(commands: Commands) -> None:
    """Add the command, with those that it has."""
    parser = leaf(commands, "pipeline", "turn a recorded history into answers, with Spark", (), (), statuses=_STATUSES)

    def fill() -> None:
        actions = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
        _add_run(actions, ())
        add_generate(actions, ())

    parser.fill = fill


def _add_run(actions: Commands, common: Parents) -> None:
    words = "work what is new in a history into the tables of an analysis"
    parser = leaf(actions, "run", words, common, _EXAMPLES, notes=_NOTES, statuses=_STATUSES)
    parser.add_argument("--history", metavar="DIR", required=True, type=_folder, help="what `rsmq-tui record` wrote")
    parser.add_argument("--out", metavar="DIR", required=True, type=_folder, help="where the tables are, or are to be")
    parser.add_argument("--full", action="store_true", help="work all days anew that the history holds")
    parser.add_argument(
        "--poison-rc", metavar="N", type=_whole(1), default=5, help="poison is what was received so often (default 5)"
    )
    parser.add_argument(
        "--depth-limit", metavar="N", type=_whole(1), help="the depth that no queue should reach, for the forecast"
    )
    parser.add_argument(
        "--age-limit",
        metavar="SPAN",
        type=_span,
        default=600_000,
        help="the age that no ready message should reach, for the forecast (default 10m)",
    )
    parser.add_argument(
        "--master", metavar="URL", help="the Spark that does it: local[*] (default), local[2], spark://HOST:7077, ..."
    )
    parser.add_argument("--remote", metavar="URL", help="a Spark Connect server that does it instead: sc://HOST:15002")
    parser.add_argument(
        "--driver-memory", metavar="SIZE", type=_memory, help="memory of Spark's driver, and of a local Spark: 2g"
    )
    parser.add_argument(
        "--spark-conf",
        metavar="K=V",
        type=_setting,
        action="append",
        default=[],
        help="a setting of Spark; may be given several times",
    )
    parser.add_argument("--spark-log", action="store_true", help="let Spark's own log appear on stderr")
    parser.add_argument("--json", action="store_true", help="lines of JSON, as where the output is no terminal")


def _folder(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("it is no folder: name one")
    return text


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 15 and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return read


def _span(text: str) -> int:
    from rsmq_tui.monitor.spans import read_span  # noqa: PLC0415 - what it comes with delays the first paint

    span_ms = read_span(text)
    if isinstance(span_ms, str):
        raise argparse.ArgumentTypeError(f"{text!r}: {span_ms}")
    if not 1_000 <= span_ms <= 100_000 * 86_400_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a second or more")
    return span_ms


def _memory(text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory: 2g, 1500m")
    number = text.lower().rstrip("b")
    if int(number[:-1]) * _UNITS[number[-1]] < _LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text!r} is too little for Spark, which needs 512m or more")
    return number


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is no setting of Spark: spark.executor.memory=4g")
    return name, value
