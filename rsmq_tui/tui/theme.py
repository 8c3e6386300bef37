"""Themes, theme files, and the signs, words and colours of verdicts and states."""

import re
import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from textual.app import App
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

import rsmq_tui
from rsmq_tui.files import config_folder, read_bytes, reason_of
from rsmq_tui.monitor import MessageState, Verdict

_PACKAGE = Path(rsmq_tui.__file__).parent


def shipped_themes() -> Path:
    """Return the folder of the included themes: inside the package, or beside it in a checkout."""
    packaged = _PACKAGE / "themes"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "themes"


def user_themes() -> Path:
    """Return the folder of the user's own themes, which need not exist."""
    return config_folder() / "themes"


DEFAULT_THEME, ANSI_THEME = "rsmq-dark", "rsmq-ansi"

# The colours that a theme may set besides Textual's own, with their defaults.
VARIABLES = {
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
    "cursor": "#1b2f45",
    "json-key": "#6cb6ff",
    "json-string": "#a5d6a7",
    "json-number": "#ffb454",
    "json-word": "#d58cff",
    "replay": "#ff79c6",
}
_NAME = re.compile(r"[\w.-]{1,40}")
_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_DESCRIPTION_MAX = 100
# How often the file of the shown theme is checked.
_LOOK_S = 1.0
_BYTES_MAX = 1_000_000
_AT_LINE = re.compile(r"at line (\d+)")
_OTHERS = ("name", "description", "dark", "ansi")
_COLORS = (
    "primary", "secondary", "warning", "error", "success", "accent",
    "foreground", "background", "surface", "panel", "boost",
)  # fmt: skip


class ThemeError(ValueError):
    """A theme file that cannot be used.

    ``mistakes`` are the errors, each with its line, from 1; None if it concerns no line.
    """

    def __init__(self, mistakes: Sequence[tuple[int | None, str]]) -> None:
        super().__init__("; ".join(reason for _, reason in mistakes))
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: mistake[0] or 0))

    def sentences(self, file: str) -> list[str]:
        """Return the mistakes as compilers write them: ``file:line: reason``."""
        return [f"{file}{'' if line is None else f':{line}'}: {reason}" for line, reason in self.mistakes]


class ThemeFile(NamedTuple):
    """A theme and its file; ``version`` changes when the file is written."""

    theme: Theme
    description: str
    path: Path
    version: tuple[int, int]

    @property
    def is_shipped(self) -> bool:
        """Whether it is one of the included themes."""
        return self.path.parent == shipped_themes()


class Themes(NamedTuple):
    """The theme files that could be read, by the names of their themes, and sentences about those that could not."""

    files: dict[str, ThemeFile]
    problems: tuple[str, ...]

    @property
    def themes(self) -> dict[str, Theme]:
        """The themes by name."""
        return {name: file.theme for name, file in self.files.items()}

    def keeping(self, before: "Themes", shown: str) -> "Themes":
        """Return these themes, with the shown one as it was before, and after them those that no longer exist."""
        kept = {name: file for name, file in before.files.items() if name == shown or name not in self.files}
        return Themes({**self.files, **kept}, self.problems)


def load_themes(shipped: Container[str] | None = None) -> Themes:
    """Read all theme files; if ``shipped`` is given, only those of the included ones.

    A user's file replaces an included one of the same name.
    """
    files: dict[str, ThemeFile] = {}
    problems: list[str] = []
    for folder in (shipped_themes(), user_themes()):
        is_shipped = folder == shipped_themes()
        for path in sorted(folder.glob("*.toml"), key=lambda path: path.stem):
            # An included theme has the name of its file.
            if is_shipped and shipped is not None and path.stem not in shipped:
                continue
            try:
                file = read_theme(path)
            except ThemeError as error:
                problems += error.sentences(path.name)
            else:
                files[file.theme.name] = file
    return Themes(files, tuple(problems))


