"""Every screen in every theme, without colours and without Unicode: always readable, never told by colour alone."""

import ast
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

import rsmq_tui
from rsmq_tui.monitor import MessageState, Verdict
from rsmq_tui.protocol import Failure, Namespaces
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.output import in_ascii
from rsmq_tui.tui.theme import SIGNS, verdict_words
from tests.quick_apps import strips_of
from tests.tui.driving import opened, play, press, says, settled, shown
from tests.tui.reading import app_of, lines_of, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, messages_of
from tests.tui.states import one_of_each, poll_of, queue_of

pytestmark = pytest.mark.slow

PACKAGE = Path(rsmq_tui.__file__).parent
THEMES = ("rsmq-dark", "rsmq-light", "rsmq-ansi")
BODIES = [b'{"type": "caf\xc3\xa9 \xe2\x98\x95"}', b"\xff\x00\x1b[2J", "日本 text…".encode(), None, b""]


def _furnish(source: ScriptedSource) -> None:
    source.messages["emails"] = messages_of(BODIES * 20, hidden=3, rc=7)
    source.found = Namespaces(("jobs", "größe"), complete=False)


async def _all_screens(pilot: Pilot[None], source: ScriptedSource) -> AsyncIterator[str]:
    """Walk through every screen and dialog; give the name of each while it is in front."""
    yield "connecting"
    source.play_failure(Failure("refused", "connection refused – “later”", "start it"))
    await shown(pilot, source)
    yield "failed"
    await play(pilot, source, poll_of(source, [], namespaces=("größe",)))
    yield "empty"
    problem = queue_of("odd – “é”", ready=1, problems=("scores are in µs",))
    for minute in range(3):
        await play(pilot, source, poll_of(source, [*one_of_each(), problem], START_MS + minute * 60_000))
    yield "overview"
    await press(pilot, "s", "s", "slash", "é")
    yield "filter"
    await press(pilot, "escape", "escape", "n")
    yield "namespaces"
    await press(pilot, "escape", "question_mark")
    yield "help"
    await press(pilot, "G")
    yield "help, its end"
    await press(pilot, "escape", "j", "enter")
    yield "queue"
    await press(pilot, "l", "t")
    yield "queue, clock times"
    for number in range(3):
        await press(pilot, *("g", *["j"] * number, "enter"))
        for view in ("pretty", "raw", "hex"):
            yield f"message {number}, {view}"
            await press(pilot, "l")
        await press(pilot, "escape")
    await press(pilot, "escape", "p")
    await shown(pilot, source)
    yield "paused"
    source.play_failure(Failure("refused", "connection refused", "start it"))
    await shown(pilot, source)
    yield "stale"
    app_of(pilot).notify("copied “the body” …", markup=False)
    await pilot.press("colon")
    await says(pilot, "the name of a queue")
    await settled(pilot)
    yield "palette"


@pytest.mark.parametrize(
    ("encoding", "name", "body"),
    [
        ("utf-8", "odd – “é日”", "caf\xe9 ☕ \\x1b"),
        ("iso-8859-1", "odd – “é\\u65e5”", "caf\xe9 \\u2615 \\x1b"),
        ("ascii", "odd – “\\xe9\\u65e5”", "caf\\xe9 \\u2615 \\x1b"),
    ],
)
async def test_ascii_only_is_about_what_is_drawn_and_not_about_names_and_bodies(
    source: ScriptedSource, encoding: str, name: str, body: str
) -> None:
    queue = "odd – “é日”"
    source.messages[queue] = messages_of(["café ☕ \x1b[2J".encode()])
    async with opened(source, [queue_of(queue, ready=1)], ascii_only=True, encoding=encoding) as pilot:
        await press(pilot, "j")
        for key, shown in (("enter", name), ("enter", body), ("escape", body)):
            text = text_of(app_of(pilot))
            assert in_ascii(shown) in text
            assert {character for character in text if not character.isascii()} <= {*"é日☕"}
            await press(pilot, key)


async def test_ascii_only_means_every_character_of_every_screen(source: ScriptedSource) -> None:
    _furnish(source)
    names = []
    async with opened(source, size=(100, 30), ascii_only=True, encoding="ascii", notifications=True) as pilot:
        async for name in _all_screens(pilot, source):
            names.append(name)
            text = text_of(app_of(pilot))
            assert text.isascii(), f"{name}: {sorted({c for c in text if not c.isascii()})}"
            assert {len(line) for line in text.splitlines()} == {100}, name
    assert len(names) == 22


@pytest.mark.parametrize(("theme", "size"), [("rsmq-light", (80, 24)), ("rsmq-ansi", (120, 36))], ids=str)
async def test_every_screen_renders_in_every_theme(source: ScriptedSource, theme: str, size: tuple[int, int]) -> None:
    _furnish(source)
    async with opened(source, size=size, theme=theme) as pilot:
        async for _ in _all_screens(pilot, source):
            assert app_of(pilot).export_screenshot(simplify=True)
        assert app_of(pilot).theme == theme


