"""Applies the rules of a dashboard or of `rsmq-tui watch`, and sends their messages, in threads of its own.

Each channel has a queue and a thread of its own, so that one that hangs delays no other. A message that cannot be sent
is retried, with growing waits, until it is ``GIVE_UP_S`` old; waiting messages are sent as one.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from rsmq_tui.events.alerts.channels import ChannelError, Send, Write, sender
from rsmq_tui.events.alerts.message import AlertMessage
from rsmq_tui.events.alerts.rules import AlertRules, Deletions, unknown_deletions
from rsmq_tui.events.alerts.store import AlertStore
from rsmq_tui.monitor import Snapshot, Thresholds
from rsmq_tui.monitor.poller import retry_delay_s
from rsmq_tui.monitor.text import SENTENCE_MAX, plural, printable
from rsmq_tui.profiles.alerts import BELL, TERMINAL, Alerts

UNSENT_MAX = 100
RETRY_FIRST_S, RETRY_MAX_S, GIVE_UP_S = 5.0, 60.0, 3_600.0
# A message that is refused this often while newer ones are sent is dropped.
REFUSED_MAX = 3
_WAITING_MAX = 256
# The maximum of names for which it is cached whether their trouble is expected.
_NAMES_MAX = 200_000
_END_S = 5.0


class _Unsent(NamedTuple):
    message: AlertMessage
    since_s: float


class Outbox:
    """The messages of one channel that are not sent yet; beyond ``UNSENT_MAX``, the oldest are dropped.

    After a failure the next attempt waits, and sends all messages that have arrived until then as one. If that fails
    too, the newest one is tried alone: a message that the service refuses does not block the others. ``problem`` is why
    the last attempt failed, None after one that succeeded. ``wall_s`` is the local clock.
    """

    def __init__(
        self,
        send: Send,
        clock: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.problem: str | None = None
        self.lost = 0
        self._send = send
        self._clock = clock
        self._wall_s = wall_s
        self._unsent: list[_Unsent] = []
        self._failures = self._refusals = 0
        self._next_s = 0.0
        self._lock = threading.Lock()

    @property
    def unsent(self) -> list[AlertMessage]:
        """The messages that wait."""
        with self._lock:
            return [each.message for each in self._unsent]

    def add(self, message: AlertMessage) -> None:
        """Take a message, to be sent by ``turn``."""
        with self._lock:
            self._unsent.append(_Unsent(message, self._clock()))
        self._lose(lambda waiting: waiting[:-UNSENT_MAX])

    def turn(self) -> float | None:
        """Send what is due, and return the seconds until the next attempt; None if nothing is left."""
        while True:
            with self._lock:
                waiting = list(self._unsent)
            if not waiting:
                return None
            if self._failures and (wait_s := self._next_s - self._clock()) > 0:
                return wait_s
            self._attempt(waiting)

    def _attempt(self, waiting: Sequence[_Unsent]) -> None:
        self.problem = self._try(waiting if self._failures else waiting[:1])
        if self.problem is None:
            self._failures = self._refusals = 0
            return
        self._failures += 1
        if len(waiting) > 1 and self._try(waiting[-1:]) is None:
            self._refusals += 1
        if self._refusals >= REFUSED_MAX:
            self._lose(lambda left: [each for each in left if each in waiting])
            self._failures = self._refusals = 0
        self._next_s = self._clock() + retry_delay_s(self._failures, RETRY_FIRST_S, RETRY_MAX_S)
        self._lose(lambda left: [each for each in left if self._next_s - each.since_s > GIVE_UP_S])

    def _try(self, group: Sequence[_Unsent]) -> str | None:
        """Send one message, or several as one, and return why that failed; None if it did not."""
        messages = [each.message for each in group]
        one = messages[0] if len(messages) == 1 else AlertMessage.summing_up(messages, round(self._wall_s() * 1000))
        try:
            self._send(one)
        except Exception as error:
            words = str(error) if isinstance(error, ChannelError) else f"{type(error).__name__}: {error}"
            return printable(words, SENTENCE_MAX)
        self._remove(group)
        return None

    def _lose(self, chosen: Callable[[Sequence[_Unsent]], Sequence[_Unsent]]) -> None:
        with self._lock:
            gone = chosen(self._unsent)
        self.lost += self._remove(gone)

    def _remove(self, gone: Sequence[_Unsent]) -> int:
        """Remove some messages, and return how many of them were there: some may be dropped while they are sent."""
        ids = set(map(id, gone))
        with self._lock:
            before = len(self._unsent)
            self._unsent = [each for each in self._unsent if id(each) not in ids]
            return before - len(self._unsent)


class _Delivery:
    """The thread of an outbox."""

    def __init__(self, name: str, outbox: Outbox) -> None:
        self.outbox = outbox
        self._news = threading.Condition()
        self._has_news = False
        self._closing = False
        # A daemon: a service that hangs does not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name=f"channel {name}", daemon=True)
        self._thread.start()

    def add(self, message: AlertMessage) -> None:
        """Send a message soon."""
        self.outbox.add(message)
        with self._news:
            self._has_news = True
            self._news.notify()

    def close(self, give_up_s: float) -> None:
        """Send what is due, and end by that time of the monotonic clock."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join(max(0.0, give_up_s - time.monotonic()))

    def _run(self) -> None:
        while True:
            wait_s = self.outbox.turn()
            with self._news:
                if self._closing and not self._has_news:
                    return
                if not self._has_news:
                    self._news.wait(wait_s)
                self._has_news = False


