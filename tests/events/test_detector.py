"""What the detector tells of two polls, and how often."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rsmq_tui.events.detector import MaintenanceDetector, QueueDetector, ServerDetector, losses_of, lost_words
from rsmq_tui.events.known import local_minute
from rsmq_tui.events.model import Event, ReportedVerdict, Severity
from rsmq_tui.monitor import QueueState, Thresholds, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.protocol import Failure
from rsmq_tui.protocol.server.status import ServerInfo
from tests.events.made import NOON_MS, SERVER, polled, state

STALLED = {"depth": 3, "ready": 3, "totalrecv": 1, "totalsent": 4}


def stalled(name: str = "orders", s: float = 0) -> QueueState:
    since_ms = NOON_MS + round(s * 1000) - 60_000
    return state(name, Verdict.STALLED, since_ms=since_ms, idle_since_ms=since_ms, **STALLED)


def detector(**sent: Verdict) -> QueueDetector:
    logged = {name: ReportedVerdict(verdict, NOON_MS - 600_000) for name, verdict in sent.items()}
    return QueueDetector(SERVER, "rsmq", Thresholds(), logged)


def sent(found: Sequence[Event]) -> list[tuple[str, str | None, str]]:
    return [(event.kind.value, event.queue, event.text) for event in found]


def test_nothing_happens_while_nothing_changes() -> None:
    watching = detector()

    assert watching.observe(polled(state("a"), state("b", depth=4))) == []
    assert watching.observe(polled(state("a"), state("b", depth=4), s=1)) == []
    assert watching.observe(polled(state("a"), state("b", depth=5), s=2)) == []


def test_a_trouble_is_told_at_once_with_its_reason_and_beginning() -> None:
    watching = detector()
    watching.observe(polled(state("orders")))

    (found,) = watching.observe(polled(stalled(s=5), s=5))

    assert (found.at_ms, found.server, found.ns, found.queue) == (NOON_MS + 5_000, SERVER, "rsmq", "orders")
    assert (found.kind, found.severity, found.begin_ms) == ("verdict", "error", NOON_MS - 55_000)
    assert found.text == "stalled: 3 messages ready and none received for 1m 0s"
    assert found.details["before"] == "ok"
    assert found.details["since_ms"] == NOON_MS - 55_000


def test_a_trouble_lasted_as_long_as_its_condition_although_another_one_followed() -> None:
    watching = detector()
    watching.observe(polled(state("orders")))
    watching.observe(polled(stalled(s=5), s=5))
    # Since 55 s before noon; received again at 48 s, and growing until 200 s.
    watching.observe(polled(stalled(s=5)._replace(pending_since_ms=NOON_MS + 48_000), s=77))
    watching.observe(polled(state("orders", Verdict.GROWING, since_ms=NOON_MS, **STALLED), s=78))
    assert watching.observe(polled(state("orders", depth=1), s=200)) == []
    (found,) = watching.observe(polled(state("orders", depth=1), s=230))

    assert found.text == "ok, was stalled for 1m 43s: nothing is wrong"


@pytest.mark.parametrize("verdict", [each for each in Verdict if each not in (Verdict.OK, Verdict.WATCHING)])
def test_each_trouble_is_a_warning_or_an_error(verdict: Verdict) -> None:
    watching = detector()
    watching.observe(polled(state("a")))

    (event,) = watching.observe(polled(state("a", verdict, since_ms=NOON_MS, **STALLED), s=1))

    assert (event.kind.value, event.severity is not Severity.INFO) == ("verdict", True)


def test_what_gets_better_is_told_when_it_lasts_and_with_the_time_when_it_began() -> None:
    watching = detector()
    watching.observe(polled(state("orders")))
    watching.observe(polled(stalled(s=5), s=5))

    assert watching.observe(polled(state("orders", depth=1), s=65)) == []
    assert watching.observe(polled(state("orders", depth=1), s=94)) == []
    (found,) = watching.observe(polled(state("orders", depth=1), s=95))

    assert (found.at_ms, found.text, found.severity) == (
        NOON_MS + 65_000,
        "ok, was stalled for 2m 0s: nothing is wrong",
        "info",
    )
    assert watching.observe(polled(state("orders", depth=1), s=200)) == []


@pytest.mark.parametrize(
    ("verdict", "since_s", "words"),
    # Before the verdict of a stall, its condition has lasted for a minute.
    [
        (Verdict.POISONED, 5, "poisoned for 8 s"),
        (Verdict.STALLED, -55, "stalled for 1m 8s"),
        (Verdict.AGED, None, "aged for 8 s"),
    ],
)
def test_a_trouble_lasted_as_long_as_its_condition(verdict: Verdict, since_s: int | None, words: str) -> None:
    watching = detector()
    since_ms = None if since_s is None else NOON_MS + since_s * 1000
    trouble = state("orders", verdict, since_ms=since_ms, idle_since_ms=since_ms, **STALLED)
    over = trouble._replace(pending_since_ms=NOON_MS + 13_000, pending_until_ms=NOON_MS + 43_000)
    watching.observe(polled(state("orders")))
    watching.observe(polled(trouble, s=5))
    watching.observe(polled(over, s=13))
    watching.observe(polled(state("orders"), s=43))

    (found,) = watching.observe(polled(state("orders"), s=73))
    assert found.text == f"ok, was {words}: empty"


def test_what_gets_worse_is_told_at_once() -> None:
    watching = detector()
    watching.observe(polled(state("orders")))
    watching.observe(polled(stalled(), s=1))

    (found,) = watching.observe(polled(state("orders", Verdict.BROKEN, broken="its keys disagree", depth=None), s=2))

    assert found.text == "broken: its keys disagree"


def test_a_verdict_that_flips_four_times_a_minute_is_told_once_and_as_flapping() -> None:
    watching = detector()
    watching.observe(polled(state("orders")))
    found = []
    for flip in range(40):
        for s in range(15):
            now = 15 * flip + s
            queue = state("orders", depth=4) if flip % 2 else stalled(s=now)
            found += watching.observe(polled(queue, s=now))

    assert [event.kind for event in found] == ["verdict", "flapping"]
    assert found[1].at_ms == NOON_MS + 45_000
    assert (
        found[1].text == "its verdict changes often, ok now: the next one is reported when it has lasted for 10m, "
        "or for 1m 0s if it is broken or stalled or leaking"
    )

    # The last flip, to ok, was at 585 s.
    assert watching.observe(polled(state("orders", depth=4), s=1_184)) == []
    (last,) = watching.observe(polled(state("orders", depth=4), s=1_185))
    assert last.at_ms == NOON_MS + 585_000
    assert last.text == "ok, was stalled for 10m: nothing is wrong (39 changes since it was reported)"


def test_a_flapping_verdict_that_stays_as_it_was_told_is_told_again() -> None:
    watching = detector()
    watching.observe(polled(state("orders")))
    for flip in range(5):
        watching.observe(polled(state("orders") if flip % 2 else stalled(s=flip), s=flip))

    (found,) = watching.observe(polled(stalled(s=64), s=64))
    assert found.text.startswith("stalled: 3 messages ready")
    assert found.text.endswith("(4 changes since it was reported)")


def test_a_small_queue_that_grows_every_few_minutes_is_told_as_flapping() -> None:
    watching = detector()
    watching.observe(polled(state("orders")))
    growing = state("orders", Verdict.GROWING, depth=9, since_ms=NOON_MS)
    found = []
    for minute in range(60):
        found += watching.observe(polled(growing if minute % 4 < 2 else state("orders", depth=4), s=60 * minute))
        found += watching.observe(polled(growing if minute % 4 < 2 else state("orders", depth=4), s=60 * minute + 31))

    assert [event.kind for event in found] == ["verdict", "verdict", "verdict", "flapping"]

    # What is worse than all that it changed between is told at once.
    (worse,) = watching.observe(polled(stalled(s=3_600), s=3_600))
    assert worse.text.startswith("stalled: ")


def test_an_error_that_lasts_is_told_of_a_verdict_that_flaps() -> None:
    watching = detector()
    watching.observe(polled(state("orders")))
    for flip in range(4):
        watching.observe(polled(state("orders") if flip % 2 else stalled(s=60 * flip), s=60 * flip))

    assert watching.observe(polled(stalled(s=240), s=240)) == []
    assert watching.observe(polled(stalled(s=240), s=299)) == []
    (found,) = watching.observe(polled(stalled(s=240), s=300))
    assert found.text.startswith("stalled: ")


def test_watching_is_no_verdict() -> None:
    watching = detector(orders=Verdict.STALLED)

    assert watching.observe(polled(state("orders", Verdict.WATCHING))) == []
    assert watching.observe(polled(stalled(), s=60)) == []


@pytest.mark.parametrize("is_over", [True, False])
def test_whether_a_trouble_is_over_is_not_told_while_that_is_unknown(is_over: bool) -> None:
    watching = detector()
    watching.observe(polled(state("orders")))
    watching.observe(polled(stalled(s=5), s=5))
    watching.observe(polled(state("orders", depth=1), s=65))

    assert watching.observe(polled(state("orders", Verdict.WATCHING, depth=1), s=85)) == []
    assert watching.observe(polled(state("orders", Verdict.WATCHING, depth=1), s=120)) == []
    found = watching.observe(polled(state("orders", depth=1) if is_over else stalled(s=205), s=205))
    assert [event.at_ms for event in found] == ([NOON_MS + 65_000] if is_over else [])
    assert watching.observe(polled(state("orders", depth=1) if is_over else stalled(s=205), s=300)) == []


def test_what_an_earlier_run_told_is_not_told_again_and_its_end_is() -> None:
    watching = detector(orders=Verdict.STALLED, mail=Verdict.GROWING)

    assert watching.observe(polled(stalled(), state("mail"), stalled("new"))) != []
    found = watching.observe(polled(stalled(), state("mail"), stalled("new"), s=30))
    assert sent(found) == [("verdict", "mail", "ok, was growing for 10m: empty")]


@pytest.mark.parametrize("is_longer", [True, False])
def test_what_may_have_grown_before_monitoring_lasted_that_long_or_more(is_longer: bool) -> None:
    watching = detector()
    watching.observe(polled(state("mail")))
    watching.observe(polled(state("mail", Verdict.GROWING, since_ms=NOON_MS, is_since_longer=is_longer), s=600))
    watching.observe(polled(state("mail"), s=610))

    (*_, ended) = watching.observe(polled(state("mail"), s=660))
    assert ended.text == f"ok, was growing for 10m{' or more' if is_longer else ''}: empty"


def test_a_trouble_that_is_there_at_the_first_poll_is_told() -> None:
    (found,) = detector().observe(polled(stalled(), state("mail")))

    assert (found.queue, found.details["verdict"], found.details["first_seen"]) == ("orders", "stalled", True)
    assert "before" not in found.details


@pytest.mark.parametrize("first", [Verdict.STALLED, Verdict.WATCHING])
def test_a_run_that_has_just_begun_does_not_contradict_the_log(first: Verdict) -> None:
    watching = detector(orders=Verdict.LEAKING)
    since = {"since_ms": NOON_MS + 1_000, "idle_since_ms": NOON_MS + 1_000, **STALLED}
    watching.observe(polled(state("orders", first, **since)))

    assert watching.observe(polled(state("orders", Verdict.STALLED, **since), s=60)) == []
    assert watching.observe(polled(state("orders", Verdict.STALLED, **since), s=120)) == []
    # From now on it has seen the change.
    (found,) = watching.observe(polled(state("orders", Verdict.BROKEN, broken="it is odd", depth=3), s=121))
    assert (found.text, found.details["before"]) == ("broken: it is odd", "leaking")


def test_what_began_while_nothing_ran_is_told() -> None:
    # It began after the event of the log, and before this run.
    (found,) = detector(orders=Verdict.GROWING).observe(polled(stalled()))
    assert (found.details["verdict"], found.details["before"]) == ("stalled", "growing")

    assert detector(orders=Verdict.GROWING).observe(polled(stalled(s=-600))) == []


def test_a_queue_that_is_watched_first_and_then_ok_is_no_news() -> None:
    watching = detector()
    watching.observe(polled(state("orders", Verdict.WATCHING)))
    assert [watching.observe(polled(state("orders"), s=s)) for s in (1, 40)] == [[], []]

    (found,) = watching.observe(polled(stalled(), s=60))
    assert found.details["before"] == "ok"


def test_queues_that_come_and_go() -> None:
    watching = detector()
    watching.observe(polled(state("a"), state("b", depth=7)))

    assert sent(watching.observe(polled(state("a"), state("c"), s=1))) == [
        ("deleted", "b", "deleted, with 7 messages at the previous poll"), ("created", "c", "created"),
    ]  # fmt: skip
    assert sent(watching.observe(polled(state("a"), state("c"), state("d", created_ms=None), s=2))) == [
        ("created", "d", "appeared")
    ]
    assert sent(watching.observe(polled(state("a"), state("c"), s=3))) == [
        ("deleted", "d", "gone, with 0 messages at the previous poll")
    ]
    assert sent(watching.observe(polled(state("a"), state("c", created_ms=2), s=4))) == [
        ("created", "c", "deleted, with 0 messages at the previous poll, and created again")
    ]


def test_a_queue_that_was_created_again_has_not_recovered() -> None:
    watching = detector()
    watching.observe(polled(stalled("a"), state("b")))
    watching.observe(polled(stalled("a"), state("b"), s=1))

    again = state("a", Verdict.WATCHING, depth=3, created_ms=2)
    assert sent(watching.observe(polled(again, state("b"), s=40))) == [
        ("created", "a", "deleted, with 3 messages at the previous poll, and created again")
    ]
    ok = again._replace(verdict=Verdict.OK)
    assert [watching.observe(polled(ok, state("b"), s=s)) for s in (50, 100)] == [[], []]
    (found,) = watching.observe(polled(stalled("a")._replace(created_ms=2), state("b"), s=200))
    assert found.text.startswith("stalled: ")


def test_queues_of_a_server_that_lost_its_data_are_one_event() -> None:
    watching = detector()
    queues = [state(name, depth=5) for name in ("a", "b", "c", "d", "e")]
    watching.observe(polled(*queues))
    watching.observe(polled(*queues, failure=LOST, s=1))

    (found,) = watching.observe(polled(*(state(name, created_ms=2) for name in "abcd"), state("e"), s=31))
    assert (found.kind, found.severity, found.queue) == ("created", "warning", None)
    assert found.text == (
        "4 queues deleted, with 20 messages at the previous poll, and created again, as if the server had lost its "
        "data: a, b, c, …"
    )
    assert found.details == {"queues": 4, "names": ["a", "b", "c", "d"]}
    # Where the server was there, somebody did it to each of them.
    assert len(watching.observe(polled(*(state(name, created_ms=3) for name in "ab"), *queues[2:], s=32))) == 4


def test_many_queues_at_once_are_one_event() -> None:
    watching = detector()
    watching.observe(polled(state("a")))
    many = [state(f"q{number:03}") for number in range(200)]

    (found,) = watching.observe(polled(state("a"), *many, s=1))
    assert (found.queue, found.text) == (None, "200 queues created: q000, q001, q002, …")
    assert (found.details["queues"], len(found.details["names"])) == (200, 100)
    (found,) = watching.observe(polled(state("a"), s=2))
    assert found.text == "200 queues deleted, with 0 messages at the previous poll: q000, q001, q002, …"


def test_queues_that_come_and_go_all_the_time_are_one_event_a_minute() -> None:
    watching = detector()
    watching.observe(polled(state("a")))
    found = [
        watching.observe(polled(state("a"), *(state(f"q{10 * s + number:04}") for number in range(10)), s=s))
        for s in range(1, 200)
    ]
    texts = [[event.text for event in each] for each in found]

    # The first 50 are told one by one.
    assert (
        texts[:5]
        == [["created"] * 10] + [["deleted, with 0 messages at the previous poll"] * 10 + ["created"] * 10] * 4
    )
    assert texts[5:7] == [
        ["deleted, with 0 messages at the previous poll"] * 10 + ["10 queues created: q0060, q0061, q0062, …"],
        ["10 queues deleted, with 0 messages at the previous poll: q0060, q0061, q0062, …"],
    ]
    assert [(s, *each) for s, each in enumerate(texts[7:], 8) if each] == [
        (66, "600 queues created within 59 s: q0070, q0071, q0072, …"),
        (67, "600 queues deleted within 59 s, with 0 messages at the previous poll: q0070, q0071, q0072, …"),
        (126, "600 queues created within 59 s: q0670, q0671, q0672, …"),
        (127, "600 queues deleted within 59 s, with 0 messages at the previous poll: q0670, q0671, q0672, …"),
        (186, "600 queues created within 59 s: q1270, q1271, q1272, …"),
        (187, "600 queues deleted within 59 s, with 0 messages at the previous poll: q1270, q1271, q1272, …"),
    ]
    assert all(event.queue is None and event.details["queues"] == 600 for each in found[7:] for event in each)


def test_the_last_of_many_queues_are_told_when_the_minute_is_over_although_nothing_changes() -> None:
    watching = detector()
    watching.observe(polled(state("a")))
    many = [state(f"q{number:03}") for number in range(60)]
    watching.observe(polled(*many, state("a"), s=1))
    late = polled(*many, state("a"), state("z"), s=20)

    assert watching.observe(late) == []
    assert watching.observe(replace(late, at_ms=NOON_MS + 60_000)) == []
    (found,) = watching.observe(replace(late, at_ms=NOON_MS + 61_000))
    assert (found.queue, found.text, found.at_ms) == ("z", "created", NOON_MS + 20_000)


def test_a_new_queue_in_trouble_is_told_and_a_queue_that_is_gone_is_over() -> None:
    watching = detector()
    watching.observe(polled(state("a")))

    assert [event.kind for event in watching.observe(polled(state("a"), stalled("b"), s=1))] == ["verdict", "created"]
    assert [event.kind for event in watching.observe(polled(state("a"), s=2))] == ["deleted"]
    assert [event.kind for event in watching.observe(polled(state("a"), state("b"), s=3))] == ["created"]


def test_a_queue_is_emptied_if_a_message_was_ready_for_a_minute() -> None:
    watching = detector()
    held = [
        state(name, depth=2, oldest_ready_due_ms=NOON_MS - s * 1000) for name, s in (("a", 59), ("b", 60), ("c", 60))
    ]
    watching.observe(polled(*held))
    found = watching.observe(polled(state("a"), state("b"), state("c", depth=9, oldest_ready_due_ms=NOON_MS), s=1))
    assert sent(found) == [("emptied", "b", "empty; it held 2 messages at the previous poll")]

    # Consumers go on with newer messages, until there is none.
    found = watching.observe(polled(state("a"), state("b"), state("c"), s=2))
    assert sent(found) == [("emptied", "c", "empty; it held 9 messages at the previous poll")]
    # It was empty since.
    watching.observe(polled(state("a"), state("b"), state("c", depth=9, oldest_ready_due_ms=NOON_MS + 3_000), s=3))
    assert watching.observe(polled(state("a"), state("b"), state("c"), s=4)) == []


def test_a_queue_that_each_poll_finds_with_a_new_message_is_not_emptied() -> None:
    watching = detector()
    for s in range(300):
        at_ms = NOON_MS + s * 1000
        watching.observe(
            polled(state("timed", depth=1, oldest_ready_due_ms=at_ms), state("list", depth=1, idle_since_ms=at_ms), s=s)
        )

    assert watching.observe(polled(state("timed"), state("list"), s=300)) == []


def test_a_list_without_times_is_emptied_if_its_next_item_was_the_same_for_a_minute() -> None:
    watching = detector()
    still = state("list", kind="list", depth=3, idle_since_ms=NOON_MS)
    for s in range(61):
        watching.observe(polled(still, s=s))

    (found,) = watching.observe(polled(state("list", kind="list"), s=61))
    assert (found.kind, found.details) == ("emptied", {"depth": 3})


def test_attributes() -> None:
    watching = detector()
    watching.observe(polled(state("a", vt_s=30, maxsize=1024)))

    (found,) = watching.observe(polled(state("a", vt_s=60, maxsize=-1), s=1))
    assert (found.kind, found.text) == ("attributes", "vt 30 s to 60 s, maxsize 1,024 to unlimited")
    assert found.details["vt_s"] == {"before": 30, "after": 60}
    # Those of a queue that cannot be read are unknown, and not changed.
    assert watching.observe(polled(state("a", vt_s=None, maxsize=None), s=2)) == []


def test_a_failed_poll_says_nothing_about_queues() -> None:
    watching = detector()
    watching.observe(polled(state("a"), stalled("b")))

    assert watching.observe(polled(failure=Failure("refused", "no connection", "start it"), s=1)) == []
    assert watching.observe(polled(state("a"), stalled("b"), s=2)) == []


class Looked(QueueState):
    """A state that counts how often something of it is read."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        Looked.looks += 1
        return super().__getattribute__(name)


