"""The option --filter of several commands: its help, and the filter that it gives."""

import click

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.parsing import Decorator, OneOf, Options, option
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.monitor.filters.language import Filter, FilterError, parse_filter
from rsmq_tui.monitor.text import cells, printable

_FILTERS = """\
all terms must match; ! before a term inverts it
state:ready|inflight|delayed|poison  rc>=5  age>10m  due<30s  size>1k  id:prefix
(of lists: state:ready|processing|inflight|expired|unleased)
body:"text"  body~regex  json.customer.id=42  word"""
BY_FILTER = {"Filters": _FILTERS}
"""The section of a command's help about filters."""

_AROUND_CHARS = 60


def filter_option(one_of: OneOf | None = None, words: str = "messages that match this filter; see below") -> Decorator:
    """Return the option ``--filter``, which ``words`` describe."""
    return option("--filter F", words, multiple=True, callback=_once, one_of=one_of)


def filter_of(options: Options) -> Filter:
    """Parse the filter, with the profile's poison threshold; no filter matches every message.

    Raises ``UsageError``, in which a line of its own marks the error.
    """
    try:
        return parse_filter(options.filter or "", profile_of(options).thresholds.poison_rc)
    except FilterError as error:
        raise UsageError(f"{printable(error.message)}\n{_marked(error)}") from error


def _once(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Refuse a filter that is given twice: only the last one would apply."""
    if len(values) > 1:
        raise click.BadParameter("it was given twice: combine both in one, separated by a space", ctx, param)
    return values[0] if values else None


def _marked(error: FilterError) -> str:
    first = max(0, error.start - _AROUND_CHARS)
    last = min(len(error.text), error.start + _AROUND_CHARS)
    before = ("…" if first else "") + printable(error.text[first : error.start])
    wrong = printable(error.text[error.start : min(error.end, last)])
    after = printable(error.text[min(error.end, last) : last]) + ("…" if last < len(error.text) else "")
    return f"  {before}{wrong}{after}\n  {' ' * cells(before)}{'^' * max(1, cells(wrong))}"
