"""The commands of `rsmq-tui` that write and read recordings. Each is imported when it is called.

history   `rsmq-tui history`: the history screen alone, without a server; `history compact`
pipeline  `rsmq-tui pipeline`: analyse a history with Spark, or generate one
record    `rsmq-tui record`: record every poll until it is stopped
replay    `rsmq-tui replay`: the dashboard on a history
report    `rsmq-tui report`: a report of a time range, as HTML or Markdown
slo       `rsmq-tui slo`: how service level objectives were kept
sql       `rsmq-tui sql`: query an analysis and its history with SQL
"""

from importlib.util import find_spec

from rsmq_tui.cli.errors import UsageError


def require_packages(what: str, extra: str = "history", *more: str) -> None:
    """Raise ``UsageError`` where a package of an extra is missing: one that reads and writes a history, or ``more``.

    None of them is loaded.
    """
    if any(find_spec(name) is None for name in ("pyarrow", "fsspec", *more)):
        raise UsageError(f"{what} needs the packages of the extra `{extra}`: pip install 'rsmq-tui[{extra}]'")
