"""Links: what they name, what is no link, and what the app shows for one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol.kinds import LIST
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.links import Link, LinkError, read_link
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.servers import WatchedServer
from tests.tui.driving import play, press, says, until
from tests.tui.reading import text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import poll_of, queue_of

AT_MS = 1_936_883_400_000

# As names of queues are: surrogates stand for bytes that are not UTF-8.
names = st.text(
    st.characters(exclude_categories=["Cs"]) | st.integers(0xDC80, 0xDCFF).map(chr), min_size=1, max_size=60
).filter(lambda name: name.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == name)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(st.builds(Link, names | st.just(""), texts, texts, st.integers(0, 4_000_000_000_000) | st.none()))
def test_each_link_is_read_as_it_was_written(link: Link) -> None:
    written = str(link)

    assert read_link(written) == link
    assert read_link(f"https://queues.example.com/dash/#/{written}") == link
    assert written.isascii()
    assert written.isprintable()
    assert " " not in written


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("", Link()),
        ("#/", Link()),
        ("/queue/orders", Link("orders")),
        ("queue/a%2Fb?filter=rc%3E%3D5&server=prod", Link("a/b", "rc>=5", "prod")),
        ("queue/orders?filter=rc>=5", Link("orders", "rc>=5")),
        ("?filter=mail", Link(filter="mail")),
        ("at/2031-05-18T15:10:00Z", Link(at_ms=AT_MS)),
        ("at/2031-05-18T15:10:00.250Z/queue/q", Link("q", at_ms=AT_MS + 250)),
        ("at/2031-05-18T17:10+02:00", Link(at_ms=AT_MS)),
    ],
)
def test_links(text: str, link: Link) -> None:
    assert read_link(text) == link


@pytest.mark.parametrize(
    "text",
    [
        "queue",
        "queue/a/b",
        "queue/a/queue/b",
        "at/yesterday",
        "at/9999999-01-01",
        "at/0001-01-01T00:00:00+23:00",
        "queue/q?secret=x",
        "queue/q?" + "&".join(["filter=a"] * 20),
        "x" * 5000,
        "\x1b[2J",
        "--yes",
    ],
)
def test_what_is_no_link(text: str) -> None:
    with pytest.raises(LinkError) as error:
        read_link(text)

    assert str(error.value) == printable(str(error.value))


async def test_the_queue_of_a_link_opens_with_its_filter(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], link=Link("orders", "rc>=1"))
    async with app.run_test(size=(132, 36)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=2), queue_of("mails", ready=1)]))
        await until(pilot, lambda: isinstance(app.screen, QueueScreen), "the queue opens")
        await until(pilot, lambda: app.screen.link == Link("orders", "rc>=1"), "its filter is applied")  # type: ignore[attr-defined]
        await press(pilot, "Y")
        assert app.clipboard == "rsmq-tui --open 'queue/orders?filter=rc%3E%3D1'"


async def test_a_link_opens_though_the_first_numbers_come_before_the_first_frame(source: ScriptedSource) -> None:
    source.play(poll_of(source, [queue_of("orders", ready=2), queue_of("mails", ready=1)]))
    app = RsmqApp([WatchedServer(source)], link=Link("orders", "rc>=1"), first_wait_s=100)
    async with app.run_test(size=(132, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, QueueScreen), "the queue opens")
        await until(pilot, lambda: app.screen.link == Link("orders", "rc>=1"), "its filter is applied")  # type: ignore[attr-defined]


async def test_a_filter_that_is_none_is_shown_with_its_mistake(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], link=Link("orders", "rc>>[/red]\x1b[2J"))
    async with app.run_test(size=(132, 36)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=2), queue_of("mails", ready=1)]))
        await says(pilot, "rc>>")
        assert "\x1b" not in text_of(app)


async def test_the_overview_with_a_filter(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], link=Link(filter="mail"))
    async with app.run_test(size=(132, 36)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=2), queue_of("mails", ready=1)]))
        await until(pilot, lambda: app.screen.link == Link(filter="mail"), "the filter is applied")  # type: ignore[attr-defined]
        await press(pilot, "escape", "Y")
        assert app.clipboard == "rsmq-tui"


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (Link("gone"), "there is no queue gone here"),
        (Link("[/red]\x1b]0;x\x07"), "there is no queue [/red]"),
        (Link("orders", server="nowhere"), "the link is for nowhere"),
        (Link(at_ms=AT_MS), "the link is for a moment of a replay"),
    ],
)
async def test_what_a_link_names_may_be_gone(source: ScriptedSource, link: Link, words: str) -> None:
    app = RsmqApp([WatchedServer(source)], link=link)
    async with app.run_test(size=(132, 36), notifications=True) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=2), queue_of("mails", ready=1)]))
        await says(pilot, words)
        assert "\x1b" not in text_of(app)


async def test_the_queue_of_one_of_several_servers() -> None:
    sources = {place: ScriptedSource(place=place) for place in ("prod", "test")}
    servers = [WatchedServer(source, place=place, name=place) for place, source in sources.items()]
    app = RsmqApp(servers, link=Link("orders", server="test"))
    async with app.run_test(size=(132, 36)) as pilot:
        for place, source in sources.items():
            queues = [queue_of("orders", ready=2)._replace(place=place)]
            source.play(replace(poll_of(source, queues), place=place, server=f"redis://{place}:6379/0"))
        await until(pilot, lambda: isinstance(app.screen, QueueScreen), "the queue opens")
        assert isinstance(app.screen, QueueScreen)
        assert app.screen.server.place == "test"
        await press(pilot, "Y")
        assert app.clipboard == "rsmq-tui --profile prod,test --open 'queue/orders?server=test'"


async def test_a_copied_command_names_the_server_that_no_profile_has() -> None:
    sources = {place: ScriptedSource(place=place) for place in ("jobs", "lists")}
    address = "redis://cache.example:6380/2"
    servers = [
        WatchedServer(sources["jobs"], place="jobs", address=address, ns="jobs"),
        WatchedServer(sources["lists"], place="lists", address=address, ns=LIST.ns, lists=("queue:*", "mail")),
    ]
    app = RsmqApp(servers)
    async with app.run_test(size=(132, 36)) as pilot:
        for place, ns in (("jobs", "jobs"), ("lists", LIST.ns)):
            queues = [queue_of("orders", ready=2)._replace(place=place)]
            sources[place].play(replace(poll_of(sources[place], queues), place=place, ns=ns, server=address))
        await says(pilot, "orders")
        await press(pilot, "Y")
        start = f"rsmq-tui -r {address} --ns"
        assert app.clipboard == f"{start} jobs --lists 'queue:*' --lists mail"
        servers[0].switch("mails")
        await press(pilot, "Y")
        assert app.clipboard == f"{start} mails --lists 'queue:*' --lists mail"


async def test_a_copied_command_names_another_namespace_than_that_of_the_profile(source: ScriptedSource) -> None:
    server = WatchedServer(source, name="prod", address="redis://prod:6379/0", ns="rsmq")
    app = RsmqApp([server])
    async with app.run_test(size=(132, 36)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=2)]))
        await press(pilot, "Y")
        assert app.clipboard == "rsmq-tui --profile prod"
        server.switch("jobs")
        await press(pilot, "Y")
        assert app.clipboard == "rsmq-tui --profile prod --ns jobs"
