"""Where files are: those that come with the program, and the user's own."""

from pathlib import Path

import rsmq_tui
from rsmq_tui.folders import config_folder

_PACKAGE = Path(rsmq_tui.__file__).parent


def shipped_themes() -> Path:
    """Return the folder of the themes that come along: inside the package, or beside it in a checkout."""
    packaged = _PACKAGE / "themes"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "themes"


def user_themes() -> Path:
    """Return the folder of the user's own themes, which need not exist."""
    return config_folder() / "themes"