def version_of(path: Path) -> tuple[int, int] | None:
    """Return a value that changes when the file is written; None while it is missing or empty, as in some editors."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found.st_size else None


class AppThemes:
    """The themes of an app, of which it shows one: the ``wanted`` one at first, or else the one ``kept`` as the last.

    At the start, only those are read that may be shown.
    """

    def __init__(self, app: App[Any], wanted: str | None, kept: str) -> None:
        self._app, self._wanted, self._kept = app, wanted, kept
        self._themes = load_themes(shipped=(DEFAULT_THEME, ANSI_THEME, kept, wanted or kept))
        # Set if the file of the shown theme was edited.
        self._version: tuple[int, int] | None = None
        for theme in self._themes.themes.values():
            app.register_theme(theme)
        self._begin_in(wanted or (kept if kept in self._themes.files else DEFAULT_THEME))

    def _begin_in(self, name: str) -> None:
        """Start with this theme: a theme that is chosen later requires all CSS to be parsed again.

        ``choose_first`` does that if also the colours of the terminal are drawn differently.
        """
        app = self._app
        before, theme = app.current_theme, app.available_themes.get(name)
        if theme is not None and (theme.dark, theme.ansi) == (before.dark, before.ansi):
            app.set_reactive(App.theme, name)
            app.update_classes({f"-theme-{before.name}": False, f"-theme-{name}": True}, update=False)
            app.stylesheet.set_variables(app.get_css_variables())

    def choose_first(self) -> None:
        """Show the first theme, or the one for the terminal's colours, and follow edits of its file."""
        self._app.theme = self._first
        self._notify_of(self._themes.problems)
        self._app.set_interval(_LOOK_S, self.follow_file)

    @property
    def _first(self) -> str:
        app = self._app
        plain = app.console.color_system in (None, "standard") and not app.is_headless
        kept = self._kept if self._kept in app.available_themes else DEFAULT_THEME
        wanted = self._wanted or (ANSI_THEME if plain else kept)
        if wanted in app.available_themes:
            return wanted
        app.notify(f"unknown theme {wanted}: `rsmq-tui themes` lists them", severity="warning", markup=False)
        return DEFAULT_THEME if DEFAULT_THEME in app.available_themes else "textual-dark"

    def follow_file(self) -> None:
        """Apply edits of the shown theme's file; if it has a mistake, the last valid theme stays."""
        app = self._app
        file = self._themes.files.get(app.theme)
        version = None if file is None else version_of(file.path)
        if file is None or version in (None, self._version or file.version):
            return
        self._version = version
        try:
            read = read_theme(file.path)
        except ThemeError as error:
            self._notify_of(error.sentences(file.path.name))
            return
        self._themes.files[read.theme.name] = read
        app.register_theme(read.theme)
        if read.theme.name == app.theme:
            app.mutate_reactive(App.theme)
        else:
            app.theme = read.theme.name

    def forget_edits(self) -> None:
        """Follow the file of another theme, which is shown now."""
        self._version = None

    def read_all(self) -> None:
        """Read all themes, including new ones of the user."""
        self._themes = load_themes().keeping(self._themes, self._app.theme)
        for name, theme in self._themes.themes.items():
            if name != self._app.theme:
                self._app.register_theme(theme)
        self._notify_of(self._themes.problems)

    def next_file(self) -> ThemeFile | None:
        """Read all themes, and return the one after the shown one; None if there is none."""
        self.read_all()
        names = list(self._themes.files)
        shown = names.index(self._app.theme) if self._app.theme in names else -1
        return self._themes.files[names[(shown + 1) % len(names)]] if names else None

    def _notify_of(self, problems: Sequence[str]) -> None:
        if problems:
            words, title = "\n".join(problems), "Some themes could not be read"
            self._app.notify(words, title=title, severity="warning", markup=False, timeout=10)