def test_of_10_000_queues_only_those_that_changed_are_looked_at() -> None:
    queues = [Looked(*state(f"q{number:05}")) for number in range(10_000)]
    same, changed = (replace(polled(), at_ms=NOON_MS + s, queues=tuple(queues)) for s in (1, 2))
    changed = replace(changed, queues=(*queues[:-1], Looked(*state("q09999", depth=4))))
    watching = detector()
    watching.observe(replace(polled(), queues=tuple(queues)))

    Looked.looks = 0
    watching.observe(same)
    assert Looked.looks == 0
    watching.observe(changed)
    assert 0 < Looked.looks < 20


LOST = Failure("refused", "connection refused", "start it")


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (LOST, "does not answer: connection refused"),
        (Failure("timeout", "the server does not answer", "check it"), "does not answer"),
        (None, "does not answer"),
    ],
)
def test_why_a_server_is_lost_is_said_once(failure: Failure | None, text: str) -> None:
    assert lost_words(failure) == text


def test_a_server_that_is_lost_and_comes_back() -> None:
    server = ServerDetector(SERVER)
    assert server.observe("", None, 0) == []

    assert sent(server.observe("", LOST, 1_000)) == [("lost", None, "does not answer: connection refused")]
    assert server.observe("", LOST, 2_000) == []
    assert sent(server.observe("", None, 61_000)) == [("back", None, "answers again after 1 s to 1m 1s")]
    assert server.observe("", None, 62_000) == []


