"""Searches for servers: what is asked of whom, and what is made of odd replies."""

from typing import Any

import pytest
from redis import exceptions
from redis.exceptions import AuthenticationError, ResponseError

from rsmq_tui.protocol import ExplainedError, Node, Sentinels
from rsmq_tui.protocol.connections.topology import (
    ClusterTopology,
    Question,
    Search,
    SentinelTopology,
    answered,
    slot_of,
)

A, B, C = Node("a", 1), Node("b", 2), Node("c", 3)
REFUSED = exceptions.ConnectionError("Error 111 connecting to x. Connection refused.")
SLOT = slot_of("{t}") or 0


def entry(first: int, last: int, *nodes: list[Any]) -> list[Any]:
    return [first, last, *nodes]


def node(host: bytes | None, port: int, *more: Any) -> list[Any]:
    return [host, port, b"id", *more]


def found(search: Search[Any], replies: dict[Node, Any]) -> tuple[Any, list[Node]]:
    """What a search finds where each node answers like this, and whom it asked."""
    asked: list[Node] = []

    def ask(question: Question) -> Any:
        asked.append(question.node)
        reply = replies[question.node]
        return reply[question.command] if isinstance(reply, dict) else reply

    return answered(search, ask), asked


def test_a_cluster_is_asked_until_a_node_knows_and_that_one_first_the_next_time() -> None:
    topology = ClusterTopology([A, B, C], "{t}")
    whole = [entry(0, 16383, node(b"m", 9), node(b"r", 8))]

    assert found(topology.find(), {A: REFUSED, B: [], C: whole}) == (Node("m", 9), [A, B, C])
    assert found(topology.find(), {C: whole}) == (Node("m", 9), [C])


def test_those_that_were_learned_of_are_asked_when_the_named_ones_are_gone() -> None:
    topology = ClusterTopology([A], "{t}")
    found(topology.find(), {A: [entry(0, 16383, node(b"m", 9), node(b"r", 8))]})

    after = [entry(0, 16383, node(b"r", 8))]
    assert found(topology.find(), {A: REFUSED, Node("m", 9): REFUSED, Node("r", 8): after})[0] == Node("r", 8)


def test_what_is_learned_has_an_end() -> None:
    topology = ClusterTopology([A], "{t}")
    for start in range(0, 1000, 100):
        nodes = [node(b"m", 9), *(node(b"r", port + 1) for port in range(start, start + 100))]
        found(topology.find(), {A: [entry(0, 16383, *nodes)]})
    asked = []

    def refuse(question: Question) -> object:
        asked.append(question.node)
        return REFUSED

    with pytest.raises(ExplainedError):
        answered(topology.find(), refuse)

    assert asked[0] == A
    assert len(asked) == 31


def test_the_owner_is_that_of_the_slot() -> None:
    slots = [
        entry(0, SLOT - 1, node(b"before", 1)),
        entry(SLOT, SLOT, node(b"it", 2)),
        entry(SLOT + 1, 16383, node(b"after", 3)),
    ]

    assert found(ClusterTopology([A], "{t}").find(), {A: slots})[0] == Node("it", 2)
    assert found(ClusterTopology([A], None).find(), {A: slots})[0] == A
    masters, _ = found(ClusterTopology([A], None).masters(), {A: slots})
    assert masters == (Node("before", 1), Node("it", 2), Node("after", 3))


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (node(b"host", 7), Node("host", 7)),
        (node(b"", 7), Node("a", 7)),
        (node(None, 7), Node("a", 7)),
        (node(b"?", 7, [b"ip", b"10.0.0.1"]), Node("10.0.0.1", 7)),
        (node(None, 7, [b"ip", b"10.0.0.1"]), Node("10.0.0.1", 7)),
        (node(b"?", 7, [b"hostname"]), Node("a", 7)),
        (node(b"", 7, []), Node("a", 7)),
    ],
)
def test_a_node_that_does_not_say_its_host_is_where_the_asked_one_is(named: list[Any], expected: Node) -> None:
    assert found(ClusterTopology([A], "{t}").find(), {A: [entry(0, 16383, named)]})[0] == expected


