"""How the keys of list queues are named, and recognised again."""

import pytest

from rsmq_tui.protocol.lists.naming import ListNames, other_end

RQ = ListNames(queue="rq:queue:{name}", processing="{queue}:intermediate", take_from="left")
BULL = ListNames(queue="bull:{name}:wait", processing="bull:{name}:active", leases="bull:{name}:leases")
BRACED = ListNames(processing="{{queue}}:processing", leases="{{queue}}:leases")


@pytest.mark.parametrize(
    ("names", "key", "processing", "leases"),
    [
        (ListNames(), b"queue:jobs", b"queue:jobs:processing", b"queue:jobs:leases"),
        (RQ, b"rq:queue:jobs", b"rq:queue:jobs:intermediate", b"rq:queue:jobs:leases"),
        (BULL, b"bull:jobs:wait", b"bull:jobs:active", b"bull:jobs:leases"),
        (BRACED, b"queue:jobs", b"{queue:jobs}:processing", b"{queue:jobs}:leases"),
        (ListNames(queue="{name}"), b"jobs", b"jobs:processing", b"jobs:leases"),
    ],
)
def test_keys_of_a_queue_and_whose_they_are(names: ListNames, key: bytes, processing: bytes, leases: bytes) -> None:
    queue = key.decode()
    assert names.key("jobs") == key
    assert (names.processing_key(queue), names.leases_key(queue)) == (processing, leases)
    assert names.owner(processing.decode()) == names.owner(leases.decode()) == queue
    assert names.owner(names.marker(queue, "aZ09").decode()) == queue
    assert names.owner(queue) is None


def test_a_marker_is_in_the_slot_of_the_keys() -> None:
    assert ListNames().marker("queue:{a}", "t0") == b"queue:{a}:rsmq-tui:t0"
    assert BRACED.marker("queue:a", "t0") == b"{queue:a}:rsmq-tui:t0"


def test_a_key_that_is_not_of_the_form_is_its_own_name() -> None:
    assert BULL.processing_key("jobs") == b"bull:jobs:active"
    assert ListNames().processing_key("jobs") == b"jobs:processing"


def test_names_that_are_not_text_keep_their_bytes() -> None:
    name = b"\xff\x00".decode("utf-8", "surrogateescape")
    assert ListNames().key(name) == b"queue:\xff\x00"
    assert ListNames().leases_key(name) == b"\xff\x00:leases"


@pytest.mark.parametrize(
    "key", ["", ":processing", ":leases", ":rsmq-tui:abc", "queue:a:rsmq-tui:", "queue:a:rsmq-tui:a b", "queue:a:other"]
)
def test_what_belongs_to_no_queue(key: str) -> None:
    assert ListNames().owner(key) is None


@pytest.mark.parametrize(
    ("templates", "said"),
    [
        ({"queue": "queue"}, "template of queues must hold {name} exactly once"),
        ({"queue": "{name}{name}"}, "template of queues"),
        ({"queue": "{queue}:{name}"}, "template of queues"),
        ({"processing": "processing"}, "template of processing lists must hold {queue} or {name} exactly once"),
        ({"leases": "{queue}{name}"}, "template of leases"),
        ({"leases": "{queue}:processing"}, "three different keys"),
        ({"processing": "{queue}"}, "three different keys"),
        ({"processing": "queue:{name}"}, "three different keys"),
        ({"take_from": "top"}, "left or the right"),
    ],
)
def test_templates_that_cannot_work_are_refused(templates: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ListNames(**templates)  # type: ignore[arg-type]


def test_the_other_end() -> None:
    assert (other_end("left"), other_end("right")) == ("right", "left")


def test_the_name_is_what_the_star_of_one_pattern_stands_for() -> None:
    bull = ListNames(processing="bull:{name}:active")
    named = bull.for_patterns(["bull:*:wait", "jobs"])
    assert named.processing_key("bull:video:wait") == b"bull:video:active"
    assert named.owner("bull:video:active") == "bull:video:wait"
    assert ListNames().for_patterns([]) == ListNames()
    # Another choice of keys does not change what the name is.
    assert named.for_patterns(["bull:video:wait"]) == named
    for patterns in ([], ["jobs"], ["a:*", "b:*"], ["a:*:*"], ["a:[xy]*"]):
        with pytest.raises(ValueError, match="the part of a key that \\* matches"):
            bull.for_patterns(patterns)