def test_an_outage_lasted_from_the_last_answer_at_most_and_between_the_failures_at_least() -> None:
    def back(*failed_ms: int, at_ms: int = 62_000) -> str:
        server = ServerDetector(SERVER)
        server.observe("", None, 0)
        for failed in failed_ms:
            server.observe("", LOST, failed)
        (found,) = server.observe("", None, at_ms)
        return found.text

    assert back(1_000, 32_000) == "answers again after 31 s to 1m 2s"
    assert back(1_000, 61_000) == "answers again after 1m 0s to 1m 2s"
    assert back(32_000) == "answers again after at most 1m 2s"
    assert back(200, 7_270_000, at_ms=7_271_000) == "answers again after 2h 1m to 2h 2m"
    # The first attempt waited for 3 s in vain: the server may have been gone since it answered last.
    assert back(4_000, 17_000, at_ms=20_000) == "answers again after 13 s to 20 s"
    # A bound is rounded so that it stays one.
    assert back(6_200, 11_500, at_ms=11_700) == "answers again after 5 s to 12 s"


def test_an_outage_before_the_first_answer_has_no_known_beginning() -> None:
    def back(*failed_ms: int) -> str:
        server = ServerDetector(SERVER)
        for at_ms in failed_ms:
            server.observe("", LOST, at_ms)
        (found,) = server.observe("", None, 62_000)
        return found.text

    assert back(1_000, 61_000) == "answers again after at least 1m 0s"
    assert back(1_000) == "answers again"


