"""One animated SVG from several pictures of the program: lines that do not change between them are stored once.

Where animation is off, or not known, it is the first picture.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

_ROW = 24.4
_FRAME_HEIGHT, _CAPTION_HEIGHT = 51, 46
_STYLE = re.compile(r"\.terminal-(r\d+) \{ ([^}]*) \}")
_BACKGROUND = re.compile(r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="24.65"[^>]*/>')
_TEXT = re.compile(r'<text class="terminal-(r\d+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"[^>]*>([^<]*)</text>')
_SIZE = re.compile(r'<rect x="0" y="0" width="([\d.]+)" height="([\d.]+)" />')


class Step(NamedTuple):
    """One picture of several: the keys that lead to it from the one before, how long it stays, and what it shows.

    ``done`` is how many steps of the tour are done then.
    """

    keys: Sequence[str]
    seconds: float = 0
    caption: str = ""
    done: int = 0


class Background(NamedTuple):
    """A part of a line with one background."""

    x: float
    width: float
    fill: str


class Text(NamedTuple):
    """A part of a line with one style, which is CSS; the text is XML."""

    x: float
    width: float
    style: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a picture."""

    backgrounds: tuple[Background, ...] = ()
    texts: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that Rich has drawn, in parts."""

    width: float
    height: float
    fill: str
    """The most frequent background, which no line repeats."""
    lines: tuple[Line, ...]


def parts_of(svg: str) -> Picture:
    """Take a picture apart; raises ``ValueError`` if Rich draws them differently by now."""
    size = _SIZE.search(svg)
    if size is None:
        raise ValueError("this is not a picture of a terminal")
    styles = dict(_STYLE.findall(svg))
    backgrounds: dict[int, list[Background]] = defaultdict(list)
    texts: dict[int, list[Text]] = defaultdict(list)
    covered: Counter[str] = Counter()
    for fill, x, y, width in _BACKGROUND.findall(svg):
        covered[fill] += round(float(width))
        backgrounds[round((float(y) - 1.5) / _ROW)].append(Background(float(x), float(width), fill))
    for style, x, y, width, text in _TEXT.findall(svg):
        if text.replace("&#160;", "").strip():
            texts[round((float(y) - 20) / _ROW)].append(Text(float(x), float(width), styles[style], text))
    fill = covered.most_common(1)[0][0]
    rows = round(float(size[2]) / _ROW)
    lines = (Line(tuple(_joined(backgrounds[row], fill)), tuple(texts[row])) for row in range(rows))
    return Picture(float(size[1]), float(size[2]), fill, tuple(lines))


def _joined(backgrounds: Iterable[Background], but: str) -> list[Background]:
    """Join neighbours of one colour, and leave out those of the whole picture's."""
    joined: list[Background] = []
    for part in backgrounds:
        if part.fill == but:
            continue
        last = joined[-1] if joined else None
        if last is not None and last.fill == part.fill and abs(last.x + last.width - part.x) < 1:
            joined[-1] = last._replace(width=round(part.x + part.width - last.x, 1))
        else:
            joined.append(part)
    return joined


def moving(svgs: Sequence[str], steps: Sequence[Step], title: str) -> str:
    """Compose the pictures of ``steps`` to one SVG that shows them in turn, again and again."""
    pictures = [parts_of(svg) for svg in svgs]
    first = pictures[0]
    classes: dict[str, str] = {}
    drawn: dict[frozenset[int], list[str]] = defaultdict(list)
    for row in range(len(first.lines)):
        shown: dict[Line, set[int]] = defaultdict(set)
        for number, picture in enumerate(pictures):
            shown[picture.lines[row]].add(number)
        for line, numbers in shown.items():
            drawn[frozenset(numbers)] += _line(line, row, classes)
    for number, step in enumerate(steps):
        caption = (
            f'<text class="caption" x="{first.width / 2:g}" y="{first.height + 38:g}">{escape(step.caption)}</text>'
        )
        drawn[frozenset({number})].append(caption)
    width, height = first.width + 20, first.height + _FRAME_HEIGHT + _CAPTION_HEIGHT
    named = sorted(drawn.items(), key=lambda item: sorted(item[0]))
    groups = "\n".join(f'<g class="s{number}">{"".join(parts)}</g>' for number, (_, parts) in enumerate(named))
    css = "\n".join(
        (
            "text { font: 20px 'Fira Code', 'DejaVu Sans Mono', Menlo, Consolas, monospace; white-space: pre }",
            "text.title, text.caption { font: bold 20px Arial, Helvetica, sans-serif; text-anchor: middle }",
            "text.caption { font-size: 26px; fill: #ffffff }",
            *(f".{name} {{ {style} }}" for style, name in classes.items()),
            *_timing([numbers for numbers, _ in named], [step.seconds for step in steps]),
        )
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<title>{escape(title)}</title>
<style>
{css}
</style>
<rect fill="#292929" width="{width:g}" height="{height:g}" rx="8"/>
<circle cx="26" cy="22" r="7" fill="#ff5f57"/><circle cx="48" cy="22" r="7" fill="#febc2e"/>\
<circle cx="70" cy="22" r="7" fill="#28c840"/>
<text class="title" fill="#c5c8c6" x="{width / 2:g}" y="28">{escape(title)}</text>
<g transform="translate(9, 41)">
<rect fill="{first.fill}" width="{first.width:g}" height="{first.height:g}"/>
{groups}
</g>
</svg>
"""


def _line(line: Line, row: int, classes: dict[str, str]) -> list[str]:
    top = f"{row * _ROW + 1.5:.1f}"
    base = f"{row * _ROW + 20:.1f}"
    return [
        *(
            f'<rect fill="{part.fill}" x="{part.x:g}" y="{top}" width="{part.width:g}" height="24.65"/>'
            for part in line.backgrounds
        ),
        *(
            f'<text class="{classes.setdefault(part.style, f"t{len(classes)}")}" x="{part.x:g}" y="{base}" '
            f'textLength="{part.width:g}">{part.text}</text>'
            for part in line.texts
        ),
    ]


def _timing(groups: Sequence[frozenset[int]], seconds: Sequence[float]) -> list[str]:
    """Say in CSS when each group is shown; without animation, those of the first picture are."""
    whole_s = sum(seconds)
    begins = [sum(seconds[:number]) / whole_s * 100 for number in range(len(seconds))]
    rules, animated = [], []
    for number, shown in enumerate(groups):
        if len(shown) == len(seconds):
            continue
        if 0 not in shown:
            rules.append(f".s{number} {{ visibility: hidden }}")
        frames = " ".join(
            f"{begin:.2f}% {{ visibility: {'visible' if step in shown else 'hidden'} }}"
            for step, begin in enumerate(begins)
            if step == 0 or (step in shown) != (step - 1 in shown)
        )
        rules.append(f"@keyframes k{number} {{ {frames} }}")
        animated.append(f".s{number} {{ animation: k{number} {whole_s:g}s step-end infinite }}")
    return [*rules, "@media (prefers-reduced-motion: no-preference) {", *animated, "}"]