@pytest.mark.parametrize(
    "reply",
    [None, b"OK", 5, [], [[]], [None], [[0, 16383]], [[0, 16383, []]], [[b"x", 1, node(b"m", 1)]], [[0, 1, b"m"]]],
    ids=repr,
)
def test_what_no_cluster_would_say_is_no_answer(reply: Any) -> None:
    with pytest.raises(ExplainedError, match="no node serves these keys") as refused:
        found(ClusterTopology([A], "{t}").find(), {A: reply})

    assert refused.value.failure.kind == "clusterdown"


def test_a_user_that_may_not_ask_is_told_what_to_grant() -> None:
    refusal = ResponseError("NOPERM User bob has no permissions to run the 'cluster|slots' command")
    with pytest.raises(ExplainedError, match="permission denied") as refused:
        found(ClusterTopology([A], "{t}").find(), {A: refusal})

    assert refused.value.failure.kind == "noperm"
    assert "+cluster|slots" in refused.value.failure.hint


def test_a_cluster_that_wants_a_password_says_where_to_put_it() -> None:
    with pytest.raises(ExplainedError) as refused:
        found(
            ClusterTopology([A, B], "{t}").find(),
            {A: REFUSED, B: AuthenticationError("NOAUTH Authentication required.")},
        )

    assert refused.value.failure.kind == "noauth"
    assert refused.value.failure.hint.startswith("the cluster requires a password: password_env")


@pytest.mark.parametrize(("ns", "tagged"), [("rsmq", "{rsmq}"), ("a{}b", "{ab}"), ("}{", "{rsmq}")])
def test_without_a_hash_tag_nobody_is_asked(ns: str, tagged: str) -> None:
    with pytest.raises(ExplainedError) as refused:
        found(ClusterTopology([A], ns).find(), {})

    assert refused.value.failure.hint.endswith(f": {tagged}")
    assert slot_of(tagged) is not None


ASK = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
LIST = ("SENTINEL", "MASTERS")


def sentinels(*nodes: Node) -> SentinelTopology:
    return SentinelTopology(Sentinels("main", nodes))


def test_sentinels_are_asked_until_one_knows_and_that_one_first_the_next_time() -> None:
    topology = sentinels(A, B, C)
    knows = {ASK: [b"10.0.0.1", b"6379"]}

    assert found(topology.find(), {A: REFUSED, B: {ASK: None}, C: knows}) == (Node("10.0.0.1", 6379), [A, B, C])
    assert found(topology.find(), {C: knows}) == (Node("10.0.0.1", 6379), [C])


@pytest.mark.parametrize("reply", [None, b"x", [], [b"a"], [b"a", 5], [b"a", b"x"], [b"", b"1"], 7], ids=repr)
@pytest.mark.parametrize(
    ("listed", "hint"),
    [
        ([[b"name", b"other", b"ip", b"x"], [b"ip", b"y", b"name", b"another"]], "known services: another, other"),
        ([], "use the NAME of `sentinel monitor NAME …`"),
        (ResponseError("NOPERM"), "use the NAME of `sentinel monitor NAME …`"),
        ([b"x", None, [b"ip"], [b"name", b"a"]], "known services: a"),
        ([[b"name", b"\x1b[31m\xe2\x80\xaeb\xff"]], "known services: \ufffd[31m\ufffdb\ufffd"),
    ],
)
def test_a_service_that_nobody_knows_is_told_with_those_they_know(reply: Any, listed: Any, hint: str) -> None:
    with pytest.raises(ExplainedError, match="do not know the service main") as refused:
        found(sentinels(A).find(), {A: {ASK: reply, LIST: listed}})

    assert refused.value.failure.hint == hint
