"""The error of the commands, and exit statuses that several of them have."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PREVIEW = 3
EXIT_DEFECT = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
EXIT_TERMINATED = 143


class UsageError(Exception):
    """What a command was asked for cannot be, in one sentence for whoever asked."""
