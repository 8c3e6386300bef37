"""Profiles: the servers that a user has named, with what is different about each."""

from rsmq_tui.profiles.profile import Profile

__all__ = ["Profile"]