def test_a_server_is_lost_when_all_its_places_are() -> None:
    server = ServerDetector(SERVER)
    for place in ("rsmq", "lists"):
        server.observe(place, None, 0)

    assert server.observe("rsmq", LOST, 1_000) == []
    assert [event.kind for event in server.observe("lists", LOST, 1_000)] == ["lost"]
    assert [event.kind for event in server.observe("rsmq", None, 2_000)] == ["back"]


def test_a_server_that_an_earlier_run_lost_is_back() -> None:
    assert [event.kind for event in ServerDetector(SERVER, was_lost=True).observe("", None, 0)] == ["back"]
    assert ServerDetector(SERVER, was_lost=True).observe("", LOST, 0) == []


def test_a_connection_that_comes_and_goes_is_told_as_flapping() -> None:
    server = ServerDetector(SERVER)
    server.observe("", None, 0)
    found = [event for s in range(1, 60) for event in server.observe("", LOST if s % 2 else None, 1_000 * s)]
    assert [event.kind for event in found] == ["lost", "back", "lost", "flapping"]

    # It was lost at 59 s, and stays so.
    assert server.observe("", LOST, 118_000) == []
    (last,) = server.observe("", LOST, 119_000)
    assert (last.at_ms, last.text) == (
        59_000, "does not answer: connection refused (56 changes since it was reported)",
    )  # fmt: skip
    # It is up again, and was for a second before each failure.
    (back,) = [*server.observe("", None, 121_000), *server.observe("", None, 181_000)]
    assert back.text == "answers again after 1m 0s to 1m 3s"


