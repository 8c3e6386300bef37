"""`rsmq-tui sql`: queries an analysis, and its history, with DuckDB."""

import sys
from importlib.resources import files
from itertools import islice
from math import isfinite
from typing import Any

import click

from rsmq_tui.cli.commands.recorded import analysis_of, analysis_option, require_packages
from rsmq_tui.cli.errors import UsageError, refusing
from rsmq_tui.cli.options import json_option
from rsmq_tui.cli.output import print_json, print_table, say, wants_json
from rsmq_tui.cli.parsing import Command, Options, option, positive
from rsmq_tui.files import state_folder
from rsmq_tui.history.names import HistoryError
from rsmq_tui.monitor.text import UNKNOWN, plural, printable

_WIDTH_MAX = 60
_NOTES = """\
The tables are those of the analysis, as `rsmq-tui help sql` lists them, and samples and messages of its history. A
query sees one complete run of the pipeline. utc(ms) makes a timestamp. It needs pip install 'rsmq-tui[sql]', which
installs DuckDB; the query is run by DuckDB and may use all of its SQL, also to write files.

--print-dashboard prints a dashboard over these tables, for Grafana with the DuckDB data source of MotherDuck."""
_DASHBOARD = "grafana_dashboard.json"


@click.command(
    cls=Command,
    notes=_NOTES,
    examples=(
        "'select queue, verdict, utc(start_ms) from episodes order by start_ms' --analysis analysis",
        "'select day, sum(arrivals) from rollup_1h group by day order by day' --json",
        "--print-dashboard > rsmq-analysis.json",
    ),
    statuses={0: "done", 2: "a usage error, no query, a query that failed, or no such analysis"},
)
@click.argument("query", metavar="[QUERY]", required=False, help="the query")
@analysis_option
@option("--history DIR", "the history of samples and messages (default: the one that the analysis names)")
@option("--limit N", "print at most N rows", positive, default="1000")
@option("--print-dashboard", "print a dashboard to import into Grafana")
@json_option
def command(options: Options) -> int:
    """Print the rows and return the exit status; raises ``UsageError``."""
    if options.print_dashboard:
        sys.stdout.write(files("rsmq_tui.history.analysis").joinpath(_DASHBOARD).read_text("ascii"))
        return 0
    if options.query is None:
        raise UsageError("no query given: name one, as in rsmq-tui sql 'select * from queues'")
    require_packages("sql", "sql", "duckdb")
    out = analysis_of(options.analysis)
    from rsmq_tui.history.analysis.sql import Database, SqlError  # noqa: PLC0415 - its packages are there

    with refusing(SqlError, HistoryError):
        columns, found = Database(out, options.history, state_folder()).query(options.query)
        rows = list(islice(found, options.limit + 1))
    has_more = len(rows) > options.limit
    if wants_json(options):
        for row in rows[: options.limit]:
            print_json(dict(zip(columns, map(_plain, row), strict=True)))
    elif rows:
        titles = [printable(name) for name in columns]
        print_table(titles, [[_words(value) for value in row] for row in rows[: options.limit]], most=_WIDTH_MAX)
    if has_more:
        say(f"only the first {plural(options.limit, 'row')}: --limit prints more")
    return 0


def _words(value: Any) -> str:
    if isinstance(value, bytes):
        return plural(len(value), "byte")
    return UNKNOWN if value is None else printable(str(value))


def _plain(value: Any) -> Any:
    """Return a value for JSON: other types as text, numbers that are not finite as null."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return value if value is None or isinstance(value, bool | int | str) else str(value)
