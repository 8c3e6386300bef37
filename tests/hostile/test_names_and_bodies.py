"""Names, ids and bodies that a terminal or a markup parser would act upon, on every screen."""

import pytest
from redis import Redis
from rich.style import Style
from rich.text import Text
from textual import events
from textual.content import Content
from textual.widgets import Input, Static

from rsmq_tui.tui.dialogs.palette import PaletteScreen
from tests.hostile.keyspace import untouched
from tests.hostile.payloads import (
    ALL_LINES,
    ESCAPES,
    JSON,
    LONG_NAME,
    MARKUP,
    SNIPPETS,
    UNREADABLE,
    plant_message,
    plant_queue,
)
from tests.hostile.using import walk_tabs
from tests.hostile.watching import dashboard, dashboard_app, open_message, open_queue, polls, press, strips, until

pytestmark = pytest.mark.slow

NAMES = [*SNIPPETS.values(), LONG_NAME.encode(), ESCAPES, MARKUP, UNREADABLE]
HARD = {"escapes": ESCAPES, "markup": MARKUP, "unreadable": UNREADABLE, "long": LONG_NAME.encode(), "nothing": b""}


@pytest.fixture
def hostile_names(client: Redis) -> Redis:
    for name in NAMES:
        plant_queue(client, name)
        plant_message(client, name, name, name)
    return client


async def test_the_overview_shows_every_name(redis_url: str, hostile_names: Redis) -> None:
    with untouched(hostile_names):
        # Beside the pane, the table is only this wide on a wide terminal.
        async with dashboard(redis_url, size=(240, 48)) as pilot:
            text = await until(pilot, "● live", f"{len(NAMES)} queues")

            for shown in ("␛[2J␛[1;1H␛[31mPWNED", "[@click=app.quit]x[/]", "[/foo]", r"\u202egnp.exe", "nnnnnnnn…"):
                assert shown in text
            await press(pilot, "s", "s", "S", "end", "t", "T")
            await polls(pilot)


async def test_the_queue_screen_shows_every_id_and_body(client: Redis, redis_url: str) -> None:
    plant_queue(client, b"orders")
    for number, snippet in enumerate(SNIPPETS.values()):
        plant_message(client, b"orders", b"%02d" % number + snippet, snippet, rc=3, fr=1_795_000_000_000)

    with untouched(client):
        async with dashboard(redis_url) as pilot:
            await until(pilot, "● live")
            text = await open_queue(pilot, "orders")

            for shown in ("␛[2J␛[1;1H␛[31mPWNED", "[@click=app.quit]x[/]", "[/foo]", r"\u202egnp.exe", r"\xff\xfe"):
                assert shown in text
            await press(pilot, "t")
            await walk_tabs(pilot)
            await press(pilot, "end", "I", "y")
            await until(pilot, "copied the body")
            assert dashboard_app(pilot).clipboard == SNIPPETS["quotes"].decode()


@pytest.mark.parametrize("name", HARD)
async def test_one_name_on_the_screens_of_its_queue_and_its_message(client: Redis, redis_url: str, name: str) -> None:
    plant_queue(client, HARD[name])
    plant_message(client, HARD[name], HARD[name], JSON)

    with untouched(client):
        async with dashboard(redis_url) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, HARD[name].decode("utf-8", "surrogateescape"))
            await press(pilot, "I", "?")
            await press(pilot, "escape")
            await open_message(pilot)
            await press(pilot, "I")
            await until(pilot, "copied the id")
            await polls(pilot)


async def test_one_body_in_all_views(client: Redis, redis_url: str) -> None:
    plant_queue(client, b"orders")
    plant_message(client, b"orders", b"1", ALL_LINES)
    plant_message(client, b"orders", b"2", JSON)

    with untouched(client):
        async with dashboard(redis_url, size=(160, 140)) as pilot:
            await until(pilot, "● live")
            await open_queue(pilot, "orders")
            assert "[hex]" in await open_message(pilot)
            raw = await press(pilot, "h")
            assert "[raw]" in raw
            assert "␛]52;c;UFdORUQ=␇" in raw
            await press(pilot, "h", "y")
            assert dashboard_app(pilot).clipboard == ALL_LINES.decode("utf-8", "replace")

            await press(pilot, "escape")
            pretty = await open_message(pilot, 1)
            assert "[pretty]" in pretty
            assert r'"\u001b]0;PWNED-title\u0007"' in pretty
            assert r"\u202egnp.exe" in pretty
            for key in ("l", "end", "l", "pageup", "home"):
                await press(pilot, key)


async def test_the_palette_finds_hostile_names(redis_url: str, hostile_names: Redis) -> None:
    with untouched(hostile_names):
        async with dashboard(redis_url) as pilot:
            await until(pilot, "● live")
            await press(pilot, ":")
            await until(pilot, lambda: isinstance(pilot.app.screen, PaletteScreen))
            for words, shown in (("pwned", "␛]0;PWNED-title␇"), ("[/foo]", "[/foo]  ")):
                pilot.app.screen.query_one(Input).value = words
                await until(pilot, shown)
            await press(pilot, "enter")
            await until(pilot, "◀ [/foo]")


async def test_what_is_pasted_into_the_filter_is_only_text(redis_url: str, hostile_names: Redis) -> None:
    async with dashboard(redis_url) as pilot:
        await until(pilot, "● live")
        await press(pilot, "/")
        entry = pilot.app.screen.query_one("#filter", Input)
        for pasted in (*HARD.values(), b"[/foo]"):
            entry.value = ""
            pilot.app.post_message(events.Paste(pasted.decode("utf-8", "replace")))
            if pasted:
                await until(pilot, lambda: entry.value)
        await until(pilot, lambda: entry.value == "[/foo]")
        await press(pilot, "enter", "enter")
        await until(pilot, lambda: pilot.app.screen.query("#messages"))


@pytest.mark.parametrize("name", ["escapes", "markup", "nothing"])
async def test_a_hostile_namespace(client: Redis, redis_url: str, name: str) -> None:
    raw = HARD[name]
    client.sadd(raw + b":QUEUES", "orders")
    client.hset(raw + b":orders:Q", mapping={"vt": 30, "delay": 0, "maxsize": -1})

    with untouched(client):
        async with dashboard(redis_url, ns="rsmq") as pilot:
            await until(pilot, "No queues in namespace rsmq. Other namespaces: ")
            await press(pilot, "n")
            await until(pilot, "enter switches")
            await press(pilot, "enter")
            await until(pilot, "orders", "1 queue")


async def test_what_a_screen_forgets_to_make_harmless_does_nothing_either(orders: Redis, redis_url: str) -> None:
    async with dashboard(redis_url) as pilot:
        await until(pilot, "● live")
        for snippet in SNIPPETS.values():
            raw = snippet.decode("utf-8", "surrogateescape")
            pilot.app.screen.query_one("#filter", Input).placeholder = raw
            await press(pilot, "/")
            text = Text(raw.replace("\n", " ")[:200] + "link", Style(link="http://evil.example/"))
            await pilot.app.screen.mount(static := Static(text, markup=False))
            static.border_title = Content(raw)
            static.styles.border = ("round", "red")
            static.styles.dock = "top"
            await until(pilot, lambda: static.region.height)
            assert not any(segment.style and segment.style.link for strip in strips(pilot) for segment in strip)
            await static.remove()
            await press(pilot, "escape")
