"""When rules alert: on polls made by hand, by a clock that the test holds."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rsmq_tui.alerts.message import LISTED, Affected, Message, State
from rsmq_tui.alerts.rules import EVERY_MS, GROUP_MS, AlertRules
from rsmq_tui.monitor import QueueState, Thresholds, Verdict
from rsmq_tui.profiles.alerts import Rule, read_condition, read_quiet
from rsmq_tui.protocol import Failure
from tests.events.made import NOON_MS, polled, state

_GROUP_S, _EVERY_S = GROUP_MS // 1000, EVERY_MS // 1000
_GONE = Failure("refused", "connection refused", "start it")


def rule(when: str = "stalled", **values: Any) -> Rule:
    return Rule(**{"name": when, "when": read_condition(when), "channels": ("bell",), **values})


class Watched:
    """Rules, and the polls of one place second by second."""

    def __init__(self, *rules: Rule, **values: Any) -> None:
        self.rules = AlertRules(rules, **values)
        self.s = 0
        self.told: list[Message] = []
        self.muted: set[str] = set()
        self.wall_s = 0.0

    def poll(
        self, *queues: QueueState, s: int = 1, failure: Failure | None = None, profile: str = "", **values: Any
    ) -> list[Message]:
        """Poll once a second for so long, and return the messages."""
        found: list[Message] = []
        for _ in range(s):
            snapshot = polled(*queues, s=self.s, failure=failure, **values)
            found += self.rules.take(
                snapshot, Thresholds(), profile=profile, now_ms=self.s * 1000, wall_s=self.wall_s + self.s,
                muted=self.muted,
            )  # fmt: skip
            self.s += 1
        self.told += found
        return found


def stalled(name: str = "orders", **values: Any) -> QueueState:
    return state(name, Verdict.STALLED, depth=12, ready=12, since_ms=NOON_MS, idle_since_ms=NOON_MS, **values)


def said(messages: list[Message]) -> list[tuple[str, int]]:
    return [(message.state.value, message.count) for message in messages]


def test_trouble_is_told_once_and_its_end_too() -> None:
    watched = Watched(rule())

    assert watched.poll(stalled(), state("mail"), s=_GROUP_S) == []
    (message,) = watched.poll(stalled(), state("mail"), s=300)
    assert (message.state, message.count, message.queues[0].queue) == ("firing", 1, "orders")
    assert message.title == "rsmq-tui: stalled"
    assert message.text.startswith("redis://shop:6379/0 rsmq: orders: stalled: 12 messages ready")
    assert message.text.endswith(", for 5 s")
    (over,) = watched.poll(state("orders"), state("mail"), s=300)
    assert (over.state, over.count) == ("resolved", 1)
    assert over.title == "rsmq-tui: resolved: stalled"
    assert over.text == "redis://shop:6379/0 rsmq: orders: over, after 5m 5s"


def test_the_end_is_not_told_where_that_is_not_wanted() -> None:
    watched = Watched(rule(resolved=False))
    watched.poll(stalled(), s=10)
    watched.poll(state("orders"), s=200)
    watched.poll(stalled(), s=10)

    assert said(watched.told) == [("firing", 1), ("firing", 1)]


def test_a_thousand_queues_at_once_are_one_message() -> None:
    watched = Watched(rule())
    names = [f"q{number:04}" for number in range(1000)]
    # They do not come with the same poll.
    for part in range(1, 5):
        watched.poll(*[stalled(name) if int(name[1:]) < part * 250 else state(name) for name in names])
    watched.poll(*map(stalled, names), s=120)

    (message,) = watched.told
    assert (message.count, len(message.queues)) == (1000, LISTED)
    assert message.text == (
        "redis://shop:6379/0 rsmq: 1,000 queues: stalled, for 5 s: q0000, q0001, q0002, q0003, q0004 and 995 more"
    )
    assert len(str(message.as_json())) < 50_000
    (over,) = watched.poll(*map(state, names), s=120)
    assert over.text.startswith("redis://shop:6379/0 rsmq: 1,000 queues: stalled is over, after 2m")


def test_more_queues_of_a_rule_are_told_a_minute_later() -> None:
    watched = Watched(rule())
    watched.poll(stalled("a"), state("b"), state("c"), s=_GROUP_S + 1)
    watched.poll(stalled("a"), stalled("b"), state("c"), s=20)
    assert said(watched.told) == [("firing", 1)]
    watched.poll(stalled("a"), stalled("b"), stalled("c"), s=_EVERY_S)

    assert said(watched.told) == [("firing", 1), ("firing", 2)]


def test_it_has_to_last() -> None:
    watched = Watched(rule("depth > 10", for_ms=120_000))
    deep, shallow = state("orders", depth=11), state("orders", depth=10)
    watched.poll(deep, s=119)
    watched.poll(shallow)
    watched.poll(deep, s=120)
    assert watched.told == []

    (message,) = watched.poll(deep, s=_GROUP_S + 1)
    assert message.text == "redis://shop:6379/0 rsmq: orders: depth 11 (depth > 10), for 2m 5s"


def test_what_flaps_is_told_once() -> None:
    watched = Watched(rule())
    for _ in range(40):
        watched.poll(stalled(), s=8)
        watched.poll(state("orders"), s=7)
    assert said(watched.told) == [("firing", 1)]

    assert said(watched.poll(state("orders"), s=120)) == [("resolved", 1)]


def test_it_is_repeated_as_long_as_it_lasts() -> None:
    watched = Watched(rule(repeat_ms=600_000))
    watched.poll(stalled(), s=1900)

    assert said(watched.told) == [("firing", 1), ("repeated", 1), ("repeated", 1), ("repeated", 1)]
    assert watched.told[1].title == "rsmq-tui: still: stalled"
    assert watched.told[3].lasts_ms == 1_805_000
    watched.poll(state("orders"), s=1200)
    assert said(watched.told)[4:] == [("resolved", 1)]


def test_quiet_hours_send_nothing_and_what_still_holds_is_sent_then() -> None:
    watched = Watched(rule(quiet=read_quiet("22:00-06:00 UTC")))
    watched.wall_s = datetime(2031, 5, 17, 21, 50, tzinfo=UTC).timestamp()
    watched.poll(stalled("a"), state("b"), state("c"), s=300)
    assert said(watched.told) == [("firing", 1)]
    # From now on it is night: a is over, b begins, c begins and is over.
    watched.poll(stalled("a"), state("b"), state("c"), s=400)
    watched.poll(state("a"), stalled("b"), stalled("c"), s=4 * 3600)
    watched.poll(state("a"), stalled("b"), state("c"), s=3 * 3600)
    assert said(watched.told) == [("firing", 1)]

    found = watched.poll(state("a"), stalled("b"), state("c"), s=3600)
    assert said(found) == [("firing", 1), ("resolved", 1)]
    assert [message.queues[0].queue for message in found] == ["b", "a"]
    moment = datetime.fromtimestamp(found[0].at_ms / 1000, UTC)
    assert (moment.hour, moment.minute, moment.second) == (6, 0, _GROUP_S)


def test_a_rule_names_queues_and_profiles() -> None:
    watched = Watched(
        rule(queues=("orders", "mail-*")), rule("trouble", queues=("list:*",)), rule("broken", profiles=("other",))
    )
    queues = [stalled("orders"), stalled("mail-in"), stalled("else"), stalled("work", kind="list")]
    watched.poll(*queues, state("x", Verdict.BROKEN), s=30, profile="prod")

    assert [(message.rule, [each.queue for each in message.queues]) for message in watched.told] == [
        ("stalled", ["mail-in", "orders"]), ("trouble", ["work"]),
    ]  # fmt: skip
    assert watched.told[0].profile == "prod"
    watched.poll(state("x", Verdict.BROKEN), s=10, profile="other")
    assert watched.told[-1].rule == "broken"


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
    assert watched.told == []

    (message,) = watched.poll(state("orders", **above), s=20)
    assert words in message.text


def test_a_worse_verdict_does_not_end_an_alert_and_unknown_ends_none() -> None:
    watched = Watched(rule("growing"), rule("depth > 10"))
    growing = state("orders", Verdict.GROWING, depth=11)
    watched.poll(growing, s=10)
    assert len(watched.told) == 2
    for held in (stalled(), state("orders", Verdict.BROKEN, depth=None), state("orders", Verdict.WATCHING, depth=None)):
        assert watched.poll(held, s=200) == []
    # A failed poll has the old queues, and says nothing of them.
    assert watched.poll(state("orders"), s=200, failure=_GONE) == []

    assert said(watched.poll(state("orders"), s=40)) == [("resolved", 1), ("resolved", 1)]


def test_a_queue_that_is_gone_has_no_trouble() -> None:
    watched = Watched(rule())
    watched.poll(stalled(), s=10)

    (message,) = watched.poll(s=100)
    assert (message.state, message.as_json()["queues"][0]["reason"]) == ("resolved", "gone")


def test_a_server_is_gone_when_none_of_its_places_answers() -> None:
    watched = Watched(rule("server gone", for_ms=20_000))
    for _ in range(60):
        watched.poll(failure=_GONE, place="one")
        watched.poll(place="two")
    assert watched.told == []
    for _ in range(60):
        watched.poll(failure=_GONE, place="one")
        watched.poll(failure=_GONE, place="two")
    (message,) = watched.told
    assert (message.server, message.ns, message.count) == ("redis://shop:6379/0", "", 0)
    assert message.text == "redis://shop:6379/0: does not answer: connection refused"
    assert message.as_json()["queues"] == []

    watched.poll(place="one", s=100)
    assert watched.told[1].text.startswith("redis://shop:6379/0: answers again after 1m 59s")


def test_known_trouble_sends_nothing_until_it_is_not_known_any_more() -> None:
    watched = Watched(rule(repeat_ms=60_000))
    watched.muted = {"orders"}
    watched.poll(stalled(), stalled("mail"), s=100)
    assert [each.queue for message in watched.told for each in message.queues] == ["mail", "mail"]

    watched.muted = set()
    found = watched.poll(stalled(), state("mail"), s=30)
    assert [(message.state.value, message.queues[0].queue) for message in found] == [("firing", "orders")]


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
    message = Message("stalled", State.FIRING, "stalled", 0, "", "redis://h", "(lists)", (affected,), 1)

    assert message.as_json()["queues"][0]["queue"] == "list:queue:mail"
