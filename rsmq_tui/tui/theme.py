"""Themes, theme files, and the signs, words and colours of verdicts and states."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

import rsmq_tui
from rsmq_tui.files import config_folder
from rsmq_tui.monitor import MessageState, Verdict

_PACKAGE = Path(rsmq_tui.__file__).parent


def shipped_themes() -> Path:
    """Return the folder of the included themes: inside the package, or beside it in a checkout."""
    packaged = _PACKAGE / "themes"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "themes"


def user_themes() -> Path:
    """Return the folder of the user's own themes, which need not exist."""
    return config_folder() / "themes"


DEFAULT_THEME = "rsmq-dark"

# The colours that a theme may set besides Textual's own, with their defaults.
TOKENS = {
    "verdict-broken": "#ff5f7e",
    "verdict-stalled": "#ff7a5c",
    "verdict-leaking": "#ff9a6c",
    "verdict-growing": "#ffb454",
    "verdict-poisoned": "#d58cff",
    "verdict-aged": "#e6d05a",
    "verdict-watching": "#8b96a5",
    "verdict-ok": "#7fbf9e",
    "series-first": "#6cb6ff",
    "series-second": "#7fbf9e",
    "series-third": "#ffb454",
    "message-ready": "#6cb6ff",
    "message-hidden": "#ffb454",
    "quiet": "#8b96a5",
    "rule": "#3b4552",
    "spark": "#4b7fb3",
    "cursor": "#26405c",
    "json-key": "#6cb6ff",
    "json-string": "#a5d6a7",
    "json-number": "#ffb454",
    "json-word": "#d58cff",
    "replay": "#ff79c6",
}
_NAME = re.compile(r"[\w.-]{1,40}")
_COLORS = (
    "primary", "secondary", "warning", "error", "success", "accent",
    "foreground", "background", "surface", "panel", "boost",
)  # fmt: skip


class ThemeError(ValueError):
    """A theme file that cannot be used; its text is the reason."""


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


def first_theme(app: App[Any], wanted: str | None, kept: str, ours: Iterable[str]) -> str:
    """Return the requested theme, or the one for the terminal's colours; show a toast if it does not exist.

    On a terminal with enough colours that is the ``kept`` one, the user's last choice, or the default.
    """
    plain = app.console.color_system in (None, "standard") and not app.is_headless
    wanted = wanted or ("rsmq-ansi" if plain else kept if kept in app.available_themes else DEFAULT_THEME)
    if wanted in app.available_themes:
        return wanted
    app.notify(f"unknown theme {wanted}. Available: {', '.join(ours)}.", severity="warning", markup=False)
    return DEFAULT_THEME if DEFAULT_THEME in app.available_themes else "textual-dark"


def read_theme(path: Path) -> Theme:
    """Read one theme file; raises ``ThemeError``."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(str(error)) from error
    variables = values.pop("variables", {})
    name = values.pop("name", path.stem)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ThemeError("its name must be made of letters, digits, '.', '_' and '-'")
    flags = {flag: values.pop(flag) for flag in ("dark", "ansi") if flag in values}
    if wrong := [flag for flag, value in flags.items() if not isinstance(value, bool)]:
        raise ThemeError(f"{wrong[0]} must be true or false")
    if unknown := sorted(values.keys() - set(_COLORS)):
        raise ThemeError(f"unknown: {', '.join(unknown)}; allowed are name, dark, ansi, {', '.join(_COLORS)}")
    if "primary" not in values:
        raise ThemeError("it has no primary colour")
    if not isinstance(variables, dict):
        raise ThemeError("variables must be a table")
    if unknown := sorted(variables.keys() - TOKENS.keys()):
        raise ThemeError(f"unknown variables: {', '.join(unknown)}; allowed are {', '.join(TOKENS)}")
    for key, value in (*values.items(), *variables.items()):
        _check_color(key, value)
    if flags.get("ansi"):
        # Textual's own styles need some variables that only its ANSI themes define.
        basis = "ansi-dark" if flags.get("dark", True) else "ansi-light"
        variables = {**BUILTIN_THEMES[basis].variables, **variables}
    return Theme(name=name, variables=variables, **flags, **values)


def chart_colour(value: str) -> str:
    """Return a theme's colour as rich parses it."""
    return value if value.startswith("ansi_") else Color.parse(value).hex6.lower()


def _check_color(key: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ThemeError(f"{key} must be a colour in quotes")
    try:
        Color.parse(value)
    except ColorParseError:
        raise ThemeError(f"{key} is not a colour: {value}") from None


SIGNS = {
    Verdict.BROKEN: "✗",
    Verdict.STALLED: "■",
    Verdict.LEAKING: "▼",
    Verdict.GROWING: "▲",
    Verdict.POISONED: "☣",
    Verdict.AGED: "◷",
    Verdict.WATCHING: "○",
    Verdict.OK: "●",
}
MEANINGS = {
    Verdict.BROKEN: "its keys disagree or hold wrong types, or messages have no body",
    Verdict.STALLED: "messages are ready and nobody receives them",
    Verdict.LEAKING: "leases of a list expired and nobody returns the items",
    Verdict.GROWING: "arrivals exceed deletes",
    Verdict.POISONED: "messages are received again and again",
    Verdict.AGED: "the first ready message has been due for too long",
    Verdict.WATCHING: "too early to tell whether something is wrong",
    Verdict.OK: "nothing is wrong",
}
MESSAGE_TOKENS = {
    MessageState.READY: "ready",
    MessageState.IN_FLIGHT: "hidden",
    MessageState.DELAYED: "muted",
    MessageState.EXPIRED: "alarm",
    MessageState.UNLEASED: "verdict-aged",
}


def verdict_words(verdict: Verdict) -> str:
    """Return a verdict's sign and word."""
    return f"{SIGNS[verdict]} {verdict.value}"
