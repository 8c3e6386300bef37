"""Where the journal and the audit log are."""

from pathlib import Path

from platformdirs import user_state_path


def state_folder() -> Path:
    """Return the user's state folder of this program, which need not exist."""
    return user_state_path("rsmq-tui", appauthor=False)
