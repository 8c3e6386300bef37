"""`rsmq-tui help`: the pages for users, rendered for a terminal or as Markdown."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from io import StringIO

import click

from rsmq_tui.cli.parsing import Command, Options
from rsmq_tui.docs import page, topics

_WIDTH_MAX = 100
# `less` passes colours and bold on only with this option.
_PAGER = "less -R"
# A link to another page is a file name, which says nothing in a terminal.
_LINK_TO_PAGE = re.compile(r"\[([^\]]+)\]\([\w-]+\.md\)")


@click.command(
    cls=Command,
    notes="In a terminal, a page that is longer than the screen is shown by $PAGER (default less). Otherwise the page "
    "is printed as Markdown. `rsmq-tui COMMAND --help` describes the options of a command.",
    examples=("", "servers", "messages | grep undo"),
    statuses={0: "done"},
)
@click.argument("topic", required=False, shell_complete=lambda _ctx, _argument, start: _starting(start))
def command(options: Options) -> int:
    """Print the page of a topic, or the topics; raises ``click.UsageError`` for an unknown topic."""
    if options.topic is not None and options.topic not in topics():
        sentence = f"No such topic {options.topic!r}; `rsmq-tui help` lists them."
        raise click.NoSuchCommand(options.topic, sentence, topics(), click.get_current_context())
    if options.topic is None:
        width = max(map(len, topics()))
        _write("".join(f"{topic:{width}}  {sentence}\n" for topic, sentence in topics().items()))
        return 0
    text = _LINK_TO_PAGE.sub(r"\1", page(options.topic))
    if not sys.stdout.isatty():
        _write(text)
        return 0
    columns, lines = shutil.get_terminal_size()
    text = _rendered(text, min(columns, _WIDTH_MAX))
    if text.count("\n") < lines or not _paged(text):
        _write(text)
    return 0


def _starting(start: str) -> list[str]:
    return [topic for topic in topics() if topic.startswith(start)]


def _rendered(markdown: str, width: int) -> str:
    """Format Markdown for a terminal: bold and underlined instead of coloured, which suits every theme."""
    # Only a page in a terminal needs them.
    from rich.console import Console  # noqa: PLC0415
    from rich.markdown import CodeBlock, Heading, Markdown  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415
    from rich.theme import Theme  # noqa: PLC0415

    class LeftHeading(Heading):
        LEVEL_ALIGN = {}  # noqa: RUF012 - Rich's own way to say it

    class PlainCode(CodeBlock):
        """A code block that can be copied: no colours, and no trailing spaces."""

        def __rich_console__(self, *_: object) -> "list[Text]":
            lines = self.text.plain.rstrip().splitlines()
            return [Text(f"  {line}", no_wrap=True, overflow="ignore") for line in lines]

    class Page(Markdown):
        elements = {**Markdown.elements, "heading_open": LeftHeading, "fence": PlainCode}  # noqa: RUF012 - as above

    styles = {"h1": "bold underline", "h2": "bold underline", "code": "bold", "table.header": "bold"}
    styles |= dict.fromkeys(("table.border", "item.bullet", "link", "link_url"), "none")
    theme = Theme({f"markdown.{name}": style for name, style in styles.items()})
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=width, theme=theme, legacy_windows=False)
    console.print(Page(markdown, hyperlinks=False), crop=False)
    return out.getvalue()


def _paged(text: str) -> bool:
    """Show a text with the user's pager; False if there is none."""
    try:
        command = shlex.split(os.environ.get("PAGER", _PAGER))
        if command == ["less"]:
            command = shlex.split(_PAGER)
        pager = subprocess.Popen(command, stdin=subprocess.PIPE)
    except (OSError, ValueError, IndexError):
        return False
    if pager.stdin is not None:
        # A pager that is left early does not read everything.
        with suppress(BrokenPipeError), pager.stdin:
            pager.stdin.write(text.encode(sys.stdout.encoding or "utf-8", "replace"))
    while True:
        # Ctrl+C belongs to the pager, which the terminal gives it to as well.
        with suppress(KeyboardInterrupt):
            pager.wait()
            return True


def _write(text: str) -> None:
    """Print a text; characters that the terminal does not have become question marks."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
