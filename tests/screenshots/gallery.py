"""The picture of all themes: the overview in each of them, small, on one grid."""

from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from itertools import groupby

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.strip import Strip

from rsmq_tui.monitor import Verdict
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.theme import load_themes
from tests.quick_apps import strips_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.states import one_of_each, poll_of, queue_of

_SIZE = (56, 11)
_COLUMNS = 3
# Of a character, in the units of the picture; the font is that of the other pictures.
_WIDTH, _HEIGHT, _FONT = 8.4, 17, 14
_GAP, _TITLE = 16, 24
_STYLE = f"""\
.s {{ font: {_FONT}px 'Fira Code', 'DejaVu Sans Mono', monospace }}
.b {{ font-weight: bold }}
.t {{ font: bold 15px arial, sans-serif; fill: #808080 }}"""


async def gallery() -> str:
    """Show the overview in each theme, and return the picture of all of them as SVG, the same at each run."""
    source = ScriptedSource()
    states = (
        *one_of_each(),
        queue_of("mails", kind="list", ready=2, hidden=14, expired=9, net_s=0.0, verdict=Verdict.LEAKING),
        queue_of("webhooks", ready=31, oldest_ready_ms=START_MS - 9_000, verdict=Verdict.WATCHING, arrivals_s=2.0),
    )
    source.play(poll_of(source, states))
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    app.animation_level = "none"
    parts = []
    async with app.run_test(size=_SIZE) as pilot:
        await pilot.pause()
        while app.dashboard.snapshot is not source.last:
            await pilot.pause(0.01)
        await pilot.press("j")
        for index, name in enumerate(load_themes().files):
            app.action_choose_theme(name)
            for _ in range(3):
                await pilot.pause()
            row, column = divmod(index, _COLUMNS)
            x = _GAP + column * (_SIZE[0] * _WIDTH + _GAP)
            y = _GAP + row * (_SIZE[1] * _HEIGHT + _TITLE + _GAP)
            parts += [f'<g transform="translate({x:g} {y:g})">', *_small(name, strips_of(app), app.ansi_theme), "</g>"]
    rows = -(-len(load_themes().files) // _COLUMNS)
    width = _GAP + _COLUMNS * (_SIZE[0] * _WIDTH + _GAP)
    height = _GAP + rows * (_SIZE[1] * _HEIGHT + _TITLE + _GAP)
    head = f'<svg viewBox="0 0 {width:g} {height:g}" xmlns="http://www.w3.org/2000/svg" xml:space="preserve">'
    return "\n".join([head, f"<style>\n{_STYLE}\n</style>", *parts, "</svg>", ""])


def _small(name: str, lines: Sequence[Strip], terminal: TerminalTheme) -> Iterator[str]:
    """Yield one screen: its name, its grounds, then its text."""
    yield f'<text class="t" y="14">{escape(name)}</text>'
    pieces = [list(_pieces(line, terminal)) for line in lines]
    common = pieces[0][0][3]
    yield f'<rect y="{_TITLE}" width="{_SIZE[0] * _WIDTH:g}" height="{_SIZE[1] * _HEIGHT}" fill="{common}"/>'
    for number, line in enumerate(pieces):
        y = _TITLE + number * _HEIGHT
        for ground, group in groupby(line, lambda piece: piece[3]):
            of_ground = list(group)
            if ground != common:
                width = sum(len(piece[1]) for piece in of_ground) * _WIDTH
                x = of_ground[0][0] * _WIDTH
                yield f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{_HEIGHT}" fill="{ground}"/>'
        spans = [
            f'<tspan x="{(start + len(text) - len(text.lstrip())) * _WIDTH:g}" fill="{colour}"'
            + (' class="b">' if is_bold else ">")
            + f"{escape(text.strip())}</tspan>"
            for start, text, colour, _, is_bold in line
            if text.strip()
        ]
        if spans:
            yield f'<text class="s" y="{y + _FONT}">{"".join(spans)}</text>'


def _pieces(line: Strip, terminal: TerminalTheme) -> Iterator[tuple[int, str, str, str, bool]]:
    """Yield the pieces of a line: where each begins, its text, colour and ground, and whether it is bold."""
    start = 0
    for (colour, ground, is_bold), group in groupby(line, partial(_look, terminal=terminal)):
        text = "".join(segment.text for segment in group)
        yield start, text, colour, ground, is_bold
        start += len(text)


def _look(segment: Segment, terminal: TerminalTheme) -> tuple[str, str, bool]:
    """Return colour and ground of a segment, and whether it is bold."""
    style = segment.style or Style()
    colour = (style.color or Color.default()).get_truecolor(terminal).hex
    ground = (style.bgcolor or Color.default()).get_truecolor(terminal, foreground=False).hex
    return (ground, colour, bool(style.bold)) if style.reverse else (colour, ground, bool(style.bold))
