"""Copying to the terminal's clipboard, which works over SSH too."""

from typing import Any

from textual.app import App

# More than this is not taken by terminals that do take OSC 52.
_BYTES_MAX = 74_000


def copy_text(app: App[Any], text: str, what: str) -> None:
    """Copy a text, and tell that it was done or why not."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > _BYTES_MAX:
        app.notify(f"{what} is too long for the terminal's clipboard", severity="warning", markup=False)
        return
    app.copy_to_clipboard(encoded.decode())
    app.notify(f"copied {what}", timeout=2, markup=False)
