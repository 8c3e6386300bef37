"""Applies the rules of a dashboard or of `rsmq-tui watch`, and sends their messages, in threads: nobody waits for it.

Each channel has a queue and a thread of its own, so that one that hangs delays no other. A message that cannot be sent
is tried again, with growing waits, until it is ``GIVE_UP_S`` old.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from rsmq_tui.alerts.channels import ChannelError, Send, Write, sender
from rsmq_tui.alerts.message import Message
from rsmq_tui.alerts.rules import AlertRules
from rsmq_tui.monitor import Snapshot, Thresholds
from rsmq_tui.monitor.text import SENTENCE_MAX, plural, printable
from rsmq_tui.profiles.alerts import Alerts

UNSENT_MAX = 100
RETRY_FIRST_S, RETRY_MAX_S, GIVE_UP_S = 5.0, 300.0, 3_600.0
_WAITING_MAX = 256
# Names for which it is kept whether their trouble is expected.
_NAMES_MAX = 200_000
_END_S = 5.0


@dataclass(slots=True)
class _Unsent:
    message: Message
    since_s: float
    tries: int = 0
    next_s: float = 0.0


class Outbox:
    """The messages of one channel that are not sent yet; the oldest are lost beyond ``UNSENT_MAX``.

    ``problem`` is why the last attempt failed, None after one that succeeded.
    """

    def __init__(self, name: str, send: Send, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.problem: str | None = None
        self.lost = 0
        self._send = send
        self._clock = clock
        self._unsent: deque[_Unsent] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._unsent)

    def add(self, message: Message) -> None:
        """Take a message, to be sent by ``turn``."""
        with self._lock:
            if len(self._unsent) >= UNSENT_MAX:
                self._unsent.popleft()
                self.lost += 1
            self._unsent.append(_Unsent(message, self._clock()))

    def turn(self) -> float | None:
        """Send what is due, in order, and return the seconds until the next attempt, None if nothing is left."""
        while True:
            with self._lock:
                if not self._unsent:
                    return None
                first = self._unsent[0]
            if (wait_s := first.next_s - self._clock()) > 0:
                return wait_s
            self._try(first)

    def _try(self, unsent: _Unsent) -> None:
        try:
            self._send(unsent.message)
            self.problem = None
        except Exception as error:
            told = str(error) if isinstance(error, ChannelError) else f"{type(error).__name__}: {error}"
            self.problem = printable(told, SENTENCE_MAX)
            unsent.tries += 1
            now_s = self._clock()
            unsent.next_s = now_s + min(RETRY_MAX_S, RETRY_FIRST_S * 2.0 ** (unsent.tries - 1))
            if unsent.next_s - unsent.since_s <= GIVE_UP_S:
                return
            self.lost += 1
        with self._lock:
            # It may have been dropped meanwhile, for newer ones.
            if self._unsent and self._unsent[0] is unsent:
                self._unsent.popleft()


class _Delivery:
    """The thread of an outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._news = threading.Condition()
        self._has_news = False
        self._closing = False
        # A daemon: a service that hangs does not keep the program.
        self._thread = threading.Thread(target=self._run, name=f"channel {outbox.name}", daemon=True)
        self._thread.start()

    def add(self, message: Message) -> None:
        """Send a message soon."""
        self.outbox.add(message)
        with self._news:
            self._has_news = True
            self._news.notify()

    def close(self, give_up_s: float) -> None:
        """Send what is due, and end, until that time of the monotonic clock."""
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

    ``write`` writes to the terminal, from any thread. ``told`` is called with each message, and ``muted`` returns the
    queues of a place whose trouble is known, both in the thread of the rules. ``clock`` is the monotonic clock and
    ``wall_s`` that of people, both in seconds.
    """

    def __init__(
        self,
        alerts: Alerts,
        write: Write,
        *,
        told: Callable[[Message], None] | None = None,
        muted: Callable[[Snapshot], Collection[str]] = lambda snapshot: (),
        is_patient: bool = True,
        clock: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._rules = AlertRules(alerts.rules, is_patient=is_patient)
        self._channels_of: Mapping[str, Sequence[str]] = {rule.name: rule.channels for rule in alerts.rules}
        used = {name for rule in alerts.rules for name in rule.channels if name in alerts.channels}
        self._outboxes = {name: Outbox(name, sender(alerts.channels[name], write), clock) for name in sorted(used)}
        self._deliveries: dict[str, _Delivery] = {}
        self._expected = alerts.expected
        # Whether names are those of queues whose trouble is expected, by profile.
        self._is_ignored = {
            profile: lru_cache(_NAMES_MAX)(expected.holds)
            for profile, expected in alerts.expected.items()
            if expected.queues
        }
        self._config_problems = alerts.problems
        self._told = told
        self._muted = muted
        self._clock = clock
        self._wall_s = wall_s
        self._defect: str | None = None
        self._work: deque[Callable[[], None]] = deque()
        self._news = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def start(self) -> None:
        """Start the threads."""
        self._deliveries = {name: _Delivery(outbox) for name, outbox in self._outboxes.items()}
        self._thread.start()

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong, by what it is wrong with: the configuration, and why the last attempt of a channel failed."""
        found = {f"channel {name}": outbox.problem for name, outbox in self._outboxes.items()}
        config = {f"alert {number}": problem for number, problem in enumerate(self._config_problems, 1)}
        all_of_them = {**config, **found, "alerts": self._defect}
        return {name: problem for name, problem in all_of_them.items() if problem is not None}

    @property
    def unsent(self) -> str | None:
        """How many messages were not sent, in words; None if all were."""
        number = sum(len(outbox) + outbox.lost for outbox in self._outboxes.values())
        return f"{plural(number, 'message')} not sent" if number else None

    def take(self, snapshot: Snapshot, thresholds: Thresholds, profile: str) -> None:
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
        if expected is not None and expected.covers(wall_s * 1000):
            # What goes on after it begins then.
            return
        muted = self._muted(snapshot)
        if is_ignored is not None:
            muted = {*muted, *(queue.name for queue in snapshot.queues if is_ignored(queue.name))}
        found = self._rules.take(snapshot, thresholds, profile=profile, now_ms=now_ms, wall_s=wall_s, muted=muted)
        for message in found:
            if self._told is not None:
                self._told(message)
            for name in self._channels_of[message.rule]:
                if name in self._deliveries:
                    self._deliveries[name].add(message)
