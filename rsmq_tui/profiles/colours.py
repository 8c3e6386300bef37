"""The accent colours that a profile may name."""

import re

COLOURS = {
    "red": "#ff5f5f",
    "orange": "#ff9f43",
    "yellow": "#e6d05a",
    "green": "#5fd787",
    "cyan": "#4fd6d6",
    "blue": "#5fafff",
    "purple": "#af87ff",
    "pink": "#ff87d7",
    "grey": "#9aa5b1",
    "white": "#ffffff",
}
_HEX = re.compile(r"#[0-9a-fA-F]{6}")


def hex_of(text: str) -> str | None:
    """Return ``#rrggbb`` of a colour's name or of such a text itself, None of anything else."""
    return COLOURS.get(text.lower(), text.lower() if _HEX.fullmatch(text) else None)
