"""A body looked through: folded, searched, decoded, saved, and opened or edited in another program."""

import asyncio
import base64
import gzip
import json
import resource
import sys
import time
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path

import msgpack
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from rsmq_tui.monitor.messages.decoding import Decoded, decode
from rsmq_tui.tui.changes.forms import BodyArea, FormScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.outside import QuestionScreen, _write_new
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets import body_view
from rsmq_tui.tui.widgets.body_view import BodyView
from rsmq_tui.tui.widgets.lines import KeyHints
from tests.tui.driving import (
    opened,
    play_orders,
    press,
    press_for_screen,
    says,
    settled,
    type_at_once,
    until,
    wait_for_screen,
)
from tests.tui.reading import app_of, lines_of, notes_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage

pytestmark = pytest.mark.slow

DOCUMENT = {"id": 4711, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}], "note": "Alpha", "end": "alpha"}


async def _open(pilot: Pilot[None], source: ScriptedSource, body: bytes) -> BodyView:
    (id,) = await play_orders(pilot, source, [b"x"])
    source.bodies[id] = body
    await press(pilot, "enter", "enter")
    assert isinstance(pilot.app.screen, MessageScreen)
    return pilot.app.screen.body_view


def _shown(pilot: Pilot[None]) -> list[str]:
    rows = (line.rstrip() for line in lines_of(pilot.app.screen.query_one(BodyView)))
    return [row for row in rows if row]


def _text(pilot: Pilot[None]) -> str:
    return " ".join(notification.message for notification in notes_of(pilot.app))


async def _tells(pilot: Pilot[None], words: str) -> None:
    await until(pilot, lambda: words in _text(pilot), words)


async def _shows(pilot: Pilot[None], text: str) -> None:
    await until(pilot, lambda: text in "".join(_shown(pilot)), text)


