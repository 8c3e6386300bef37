"""What a run leaves behind for the next one, besides its tables: ``_state.json``. It also marks a folder as ours."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rsmq_tui.files import parse_json
from rsmq_tui.history.analysis.schema import VERSION
from rsmq_tui.history.store import SealedFile
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.settings import Settings

STATE_FILE = "_state.json"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that could not be read: what marks it as it was then, and why."""

    stamp: str
    why: str


@dataclass(slots=True)
class State:
    """How the tables were made: by which version and settings, and from which files; all of it may be unknown."""

    version: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seen: str = ""
    """A digest of the names in the history, as they were before the last run looked for new ones."""
    left_out: dict[str, LeftOut] = field(default_factory=dict)


def read_state(out: Folder) -> State | None:
    """Return what the last run left, or None where no run was begun here; what is damaged is unknown."""
    text = out.store.read(STATE_FILE)
    if text is None:
        return None
    try:
        told = parse_json(text)
        left_out = {
            str(name): LeftOut(str(about["stamp"]), str(about["why"])) for name, about in told["left_out"].items()
        }
        return State(told["version"], dict(told["settings"]), str(told["seen"]), left_out)
    except (ValueError, TypeError, KeyError, AttributeError):
        return State()


def write_state(out: Folder, state: State, scratch: Path) -> None:
    """Keep it for the next run."""
    out.store.write(STATE_FILE, json.dumps(asdict(state)) + "\n", scratch)


def made_by(settings: Settings) -> dict[str, Any]:
    """Return settings as they are kept."""
    return asdict(settings)


def is_current(state: State) -> bool:
    """Tell whether the tables by day are what this version would make of the same rows."""
    return state.version == VERSION


def digest(files: Iterable[SealedFile]) -> str:
    """Return a few letters that are others when there are other files."""
    told = hashlib.sha256()
    for name in sorted(file.name for file in files):
        told.update(name.encode("utf-8", "surrogateescape") + b"\0")
    return told.hexdigest()
