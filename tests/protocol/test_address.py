"""Addresses: what can be one, and that what is shown holds no secret."""

from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.protocol import Address, Node, Sentinels, Tls, server_label, slot_of, socket_url_of, url_of

NODE = Node("h", 1)
SENTINELS = Sentinels("main", (Node("one", 26379), Node("two", 26380)), user="watch", password=lambda: "hunter2")


@pytest.mark.parametrize(
    ("address", "label"),
    [
        (Address("redis://bob:hunter2@host:7000/2"), "redis://host:7000/2"),
        (Address("redis://host", user="bob", password=lambda: "hunter2"), "redis://host:6379/0"),
        (Address(url_of("::1", 7000, db=3, tls=True), tls=Tls()), "rediss://[::1]:7000/3"),
        (Address(socket_url_of(Path("/run/a b#c/redis.sock"), db=4)), "unix:///run/a%20b%23c/redis.sock db 4"),
        (Address("redis://:hunter2@x/5", sentinels=SENTINELS), "sentinel://one:26379/main/5"),
        (Address("redis://x", cluster=(Node("::1", 7000), NODE), password=lambda: "hunter2"), "cluster://[::1]:7000"),
    ],
)
def test_a_label_names_it_and_neither_it_nor_the_repr_tells_a_secret(address: Address, label: str) -> None:
    assert address.label == label
    assert "hunter2" not in f"{address!r}{address}{label}"


def test_equal_addresses_are_equal_whatever_fetches_their_passwords() -> None:
    assert Address("redis://a", password=lambda: "x") == Address("redis://a", password=lambda: "y")
    assert Address("redis://a") != Address("redis://b")
    assert Address.of("redis://a") == Address("redis://a")
    address = Address("redis://a", user="bob")
    assert Address.of(address) is address


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("http://a", {}, "not a Redis URL"),
        ("redis://a", {"tls": Tls()}, "rediss://"),
        ("unix:///a", {"tls": Tls()}, "rediss://"),
        ("redis://bob@a", {"user": "eve"}, "user is given twice"),
        ("redis://:hunter2@a", {"password": lambda: "x"}, "password is given twice"),
        ("redis://a?password=hunter2", {"password": lambda: "x"}, "password is given twice"),
        ("unix:///a", {"cluster": (NODE,)}, "one server"),
        ("unix:///a", {"sentinels": SENTINELS}, "one server"),
        ("redis://a", {"sentinels": SENTINELS, "cluster": (NODE,)}, "do not monitor clusters"),
        ("redis://a", {"sentinels": Sentinels("main", ())}, "at least one"),
        ("redis://a", {"sentinels": Sentinels("", (NODE,))}, "the service"),
        ("redis://a/1", {"cluster": (NODE,)}, "only database 0"),
        ("redis://a?db=1", {"cluster": (NODE,)}, "only database 0"),
    ],
)
def test_what_cannot_be_one_is_refused_in_words(url: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        Address(url, **more)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "database"),
    [("redis://a", 0), ("redis://a/3", 3), ("redis://a/3?db=4", 4), ("unix:///a/5", 0), ("unix:///a?db=6", 6)],
)
def test_the_database(url: str, database: int) -> None:
    assert Address(url).database == database
    assert str(database) in server_label(url)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("host", Node("host", 9)),
        ("host:7000", Node("host", 7000)),
        ("10.0.0.1:1", Node("10.0.0.1", 1)),
        ("[::1]", Node("::1", 9)),
        ("[::1]:65535", Node("::1", 65535)),
    ],
)
def test_nodes_are_read_and_written(text: str, node: Node) -> None:
    assert Node.parse(text, 9) == node
    assert Node.parse(str(node), 1) == node


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "host:",
        "host:0",
        "host:65536",
        "host:x",
        "a b",
        "bob@host",
        "host/0",
        "::1",
        "[::1",
        "redis://host",
        "a,b",
    ],
)
def test_what_is_no_node_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        Node.parse(text, 9)


@pytest.mark.parametrize("ns", ["rsmq", "", "{}", "a{}b", "{", "}", "}{", "{a", "a}b{c", "{}{a}"])
def test_without_a_hash_tag_there_is_no_one_slot(ns: str) -> None:
    assert slot_of(ns) is None


@pytest.mark.parametrize(
    ("ns", "same"),
    [("{rsmq}", "rsmq"), ("a{rsmq}b", "rsmq"), ("{rsmq}{x}", "rsmq"), ("{{a}", "{a"), ("{jöbs}", "jöbs")],
)
def test_the_slot_is_that_of_what_the_first_braces_hold(ns: str, same: str) -> None:
    from redis.crc import key_slot

    assert slot_of(ns) == key_slot(same.encode())
    assert {key_slot(f"{ns}:{rest}".encode()) for rest in ("QUEUES", "a", "a:Q", "x}y", "{z}")} == {slot_of(ns)}
