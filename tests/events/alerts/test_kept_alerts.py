"""What rules keep across runs of a program, and what two programs share."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.events.alerts.store import KEPT_MS, AlertStore
from rsmq_tui.monitor import Verdict
from tests.events.alerts.watching import GONE, Watched, rule, said, stalled
from tests.events.made import NOON_MS, state


@pytest.fixture
def another_store(tmp_path: Path) -> Iterator[Callable[[], AlertStore]]:
    """Opens the file of reported alerts, as another program does."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(AlertStore(tmp_path)))


def test_two_programs_send_trouble_that_is_not_known_any_more_once(another_store: Callable[[], AlertStore]) -> None:
    one, two = (Watched(rule(), store=another_store()) for _ in range(2))
    for silenced in (set[str](), {"orders"}, set[str]()):
        for watched in (one, two):
            watched.silenced = silenced
        for _ in range(20):
            for watched in (two, one):
                watched.poll(stalled())

    assert said(one.sent) == said(two.sent) == [("firing", 1), ("repeated", 1)]
    assert [news is None for news in (*one.news, *two.news)] == [True, True, False, False]


def restarted(watched: Watched, store: AlertStore, *, after_s: int = 60) -> Watched:
    """Another run with the same rules, whose monotonic clock begins anew."""
    again = Watched(*watched.rules._rules, store=store)
    again.wall_s = watched.wall_s + watched.s + after_s
    return again


def test_a_restart_repeats_nothing_and_tells_what_is_over(another_store: Callable[[], AlertStore]) -> None:
    watched = Watched(rule(), rule("depth > 5"), store=another_store())
    name = "\x1b\udcff"
    watched.poll(stalled("a"), stalled("b"), stalled(name), s=100)
    assert said(watched.sent) == [("firing", 3), ("firing", 3)]

    again = restarted(watched, another_store())
    again.poll(stalled("a"), state("b", Verdict.WATCHING, depth=9), stalled(name), s=200)
    assert again.sent == []
    # One is over, one is gone, and one is over and again in trouble.
    over = again.poll(state("b"), stalled(name), s=100)
    assert [(message.rule, [each.queue for each in message.queues], message.is_gone) for message in over] == [
        ("stalled", ["a"], True), ("stalled", ["b"], False), ("depth > 5", ["a"], True), ("depth > 5", ["b"], False),
    ]  # fmt: skip
    assert {message.lasts_ms for message in over[:2]} == {(100 + 60 + 200) * 1000}
    assert said(over) == [("resolved", 1)] * 4
    again.poll(stalled("b"), stalled(name), s=100)
    assert said(again.sent)[4:] == [("firing", 1), ("firing", 1)]
    # And it is over for good: the next run knows of the others only.
    assert restarted(again, another_store()).poll(stalled("b"), stalled(name), s=200) == []


def test_a_restart_keeps_to_the_time_of_repeats(another_store: Callable[[], AlertStore]) -> None:
    watched = Watched(rule(repeat_ms=600_000), store=another_store())
    watched.poll(stalled(), s=100)
    again = restarted(watched, another_store())
    # Told after 5 s, and 155 s have passed.
    assert again.poll(stalled(), s=445) == []
    (message,) = again.poll(stalled(), s=2)
    assert (message.state, message.lasts_ms) == ("repeated", 605_000)


