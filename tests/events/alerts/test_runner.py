"""Sending with retries by a clock of the test's, and the threads that do it."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.events.alerts.channels import ChannelError
from rsmq_tui.events.alerts.message import Affected, AlertMessage, AlertState
from rsmq_tui.events.alerts.runner import GIVE_UP_S, RETRY_MAX_S, UNSENT_MAX, AlertRunner, Outbox
from rsmq_tui.events.alerts.store import AlertStore
from rsmq_tui.monitor import Thresholds, Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.profiles.alerts import Alerts, Channel, Rule, read_condition
from tests.events.alerts.made import message
from tests.events.made import polled, state
from tests.monitor.timing import FakeClock
from tests.waiting import SECONDS_MAX


class Service:
    """What an outbox sends by, and its clock."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.got: list[AlertMessage] = []
        self.tries: list[float] = []
        self.fails = False
        # The queue whose messages are refused.
        self.refuses = ""

    def send(self, one: AlertMessage) -> None:
        self.tries.append(self.now_s)
        if self.fails or any(part.queues[0].queue == self.refuses for part in one.parts or (one,)):
            raise ChannelError("it is ill")
        self.got.append(one)

    def outbox(self) -> Outbox:
        return Outbox(self.send, lambda: self.now_s, lambda: self.now_s)


def test_messages_are_sent_in_order() -> None:
    service = Service()
    outbox = service.outbox()
    assert outbox.turn() is None
    messages = [message(number) for number in range(3)]
    for one in messages:
        outbox.add(one)

    assert outbox.turn() is None
    assert (service.got, outbox.unsent, outbox.problem) == (messages, [], None)


def test_what_fails_is_tried_again_with_growing_waits_until_it_is_too_old() -> None:
    service = Service()
    outbox = service.outbox()
    service.fails = True
    outbox.add(message())
    while (wait_s := outbox.turn()) is not None:
        assert outbox.problem == "it is ill"
        service.now_s += wait_s

    waits = [later - earlier for earlier, later in zip(service.tries, service.tries[1:], strict=False)]
    assert waits[:5] == [5, 10, 20, 40, RETRY_MAX_S]
    assert max(waits) == RETRY_MAX_S
    assert service.tries[-1] - service.tries[0] <= GIVE_UP_S
    assert (outbox.unsent, outbox.lost) == ([], 1)


def test_after_an_outage_one_message_sums_up_the_others() -> None:
    service = Service()
    outbox = service.outbox()
    service.fails = True
    outbox.add(message(0))
    outbox.turn()
    for number in range(1, 8):
        outbox.add(message(number, state=AlertState.RESOLVED if number == 7 else AlertState.FIRING))
    # No attempt before its time.
    assert outbox.turn() == 5
    assert len(service.tries) == 1
    service.fails = False
    service.now_s += 5

    assert outbox.turn() is None
    (one,) = service.got
    assert (outbox.unsent, outbox.problem, outbox.lost) == ([], None, 0)
    assert (one.state, one.title) == ("summary", "rsmq-tui: summary of 8 messages")
    assert one.text.startswith("3 before; stalled: prod rsmq: q3: stalled: 3 messages ready, for 1m 5s; stalled: prod")
    assert one.text.endswith("; resolved: stalled: prod rsmq: q7: over, after 1m 5s")
    assert [part["queues"][0]["queue"] for part in one.as_json()["messages"]] == [f"q{number}" for number in range(8)]
    # From now on each is sent as it is.
    outbox.add(message(9))
    outbox.turn()
    assert service.got[-1] == message(9)


def test_a_summary_of_hostile_names_is_printable_and_short() -> None:
    parts = [message(queues=(Affected("\x1b]0;x\x07\n" + "a" * 500, "stalled", 3, "\x9c" * 500),)) for _ in range(100)]
    summary = AlertMessage.summing_up(parts, 0)

    assert summary.text.isprintable()
    assert len(summary.text) < 1_200


def test_a_message_that_is_refused_for_itself_does_not_hold_back_the_others() -> None:
    service = Service()
    service.refuses = "q0"
    outbox = service.outbox()
    outbox.add(message(0))
    for number in range(1, 5):
        outbox.turn()
        service.now_s += RETRY_MAX_S
        outbox.add(message(number))
    outbox.turn()

    assert [one.queues[0].queue for one in service.got] == ["q1", "q2", "q3", "q4"]
    # What is refused while others are sent is lost after the third time.
    assert (outbox.unsent, outbox.lost, outbox.problem) == ([], 1, None)


def test_a_service_may_fail_for_days() -> None:
    service = Service()
    outbox = service.outbox()
    service.fails = True
    for number in range(1_100):
        outbox.add(message(number))
        outbox.turn()
        service.now_s += RETRY_MAX_S
    service.fails = False
    outbox.turn()
    assert (outbox.unsent, outbox.problem) == ([], None)


def test_beyond_the_bound_the_oldest_are_lost() -> None:
    service = Service()
    outbox = service.outbox()
    service.fails = True
    for number in range(UNSENT_MAX + 20):
        outbox.add(message(number))
        outbox.turn()
    assert (len(outbox.unsent), outbox.lost) == (UNSENT_MAX, 20)
    service.fails = False
    service.now_s += RETRY_MAX_S
    outbox.turn()

    (one,) = service.got
    assert list(one.parts) == [message(number) for number in range(20, UNSENT_MAX + 20)]


def test_a_defect_in_a_channel_is_a_problem_of_it() -> None:
    def send(_: AlertMessage) -> None:
        raise KeyError("\x1b[31m")

    outbox = Outbox(send)
    outbox.add(message())
    outbox.turn()
    assert outbox.problem == "KeyError: '\\x1b[31m'"


