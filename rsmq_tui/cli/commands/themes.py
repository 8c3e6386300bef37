"""`rsmq-tui themes`: the themes of the dashboard, and the mistakes in theme files."""

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from rsmq_tui.cli.errors import EXIT_FAILED
from rsmq_tui.cli.options import json_option
from rsmq_tui.cli.output import fields_json, print_words, say, wants_json
from rsmq_tui.cli.parsing import Group, Options
from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.text import fitted
from rsmq_tui.tui.theme import SIGNS, ThemeError, ThemeFile, chart_colour, load_themes, read_theme, user_themes

_NOTES = """\
`rsmq-tui --theme NAME` uses one; T in the dashboard switches to the next, and keeps the choice. Your own files are in
the folder themes of your configuration, by default ~/.config/rsmq-tui/themes; a file replaces an included theme of the
same name. `rsmq-tui help themes` describes them. Themes of Textual, such as flexoki, can be used by their names too."""


@click.command(cls=Group, invoke_without_command=True, notes=_NOTES, statuses={0: "done"})
@json_option
def command(options: Options) -> int:
    """Print them."""
    return _list(options)


@command.command(
    "list", help="print the themes (the default command)", examples=("", "--json | jq -r .name"), statuses={0: "done"}
)
@json_option
def _list_command(options: Options) -> int:
    return _list(options)


@command.command(
    "check",
    help="print the mistakes in theme files, with their lines",
    examples=("~/.config/rsmq-tui/themes/*.toml",),
    statuses={0: "no mistakes", 1: "mistakes"},
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
def _check_command(options: Options) -> int:
    sentences = []
    for file in options.files:
        try:
            read_theme(Path(file))
        except ThemeError as error:
            sentences += error.sentences(file)
    for sentence in sentences:
        print_words(sentence)
    return EXIT_FAILED if sentences else 0


def _list(options: Options) -> int:
    themes = load_themes()
    if wants_json(options):
        for file in themes.files.values():
            _print_json(file)
    else:
        _print([*themes.files.values()])
    for problem in themes.problems:
        say(f"{user_themes()}/{problem}")
    return 0


def _print_json(file: ThemeFile) -> None:
    theme = file.theme
    fields_json(
        name=theme.name,
        dark=theme.dark,
        ansi=theme.ansi,
        description=file.description,
        included=file.is_shipped,
        file=str(file.path),
        verdicts={verdict.value: theme.variables.get(f"verdict-{verdict}") for verdict in Verdict},
    )


def _print(files: list[ThemeFile]) -> None:
    """Print a line for each theme; a terminal with colours shows the signs of the verdicts in the theme's colours."""
    console = Console(highlight=False)
    # With sixteen colours, a sign and its background might have the same colour.
    has_colours = console.color_system in ("256", "truecolor") and not console.no_color and "utf" in console.encoding
    width = max(len(file.theme.name) for file in files)
    for file in files:
        theme = file.theme
        ground = "terminal" if theme.ansi else "dark" if theme.dark else "light"
        line = Text(f"{theme.name:{width}}  {ground:8}  {'included' if file.is_shipped else 'yours':8}  ")
        if has_colours:
            line.append_text(_strip(file)).append("  ")
        line.append(fitted(file.description, max(12, console.width - line.cell_len)))
        console.print(line, soft_wrap=True)


def _strip(file: ThemeFile) -> Text:
    """Return the signs of the verdicts in the colours of a theme."""
    theme = file.theme
    ground = None if theme.ansi or theme.background is None else chart_colour(theme.background)
    strip = Text()
    for verdict, sign in SIGNS.items():
        colour = theme.variables.get(f"verdict-{verdict}")
        foreground = "default" if colour is None else chart_colour(colour).removeprefix("ansi_")
        strip.append(f" {sign}", f"{foreground} on {ground}" if ground else foreground)
    return strip.append(" ", f"on {ground}" if ground else "")
