"""The error of the commands, and exit statuses that several of them share."""

import errno
import os
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


def cannot_listen(host: str, port: int, error: OSError | UnicodeError) -> UsageError:
    """Return the error of a server whose address cannot be bound."""
    why = _reason(error) if isinstance(error, OSError) else "it is not a host name"
    sentence = f"cannot listen on {_printable(host)} port {port}: {why}"
    return UsageError(f"{sentence}; choose another with --host and --port")


def cannot_listen_at(path: str, error: OSError) -> UsageError:
    """Return the error of a server whose Unix socket cannot be bound."""
    return UsageError(f"cannot listen on {_printable(path)}: {_reason(error)}")


def _reason(error: OSError) -> str:
    # asyncio puts a sentence of its own around the reason; the errors of host names have negative numbers. From Python
    # 3.13 on, there is no number if this machine has none of the addresses.
    number = errno.EADDRNOTAVAIL if error.errno is None else error.errno
    return os.strerror(number) if number > 0 else error.strerror or ""


def _printable(text: str) -> str:
    # Imported only now, because it would delay the first paint.
    from rsmq_tui.monitor.text import printable  # noqa: PLC0415

    return printable(text)
