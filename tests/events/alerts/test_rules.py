"""When rules alert: on polls made by hand, by a clock that the test holds."""

import random
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import pytest

from rsmq_tui.events.alerts.message import LISTED, Affected, AlertMessage, AlertState
from rsmq_tui.events.alerts.rules import AlertRules
from rsmq_tui.events.detector import QueueDetector, ServerDetector
from rsmq_tui.events.model import EventKind
from rsmq_tui.monitor import Connection, QueueState, Snapshot, Thresholds, Trend, Verdict
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.monitor.tracking.place_tracker import PlaceTracker
from rsmq_tui.profiles.alerts import NUMBERS, Condition, Rule, read_quiet
from rsmq_tui.protocol.server.status import ServerInfo
from tests.events.alerts.watching import EVERY_S, GONE, GROUP_S, Watched, rule, said, stalled
from tests.events.made import NOON_MS, SERVER, state
from tests.monitor.rows import START_MS, Flow


def test_trouble_is_told_once_and_its_end_too() -> None:
    watched = Watched(rule())

    assert watched.poll(stalled(), state("mail"), s=GROUP_S) == []
    (message,) = watched.poll(stalled(), state("mail"), s=300)
    assert (message.state, message.count, message.queues[0].queue) == ("firing", 1, "orders")
    assert message.title == "rsmq-tui: stalled"
    assert message.text.startswith("redis://shop:6379/0 rsmq: orders: stalled: 12 messages ready")
    assert message.text.endswith(" and none received for 5 s")
    (over,) = watched.poll(state("orders"), state("mail"), s=300)
    assert (over.state, over.count) == ("resolved", 1)
    assert over.title == "rsmq-tui: resolved: stalled"
    assert over.text == "redis://shop:6379/0 rsmq: orders: over, after 5m 5s"


def test_a_queue_may_have_been_in_other_trouble_before() -> None:
    watched = Watched(rule("trouble", for_ms=150_000), s=90)
    growing = state("orders", Verdict.GROWING, depth=50, since_ms=NOON_MS)
    watched.poll(growing, s=100)

    (message,) = watched.poll(stalled()._replace(idle_since_ms=NOON_MS + 185_000, since_ms=NOON_MS + 185_000), s=60)
    assert " and none received for 1m 0s" in message.text
    assert message.text.endswith(", in trouble for 4m 5s")


def test_an_alert_lasts_since_the_condition_of_its_verdict_began() -> None:
    watched = Watched(rule("trouble", for_ms=10_000), s=100)

    (message,) = watched.poll(stalled(), s=20)
    assert message.lasts_ms == 115_000
    # Another verdict, while there is trouble all the time.
    growing = state("orders", Verdict.GROWING, depth=50, since_ms=NOON_MS + 90_000)
    watched.poll(growing, s=100)
    (over,) = watched.poll(state("orders"), s=100)
    assert over.text == "redis://shop:6379/0 rsmq: orders: over, after 3m 40s"
    # Of another trouble, the first one is no part.
    (again,) = watched.poll(stalled(pending_since_ms=None)._replace(since_ms=NOON_MS + 300_000), s=100)
    assert again.lasts_ms == 35_000


def test_what_is_over_at_the_moment_is_not_told() -> None:
    watched = Watched(rule("trouble"))
    recovering = stalled(pending_since_ms=NOON_MS, pending_until_ms=NOON_MS + 30_000)

    assert watched.poll(recovering, s=30) == []
    assert watched.poll(state("orders"), s=100) == []
    watched.poll(recovering, s=30)
    (message,) = watched.poll(stalled(), s=30)
    assert message.state == "firing"


def test_a_queue_with_an_empty_name_is_named_as_such() -> None:
    watched = Watched(rule("trouble"))

    (message,) = watched.poll(stalled(""), s=GROUP_S + 1)
    assert message.text.startswith("redis://shop:6379/0 rsmq: (no name): stalled: 12 messages ready")
    watched = Watched(rule("trouble"))
    (message,) = watched.poll(stalled(""), stalled("a"), s=GROUP_S + 1)
    assert message.text.endswith(": (no name) (stalled), a (stalled)")


