"""The user's folders of this program: where the platform wants them, XDG's on Linux."""

from pathlib import Path

_PROGRAM = "rsmq-tui"


def config_folder() -> Path:
    """Return the folder of the configuration file and of the user's themes, which need not exist."""
    from platformdirs import user_config_path  # noqa: PLC0415 - a few ms that only those who look for a folder spend

    return user_config_path(_PROGRAM, appauthor=False, roaming=True)


def state_folder() -> Path:
    """Return the folder of the journal and the audit log, which need not exist."""
    from platformdirs import user_state_path  # noqa: PLC0415

    return user_state_path(_PROGRAM, appauthor=False)
