"""The filter that a command is given, or the place where it is wrong."""

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.output import cells
from rsmq_tui.monitor.filters import Filter, FilterError, parse_filter
from rsmq_tui.monitor.wording import printable

_AROUND_CHARS = 60


def filter_of(text: str | None, poison_rc: int) -> Filter:
    """Read a filter; None is every message. Raises ``UsageError`` with the place marked in a line of its own.

    ``poison_rc`` is the profile's: ``state:poison`` means the same here as on its screens.
    """
    try:
        return parse_filter(text or "", poison_rc)
    except FilterError as error:
        raise UsageError(f"{printable(error.message)}\n{_marked(error)}") from error


def _marked(error: FilterError) -> str:
    first = max(0, error.start - _AROUND_CHARS)
    last = min(len(error.text), error.start + _AROUND_CHARS)
    before = ("…" if first else "") + printable(error.text[first : error.start])
    wrong = printable(error.text[error.start : min(error.end, last)])
    after = printable(error.text[min(error.end, last) : last]) + ("…" if last < len(error.text) else "")
    return f"  {before}{wrong}{after}\n  {' ' * cells(before)}{'^' * max(1, cells(wrong))}"