def test_the_queues_of_one_message_have_their_verdicts() -> None:
    watched = Watched(rule("trouble"))
    poisoned = state("mail", Verdict.POISONED, depth=3, poison=2, highest_rc=7, since_ms=NOON_MS)

    (message,) = watched.poll(stalled(), poisoned, s=GROUP_S + 1)
    assert message.text == ("redis://shop:6379/0 rsmq: 2 queues: trouble, for 5 s: mail (poisoned), orders (stalled)")


def test_an_alert_lasted_until_its_condition_was_over() -> None:
    watched = Watched(rule("trouble"))
    watched.poll(stalled(), s=8)
    watched.poll(stalled(pending_since_ms=NOON_MS + 8_000, pending_until_ms=NOON_MS + 38_000), s=30)

    (over,) = watched.poll(state("orders"), s=300)
    assert over.text == "redis://shop:6379/0 rsmq: orders: over, after 8 s"


def test_a_condition_that_holds_again_before_its_verdict_ends_is_not_over() -> None:
    watched = Watched(rule("trouble"))
    watched.poll(stalled(pending_since_ms=NOON_MS, pending_until_ms=NOON_MS + 30_000), s=10)
    watched.poll(stalled(), s=10)

    (over,) = watched.poll(state("orders"), s=300)
    assert over.lasts_ms == 20_000


def test_the_end_is_not_told_where_that_is_not_wanted() -> None:
    watched = Watched(rule(resolved=False))
    watched.poll(stalled(), s=10)
    watched.poll(state("orders"), s=200)
    watched.poll(stalled(), s=10)

    assert said(watched.sent) == [("firing", 1), ("firing", 1)]


def test_a_thousand_queues_at_once_are_one_message() -> None:
    watched = Watched(rule())
    names = [f"q{number:04}" for number in range(1000)]
    # They do not come with the same poll.
    for part in range(1, 5):
        watched.poll(*[stalled(name) if int(name[1:]) < part * 250 else state(name) for name in names])
    watched.poll(*map(stalled, names), s=120)

    (message,) = watched.sent
    assert (message.count, len(message.queues)) == (1000, LISTED)
    assert message.text == (
        "redis://shop:6379/0 rsmq: 1,000 queues: stalled, for 5 s: q0000, q0001, q0002, q0003, q0004 and 995 more"
    )
    assert len(str(message.as_json())) < 50_000
    (over,) = watched.poll(*map(state, names), s=120)
    assert over.text.startswith("redis://shop:6379/0 rsmq: 1,000 queues: stalled is over, after 2m")


def test_more_queues_of_a_rule_are_told_a_minute_later() -> None:
    watched = Watched(rule())
    watched.poll(stalled("a"), state("b"), state("c"), s=GROUP_S + 1)
    watched.poll(stalled("a"), stalled("b"), state("c"), s=20)
    assert said(watched.sent) == [("firing", 1)]
    watched.poll(stalled("a"), stalled("b"), stalled("c"), s=EVERY_S)

    assert said(watched.sent) == [("firing", 1), ("firing", 2)]


def test_it_has_to_last() -> None:
    watched = Watched(rule("depth > 10", for_ms=120_000))
    deep, shallow = state("orders", depth=11), state("orders", depth=10)
    watched.poll(deep, s=119)
    watched.poll(shallow)
    watched.poll(deep, s=120)
    assert watched.sent == []

    (message,) = watched.poll(deep, s=GROUP_S + 1)
    assert message.text == "redis://shop:6379/0 rsmq: orders: depth 11 (depth > 10), for 2m 5s"


def test_what_flaps_is_told_once() -> None:
    watched = Watched(rule())
    for _ in range(40):
        watched.poll(stalled(), s=8)
        watched.poll(state("orders"), s=7)
    assert said(watched.sent) == [("firing", 1)]

    assert said(watched.poll(state("orders"), s=120)) == [("resolved", 1)]


def test_it_is_repeated_as_long_as_it_lasts() -> None:
    watched = Watched(rule(repeat_ms=600_000))
    watched.poll(stalled(), s=1900)

    assert said(watched.sent) == [("firing", 1), ("repeated", 1), ("repeated", 1), ("repeated", 1)]
    assert watched.sent[1].title == "rsmq-tui: still: stalled"
    assert watched.sent[3].lasts_ms == 1_805_000
    watched.poll(state("orders"), s=1200)
    assert said(watched.sent)[4:] == [("resolved", 1)]


