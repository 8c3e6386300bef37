"""Which queue a QUEUE is: `rsmq:NAME` or `list:KEY`, or a name alone, which --lists (or the profile) may mean."""

import argparse
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.monitor.wording import printable
from rsmq_tui.profiles import Profile
from rsmq_tui.triage.list_actions import LIST, RSMQ, Target, target_of_list


class QueueArgument(NamedTuple):
    """The queue that a command is about: its name or key, its kind, and the profile in the namespace that it is in."""

    queue: str
    is_list: bool
    profile: Profile


def reference_of(text: str, ns: str) -> Target | None:
    """Read `list:KEY`, `rsmq:NAME` (of ``ns``) or `rsmq:NS/NAME`; None for a name alone.

    Raises ``UsageError`` for a list without a key, or a queue without a name.
    """
    if not text.startswith((LIST, RSMQ)):
        return None
    found = target_of_list(text, ns)
    if not found.queue:
        missing = "the key of the list after list:" if found.ns is None else "the name of the queue after rsmq:"
        raise UsageError(f"write {missing}")
    return found


def queue_of(options: argparse.Namespace, profile: Profile) -> QueueArgument:
    """Return the queue that a command is about; raises ``UsageError`` as ``reference_of`` does.

    Of names alone, what --lists means is a list; what only the profile means is one where it cannot be a queue of RSMQ.
    """
    text: str = options.queue
    found = reference_of(text, profile.ns)
    if found is not None:
        within = profile if found.ns in (None, profile.ns) else replace(profile, namespaces=(found.ns or "",))
        return QueueArgument(found.queue, found.ns is None, within)
    is_meant = any(fnmatchcase(text, pattern) for pattern in profile.lists)
    return QueueArgument(text, is_meant and bool(getattr(options, "lists", None) or ":" in text), profile)


def target_of(text: str, queue: QueueArgument) -> str:
    """Return a target as a change of that queue takes it; raises ``UsageError`` for one that it cannot have."""
    found = None if queue.is_list else reference_of(text, queue.profile.ns)
    if found is None or found.ns is None:
        return text
    if found.ns != queue.profile.ns:
        raise UsageError(
            f"{printable(text)} is in another namespace: messages of RSMQ queues move within {queue.profile.ns}"
        )
    return found.queue
