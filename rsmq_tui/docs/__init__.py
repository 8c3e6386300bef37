"""The pages for users: Markdown files, one topic each, which `rsmq-tui help` and the dashboard show."""

import re
from pathlib import Path

_FOLDER = Path(__file__).parent
# Pictures are for readers on the web.
_PICTURE = re.compile(r"^!\[.*\]\(.*\)\n\n?", re.MULTILINE)


def topics() -> dict[str, str]:
    """Return the topics in alphabetical order, each with the sentence that its page begins with."""
    return {path.stem: _text(path).split("\n\n", 2)[1] for path in sorted(_FOLDER.glob("*.md"))}


def page(topic: str) -> str:
    """Return the page of one of the topics as Markdown, without pictures."""
    return _PICTURE.sub("", _text(_FOLDER / f"{topic}.md"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