def test_quiet_hours_send_nothing_and_what_still_holds_is_sent_then() -> None:
    watched = Watched(rule(quiet=read_quiet("22:00-06:00 UTC")))
    watched.wall_s = datetime(2031, 5, 17, 21, 50, tzinfo=UTC).timestamp()
    watched.poll(stalled("a"), state("b"), state("c"), s=300)
    assert said(watched.sent) == [("firing", 1)]
    # From now on it is night: a is over, b begins, c begins and is over.
    watched.poll(stalled("a"), state("b"), state("c"), s=400)
    watched.poll(state("a"), stalled("b"), stalled("c"), s=4 * 3600)
    watched.poll(state("a"), stalled("b"), state("c"), s=3 * 3600)
    assert said(watched.sent) == [("firing", 1)]

    found = watched.poll(state("a"), stalled("b"), state("c"), s=3600)
    assert said(found) == [("firing", 1), ("resolved", 1)]
    assert [message.queues[0].queue for message in found] == ["b", "a"]
    moment = datetime.fromtimestamp(found[0].at_ms / 1000, UTC)
    assert (moment.hour, moment.minute, moment.second) == (6, 0, GROUP_S)


def test_a_rule_names_queues_and_profiles() -> None:
    watched = Watched(
        rule(queues=("orders", "mail-*")), rule("trouble", queues=("list:*",)), rule("broken", profiles=("other",))
    )
    queues = [stalled("orders"), stalled("mail-in"), stalled("else"), stalled("work", kind="list")]
    watched.poll(*queues, state("x", Verdict.BROKEN), s=30, profile="prod")

    assert [(message.rule, [each.queue for each in message.queues]) for message in watched.sent] == [
        ("stalled", ["mail-in", "orders"]), ("trouble", ["work"]),
    ]  # fmt: skip
    assert watched.sent[0].profile == "prod"
    watched.poll(state("x", Verdict.BROKEN), s=10, profile="other")
    assert watched.sent[-1].rule == "broken"


