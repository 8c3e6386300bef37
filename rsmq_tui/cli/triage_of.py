"""The server whose queues a command is to change, and the journal that it writes."""

import os
from pathlib import Path

from rsmq_tui.cli.errors import UsageError
from rsmq_tui.folders import state_folder
from rsmq_tui.monitor.list_ages import age_path
from rsmq_tui.monitor.wording import printable
from rsmq_tui.profiles import Profile
from rsmq_tui.triage.desk import Triage
from rsmq_tui.triage.journal import KEEP_DAYS, LIMIT_BYTES, Journal
from rsmq_tui.triage.journal_file import JournalError
from rsmq_tui.triage.list_desk import ListEngine, ListTriage

_MB = 1_000_000


def triage_of(profile: Profile, folder: Path | None = None) -> Triage:
    """Return what changes the queues of that server; ``folder`` is that of a demo, which removes it at its end.

    Raises ``UsageError`` for an address or a limit that is none.
    """
    keep_days, limit_bytes = _limits()
    try:
        return Triage(
            profile.address,
            profile.ns,
            folder or state_folder(),
            read_only=profile.read_only,
            profile=profile.name,
            keep_days=None if folder else keep_days,
            limit_bytes=limit_bytes,
            names=profile.list_names,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def list_triage_of(profile: Profile, folder: Path | None = None) -> Triage:
    """Return what changes the list queues of that server; raises ``UsageError`` as ``triage_of`` does."""
    keep_days, limit_bytes = _limits()
    try:
        return ListTriage(
            profile.address,
            profile.list_names,
            folder or state_folder(),
            patterns=profile.lists,
            ns=profile.ns,
            age=None if profile.list_age is None else age_path(profile.list_age),
            read_only=profile.read_only,
            profile=profile.name,
            keep_days=None if folder else keep_days,
            limit_bytes=limit_bytes,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def list_engine_of(profile: Profile) -> ListEngine:
    """Return what knows the list queues of that server; raises ``UsageError`` for an address that is none."""
    age = None if profile.list_age is None else age_path(profile.list_age)
    try:
        return ListEngine(profile.address, profile.list_names, profile.ns, profile.lists, age)
    except ValueError as error:
        raise UsageError(str(error)) from error


def open_journal() -> Journal | None:
    """Open the journal to read in it, or return None where nothing was ever changed; raises ``JournalError``."""
    path = state_folder() / "journal.sqlite"
    keep_days, limit_bytes = _limits()
    try:
        is_there = path.exists()
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be used: {error.strerror}") from error
    return Journal(path, keep_days=keep_days, limit_bytes=limit_bytes) if is_there else None


def _limits() -> tuple[int, int]:
    days = _number("RSMQ_TUI_JOURNAL_DAYS", "days", KEEP_DAYS)
    megabytes = _number("RSMQ_TUI_JOURNAL_MB", "megabytes", LIMIT_BYTES // _MB)
    return days, megabytes * _MB


def _number(name: str, unit: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0):
        raise UsageError(f"{name} is a whole number of {unit}, 1 or more, not {printable(text, 40)!r}")
    return int(text)
