"""The error of the commands."""


class UsageError(Exception):
    """What a command was asked for cannot be, in one sentence for whoever asked."""