def alerts(*channels: Channel, when: str = "trouble", **values: Any) -> Alerts:
    rule = Rule("rule", read_condition(when), channels=tuple(channel.name for channel in channels))
    return Alerts((rule,), {channel.name: channel for channel in channels}, **values)


@contextmanager
def running(given: Alerts, **values: Any) -> Iterator[AlertRunner]:
    runner = AlertRunner(given, **{"write": None, "is_patient": False, **values})
    runner.start()
    try:
        yield runner
    finally:
        runner.close(SECONDS_MAX)


def take(runner: AlertRunner, *names: str, profile: str = "") -> None:
    runner.apply(polled(*(state(name, Verdict.BROKEN) for name in names)), Thresholds(), profile)


def test_messages_go_to_the_channels_of_their_rule() -> None:
    written: list[str] = []
    sent: list[AlertMessage] = []
    with running(alerts(Channel("bell", "bell")), write=written.append, on_message=sent.append) as runner:
        take(runner, "a", "b")

    assert (written, [one.count for one in sent], runner.problems, runner.unsent) == (["\a"], [2], {}, None)


def test_a_channel_that_hangs_stops_nothing() -> None:
    hangs, rung = threading.Event(), threading.Event()

    def write(text: str) -> None:
        if text == "\a":
            rung.set()
        else:
            hangs.wait(SECONDS_MAX)

    given = alerts(Channel("a", "terminal", sequence="osc9"), Channel("b", "bell"))
    runner = AlertRunner(given, write, is_patient=False)
    runner.start()
    try:
        take(runner, "orders")
        assert rung.wait(SECONDS_MAX)
        # It ends, and says what is left.
        runner.close(0.05)
        assert runner.unsent == "not sent: 1 message by a"
    finally:
        hangs.set()


def test_what_is_wrong_is_told_by_what_it_is_wrong_with() -> None:
    def acknowledged(_: object) -> set[str]:
        raise RuntimeError("no")

    with running(alerts(Channel("bell", "bell"), problems=("config.toml:3: …",))) as runner:
        take(runner, "orders")
    assert runner.problems == {"alert 1": "config.toml:3: …", "channel bell": "there is no terminal"}
    assert runner.unsent == "not sent: 1 message by bell"
    with running(alerts(Channel("bell", "bell")), acknowledged=acknowledged) as runner:
        take(runner, "orders")
    assert runner.problems == {"alerts": "a rule was not applied: RuntimeError: no"}


@pytest.mark.parametrize("number", [1, 300])
def test_it_ends_while_nothing_or_much_is_to_be_done(number: int) -> None:
    sent: list[AlertMessage] = []
    with running(alerts(Channel("bell", "bell")), write=lambda text: None, on_message=sent.append) as runner:
        for _ in range(number):
            take(runner, "orders")
    assert len(sent) == 1


def test_what_could_not_be_sent_is_told_by_the_next_run(tmp_path: Path) -> None:
    def run_of(*command: str, name: str) -> tuple[int, str | None]:
        """Run until the queue is told, or until it is certain that it is not."""
        sent: list[AlertMessage] = []
        clock, given = FakeClock(), alerts(Channel("pager", "command", command=command))
        with running(
            given, is_patient=True, on_message=sent.append, store=AlertStore(tmp_path), clock=clock, wall_s=clock
        ) as runner:
            for _ in range(10):
                take(runner, name)
                clock.now_s += 1
        return len(sent), runner.unsent

    assert run_of("false", name="orders") == (1, "not sent: 1 message by pager")
    assert run_of("true", name="orders") == (1, None)
    assert run_of("true", name="orders") == (0, None)


def test_another_program_rings_in_its_own_terminal_and_sends_nothing(tmp_path: Path) -> None:
    got = tmp_path / "got"
    channels = Channel("bell", "bell"), Channel("pager", "command", command=("sh", "-c", f"cat >> {got}"))
    written: list[str] = []
    clock = FakeClock()

    applied = threading.Semaphore(0)

    def acknowledged(_: object) -> set[str]:
        applied.release()
        return set()

    def program() -> AbstractContextManager[AlertRunner]:
        values = {
            "is_patient": True,
            "write": written.append,
            "clock": clock,
            "wall_s": clock,
            "acknowledged": acknowledged,
        }
        return running(alerts(*channels), store=AlertStore(tmp_path), **values)

    with program() as one, program() as two:
        # Both know what was told before anything is: they have applied the rules when they are asked again.
        for runner in (one, two, one, two):
            runner.apply(polled(state("orders")), Thresholds(), "")
        for _ in range(4):
            assert applied.acquire(timeout=SECONDS_MAX)
        for _ in range(10):
            for runner in (one, two):
                take(runner, "orders")
            clock.now_s += 1
    assert written == ["\a", "\a"]
    assert len(got.read_text().splitlines()) == 1


def test_nothing_is_sent_for_what_is_expected() -> None:
    now_s = [1_000.0]
    expected = {"prod": Expected(("rsmq:*-dead",), ((1_000_000, 2_000_000),))}
    sent: list[AlertMessage] = []
    rules = alerts(Channel("bell", "bell"), expected=expected)
    with running(rules, write=lambda text: None, on_message=sent.append, wall_s=lambda: now_s[0]) as runner:
        take(runner, "orders", profile="prod")
        take(runner, "mail-dead", profile="test")
        now_s[0] = 2_000.0
        take(runner, "mail-dead", profile="prod")
        take(runner, "orders", profile="prod")

    assert [(one.profile, one.queues[0].queue) for one in sent] == [("test", "mail-dead"), ("prod", "orders")]
