"""Alerts that end with a restart or a failover of the server, and those of the restart itself."""

from rsmq_tui.monitor import Verdict
from rsmq_tui.protocol.server.status import ServerInfo
from tests.events.alerts.watching import GONE, Watched, rule, stalled
from tests.events.made import NOON_MS, state


def info(run_id: str, uptime_s: int, *, s: int) -> ServerInfo:
    return ServerInfo(run_id, uptime_s, "master", 0, at_ms=NOON_MS + s * 1000)


def test_queues_that_a_server_lost_when_it_was_restarted_are_not_well() -> None:
    watched = Watched(rule("trouble"))
    before = info("a", 1_000, s=0)
    queues = [stalled("a"), stalled("b"), stalled("c"), state("new")]
    watched.poll(*queues, s=10, info=before)
    watched.poll(*queues, s=5, info=before, failure=GONE)
    # The last one was created again, and is first watched.
    again = state("c", Verdict.WATCHING, depth=1)
    watched.poll(again, state("new"), s=120, info=info("b", 2, s=15))
    watched.poll(state("c", depth=1), state("new"), s=60, info=info("b", 2, s=15))

    gone, ended = watched.sent[1:]
    assert gone.title == "rsmq-tui: ended: trouble (2 queues gone: the server was restarted)"
    assert gone.text == "redis://shop:6379/0 rsmq: 2 queues: gone (the server was restarted), after 15 s: a, b"
    assert gone.state == "resolved"
    assert {each.reason for each in gone.queues} == {"queue gone (the server was restarted)"}
    assert ended.title == "rsmq-tui: ended: trouble (the server was restarted)"
    assert ended.text == "redis://shop:6379/0 rsmq: c: ended after 2m 15s; the server was restarted meanwhile"
    assert ended.queues[0].reason == "the server was restarted; ok: nothing is wrong"


def test_several_queues_whose_trouble_ended_with_a_restart() -> None:
    watched = Watched(rule("trouble"))
    watched.poll(stalled("a"), stalled("b"), s=10, info=info("a", 1_000, s=0))
    watched.poll(state("a"), state("b"), s=100, info=info("b", 1, s=10))

    (message,) = watched.sent[1:]
    assert message.text == (
        "redis://shop:6379/0 rsmq: 2 queues: trouble ended after 10 s; the server was restarted meanwhile: a, b"
    )


def test_a_restart_that_info_shows_later_is_named() -> None:
    watched = Watched(rule("trouble"))
    watched.poll(stalled("a"), stalled("b"), s=10, info=info("a", 1_000, s=0))
    over = stalled("b", pending_since_ms=NOON_MS + 10_000)
    watched.poll(over, s=9, info=info("a", 1_000, s=0))
    watched.poll(over, s=20, info=info("b", 9, s=19))
    watched.poll(state("b"), s=100, info=info("b", 9, s=19))

    assert [message.title for message in watched.sent[1:]] == [
        "rsmq-tui: ended: trouble (1 queue gone: the server was restarted)",
        "rsmq-tui: ended: trouble (the server was restarted)",
    ]


def test_a_restart_before_or_after_the_end_of_trouble_is_not_its_reason() -> None:
    watched = Watched(rule("trouble"))
    watched.poll(stalled("a"), stalled("b"), s=10, info=info("a", 1_000, s=0))
    watched.poll(stalled("a"), stalled("b"), s=30, info=info("b", 1, s=10))
    watched.poll(state("b"), s=20, info=info("b", 1, s=10))
    watched.poll(state("b"), s=100, info=info("c", 1, s=60))

    assert sorted(message.text for message in watched.sent[1:]) == [
        "redis://shop:6379/0 rsmq: a: queue gone (deleted, or lost with the server), after 40 s",
        "redis://shop:6379/0 rsmq: b: over, after 40 s",
    ]


def test_a_restart_is_told_once_with_what_is_missing_in_all_places() -> None:
    watched = Watched(rule("server restarted", for_ms=600_000, repeat_ms=60_000))
    before, after = info("a", 1_000, s=0), info("b", 2, s=21)
    lists = state("jobs", Verdict.OK, kind="list", depth=10, created_ms=None, totalsent=None)
    kept = state("kept", depth=5, totalsent=20)
    for _ in range(20):
        watched.poll(state("a", depth=1_500), state("b", depth=7), kept, info=before, place="one")
        watched.poll(lists, info=before, place="two", ns="(lists)")
    # The first one is gone, the second was created again, of the third, two messages are missing; the list is empty.
    again = state("b", depth=1, created_ms=NOON_MS)
    for _ in range(200):
        watched.poll(again, kept._replace(depth=3, totalsent=18), info=after, place="one")
        watched.poll(lists._replace(depth=0), info=after, place="two", ns="(lists)")

    (message,) = watched.sent
    assert (message.title, message.state) == ("rsmq-tui: server restarted", "firing")
    assert message.text == (
        "redis://shop:6379/0: the server was restarted, up for 2 s: 2 queues and 1,519 messages are lost, "
        "compared with the poll 2 s before"
    )


def test_a_restart_without_a_loss_and_a_failover_say_so() -> None:
    watched = Watched(rule("server restarted"))
    queues = [state("a", depth=3), stalled("b")]
    watched.poll(*queues, s=10, info=info("a", 1_000, s=0))
    watched.poll(*queues, s=100, info=info("b", 1, s=10))
    watched.poll(*queues, s=100, info=info("c", 5_000, s=110))

    assert [message.text for message in watched.sent] == [
        "redis://shop:6379/0: the server was restarted, up for 1 s: no queue is missing, "
        "compared with the poll 1 s before",
        "redis://shop:6379/0: another server took over, up for 1h 23m",
    ]


def test_another_server_that_took_over_is_named() -> None:
    watched = Watched(rule("trouble"))
    watched.poll(stalled(), s=10, info=info("a", 1_000, s=0))
    watched.poll(s=100, info=info("b", 5_000, s=10))

    assert watched.sent[1].title == "rsmq-tui: ended: trouble (1 queue gone: another server took over)"