class AlertRunner:
    """Applies rules to snapshots, and sends the messages, from ``start`` to ``close``.

    ``write`` writes to the terminal, from any thread. The thread of the rules calls ``on_message`` with each message,
    ``acknowledged`` for the queues of a snapshot whose trouble is acknowledged, and ``deletions`` for what deleted
    queues that a snapshot misses. ``clock`` is the monotonic clock and ``wall_s`` the local one, both in seconds.
    ``store`` keeps the reported alerts; what another program has reported is sent to the terminal only.
    """

    def __init__(
        self,
        alerts: Alerts,
        write: Write,
        *,
        on_message: Callable[[AlertMessage], None] | None = None,
        acknowledged: Callable[[Snapshot], Collection[str]] = lambda snapshot: (),
        deletions: Deletions = unknown_deletions,
        store: AlertStore | None = None,
        is_patient: bool = True,
        clock: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._rules = AlertRules(alerts.rules, store, is_patient=is_patient, deletions=deletions)
        self._store = store
        self._channels_of: Mapping[str, Sequence[str]] = {rule.name: rule.channels for rule in alerts.rules}
        used = {name: alerts.channels[name] for names in self._channels_of.values() for name in names
                if name in alerts.channels}  # fmt: skip
        self._outboxes = {name: Outbox(sender(channel, write), clock, wall_s) for name, channel in used.items()}
        # Each terminal shows what its own program finds.
        self._shared = {name for name, channel in used.items() if channel.kind not in (BELL, TERMINAL)}
        # By the name of a channel whose table has a mistake.
        self._without_channel: Counter[str] = Counter()
        self._deliveries: dict[str, _Delivery] = {}
        self._expected = alerts.expected
        # By profile: whether the trouble of the queue with a name and a kind is expected.
        self._is_ignored = {
            profile: lru_cache(_NAMES_MAX)(expected.holds)
            for profile, expected in alerts.expected.items()
            if expected.queues
        }
        self._config_problems = alerts.problems
        self._on_message = on_message
        self._acknowledged = acknowledged
        self._clock = clock
        self._wall_s = wall_s
        self._defect: str | None = None
        self._work: deque[Callable[[], None]] = deque()
        self._news = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def start(self) -> None:
        """Start the threads."""
        self._deliveries = {name: _Delivery(name, outbox) for name, outbox in self._outboxes.items()}
        self._thread.start()

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong, by its subject: the configuration, or a channel, whose last attempt failed."""
        found = {f"channel {name}": outbox.problem for name, outbox in self._outboxes.items()}
        config = {f"alert {number}": problem for number, problem in enumerate(self._config_problems, 1)}
        unstored = None if self._store is None else self._store.problem
        all_of_them = {**config, **found, "alerts": self._defect, "sent alerts": unstored}
        return {name: problem for name, problem in all_of_them.items() if problem is not None}

    @property
    def unsent(self) -> str | None:
        """How many messages each channel has not sent, in words; None if all were sent."""
        numbers = {name: len(outbox.unsent) + outbox.lost for name, outbox in self._outboxes.items()}
        parts = [
            f"{plural(number, 'message')} by {name}"
            for name, number in (numbers | self._without_channel).items()
            if number
        ]
        return f"not sent: {', '.join(parts)}" if parts else None

    def apply(self, snapshot: Snapshot, thresholds: Thresholds, profile: str) -> None:
        """Apply the rules to a snapshot; returns at once."""
        work = partial(self._apply, snapshot, thresholds, profile, round(self._clock() * 1000), self._wall_s())
        with self._news:
            if len(self._work) < _WAITING_MAX:
                self._work.append(work)
                self._news.notify()

    def close(self, timeout_s: float = _END_S) -> None:
        """Send what is left, and end, within that time."""
        give_up_s = time.monotonic() + timeout_s
        with self._news:
            self._closing = True
            self._news.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        for delivery in self._deliveries.values():
            delivery.close(give_up_s)
        # Do not wait for a disk that hangs.
        if self._store is not None and not self._thread.is_alive():
            for name in self._shared:
                for message in self._outboxes[name].unsent:
                    self._store.take_back(self._rules.topic_of(message), message.at_ms)
            self._store.close()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: bool(self._work or self._closing))
                if not self._work:
                    return
                work = self._work.popleft()
            try:
                work()
            except Exception as error:
                self._defect = printable(f"a rule was not applied: {type(error).__name__}: {error}", SENTENCE_MAX)

    def _apply(self, snapshot: Snapshot, thresholds: Thresholds, profile: str, now_ms: int, wall_s: float) -> None:
        expected, is_ignored = self._expected.get(profile), self._is_ignored.get(profile)
        if expected is not None and expected.end_ms(wall_s * 1000) is not None:
            # A condition that continues after it begins then.
            return
        silenced = self._acknowledged(snapshot)
        if is_ignored is not None:
            silenced = {*silenced, *(queue.name for queue in snapshot.queues if is_ignored(queue.name, queue.kind))}
        found = self._rules.apply(
            snapshot, thresholds, profile=profile, now_ms=now_ms, wall_s=wall_s, silenced=silenced
        )
        for message, news in found:
            if self._on_message is not None:
                self._on_message(message)
            for name in self._channels_of[message.rule]:
                wanted = news if name in self._shared else message
                if name not in self._outboxes:
                    # Its table has a mistake, which is reported.
                    self._without_channel[name] += 1
                elif wanted is not None and name in self._deliveries:
                    self._deliveries[name].add(wanted)
