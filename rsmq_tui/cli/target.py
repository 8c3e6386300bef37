"""The server that a command is to read."""

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.protocol import QueueReader


def reader_of(url: str, ns: str) -> QueueReader:
    """Return a reader of that server; raises ``UsageError`` for a URL that cannot be one."""
    try:
        return QueueReader(url, ns)
    except ValueError as error:
        raise UsageError(str(error)) from error