def test_another_condition_or_a_week_ago_is_told_again(another_store: Callable[[], AlertStore]) -> None:
    watched = Watched(rule("depth > 5", name="pile"), store=another_store())
    watched.poll(stalled(), s=10)
    other = Watched(rule("depth > 6", name="pile"), store=another_store())
    other.wall_s = watched.wall_s + 100
    assert said(other.poll(stalled(), s=10)) == [("firing", 1)]
    late = restarted(watched, another_store(), after_s=KEPT_MS // 1000)
    assert said(late.poll(stalled(), s=10)) == [("firing", 1)]


def test_a_rule_with_another_name_is_the_same(another_store: Callable[[], AlertStore]) -> None:
    rules = [rule(name="one", queues=("a", "b*")), rule(name="two", queues=("b*", "a")), rule(name="three")]
    watched = Watched(*rules, store=another_store())
    watched.poll(stalled("a"), s=10)
    assert said(watched.sent) == [("firing", 1)] * 3
    # The second one is new: its queues are others.
    again = Watched(rule(name="first", queues=("b*", "a")), rule(name="2", queues=("a",)), rule(name="all"),
                    store=another_store())  # fmt: skip
    again.wall_s = watched.wall_s + watched.s + 60
    again.poll(stalled("a"), s=100)
    again.poll(state("a"), s=100)

    reported = [(message.rule, message.state.value) for message in again.sent]
    assert reported == [("2", "firing"), *((name, "resolved") for name in ("first", "2", "all"))]


def test_a_server_that_is_back_after_a_restart(another_store: Callable[[], AlertStore]) -> None:
    watched = Watched(rule("server gone"), store=another_store())
    watched.poll(failure=GONE, s=10)
    again = restarted(watched, another_store())
    (message,) = again.poll(s=100)
    assert message.text == "redis://shop:6379/0: answers again, 1m 10s after it was lost"


def test_receive_counts_that_were_not_looked_at_yet_end_no_alert_of_an_earlier_run(
    another_store: Callable[[], AlertStore],
) -> None:
    watched = Watched(rule("poisoned"), rule("receive count > 5"), store=another_store())
    values: dict[str, Any] = {"depth": 3, "totalrecv": 9}
    watched.poll(state("a", Verdict.POISONED, highest_rc=9, **values), s=10)
    again = restarted(watched, another_store())
    assert again.poll(state("a", **values), s=100) == []
    assert said(again.poll(state("a", looked_all_ms=NOON_MS, **values), s=100)) == [("resolved", 1), ("resolved", 1)]


def test_two_programs_tell_others_once_and_each_its_own_terminal(another_store: Callable[[], AlertStore]) -> None:
    one, two = (Watched(rule(repeat_ms=60_000), store=another_store()) for _ in range(2))
    for second in range(200):
        both = [stalled("a"), stalled("b") if second >= 2 else state("b")]
        for watched in (one, two):
            watched.poll(*both)
    for _ in range(100):
        for watched in (two, one):
            watched.poll(state("a"), stalled("b"))

    assert said(one.sent) == said(two.sent)
    by_state = Counter(news.state.value for news in (*one.news, *two.news) if news is not None)
    assert by_state == Counter(message.state.value for message in one.sent)
    assert {"firing", "repeated", "resolved"} == set(by_state)


def test_two_programs_that_group_differently_send_each_queue_once(another_store: Callable[[], AlertStore]) -> None:
    one, two = (Watched(rule(), store=another_store()) for _ in range(2))
    for watched in (one, two):
        watched.poll(state("a"), state("b"))
    one.poll(stalled("a"), state("b"), s=6)
    two.poll(stalled("a"), stalled("b"), s=6)

    (message,) = two.sent
    (news,) = two.news
    assert message.count == 2
    assert news is not None
    assert [each.queue for each in news.queues] == ["b"]


def test_names_of_queues_that_are_gone_are_not_kept() -> None:
    watched = Watched(rule(queues=("job-*",)))
    for number in range(500):
        watched.poll(*(stalled(f"job-{number + other}") for other in range(10)))
    assert len(watched.rules._wanted["stalled"]) <= 2 * 10 + 10


def test_names_of_silenced_queues_that_are_gone_are_not_kept() -> None:
    watched = Watched(rule())
    watched.silenced = {"a", "b"}
    watched.poll(stalled("a"), state("b"), s=10)
    watched.poll(state("b"), s=100)
    (followed,) = watched.rules._followed.values()
    assert (followed._silenced_ms, *followed.names) == ({},)


def test_an_alert_of_an_earlier_run_ends_if_the_server_is_empty(another_store: Callable[[], AlertStore]) -> None:
    watched = Watched(rule(), store=another_store())
    watched.poll(stalled(), s=10)

    (message,) = restarted(watched, another_store()).poll(s=100)
    assert message.text.startswith("redis://shop:6379/0 rsmq: orders: queue gone (deleted, or lost with the server)")
