"""Whether a terminal and the user's folders are fit for the dashboard."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rsmq_tui.monitor.diagnoses import Finding, ok, warn

_GOOD_SIZE = (80, 24)


@dataclass(frozen=True, slots=True)
class Terminal:
    """What is known of a terminal: whether it is one, its size in cells, its encoding, and the environment."""

    is_terminal: bool
    columns: int
    lines: int
    encoding: str
    environment: Mapping[str, str] = field(default_factory=dict)


def terminal_findings(terminal: Terminal) -> Iterator[Finding]:
    """Yield what a terminal can do."""
    if not terminal.is_terminal:
        words = "input or output is not a terminal: the dashboard needs one"
        yield warn(
            "terminal.tty", words, "run it in a terminal; `rsmq-tui snapshot` and the other commands do not need one"
        )
    else:
        yield _size(terminal)
    kind = terminal.environment.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        yield warn(
            "terminal.kind",
            f"TERM is {kind or 'not set'}: unknown terminal",
            "export TERM=xterm-256color",
        )
    else:
        yield ok("terminal.kind", f"TERM is {kind}, {_colours(kind, terminal.environment)}")
    if "utf" in terminal.encoding.lower() and kind != "linux":
        yield ok("terminal.encoding", f"encoding {terminal.encoding}")
    else:
        words = f"encoding {terminal.encoding or 'unknown'}{' on the Linux console' if kind == 'linux' else ''}"
        yield warn(
            "terminal.encoding",
            f"{words}: only ASCII characters are drawn",
            "export LANG=C.UTF-8, if the font has the signs",
        )
    yield _clipboard(kind, terminal.environment)


def _size(terminal: Terminal) -> Finding:
    words = f"{terminal.columns} by {terminal.lines} cells"
    if terminal.columns < _GOOD_SIZE[0] or terminal.lines < _GOOD_SIZE[1]:
        return warn("terminal.size", f"{words}: columns and charts will be left out", "make it 80 by 24 or larger")
    return ok("terminal.size", words)


def _colours(kind: str, environment: Mapping[str, str]) -> str:
    if environment.get("NO_COLOR"):
        return "no colours, because NO_COLOR is set"
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "all colours"
    if "256" in kind or "direct" in kind:
        return "256 colours (set COLORTERM=truecolor if the terminal has more)"
    return "16 colours: --theme rsmq-ansi suits it"


def _clipboard(kind: str, environment: Mapping[str, str]) -> Finding:
    words = "copying (y) goes through the terminal, by OSC 52"
    if environment.get("TMUX"):
        return ok("terminal.clipboard", f"{words}, and here through tmux", "in tmux it takes `set -g set-clipboard on`")
    if kind.startswith("screen"):
        return warn("terminal.clipboard", f"{words}, which GNU screen does not pass on", "tmux does")
    return ok("terminal.clipboard", words)


def folder_findings(state: Path, config: Path) -> Iterator[Finding]:
    """Yield whether the journal can be written, and whether themes and settings can be read."""
    if _writable(state):
        yield ok("folders.state", f"{state} is writable for the journal of changes")
    else:
        words = f"{state} cannot be written: changes will be refused, because they could not be undone"
        yield warn("folders.state", words, "make it writable, or set XDG_STATE_HOME to a folder that is")
    if not config.exists():
        yield ok("folders.config", f"{config} does not exist: default settings are used")
    elif os.access(config, os.R_OK | os.X_OK):
        yield ok("folders.config", f"{config} holds your settings")
    else:
        yield warn("folders.config", f"{config} cannot be read", "make it readable, or set XDG_CONFIG_HOME")


def _writable(folder: Path) -> bool:
    """Tell whether files can be made in a folder, which need not exist yet, without making anything."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
