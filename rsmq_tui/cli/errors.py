"""The error of the commands, what raises it, and exit statuses that several of them have."""

from collections.abc import Iterator
from contextlib import contextmanager

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PREVIEW = 3
EXIT_DEFECT = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
EXIT_TERMINATED = 143


class UsageError(Exception):
    """What a command was asked for cannot be, in one sentence for whoever asked."""


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Raise ``UsageError`` with the sentence of an error of these kinds."""
    try:
        yield
    except kinds as error:
        raise UsageError(_printable(str(error))) from error


def cannot_listen(where: str, error: OSError | UnicodeError, hint: str = "") -> UsageError:
    """Return the error of a server whose address cannot be bound."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a host name"
    return UsageError(f"cannot listen on {_printable(where)}: {why}{hint}")


def _printable(text: str) -> str:
    # Only now: what this imports would delay the first paint.
    from rsmq_tui.monitor.text import printable  # noqa: PLC0415

    return printable(text)