def test_answers_between_outages_are_no_part_of_an_outage() -> None:
    server = ServerDetector(SERVER)
    failing = {*range(10, 22), *range(63, 91), *range(95, 100)}
    found = [event for s in range(200) for event in server.observe("", LOST if s in failing else None, 1_000 * s)]

    assert [event.text for event in found if event.kind == "back"] == [
        "answers again after 11 s to 13 s", "answers again after 27 s to 29 s", "answers again after 4 s to 6 s",
    ]  # fmt: skip


INFO = ServerInfo("a" * 40, 1_000, "master", 0, at_ms=NOON_MS)


def test_a_restart_and_a_failover_are_told_apart() -> None:
    server = ServerDetector(SERVER)
    assert server.observe_info(INFO) == []
    assert server.run_id == "a" * 40

    (found,) = server.observe_info(ServerInfo("b" * 40, 7, "master", 0, at_ms=NOON_MS + 10_000))
    assert (found.kind, found.text, found.run_id) == ("restarted", "restarted, up for 7 s", "b" * 40)
    (found,) = server.observe_info(ServerInfo("c" * 40, 5_000, "master", 0, at_ms=NOON_MS + 20_000))
    assert (found.kind, found.text) == ("failover", "another server took over, up for 1h 23m")
    (found,) = server.observe_info(ServerInfo("c" * 40, 5_010, "slave", 0, at_ms=NOON_MS + 30_000))
    assert (found.kind, found.text) == ("role", "its role is slave now, was master: failed over")


