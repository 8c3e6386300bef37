"""Themes: TOML files, those that come along and the user's own, checked before Textual sees them."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

from rsmq_tui.charts import Palette
from rsmq_tui.tui.paths import shipped_themes, user_themes

DEFAULT_THEME = "rsmq-dark"

# What a theme may colour beyond Textual's own names, and what it is when a theme says nothing.
TOKENS = {
    "verdict-broken": "#ff5f7e",
    "verdict-stalled": "#ff7a5c",
    "verdict-growing": "#ffb454",
    "verdict-poisoned": "#d58cff",
    "verdict-aged": "#e6d05a",
    "verdict-ok": "#7fbf9e",
    "series-first": "#6cb6ff",
    "series-second": "#7fbf9e",
    "series-third": "#ffb454",
    "message-ready": "#6cb6ff",
    "message-hidden": "#ffb454",
    "quiet": "#8b96a5",
    "rule": "#2f3742",
    "cursor": "#26405c",
    "json-key": "#6cb6ff",
    "json-string": "#a5d6a7",
    "json-number": "#ffb454",
    "json-word": "#d58cff",
}
_COLORS = (
    "primary", "secondary", "warning", "error", "success", "accent",
    "foreground", "background", "surface", "panel", "boost",
)  # fmt: skip


class ThemeError(ValueError):
    """A theme file that cannot be used, with the reason in words."""


@dataclass(frozen=True, slots=True)
class Themes:
    """The themes that could be read, by name, and a sentence for each file that could not."""

    themes: dict[str, Theme]
    problems: tuple[str, ...]


def load_themes(folders: Iterable[Path] | None = None) -> Themes:
    """Read all theme files; a user's file replaces a shipped one of the same name."""
    themes: dict[str, Theme] = {}
    problems = []
    for folder in folders or (shipped_themes(), user_themes()):
        for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
            try:
                theme = read_theme(path)
            except ThemeError as error:
                problems.append(f"{path.name}: {error}")
            else:
                themes[theme.name] = theme
    return Themes(themes, tuple(problems))


def read_theme(path: Path) -> Theme:
    """Read one theme file; raises ``ThemeError``."""
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(str(error)) from error
    variables = values.pop("variables", {})
    name = values.pop("name", path.stem)
    flags = {flag: values.pop(flag) for flag in ("dark", "ansi") if flag in values}
    if unknown := sorted(values.keys() - set(_COLORS)):
        raise ThemeError(f"unknown: {', '.join(unknown)}; allowed are name, dark, ansi, {', '.join(_COLORS)}")
    if "primary" not in values:
        raise ThemeError("it names no primary colour")
    if not isinstance(variables, dict) or (unknown := sorted(variables.keys() - TOKENS.keys())):
        raise ThemeError(f"unknown variables: {', '.join(unknown)}; allowed are {', '.join(TOKENS)}")
    for key, value in (*values.items(), *variables.items()):
        _check_color(key, value)
    return Theme(name=name, variables=variables, **flags, **values)


def palette(variables: dict[str, str], names: Iterable[str], *, ascii_only: bool, colored: bool) -> Palette:
    """Return the colours of a chart's series from the theme in force."""
    if not colored:
        return Palette(series=("",), axis="", muted="", ascii=ascii_only)
    return Palette(
        series=tuple(_hex(variables[name]) for name in names),
        axis=_hex(variables["quiet"]),
        muted=_hex(variables["quiet"]),
        ascii=ascii_only,
    )


def _hex(value: str) -> str:
    return value if value.startswith("ansi_") else Color.parse(value).hex6.lower()


def _check_color(key: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ThemeError(f"{key} must be a colour in quotes")
    try:
        Color.parse(value)
    except ColorParseError:
        raise ThemeError(f"{key} is no colour: {value}") from None