def read_theme(path: Path) -> ThemeFile:
    """Read one theme file; raises ``ThemeError`` with all its mistakes."""
    version = version_of(path)
    try:
        text = read_bytes(path, _BYTES_MAX).decode("utf-8")
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n", 0, len(text.rstrip())) + 1
        raise ThemeError([(line, str(error))]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ThemeError([(None, reason_of(error))]) from error
    variables = values.pop("variables", {})
    if mistakes := [
        (_line_of(text, key, in_variables=in_variables), reason)
        for key, in_variables, reason in _mistakes({"name": path.stem, **values}, variables)
    ]:
        raise ThemeError(mistakes)
    name, description = values.pop("name", path.stem), values.pop("description", "")
    if values.get("ansi"):
        # Textual's own styles need some variables that only its ANSI themes define.
        basis = "ansi-dark" if values.get("dark", True) else "ansi-light"
        variables = {**BUILTIN_THEMES[basis].variables, **variables}
    return ThemeFile(Theme(name=name, variables=variables, **values), description, path, version or (0, 0))


def _mistakes(values: Mapping[str, Any], variables: Any) -> Iterator[tuple[str, bool, str]]:
    """Yield the keys that are wrong, whether each is in the table of variables, and why."""
    name, description = values["name"], values.get("description", "")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield "name", False, "its name must be made of letters, digits, '.', '_' and '-'"
    if not isinstance(description, str) or len(description) > _DESCRIPTION_MAX or not description.isprintable():
        yield "description", False, f"description must be one line of text, of at most {_DESCRIPTION_MAX} characters"
    for flag in ("dark", "ansi"):
        if not isinstance(values.get(flag, True), bool):
            yield flag, False, f"{flag} must be true or false"
    for key in sorted(values.keys() - {*_COLORS, *_OTHERS}):
        yield key, False, f"unknown: {key}; allowed are {', '.join((*_OTHERS, *_COLORS))}"
    if "primary" not in values:
        yield "", False, "it has no primary colour"
    if not isinstance(variables, dict):
        yield "variables", False, "variables must be a table"
        variables = {}
    for key in sorted(variables.keys() - VARIABLES.keys()):
        yield key, True, f"unknown variable: {key}; allowed are {', '.join(VARIABLES)}"
    for of, keys, in_variables in ((values, _COLORS, False), (variables, VARIABLES, True)):
        for key in keys:
            if key in of and (reason := _color_mistake(of[key])):
                yield key, in_variables, f"{key} {reason}"


def _color_mistake(value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a colour in quotes"
    if _HEX.fullmatch(value):
        # Textual takes long to parse the hundreds of colours of the included themes, which would delay the first paint.
        return None
    try:
        Color.parse(value)
    except ColorParseError:
        return f"is not a colour: {value}"
    return None


def _line_of(text: str, key: str, *, in_variables: bool) -> int | None:
    """Return the line of a key, None if it is not found."""
    pattern = re.compile(rf"""(?:^|[\s.{{,\[])["']?{re.escape(key)}["']?\s*(?:=|\.|\])""")
    of_table: dict[bool, int] = {}
    is_within = False
    for number, line in enumerate(text.split("\n"), 1):
        is_within = line.lstrip().startswith("[") or is_within
        if key and not line.lstrip().startswith("#") and pattern.search(line):
            of_table.setdefault(is_within or "variables" in line, number)
    return of_table.get(in_variables, of_table.get(not in_variables))


def chart_colour(value: str) -> str:
    """Return a theme's colour as rich parses it."""
    return value if value.startswith("ansi_") else Color.parse(value).hex6.lower()


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
    Verdict.STALLED: "messages are ready and no consumer receives them",
    Verdict.LEAKING: "leases of a list expired and no reaper returns the items",
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
    MessageState.UNLEASED: "notice",
}


def verdict_words(verdict: Verdict) -> str:
    """Return a verdict's sign and word."""
    return f"{SIGNS[verdict]} {verdict.value}"