def test_evictions_are_summed_for_a_minute() -> None:
    server = ServerDetector(SERVER)
    server.observe_info(INFO._replace(evicted_keys=5, at_ms=0))

    (found,) = server.observe_info(INFO._replace(evicted_keys=8, at_ms=10_000))
    assert (found.kind, found.severity) == ("evicted", "error")
    assert found.text == "evicted 3 keys because its memory was full: messages may be lost"
    assert server.observe_info(INFO._replace(evicted_keys=9, at_ms=20_000)) == []
    assert server.observe_info(INFO._replace(evicted_keys=12, at_ms=30_000)) == []
    (found,) = server.observe_info(INFO._replace(evicted_keys=12, at_ms=70_000))
    assert found.details == {"keys": 4, "evicted_keys": 12}
    # CONFIG RESETSTAT sets it back.
    assert server.observe_info(INFO._replace(evicted_keys=0, at_ms=200_000)) == []


def test_settings_are_compared_if_both_are_known() -> None:
    server = ServerDetector(SERVER)
    known = INFO._replace(maxmemory=1 << 30, maxmemory_policy="noeviction")
    for info in (INFO, known, INFO, known):
        assert server.observe_info(info) == []

    (found,) = server.observe_info(known._replace(maxmemory=(1 << 30) + 1))
    assert (found.kind, found.text) == ("config", "maxmemory 1,073,741,824 bytes to 1,073,741,825 bytes")
    # A server that is restarted without its settings.
    restarted, found = server.observe_info(
        ServerInfo("b" * 40, 7, "master", 0, at_ms=NOON_MS + 10_000, maxmemory_policy="noeviction")
    )
    assert (restarted.kind, found.kind) == ("restarted", "config")
    assert found.text == "maxmemory 1.0 GiB to unlimited"


