"""Connections: which URLs are taken, how a server is named, and how the clients behave."""

import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.listserver import ListServer
from rsmq_tui.protocol import AsyncRsmq, Rsmq, check_url, connect, connect_async, server_label
from tests.protocol.either import Either
from tests.protocol.keeping import keeps_nothing

LABELS = [
    ("redis://localhost:6379/0", "redis://localhost:6379/0"),
    ("redis://", "redis://localhost:6379/0"),
    ("redis://host", "redis://host:6379/0"),
    ("redis://host/", "redis://host:6379/0"),
    ("redis://host:7000/15", "redis://host:7000/15"),
    ("redis://host?db=3", "redis://host:6379/3"),
    ("redis://host/0?db=3", "redis://host:6379/3"),
    ("redis://[::1]:7000/1", "redis://[::1]:7000/1"),
    ("redis://10.0.0.1", "redis://10.0.0.1:6379/0"),
    ("redis://:hunter2@host", "redis://host:6379/0"),
    ("redis://bob:hunter2@host:7000/2", "redis://host:7000/2"),
    ("redis://bob@host", "redis://host:6379/0"),
    ("redis://host?password=hunter2&username=bob", "redis://host:6379/0"),
    ("redis://host?socket_timeout=3", "redis://host:6379/0"),
    ("rediss://bob:hunter2@host/1?ssl_cert_reqs=none", "rediss://host:6379/1"),
    ("unix:///run/redis.sock", "unix:///run/redis.sock db 0"),
    ("unix:///run/redis.sock?db=3", "unix:///run/redis.sock db 3"),
    ("unix://bob:hunter2@/run/redis.sock?db=3", "unix:///run/redis.sock db 3"),
]


@pytest.mark.parametrize("url", [url for url, _ in LABELS])
def test_a_url_of_a_server_is_returned_as_it_is(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(("url", "label"), LABELS)
def test_a_label_names_the_server_without_user_password_and_options(url: str, label: str) -> None:
    assert server_label(url) == label


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "localhost:6379",
        "//localhost:6379",
        "http://localhost:6379",
        "redis:",
        "redis//localhost",
        "unix://",
        "redis://host:0",
        "redis://host:65536",
        "redis://host:-1",
        "redis://host:port",
        "redis://host:6379/first",
        "redis://host:6379/-1",
        "redis://host:6379/0/1",
        "redis://[::1",
        "redis://host?db=first",
        "redis://host?socket_timeout=long",
        "redis://host?no_such_option=1",
        "unix:///run/redis.sock?db=first",
        "redis://a..b:6379",
        "redis://" + "x" * 64 + ":6379",
    ],
)
def test_anything_else_is_refused_and_told_how_a_url_looks(url: str) -> None:
    for refuse in (check_url, connect, connect_async):
        with pytest.raises(ValueError, match="not a Redis URL"):
            refuse(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hun#ter2@host:6379/0",
        "redis://:hun/ter2@host:6379/0",
        "redis://:hun?ter2@host:6379/0",
        "redis://bob:hun[ter2@host:6379/0",
        "redis://bob:hun]ter2@host:6379/0",
        "redis://bob:hun#ter2@host:6379/0",
        "redis://:1234#hunter2@host",
        "redis://bob:hunter2@host:hunter2",
        "redis://bob:hunter2@host:99999",
        "redis://bob:hunter2@host/hunter2",
        "http://bob:hunter2@host",
        "bob:hunter2@host",
        "redis://bob:hunter2@a..b",
        "redis://bob:hunter2@host?db=hunter2",
    ],
)
def test_a_refusal_and_its_traceback_never_repeat_a_part_of_a_password(url: str) -> None:
    with pytest.raises(ValueError, match="not a Redis URL") as refused:
        check_url(url)

    answer = "".join(traceback.format_exception(refused.value))
    assert not any(part in answer for part in ("hun", "ter2", "1234"))


Use = Callable[[str], Either]


@pytest.fixture(params=["sync", "async"])
async def use(request: pytest.FixtureRequest) -> AsyncIterator[Use]:
    """Makes queues at a URL with the clients of this package; they are closed afterwards."""
    made: list[Any] = []

    def make(url: str) -> Either:
        made.append(connect(url) if request.param == "sync" else connect_async(url))
        return Either(Rsmq(made[-1]) if request.param == "sync" else AsyncRsmq(made[-1]))

    yield make
    for connected in made:
        await (Either(connected).close() if request.param == "sync" else connected.aclose())


async def test_a_unix_socket_works(use: Use, unix_server: EmbeddedServer) -> None:
    queues = use(unix_server.url)

    await queues.create_queue("orders")

    assert await queues.list_queues() == ["orders"]


async def test_the_number_in_the_path_is_the_database(use: Use, client: Redis, redis_url: str) -> None:
    await use(redis_url.removesuffix("/0") + "/3").create_queue("orders")

    assert client.keys() == []
    assert client.info("keyspace").keys() == {"db3"}


async def test_user_and_password_of_any_characters_work_when_they_are_escaped(
    use: Use, client: Redis, redis_url: str
) -> None:
    password = "p@ss/w#rd?[%:é"
    client.acl_setuser("bob", enabled=True, passwords=[f"+{password}"], keys=["*"], commands=["+@all"])

    queues = use(redis_url.replace("redis://", f"redis://bob:{quote(password, safe='')}@"))

    assert await queues.list_queues() == []


async def test_the_server_is_told_who_is_connected(use: Use, client: Redis, redis_url: str) -> None:
    await use(redis_url).list_queues()

    assert any("rsmq-tui" in entry["lib-name"] for entry in client.client_list())


async def test_nothing_is_tried_twice(use: Use, list_server: ListServer) -> None:
    with list_server.fault("drop-before") as fault:
        with pytest.raises(Exception, match=r"(?i)closed|reset|lost"):
            await use(list_server.url).list_queues()

        assert fault.happened == 1


@pytest.mark.parametrize("scheme", ["redis", "unix"])
async def test_an_open_connection_keeps_nothing_of_whoever_used_it(
    scheme: str, redis_url: str, unix_server: EmbeddedServer
) -> None:
    await keeps_nothing(redis_url if scheme == "redis" else unix_server.url)
