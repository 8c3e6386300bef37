"""The error of the commands, and exit statuses that several of them share."""

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
    """A command cannot do what its arguments ask for; the text is one sentence for the user."""


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these types into ``UsageError`` with the same sentence."""
    try:
        yield
    except kinds as error:
        raise UsageError(_printable(str(error))) from error


def cannot_listen(where: str, error: OSError | UnicodeError, hint: str = "") -> UsageError:
    """Return the error of a server whose address cannot be bound."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a host name"
    return UsageError(f"cannot listen on {_printable(where)}: {why}{hint}")


def _printable(text: str) -> str:
    # Imported only now, because it would delay the first paint.
    from rsmq_tui.monitor.text import printable  # noqa: PLC0415

    return printable(text)
