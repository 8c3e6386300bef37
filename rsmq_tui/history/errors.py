"""What goes wrong with a history, in a sentence that says what to do next."""

import errno

# What a disk without room answers, whoever set the limit.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class HistoryError(Exception):
    """A history that cannot be read or written; its text is one sentence."""


def told(error: Exception, label: str) -> str:
    """Put a failure to write to the history named ``label`` into a sentence."""
    if isinstance(error, HistoryError):
        return str(error)
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return f"no space left for {label}: free some space, or use --max-size to delete the oldest days"
    if isinstance(error, OSError) and error.strerror:
        return f"{label} cannot be written: {error.strerror}"
    return f"{label} cannot be written: {type(error).__name__}: {str(error)[:200]}"
