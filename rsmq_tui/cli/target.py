"""The servers that a command is to read."""

import argparse

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import Address, QueueReader


def profiles_of(options: argparse.Namespace) -> tuple[Profile, ...]:
    """Return the servers that were asked for, at least one; raises ``UsageError`` for one that cannot be."""
    return (profile_of(options),)


def profile_of(options: argparse.Namespace) -> Profile:
    """Return the one server of a command that works on no more; raises ``UsageError``."""
    try:
        address = Address(options.redis_url)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return Profile("", address, (options.ns,), options.read_only, interval_s=options.interval)


def reader_of(profile: Profile, ns: str | None = None) -> QueueReader:
    """Return a reader of that server, in its first namespace if none is named."""
    try:
        return QueueReader(profile.address, profile.ns if ns is None else ns)
    except ValueError as error:
        raise UsageError(str(error)) from error