HOUR_MS = 3_600_000


def test_maintenance_begins_and_ends_as_configured() -> None:
    spans = (
        (NOON_MS, NOON_MS + HOUR_MS),
        (NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS),
        (NOON_MS + 5 * HOUR_MS, NOON_MS + 6 * HOUR_MS),
    )
    maintained = MaintenanceDetector(Expected((), spans))

    def found(hours: float) -> list[tuple[int, str]]:
        events = maintained.observe(SERVER, NOON_MS + hours * HOUR_MS)
        assert all((event.kind, event.queue, event.begin_ms) == ("maintenance", None, event.at_ms) for event in events)
        return [((event.at_ms - NOON_MS) // HOUR_MS, event.text) for event in events]

    def until(hours: int) -> str:
        return f"maintenance until {local_minute(NOON_MS + hours * HOUR_MS, zone=True)}: no alerts are sent"

    assert found(-1) == []
    assert found(0.1) == [(0, until(1))]
    assert found(0.9) == []
    # The next one follows at once.
    assert found(1) == [(1, until(2))]
    # This computer slept meanwhile.
    assert found(5.5) == [(2, "maintenance is over"), (5, until(6))]
    assert found(6) == [(6, "maintenance is over")]
    assert found(7) == []


def test_a_longer_maintenance_within_another_is_named() -> None:
    maintained = MaintenanceDetector(Expected((), ((0, 2 * HOUR_MS), (HOUR_MS, 3 * HOUR_MS))))
    times = [[event.at_ms for event in maintained.observe(SERVER, at_ms)] for at_ms in range(0, 4 * HOUR_MS, HOUR_MS)]
    assert times == [[0], [HOUR_MS], [], [3 * HOUR_MS]]


def test_evictions_are_reported_after_the_clock_of_the_server_was_set_back() -> None:
    server = ServerDetector(SERVER)
    server.observe_info(INFO._replace(evicted_keys=5, at_ms=8_000_000))
    server.observe_info(INFO._replace(evicted_keys=8, at_ms=8_010_000))

    (found,) = server.observe_info(INFO._replace(evicted_keys=9, at_ms=1_000_000))
    assert found.details == {"keys": 1, "evicted_keys": 9}


def test_the_end_of_a_trouble_is_told_after_the_clock_of_the_server_was_set_back() -> None:
    watching = detector()
    watching.observe(polled(state("orders"), s=8_000))
    watching.observe(polled(stalled(s=8_001), s=8_001))
    assert watching.observe(polled(state("orders", depth=4), s=8_060)) == []

    (found,) = watching.observe(polled(state("orders", depth=5), s=1_000))
    assert found.text.startswith("ok, was stalled")


@pytest.mark.parametrize("name", ["[red]x[/]", "\x1b[31m\x07", "a\nb", "\udcff\udc80", "\u202eabc"])
def test_names_are_kept_as_they_are(name: str) -> None:
    watching = detector()
    watching.observe(polled(state("a")))

    found = [*watching.observe(polled(state("a"), stalled(name), s=1)), *watching.observe(polled(state("a"), s=2))]
    assert [event.queue for event in found] == [name] * 3


def test_snapshots_of_one_poll_are_compared_by_identity() -> None:
    watching = detector()
    first = polled(stalled())
    watching.observe(first)
    assert watching.observe(first) == []


def restarted_between(
    watching: QueueDetector, before: Sequence[QueueState], after: Sequence[QueueState]
) -> list[Event]:
    """The events of a server that is restarted between the polls of these queues."""
    watching.observe(polled(*before, info=INFO))
    watching.observe(polled(*before, info=INFO, failure=LOST, s=1))
    again = ServerInfo("b" * 40, 2, "master", 0, at_ms=NOON_MS + 5_000)
    found = watching.observe(polled(*after, info=again, s=5))
    assert watching.observe(polled(*after, info=again, s=6)) == []
    return found


def test_queues_that_are_lost_with_a_restart_are_a_warning() -> None:
    queues = [state("a", depth=7), state("b", created_ms=None), state("c", depth=3)]
    found = restarted_between(detector(), queues, [state("c", created_ms=2)])

    assert [(event.kind.value, event.severity.value, event.queue, event.text) for event in found] == [
        ("deleted", "warning", "a", "lost with the restart of the server, with 7 messages at the previous poll"),
        ("deleted", "info", "b", "gone, with 0 messages at the previous poll"),
        (
            "created",
            "warning",
            "c",
            "lost with the restart of the server, with 3 messages at the previous poll, and created again",
        ),
    ]
    found = restarted_between(detector(), [state(f"q{number}", depth=2) for number in range(60)], [])
    assert [event.text for event in found] == [
        "60 queues lost with the restart of the server, with 120 messages at the previous poll: q0, q1, q10, …"
    ]
    # One poll later, somebody deletes a queue.
    watching = detector()
    restarted_between(watching, [state("a", depth=7)], [state("a", depth=7)])
    (event,) = watching.observe(polled(s=7))
    assert event.text == "deleted, with 7 messages at the previous poll"


def test_several_queues_that_a_restart_lost_and_programs_created_again_are_one_event() -> None:
    queues = [state(name, depth=1) for name in "abc"]
    kept = state("a", depth=1)
    (found,) = restarted_between(detector(), queues, [kept, *(state(name, created_ms=2) for name in "bc")])
    assert found.text == (
        "2 queues lost with the restart of the server, with 2 messages at the previous poll, and created again: b, c"
    )


def test_a_queue_that_cannot_be_read_after_a_restart_is_not_known_to_be_lost() -> None:
    before = [state("a", depth=7), state("b", depth=5), state("c", depth=3)]
    after = [state("a", Verdict.BROKEN, created_ms=None, depth=None), state("b", created_ms=2)]
    # Alerts and the log of events say the same of the others.
    assert losses_of(polled(*after).differences(polled(*before).queues)) == (2, 8)
    assert [event.queue for event in restarted_between(detector(), before, after) if "lost" in event.text] == ["c", "b"]


def test_messages_that_are_fewer_since_a_restart_are_a_warning() -> None:
    filled: dict[str, Any] = {"kind": "list", "created_ms": None, "idle_since_ms": NOON_MS - 90_000}
    found = restarted_between(
        detector(),
        [state("counted", depth=9, totalsent=90), state("drained", depth=9, totalsent=90),
         state("emptied", depth=2000, **filled), state("halved", depth=2000, **filled),
         state("taken", depth=2000, **filled)],
        [state("counted", depth=8, totalsent=80), state("drained", depth=1, totalsent=91),
         state("emptied", depth=0, **filled), state("halved", depth=400, **filled),
         state("taken", depth=1900, **filled)],
    )  # fmt: skip

    assert [(event.kind.value, event.severity.value, event.queue, event.text) for event in found] == [
        ("shrunk", "warning", "counted", "1 of 9 messages fewer since the restart of the server"),
        ("shrunk", "warning", "emptied", "2,000 of 2,000 messages fewer since the restart of the server"),
        ("shrunk", "warning", "halved", "1,600 of 2,000 messages fewer since the restart of the server"),
    ]


def test_a_restart_that_info_shows_later_is_no_reason_of_what_polls_see_then() -> None:
    watching = detector()
    for s in range(9):
        watching.observe(polled(state("a", depth=7), info=INFO, s=s))
    (found,) = watching.observe(polled(info=ServerInfo("b" * 40, 9, "master", 0, at_ms=NOON_MS + 12_000), s=12))
    assert found.text == "deleted, with 7 messages at the previous poll"