async def test_objects_are_folded_and_found_again(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        view = await _open(pilot, source, json.dumps(DOCUMENT).encode())
        whole = json.dumps(DOCUMENT, indent=2).splitlines()
        assert _shown(pilot) == whole
        # Within an object, it is the object that is folded; the cursor goes to where it begins.
        await press(pilot, "j", "j", "j", "j", "space")
        assert _shown(pilot)[2:5] == ['  "lines": [', "    {… 2 lines …},", "    {"]
        await press(pilot, "k", "enter")
        assert _shown(pilot) == ["{", '  "id": 4711,', '  "lines": [… 8 lines …],', *whole[12:]]
        assert "1–15 of 15 lines" in text_of(app_of(pilot))
        # What is found in it unfolds it; case counts only if the text has a capital.
        await press(pilot, "g", "slash")
        type_at_once(pilot, '"sku": "b"')
        await says(pilot, "in line 9")
        assert '      "sku": "b",' in _shown(pilot)
        await press(pilot, "enter", "escape")
        assert not pilot.app.screen.query_one("#filter", Input).display
        await press(pilot, "g", "slash")
        type_at_once(pilot, "alpha\r")
        await until(pilot, lambda: "alpha in line 13 " in text_of(app_of(pilot)), "the first is found")
        for key, line in (("n", 14), ("n", 13), ("N", 14)):
            await press(pilot, key)
            assert f"alpha in line {line} " in text_of(app_of(pilot)), key
        await press(pilot, "slash", "ctrl+u")
        type_at_once(pilot, "Beta\r")
        await says(pilot, "Beta not found")
        await press(pilot, "escape", "f")
        assert _shown(pilot) == ["{", '  "id": 4711,', '  "lines": [… 8 lines …],', *whole[12:]]
        await press(pilot, "g", "j", "j", "space")
        assert _shown(pilot)[2:6] == ['  "lines": [', "    {… 2 lines …},", "    {… 2 lines …}", "  ],"]
        await pilot.click(view, offset=(3, 4))
        await pilot.click(view, offset=(3, 4))
        await settled(pilot)
        assert '      "sku": "a",' in _shown(pilot)
        await press(pilot, "f", "f")
        assert len(_shown(pilot)) in (6, 15)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_a_long_body_is_there_before_it_is_read(source: ScriptedSource) -> None:
    rows = [{"id": number, "tags": ["a", {"deep": number}]} for number in range(40_000)]
    body = json.dumps(rows).encode()
    assert len(body) > 1_500_000
    async with opened(source) as pilot:
        view = await _open(pilot, source, b"[]")
        view.show_body(body)
        view.repaint()
        assert _shown(pilot)[:3] == ["[", "  {", '    "id": 0,']
        assert "+ lines" in str(view.border_subtitle)
        view.find('"id": 39999')
        await says(pilot, "in line 359,994")
        await settled(pilot)
        assert "of 360,002 lines" in text_of(app_of(pilot))
        assert '    "id": 39999,' in _shown(pilot)
        await press(pilot, "f", "G", "k")
        assert _shown(pilot)[-2:] == ["  {… 7 lines …}", "]"]
        await press(pilot, "space")
        assert _shown(pilot)[-2:] == ["  {", '    "id": 39999,']
        # Cut in the middle, it is no JSON, and is shown all the same.
        view.show_body(body[:-9])
        await says(pilot, "not JSON")
        assert _shown(pilot)[:2] == ["[", "  {"]


async def test_keys_do_nothing_while_no_line_is_known(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        # One string, whose only line is not known before its end.
        view = await _open(pilot, source, b'"' + b"x" * 500_000 + b'"')
        view.turn(3)
        assert view.can_fold
        for step in (-1, 1):
            view.action_scroll_lines(step)
            view.action_scroll_pages(step)
            view.action_scroll_to_end(step)
        await until(pilot, lambda: any('"xxx' in row for row in _shown(pilot)), "its line is shown")


async def test_a_match_deep_within_a_long_line_is_scrolled_to(source: ScriptedSource) -> None:
    long = "x" * 1000 + "Z\\u00f6e-1" + "y" * 5000 + "Zöe-2" + "z" * 1500
    async with opened(source) as pilot:
        view = await _open(pilot, source, long.encode())
        for body, first in ((long, "Z\\u00f6e-1"), (f'["{long}", 1]', "Zöe-1")):
            view.show_body(body.encode())
            await press(pilot, "slash")
            type_at_once(pilot, "zöe")
            await press(pilot, "enter")
            for shown in (first, "Zöe-2", first):
                await _shows(pilot, shown)
                await press(pilot, "n")
            assert "Zöe-2" in "".join(_shown(pilot))
            assert first not in "".join(_shown(pilot))
            await press(pilot, "N")
            assert first in "".join(_shown(pilot))
            await press(pilot, "escape")


class Unprinted(bytes):
    """A body of which nobody takes the repr, which is four times as long."""

    def __repr__(self) -> str:
        raise AssertionError("somebody takes the repr of a body")


async def test_the_key_for_a_decoded_body_is_shown_when_it_is_decoded(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, in_turns = asyncio.Event(), body_view._in_turns

    async def slow(work: Generator[None, None, Decoded]) -> Decoded:
        await may_end.wait()
        return await in_turns(work)

    monkeypatch.setattr(body_view, "_in_turns", slow)
    async with opened(source, size=(140, 36)) as pilot:
        (id,) = await play_orders(pilot, source, [b"x"])
        source.bodies[id] = base64.b64encode(json.dumps(DOCUMENT).encode())
        await press(pilot, "enter")
        await pilot.press("enter")
        await says(pilot, "y copy body")
        hints = pilot.app.screen.query_one(KeyHints)
        assert " d bytes " not in lines_of(hints)[0]
        may_end.set()
        await until(pilot, lambda: " d bytes " in lines_of(hints)[0], "the key is shown")


async def test_a_body_is_decoded_and_saved(source: ScriptedSource, tmp_path: Path) -> None:
    inner = json.dumps(DOCUMENT).encode()
    stored = base64.b64encode(gzip.compress(inner * 1, mtime=0))
    async with opened(source, notifications=True, size=(140, 36)) as pilot:
        await _open(pilot, source, Unprinted(stored))
        words = "base64, gzip, JSON"
        assert f"[pretty] · raw · hex · {words}: {len(inner)} B from {len(stored)} B" in text_of(app_of(pilot))
        assert _shown(pilot) == json.dumps(DOCUMENT, indent=2).splitlines()
        assert " d bytes " in lines_of(pilot.app.screen.query_one(KeyHints))[0]
        for name, content in (("decoded", inner), ("stored", stored)):
            await press_for_screen(pilot, "s", FormScreen)
            await settled(pilot)
            about = str(pilot.app.screen.query_one("#about", Static).content)
            assert ("decoded from base64" in about) is (name == "decoded")
            file = pilot.app.screen.query_one("#file", Input)
            assert file.value.endswith(".json" if name == "decoded" else ".txt")
            path = tmp_path / name
            path.write_text("mine")
            file.value = str(path)
            await press(pilot, "enter")
            assert "already exists" in text_of(app_of(pilot))
            path.unlink()
            await pilot.press("enter")
            await _tells(pilot, f"saved {len(content)} B")
            assert path.read_bytes() == content
            assert path.stat().st_mode & 0o777 == 0o600
            await press(pilot, "y")
            assert app_of(pilot).clipboard == content.decode()
            await press(pilot, "d")
        assert f"{words}: " in text_of(app_of(pilot))
        await press(pilot, "d")
        assert f"[raw] · hex · as stored; d decodes {words}" in text_of(app_of(pilot))
        assert _shown(pilot) == [stored.decode()]
        assert " d decode " in lines_of(pilot.app.screen.query_one(KeyHints))[0]
        assert "as it is stored" not in _text(pilot)


async def test_a_plain_body_of_one_line(source: ScriptedSource) -> None:
    async with opened(source, notifications=True) as pilot:
        view = await _open(pilot, source, b"plain text")
        await until(pilot, lambda: view.why_as_stored == "it is not encoded", "it is read")
        assert " 1 line " in text_of(app_of(pilot))
        await press(pilot, "d")
        assert "the body is shown as it is stored: it is not encoded" in _text(pilot)


EDITOR = """
import os, pathlib, stat, sys
path, steps = pathlib.Path(sys.argv[-1]), pathlib.Path(sys.argv[1])
script = steps.read_text().splitlines()
steps.write_text(os.linesep.join(script[1:]))
log = steps.with_suffix(".log")
with log.open("a") as out:
    print(path, oct(stat.S_IMODE(path.stat().st_mode)), path.read_text(), sep="|", file=out)
if script and script[0] == "fail":
    sys.exit(3)
if script and script[0]:
    path.write_text(script[0] + "\\n")
"""


def _edited_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the editor and the pager to a script; return the file that says what it does."""
    editor, steps = tmp_path / "editor.py", tmp_path / "steps"
    editor.write_text(EDITOR)
    for name in ("VISUAL", "PAGER"):
        monkeypatch.setenv(name, f"'{sys.executable}' {editor} '{steps}'")
    return steps


async def test_a_body_is_edited_elsewhere_and_sent(
    source: ScriptedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = _edited_by(tmp_path, monkeypatch)
    triage = ScriptedTriage()
    async with opened(source, triage=triage, notifications=True, size=(140, 36)) as pilot:
        await _open(pilot, source, b'{"a":"\x7f"}')
        # Pilot's terminal cannot be left.
        await press(pilot, "V")
        assert "cannot be opened from this terminal" in _text(pilot)
        monkeypatch.setattr(pilot.app, "suspend", nullcontext)
        for step, words in (("", "nothing was changed"), ("fail", "ended with status 3")):
            steps.write_text(step)
            await press(pilot, "V")
            await _tells(pilot, words)
        steps.write_text('{"a": 1,}\n{"a": 2,}\n{"a": 3}')
        screen = await press_for_screen(pilot, "V", QuestionScreen)
        await says(pilot, "now it is not JSON: ")
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.screen is not screen, "it is edited again")
        screen = await wait_for_screen(pilot, QuestionScreen)
        await pilot.press("enter")
        await wait_for_screen(pilot, FormScreen)
        await settled(pilot)
        assert pilot.app.screen.query_one(BodyArea).body == b'{"a": 3}'
        await press(pilot, "escape")
        # A pager gets what is shown, and neither it nor an editor may write to its copy.
        steps.write_text("")
        await press(pilot, "o", "O")
        await press(pilot, "escape")
        steps.write_text("changed")
        await press_for_screen(pilot, "V", QuestionScreen)
        await press(pilot, "escape")
    logged = [line.split("|") for line in steps.with_suffix(".log").read_text().split("\n/")]
    assert logged[-3][1:] == ["0o400", '{\n  "a": "␡"\n}\n']
    assert logged[-2][1:] == ["0o400", '{"a":"\x7f"}']
    assert {mode for _, mode, _ in logged[:-3]} == {"0o600"}
    assert not any(Path("/", path.removeprefix("/")).parent.exists() for path, *_ in logged)


async def test_an_edited_body_is_encoded_again(
    source: ScriptedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = _edited_by(tmp_path, monkeypatch)
    stored = base64.b64encode(gzip.compress(json.dumps(DOCUMENT).encode()))
    async with opened(source, triage=ScriptedTriage(), notifications=True, size=(140, 36)) as pilot:
        await _open(pilot, source, stored)
        monkeypatch.setattr(pilot.app, "suspend", nullcontext)
        for key, how in (("enter", "encoded again: base64, gzip"), ("left", "as it is shown: decoded")):
            steps.write_text('{"changed": 1}')
            await press_for_screen(pilot, "V", QuestionScreen)
            await says(pilot, "The body of the message is base64, gzip; you have edited it decoded")
            await pilot.press(*dict.fromkeys((key, "enter")))
            await wait_for_screen(pilot, FormScreen)
            await settled(pilot)
            assert str(pilot.app.screen.query_one("#about", Static).content).endswith(how)
            body = pilot.app.screen.query_one(BodyArea).body
            assert (decode(body).data, body == decode(body).data) == (b'{"changed": 1}', key == "left")
            await press(pilot, "escape")
        # Nothing is asked, and nothing sent, if the question is left.
        steps.write_text('{"changed": 1}')
        await press_for_screen(pilot, "V", QuestionScreen)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, MessageScreen)
        # Bytes in MessagePack are texts in JSON, and cannot be packed again.
        source.bodies = {id: msgpack.packb({"a": b"bytes"}) for id in source.bodies}
        await press(pilot, "r")
        steps.write_text('{"changed": 2}')
        await press_for_screen(pilot, "V", FormScreen)
        await settled(pilot)
        assert str(pilot.app.screen.query_one("#about", Static).content).endswith(how)
        assert pilot.app.screen.query_one(BodyArea).body == b'{"changed": 2}'


async def test_a_search_goes_on_in_what_is_shown_by_then(source: ScriptedSource) -> None:
    body = json.dumps([{"id": number} for number in range(100_000)]).encode()
    async with opened(source) as pilot:
        view = await _open(pilot, source, b"[]")

        async def look() -> None:
            view.show_body(body)
            view.find('"id": 99999')
            for _ in range(100):
                await asyncio.sleep(0)
                if "searching for" in str(view.border_subtitle):
                    return
            raise AssertionError("the search has not begun, or is over")

        await look()
        view.turn(1)
        await until(pilot, lambda: "in line" in str(view.border_subtitle), "it is found")
        await settled(pilot)
        # As text it is in one of the last lines, each of which holds several hundred ids.
        assert '{"id": 99844}' in "".join(_shown(pilot))
        view.show_body(b"[]")
        await look()
        view.show_body(b"{}")
        await settled(pilot)
        assert _shown(pilot) == ["{}"]
        assert "in line" not in str(view.border_subtitle)


def test_a_body_that_cannot_be_saved_as_a_whole_leaves_no_file(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            _write_new(tmp_path / "body", (b"x" * 200,))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "body").exists()


async def test_the_building_of_lines_gives_way_until_another_screen_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_view, "_TURN_S", 0.0)
    turns, is_open = 0, False

    def building() -> Generator[None, None, None]:
        nonlocal turns
        while not is_open:
            turns += 1
            yield

    async def opening() -> None:
        nonlocal is_open
        for _ in range(200):
            until_s = time.monotonic() + 2 * body_view._QUICK_S
            while time.monotonic() < until_s:
                pass
            await asyncio.sleep(0)
        is_open = True

    await asyncio.gather(body_view._in_turns(building()), opening())
    # It would be one for each step.
    assert turns < 20