def test_a_rule_does_not_match_the_prefix_of_a_kind_and_with_it_all_queues() -> None:
    watched = Watched(rule(queues=("r*",)), rule("trouble", queues=("l*", "list:mail[1]")))
    queues = [stalled("orders"), stalled("reports"), stalled("jobs", kind="list"), stalled("mail[1]", kind="list")]
    watched.poll(*queues, s=30)

    assert [(message.rule, [each.queue for each in message.queues]) for message in watched.sent] == [
        ("stalled", ["reports"]), ("trouble", ["mail[1]"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("when", "below", "above", "words"),
    [
        ("depth > 10", {"depth": 10}, {"depth": 11}, "depth 11 (depth > 10)"),
        ("depth >= 10", {"depth": 9}, {"depth": 10}, "depth 10 (depth >= 10)"),
        ("oldest > 10m", {"oldest_ready_due_ms": NOON_MS - 500_000},
         {"oldest_ready_due_ms": NOON_MS - 700_000}, "oldest 12m (oldest > 10m)"),
        ("receive count > 5", {"highest_rc": 5}, {"highest_rc": 6}, "receive count 6"),
        ("expired leases > 0", {"expired": 0}, {"expired": 1}, "expired leases 1"),
    ],
)  # fmt: skip
def test_the_numbers(when: str, below: dict[str, Any], above: dict[str, Any], words: str) -> None:
    watched = Watched(rule(when))
    watched.poll(state("orders", **below), s=20)
    assert watched.sent == []

    (message,) = watched.poll(state("orders", **above), s=20)
    assert words in message.text


def test_every_number_that_a_rule_may_have_is_checked() -> None:
    # One without a check is an error, and not a rule that never alerts.
    AlertRules([Rule(what, Condition(what, what, 1)) for what in NUMBERS])


def test_a_worse_verdict_does_not_end_an_alert_and_unknown_ends_none() -> None:
    watched = Watched(rule("growing"), rule("depth > 10"))
    growing = state("orders", Verdict.GROWING, depth=11)
    watched.poll(growing, s=10)
    assert len(watched.sent) == 2
    for held in (stalled(), state("orders", Verdict.BROKEN, depth=None), state("orders", Verdict.WATCHING, depth=None)):
        assert watched.poll(held, s=200) == []
    # A failed poll has the old queues, and says nothing of them.
    assert watched.poll(state("orders"), s=200, failure=GONE) == []

    assert said(watched.poll(state("orders"), s=40)) == [("resolved", 1), ("resolved", 1)]


def watching() -> QueueState:
    """A queue of which it is not known yet whether it grows."""
    return state("orders", Verdict.WATCHING, depth=11, pending_since_ms=NOON_MS, pending_until_ms=NOON_MS + 120_000)


def test_an_end_before_an_outage_is_not_sent_while_the_verdict_is_unknown() -> None:
    watched = Watched(rule("trouble"))
    watched.poll(stalled(), s=10)
    watched.poll(state("orders"), s=2)
    watched.poll(stalled(), failure=GONE, s=20)

    assert watched.poll(watching(), s=120) == []
    assert said(watched.poll(state("orders"), s=1 + GROUP_S)) == [("resolved", 1)]


def test_a_condition_before_an_outage_is_not_sent_while_the_verdict_is_unknown() -> None:
    watched = Watched(rule("trouble", for_ms=60_000))
    watched.poll(stalled(), s=50)
    watched.poll(stalled(), failure=GONE, s=20)

    assert watched.poll(watching(), s=120) == []
    assert said(watched.poll(stalled(), s=1 + GROUP_S)) == [("firing", 1)]


def test_what_is_repeated_of_a_queue_that_is_watched_says_so_once() -> None:
    watched = Watched(rule("trouble", repeat_ms=60_000))
    watched.poll(stalled(), s=10)
    (message,) = watched.poll(watching(), s=60)

    assert message.state is AlertState.REPEATED
    assert message.queues[0].reason.startswith("watching: 1m 5s of 2 min, too early to tell")


def test_a_queue_that_is_gone_has_no_trouble() -> None:
    watched = Watched(rule())
    watched.poll(stalled(), s=10)

    (message,) = watched.poll(s=100)
    assert (message.state, message.as_json()["queues"][0]["reason"]) == (
        "resolved", "queue gone (deleted, or lost with the server)",
    )  # fmt: skip


def test_queues_that_changes_of_this_program_have_deleted() -> None:
    asked: list[set[str]] = []

    def deletions(_: Snapshot, queues: Collection[str]) -> dict[str, str]:
        asked.append(set(queues))
        # The journal forgets, and so does not say it of what was asked about before.
        return {} if len(asked) > 1 else {"a": "deleted by change 12", "b": "deleted by change 13"}

    watched = Watched(rule(), deletions=deletions)
    watched.poll(stalled("a"), stalled("b"), stalled("c"), s=20)

    assert asked == []
    watched.poll(state("c"))
    assert asked == [{"a", "b"}]
    watched.poll(state("c"), state("d"))
    over = watched.poll(state("c"), s=100)
    assert {message.title: message.text.removeprefix("redis://shop:6379/0 rsmq: ") for message in over} == {
        "rsmq-tui: ended: stalled (2 queues gone: deleted by rsmq-tui)":
            "2 queues: gone (deleted by rsmq-tui), after 20 s: a, b",
        "rsmq-tui: resolved: stalled": "c: over, after 20 s",
    }  # fmt: skip
    reasons = [each.reason for each in over[0].queues]
    assert reasons == ["queue gone (deleted by change 12)", "queue gone (deleted by change 13)"]


def test_a_queue_that_such_a_change_has_deleted_names_it() -> None:
    watched = Watched(rule(), deletions=lambda _, queues: dict.fromkeys(queues, "deleted by change 12"))
    watched.poll(stalled(), s=20)

    (message,) = watched.poll(s=100)
    assert message.title == "rsmq-tui: ended: stalled (1 queue gone: deleted by rsmq-tui)"
    assert message.text.endswith("rsmq: orders: queue gone (deleted by change 12), after 20 s")


def test_a_queue_that_was_created_again_is_gone_and_not_well() -> None:
    watched = Watched(rule())
    watched.poll(stalled(), s=10)
    watched.poll(state("orders", Verdict.WATCHING, depth=3, created_ms=2), s=10)

    (message,) = watched.poll(state("orders", depth=3, created_ms=2), s=100)
    assert message.title == "rsmq-tui: ended: stalled (1 queue gone)"
    assert message.queues[0].reason == "queue gone (deleted, or lost with the server)"

    watched.poll(stalled(created_ms=2), s=60)
    watched.poll(state("orders", created_ms=2), s=100)
    assert [(each.state, each.is_gone) for each in watched.sent[2:]] == [("firing", False), ("resolved", False)]


def test_a_server_is_gone_when_none_of_its_places_answers() -> None:
    watched = Watched(rule("server gone", for_ms=20_000))
    for _ in range(60):
        watched.poll(failure=GONE, place="one")
        watched.poll(place="two")
    assert watched.sent == []
    for _ in range(60):
        watched.poll(failure=GONE, place="one")
        watched.poll(failure=GONE, place="two")
    (message,) = watched.sent
    assert (message.server, message.ns, message.count) == ("redis://shop:6379/0", "", 0)
    assert message.text == "redis://shop:6379/0: does not answer: connection refused"
    assert message.as_json()["queues"] == []

    watched.poll(place="one", s=100)
    assert watched.sent[1].text == "redis://shop:6379/0: answers again for 35 s now, after 1m 58s to 2m 1s"


def test_a_server_is_gone_although_another_namespace_of_it_answered_before() -> None:
    watched = Watched(rule("server gone", for_ms=20_000))
    watched.poll(s=30, ns="old")
    watched.poll(s=30, ns="new")
    watched.poll(s=60, ns="new", failure=GONE)
    assert said(watched.sent) == [("firing", 0)]


def test_an_alert_and_the_log_of_events_give_an_outage_the_same_length() -> None:
    watched, server = Watched(rule("server gone")), ServerDetector(SERVER)
    logged: list[str] = []
    # Two outages, and one alert: answers between them did not last.
    for seconds, failure in ((10, None), (12, GONE), (41, None), (28, GONE), (100, None)):
        for _ in range(seconds):
            logged += [event.text for event in server.observe("", failure, watched.s * 1000)]
            watched.poll(failure=failure)
    back = [text for text in logged if text.startswith("answers")]

    assert back == ["answers again after 11 s to 13 s", "answers again after 27 s to 29 s"]
    (message,) = watched.sent[1:]
    told = back[1].replace("again", "again for 35 s now,")
    assert message.text == f"{SERVER}: {told} (3 changes since it was reported)"


def test_known_trouble_sends_nothing_until_it_is_not_known_any_more() -> None:
    watched = Watched(rule(repeat_ms=60_000))
    watched.silenced = {"orders"}
    watched.poll(stalled(), stalled("mail"), s=100)
    assert [each.queue for message in watched.sent for each in message.queues] == ["mail", "mail"]

    watched.silenced = set()
    found = watched.poll(stalled(), state("mail"), s=30)
    assert [(message.state.value, message.queues[0].queue) for message in found] == [("firing", "orders")]


def test_trouble_that_was_sent_is_sent_again_when_it_is_not_known_any_more() -> None:
    watched = Watched(rule())
    watched.poll(stalled(), stalled("mail"), s=10)
    watched.silenced = {"orders", "mail"}
    watched.poll(stalled(), state("mail"), s=200)
    assert said(watched.sent) == [("firing", 2), ("resolved", 1)]

    # It is not known to hold for a while.
    watched.silenced = {"else"}
    assert watched.poll(watching(), state("mail"), s=20) == []
    (message,) = watched.poll(stalled(), state("mail"), s=300)
    assert (message.state, [each.queue for each in message.queues]) == (AlertState.REPEATED, ["orders"])


def test_what_is_not_known_any_more_in_quiet_hours_is_sent_when_they_end() -> None:
    watched = Watched(rule(quiet=read_quiet("22:00-06:00 UTC")))
    watched.wall_s = datetime(2031, 5, 17, 21, 59, tzinfo=UTC).timestamp()
    watched.poll(stalled(), s=60)
    watched.silenced = {"orders"}
    watched.poll(stalled(), s=60)
    watched.silenced = set()
    assert watched.poll(stalled(), s=8 * 3600 - 60) == []

    assert said(watched.poll(stalled(), s=60)) == [("repeated", 1)]


def test_at_once_everything_that_is_wrong_is_told() -> None:
    watched = Watched(rule("depth > 10", for_ms=600_000), rule("aged"), is_patient=False)

    (message,) = watched.poll(state("a", depth=11), state("b", depth=12))
    assert (message.count, message.text) == (2, "redis://shop:6379/0 rsmq: 2 queues: depth > 10: a, b")


def test_hostile_names_are_escaped_in_texts_and_whole_in_json() -> None:
    watched = Watched(rule())
    name = "\x1b]0;x\x07\n\udcff\u202e[red]" + "a" * 500
    (message,) = watched.poll(stalled(name), s=10)

    assert message.text.isprintable()
    assert len(message.text) <= 500
    assert "for 5 s" in message.text
    assert message.as_json()["queues"][0]["queue"] == name


def test_lists_are_named_as_commands_name_them() -> None:
    affected = Affected("queue:mail", "stalled", 3, "stalled: …")
    message = AlertMessage("stalled", AlertState.FIRING, "stalled", 0, "", "redis://h", "(lists)", (affected,), 1)

    assert message.as_json()["queues"][0]["queue"] == "list:queue:mail"


def limited(name: str = "orders", *, soonest_s: int, latest_s: int | None = None, limit: str = "depth") -> QueueState:
    latest_ms = None if latest_s is None else NOON_MS + latest_s * 1000
    return state(name, depth=5, limit=Limit(limit, NOON_MS + soonest_s * 1000, latest_ms))


def watched_since(s: int) -> Trend:
    """The trend of polls that began so many seconds after noon."""
    trend = Trend()
    trend.times_ms.append(NOON_MS + s * 1000)
    return trend


def test_a_limit_that_is_near() -> None:
    watched, trend = Watched(rule("full in < 10m")), watched_since(-1_000)
    queues = [limited(soonest_s=700, latest_s=900), limited("later", soonest_s=10_000), state("none", depth=5)]
    # The state does not change: the time that is left does.
    watched.poll(*queues, s=100, trend=trend)
    assert watched.sent == []
    (message,) = watched.poll(*queues, s=20, trend=trend)
    assert watched.s == 100 + 20
    assert message.queues == (
        Affected("orders", "ok", 5, "depth 9m 54s–13m (full in < 10m)"),
    )  # fmt: skip
    watched.poll(limited(soonest_s=60, limit="memory"), *queues[1:], s=300, trend=trend)
    assert len(watched.sent) == 1

    (over,) = watched.poll(state("orders", depth=5), *queues[1:], s=100, trend=trend)
    assert (over.state, over.queues[0].queue) == ("resolved", "orders")


def test_a_limit_that_is_reached_and_its_bound() -> None:
    below, at_most = Watched(rule("full in < 10m")), Watched(rule("full in <= 10m"))
    for watched in (below, at_most):
        watched.poll(limited(soonest_s=600), limited("full", soonest_s=-5, latest_s=-5))
    found = [[sorted(each.names) for each in watched.rules._followed.values()] for watched in (below, at_most)]
    assert found == [[["full"]], [["full", "orders"]]]


def test_a_limit_of_the_age_that_is_reached_is_not_over() -> None:
    watched, trend = Watched(rule("full in < 10m")), watched_since(-1_000)
    due: dict[str, Any] = {"depth": 5, "oldest_ready_due_ms": NOON_MS - 590_000}
    watched.poll(state("orders", limit=Limit("age", NOON_MS + 10_000, None), **due), s=10, trend=trend)
    watched.poll(stalled(oldest_ready_due_ms=NOON_MS - 590_000), s=100, trend=trend)
    assert said(watched.sent) == [("firing", 1)]

    assert said(watched.poll(state("orders"), s=60, trend=trend)) == [("resolved", 1)]


def test_an_unknown_limit_neither_begins_nor_ends_an_alert() -> None:
    watched = Watched(rule("full in < 10m"), rule("memory full in < 10m"))
    info = ServerInfo("a", 1, "master", 0, 900, 1_000)
    memory = Limit("memory", NOON_MS + 500_000, None)
    watched.poll(limited(soonest_s=500), s=10, trend=watched_since(-1_000), info=info, memory_limit=memory)
    assert [(message.rule, message.count) for message in watched.sent] == [
        ("full in < 10m", 1), ("memory full in < 10m", 0),
    ]  # fmt: skip
    assert watched.sent[1].text == "redis://shop:6379/0: memory ≥ 8m 15s (memory full in < 10m)"
    # After an outage nothing is known for minutes, and then that nothing is filling.
    trend = watched_since(-1_000)
    trend.gaps_ms.append(NOON_MS + 10_000)
    assert watched.poll(state("orders", depth=5), s=200, trend=trend, info=info) == []
    found = watched.poll(state("orders", depth=5), s=100, trend=trend, info=info)
    assert [(message.state.value, message.rule) for message in found] == [
        ("resolved", "full in < 10m"), ("resolved", "memory full in < 10m"),
    ]  # fmt: skip
    assert found[1].text.startswith("redis://shop:6379/0: its memory is no longer filling up, after ")


def test_what_passes_is_found_without_looking_at_all_queues() -> None:
    """The check of all queues and that of what changed find the same, by chance."""
    chance = random.Random(5)
    names = [f"q{number}" for number in range(30)]
    quick, slow = Watched(rule("oldest > 20s")), Watched(rule("oldest > 20s"))
    queues = [state(name) for name in names]
    for second in range(300):
        for _ in range(chance.randrange(3)):
            at = chance.randrange(30)
            due_ms = chance.choice((None, NOON_MS + (second - chance.randrange(60)) * 1000))
            queues[at] = state(names[at], depth=3, oldest_ready_due_ms=due_ms)
        quick.poll(*queues)
        # Other objects each time: all of them have changed.
        slow.poll(*(queue._replace(totalsent=second) for queue in queues))
        followed, expected = (set(each.names) for watched in (quick, slow) for each in watched.rules._followed.values())
        assert followed == expected
    assert said(quick.sent) == said(slow.sent) != []


def test_of_10_000_queues_one_that_changes_is_told_and_one_that_does_not_when_it_is_time() -> None:
    """The tracker says which states it replaced: events and alerts look at these, and time passes for the others."""
    names = [f"q{number:05}" for number in range(10_000)]
    rows = [Flow(sent=5, hidden=5).row() for _ in names]
    rows[7] = Flow(sent=1).row()
    tracker, thresholds = PlaceTracker(Thresholds()), Thresholds()
    events = QueueDetector(SERVER, "rsmq", thresholds)
    rules = AlertRules([rule("depth > 10"), rule("oldest > 40s", for_ms=5_000)])
    happened, reported = [], []
    replaced: list[int] = []
    for second in range(55):
        at_ms = START_MS + second * 1000
        if second == 30:
            rows[5000] = Flow(sent=20, hidden=20).row(vt=b"60")
        tracker.begin(at_ms, names)
        tracker.add_rows(range(len(names)), rows)
        snapshot = Snapshot(
            at_ms,
            SERVER,
            "rsmq",
            tracker.finish()[0],
            connection=Connection(fresh_at_s=1.0),
            changes=tracker.changes,
        )
        if second >= 30:
            assert snapshot.changes is not None
            replaced += snapshot.changes.indexes
        happened += [(second, event.queue, event.kind) for event in events.observe(snapshot)]
        tellings = rules.apply(snapshot, thresholds, profile="", now_ms=at_ms, wall_s=at_ms / 1000)
        reported += [(second, message.rule, [queue.queue for queue in message.queues]) for message, _ in tellings]
    # Its rates change for a while.
    assert set(replaced) == {5000}
    assert happened == [(30, "q05000", EventKind.ATTRIBUTES)]
    assert reported == [
        (30 + GROUP_S, "depth > 10", ["q05000"]), (46 + GROUP_S, "oldest > 40s", ["q00007"]),
    ]  # fmt: skip
