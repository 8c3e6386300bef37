"""Labels from outside made harmless and cut to a number of terminal cells."""

from unicodedata import category

from rich.cells import cell_len, set_cell_size

# A base character and a few combining marks: enough for any script, and a bound on what a hostile label costs.
_CHARACTERS_PER_CELL = 4


def fit_label(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Return `text` without anything a terminal would obey, in at most `width` cells.

    Control, format, bidirectional, unassigned and private characters and line separators become "�" ("?" in ASCII, like
    every other character outside it). A cut shows as a final "…" ("~" in ASCII). Markup stays text.
    """
    if width < 1:
        return ""
    kept = text[: width * _CHARACTERS_PER_CELL + 1]
    if ascii_only:
        clean = "".join(char if " " <= char <= "~" else "?" for char in kept)
    else:
        clean = "".join(char if _is_harmless(char) else "\N{REPLACEMENT CHARACTER}" for char in kept)
    if len(kept) == len(text) and cell_len(clean) <= width:
        return clean
    return set_cell_size(clean, width - 1).rstrip() + ("~" if ascii_only else "…")


def _is_harmless(char: str) -> bool:
    kind = category(char)
    return not kind.startswith("C") and kind not in {"Zl", "Zp"}
