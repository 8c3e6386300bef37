"""Whether a QUEUE is one of RSMQ or a list: `list:KEY`, or a key that --lists (or the profile) means."""

import argparse
from fnmatch import fnmatchcase

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.profiles import Profile

_LIST = "list:"


def list_key(options: argparse.Namespace, profile: Profile) -> str | None:
    """Return the key of the list queue that a command is about, or None where it is about a queue of RSMQ.

    What --lists means is a list; what only the profile means is one where it cannot be a queue of RSMQ. Raises
    ``UsageError`` for a list without a key.
    """
    queue: str | None = getattr(options, "queue", None)
    if queue is None:
        return None
    if queue == _LIST:
        raise UsageError("write the key of the list after list:")
    if queue.startswith(_LIST):
        return queue.removeprefix(_LIST)
    is_meant = any(fnmatchcase(queue, pattern) for pattern in profile.lists)
    return queue if is_meant and (getattr(options, "lists", None) or ":" in queue) else None


def needed_list_key(options: argparse.Namespace, profile: Profile) -> str:
    """Return the key of the list queue that a command is about; raises ``UsageError`` where it is none."""
    key = list_key(options, profile)
    if key is None:
        raise UsageError(f"{options.action} is for list queues: write list:KEY, or name the lists with --lists")
    return key
