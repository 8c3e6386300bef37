"""The base of the dashboard's widgets: lines of styled cells, of which only changed ones are sent again.

A stock widget repaints itself whole: 17 KB for one changed number on a 160 x 48 table, which stutters over a slow SSH
link. Here a widget paints all its lines, which is cheap, and the base compares them with those on the screen, piece by
piece.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import App
from textual.color import Color
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from rsmq_tui.charts.series import Palette
from rsmq_tui.monitor import Verdict
from rsmq_tui.tui.theme import chart_colour

# A piece of a line: its text and the tokens of its style, such as "verdict-stalled cursor". A token that is a colour,
# #rrggbb, is the background.
Piece = tuple[str, str]
# A line that is cut off ends with a whole word if that leaves this share of it.
_WORDS_SHARE_MIN = 0.75
_TOKENS = (
    *(f"verdict-{verdict}" for verdict in Verdict),
    *("ready", "hidden", "muted", "strong", "head", "changed", "cursor", "live", "alarm", "notice"),
    *("spark", "spark-high", "json-key", "json-string", "json-number", "json-word"),
)
# Textual computes the style of a component class for every widget that declares it, so only the app declares them.
TOKEN_CLASSES = {f"token--{token}" for token in _TOKENS}


def token_style(app: App[Any], token: str) -> Style:
    """Return what a token adds to the style below it; ``app`` declares ``TOKEN_CLASSES``."""
    return app.get_component_styles(f"token--{token}").partial_rich_style


class Painted(Widget):
    """A widget that paints its visible lines in ``paint``; call ``repaint`` when what they show has changed."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._painted: list[Strip] | None = None
        self._painted_size = Size()
        self._token_styles: dict[str, Style] = {}

    def paint(self) -> list[Strip]:
        """Return the lines of the visible area, each as wide as the area."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Paint again, and send the differences from the screen."""
        before = self._lines
        if not self.size:
            # It has no region on the screen yet; it is painted when it gets one.
            return
        if before is None:
            self._send()
            return
        lines = self._fill()
        width = self.size.width
        if len(before) != len(lines):
            self._send()
            return
        regions = [
            Region(start, y, end - start, 1)
            for y, (old, new) in enumerate(zip(before, lines, strict=True))
            for start, end in _differences(old, new, width)
        ]
        if regions:
            self._send(*regions)

    def _send(self, *regions: Region) -> None:
        """Send these regions, or everything, even if dialogs are open above."""
        self.refresh(*regions)
        stack = self.app.screen_stack
        if len(stack) < 3 or not self.is_attached or self.screen not in stack[:-2]:
            return
        # Textual updates what is visible behind the top screen. A screen in between, such as the form behind a preview,
        # keeps its own cached picture of the screens behind it.
        within = self.content_region
        for screen in stack[stack.index(self.screen) + 1 : -1]:
            screen.refresh(*(region.translate(within.offset) for region in regions or (within.reset_offset,)))

    def repaint_all(self) -> None:
        """Paint again and send everything, after a change of size, position or style."""
        self._painted = None
        self._send()

    def line(self, pieces: Iterable[Piece], base: str = "") -> Strip:
        """Make a line of pieces; ``base`` is a token below all of their tokens."""
        return Strip([Segment(text, self.token(f"{base} {tokens}")) for text, tokens in pieces if text])

    def clipped(self, pieces: Sequence[Piece]) -> Strip:
        """Make a line of pieces that ends in … if it does not fit, after a whole word if one is near."""
        line, width = self.line(pieces), self.size.width
        if line.cell_length <= width:
            return line
        # Room for a space and the sign.
        words = line.crop(0, max(0, width - 1)).text.rpartition(" ")[0].rstrip(" ·,:(")
        if cell_len(words) >= width * _WORDS_SHARE_MIN:
            return Strip([*line.crop(0, cell_len(words)), Segment(" …", self.token("muted"))])
        return Strip([*line.crop(0, max(0, width - 1)), Segment("…", self.token("muted"))])

    def lines_of(self, text: Text) -> list[Strip]:
        """Turn styled text, a chart for instance, into lines."""
        base, console = self.token(""), self.app.console
        return [
            Strip([Segment(segment.text, base + (segment.style or Style.null())) for segment in line.render(console)])
            for line in text.split("\n", allow_blank=True)
        ]

    def token(self, tokens: str) -> Style:
        """Return the combined style of these tokens; later ones win."""
        style = self._token_styles.get(tokens)
        if style is None:
            style = self.rich_style
            for token in tokens.split():
                if token.startswith("#"):
                    style += self._upon(token)
                else:
                    style += token_style(self.app, token)
            self._token_styles[tokens] = style
        return style

    def _upon(self, colour: str) -> Style:
        """Return a style with that background and legible text; without colours, reverse video."""
        if self.app.native_ansi_color or self.app.no_color:
            return Style(reverse=True, bold=True)
        behind = Color.parse(colour)
        return Style(color=behind.get_contrast_text(1.0).rich_color, bgcolor=behind.rich_color, bold=True)

    def palette(self, names: Sequence[str]) -> Palette:
        """Return the theme's colours of these series, or none on a terminal without colours."""
        app, ascii_only = self.app, bool(getattr(self.app, "ascii_only", False))
        if app.native_ansi_color or app.no_color:
            return Palette(series=("",), muted="", ascii=ascii_only)
        muted, *series = (chart_colour(app.theme_variables[name]) for name in ("quiet", *names))
        return Palette(series=tuple(series), muted=muted, ascii=ascii_only)

    def render_line(self, y: int) -> Strip:
        """Give Textual one line of the visible area."""
        lines = self._lines or self._fill()
        return lines[y] if y < len(lines) else Strip.blank(self.size.width, self.rich_style)

    def on_hide(self) -> None:
        """Forget what was painted."""
        self._painted = None

    def notify_style_update(self) -> None:
        """Forget cached styles: the theme or a class changed."""
        self._token_styles.clear()
        self._painted = None
        super().notify_style_update()

    @property
    def _lines(self) -> list[Strip] | None:
        """The last painted lines; None if the size has changed."""
        return self._painted if self._painted_size == self.size else None

    def _fill(self) -> list[Strip]:
        """Paint, and pad the lines to fill the visible area."""
        self._painted_size = self.size
        width, height = self.size
        blank = self.token("")
        fitted = [line.adjust_cell_length(width, blank) for line in self.paint()[:height]]
        self._painted = fitted + [Strip.blank(width, blank)] * (height - len(fitted))
        return self._painted


def _differences(old: Strip, new: Strip, width: int) -> list[tuple[int, int]]:
    """Return the runs of cells, (start, end), in which two lines differ.

    Lines whose pieces have the same lengths are compared piece by piece. In others, everything between the common start
    and the common end counts as different.
    """
    if old == new:
        return []
    before, after = list(old), list(new)
    runs, position, are_as_long = [], 0, len(before) == len(after)
    for one, other in zip(before, after, strict=False):
        length = _cells(one)
        if one != other:
            are_as_long = are_as_long and length == _cells(other)
            runs.append((position, position + length))
        position += length
    if are_as_long:
        return runs
    length = old.cell_length
    start, end = _alike(before, after), length - _alike(before[::-1], after[::-1])
    return [(start, end) if length == new.cell_length and start < end else (0, width)]


def _cells(piece: Segment) -> int:
    text = piece.text
    return len(text) if text.isascii() else piece.cell_length


def _alike(before: Iterable[Segment], after: Iterable[Segment]) -> int:
    """Return the number of cells in the leading pieces that are equal."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return sum(piece.cell_length for piece, _ in same)