async def test_no_color_draws_without_colour(source: ScriptedSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    _furnish(source)
    async with opened(source) as pilot:
        assert app_of(pilot).no_color
        async for name in _all_screens(pilot, source):
            assert _colors(app_of(pilot)) == set(), name
            if name in ("overview", "queue", "help"):
                await _in_ansi_colors(pilot)


async def _in_ansi_colors(pilot: Pilot[None]) -> None:
    """The terminal's own colours are colours too."""
    app = app_of(pilot)
    app.theme = "rsmq-ansi"
    await settled(pilot)
    assert _colors(app) == set()
    app.theme = "rsmq-dark"
    await settled(pilot)


def _colors(app: RsmqApp) -> set[tuple[str, str]]:
    """What is drawn in a colour that is no grey: the colour and the text."""
    return {
        (color.name, segment.text)
        for strip in strips_of(app)
        for segment in strip
        if segment.style
        for color in (segment.style.color, segment.style.bgcolor)
        if color and not color.is_default and not (color.triplet and len(set(color.triplet)) == 1)
    }


@pytest.mark.parametrize("theme", THEMES)
async def test_the_row_under_the_cursor_is_marked_without_colours_too(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(source, one_of_each(), theme=theme) as pilot:
        await press(pilot, "j")
        reversed_rows = [
            y for y in range(table_of(pilot).size.height)
            if all(segment.style and segment.style.reverse for segment in table_of(pilot).render_line(y)
                   if segment.text.strip())
            and lines_of(table_of(pilot))[y].strip()
        ]  # fmt: skip
        assert reversed_rows == [2]


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_every_state_is_told_by_a_word_and_a_sign(source: ScriptedSource, ascii_only: bool) -> None:
    rows = messages_of([b"x"] * 4, hidden=2)
    source.messages["cache"] = [*rows[:-1], replace(rows[-1], state=MessageState.DELAYED)]
    async with opened(source, ascii_only=ascii_only) as pilot:
        calm, *others = one_of_each()
        others += [calm._replace(name=verdict, verdict=verdict) for verdict in (Verdict.LEAKING, Verdict.WATCHING)]
        await play(pilot, source, poll_of(source, (calm, *others)))
        text = text_of(app_of(pilot))
        for verdict in Verdict:
            words = verdict_words(verdict)
            assert f"{in_ascii(words) if ascii_only else words} " in text
        await press(pilot, "enter")
        assert [line.split()[1] for line in lines_of(table_of(pilot))[1:5]] == ["ready", "ready", "in", "delayed"]
    signs = {in_ascii(sign) if ascii_only else sign for sign in SIGNS.values()}
    assert len(signs) == len(Verdict)
    assert all(one.isascii() for one in signs) == ascii_only


def test_each_mark_of_a_sparkline_and_each_shade_has_its_own_ascii_character() -> None:
    assert in_ascii("▁▂▃▄▅▆▇") == "_.:-=+#"
    assert in_ascii("·░▒▓█") == ".:+*#"


def test_each_sign_of_the_program_has_an_ascii_character() -> None:
    texts: set[str] = set()
    for folder in ("tui", "monitor", "triage"):
        for path in (PACKAGE / folder).rglob("*.py"):
            found = (getattr(node, "value", None) for node in ast.walk(ast.parse(path.read_text())))
            texts |= {text for text in found if isinstance(text, str)}
    signs = {character for text in texts for character in text if not character.isalpha() and character > "\x7f"}
    # With --ascii, control characters are escaped, and not shown as pictures.
    signs = {sign for sign in signs if sign.isprintable() and not "\u2400" <= sign <= "\u2421"}
    assert "≥" in signs
    assert {sign for sign in signs if not in_ascii(sign).isascii()} == set()


async def test_t_shows_clock_times_in_place_of_ages(source: ScriptedSource) -> None:
    source.messages["orders"] = messages_of([b"x"] * 3, hidden=1)
    async with opened(source) as pilot:
        await play(
            pilot, source, poll_of(source, [queue_of("orders", ready=2, oldest_ready_ms=START_MS - 134 * 60_000)])
        )
        assert "2h 14m" in lines_of(table_of(pilot))[1]
        await press(pilot, "t")
        assert "2h 14m" not in lines_of(table_of(pilot))[1]
        assert "08:52:40" in lines_of(table_of(pilot))[1]
        assert "WAITING" not in lines_of(table_of(pilot))[0]
        assert lines_of(table_of(pilot))[0].index("SINCE") == lines_of(table_of(pilot))[1].index("08:52:40") + 3
        # What is not of this day has its date.
        since_ms = {"orders": 134 * 60_000, "day": 26 * 3_600_000, "year": 400 * 86_400_000}
        queues = [queue_of(name, ready=1, oldest_ready_ms=START_MS - ms) for name, ms in since_ms.items()]
        await play(pilot, source, poll_of(source, queues, START_MS + 1))
        for name, when in (("orders", "08:52:40"), ("day", "11-17 09:06"), ("year", "2025-10-14")):
            assert when in next(line for line in lines_of(table_of(pilot)) if f" {name} " in line)
        await play(pilot, source, poll_of(source, queues[:1], START_MS + 2))
        await press(pilot, "enter")
        assert "11:05:40" in lines_of(table_of(pilot))[1]
        assert " SENT" in lines_of(table_of(pilot))[0]
        await press(pilot, "t", "t")
        assert "1m 0s ago" in lines_of(table_of(pilot))[1]
        assert "in 20 s" in lines_of(table_of(pilot))[3]
        await press(pilot, "escape")
        assert "2h 14m" in lines_of(table_of(pilot))[1]
        assert "WAITING" in lines_of(table_of(pilot))[0]
