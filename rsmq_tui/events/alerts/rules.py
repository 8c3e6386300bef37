"""Decides when rules alert, from the snapshots of each place in the order of time.

Only the states that changed since the last poll are checked. A condition that begins as time passes is also checked
when the first queue is due.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rsmq_tui.events.alerts.checks import KeptPlace, Poll, ServerCheck, queue_check, server_check
from rsmq_tui.events.alerts.following import Due, FollowedRule, Now
from rsmq_tui.events.alerts.message import LISTED, Affected, AlertMessage, AlertState, gone_words
from rsmq_tui.events.alerts.store import AlertStore, Topic
from rsmq_tui.events.detector import Losses, losses_of
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds
from rsmq_tui.monitor.model import was_created_again
from rsmq_tui.monitor.tracking.tracker import FOREVER_MS
from rsmq_tui.profiles.alerts import OF_SERVERS, SERVER_RESTARTED, Rule
from rsmq_tui.protocol.kinds import is_among, kind_named
from rsmq_tui.protocol.server.status import server_change

Deletions = Callable[[Snapshot, Collection[str]], Mapping[str, str]]


def unknown_deletions(snapshot: Snapshot, queues: Collection[str]) -> Mapping[str, str]:
    """Return that it is not known what deleted any of these queues."""
    return {}


class Notice(NamedTuple):
    """A message, and the same one without the queues that another program has reported; None if it has reported all."""

    message: AlertMessage
    news: AlertMessage | None


class AlertRules:
    """Applies rules to the snapshots of any number of places; not safe for threads.

    ``store`` keeps the reported alerts. Without ``is_patient``, ``for`` and the wait for more queues do not apply: each
    snapshot is the only one of its place. ``deletions`` says, for queues that a snapshot misses, what deleted them.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        store: AlertStore | None = None,
        *,
        is_patient: bool = True,
        deletions: Deletions = unknown_deletions,
    ) -> None:
        self._rules = [_applied(rule, is_patient=is_patient) for rule in rules]
        self._store = store
        self._is_patient = is_patient
        self._deletions = deletions
        self._contents = _contents_of(rules)
        self._checks = {rule.name: queue_check(rule.when) for rule in rules if rule.when.what not in OF_SERVERS}
        self._followed: dict[tuple[str, ...], FollowedRule] = {}
        self._wanted: dict[str, dict[tuple[str, str], bool]] = {}
        # By profile, server and namespace.
        self._places: dict[tuple[str, str, str], KeptPlace] = {}
        # By rule and server.
        self._server_checks: dict[tuple[str, str], ServerCheck] = {}

    def apply(
        self,
        snapshot: Snapshot,
        thresholds: Thresholds,
        *,
        profile: str,
        now_ms: int,
        wall_s: float,
        silenced: Collection[str] = (),
    ) -> list[Notice]:
        """Return the messages that are to be sent after a poll; no alerts are sent for queues that are ``silenced``."""
        place = self._places.setdefault((profile, snapshot.server, snapshot.ns), KeptPlace())
        poll = Poll(snapshot, profile, Now(now_ms, wall_s), thresholds, silenced, place)
        if poll.has_answer:
            poll = _compared(poll)
        found: list[Notice] = []
        for rule in self._rules:
            if rule.profiles and profile not in rule.profiles:
                continue
            if rule.when.what in OF_SERVERS:
                found += self._take_server(rule, poll)
            elif poll.has_answer:
                found += self._take_queues(rule, poll)
        return found

    def _take_queues(self, rule: Rule, poll: Poll) -> list[Notice]:
        """Apply a rule to the queues of a place."""
        snapshot, now = poll.snapshot, poll.now
        topic = Topic(self._contents[rule.name], rule.when.text, poll.profile, snapshot.server, snapshot.ns)
        followed = self._follow(topic, rule, now)
        self._observe_queues(rule, poll, followed)
        due = followed.due(now, poll.silenced, poll.place.change)
        return self._notices_of_queues(rule, poll, due) if due else []

    def _observe_queues(self, rule: Rule, poll: Poll, followed: FollowedRule) -> None:
        """Let a rule follow for which queues it holds now, since when, and for which it is over."""
        snapshot, now = poll.snapshot, poll.now
        check, at_ms, queues = self._checks[rule.name], snapshot.at_ms, snapshot.queues
        looked, was_forecast, followed.is_forecast = poll.changed, followed.is_forecast, poll.is_forecast
        if looked is None or at_ms >= followed.next_ms or was_forecast is not followed.is_forecast:
            looked, followed.next_ms = queues, FOREVER_MS
        followed.next_ms = min(followed.next_ms, check.next_ms(looked, at_ms))
        holding = self._of_rule(rule, check.holding(looked, at_ms))
        if replaced := poll.again & followed.names:
            followed.lose(replaced, self._deletions(snapshot, replaced), now.ms)
        if names := followed.names:
            hold = {queue.name for queue in holding}
            others: list[tuple[str, bool | None]] = []
            for queue in looked:
                if queue.name not in names or queue.name in hold:
                    continue
                # An age that has reached its limit has no forecast, and is not over.
                is_aged = (queue.waiting_ms(at_ms) or 0) >= poll.thresholds.aged_ms
                is_over = check.is_over(queue, is_forecast=followed.is_forecast and not is_aged)
                is_unread = check.needs_looks and followed.is_restored(queue.name) and _may_have_unread_counts(queue)
                others.append((queue.name, False if is_over and not is_unread else None))
            if poll.changed is None:
                lost = names - {queue.name for queue in queues}
                followed.lose(lost, self._deletions(snapshot, lost) if lost else {}, now.ms)
            followed.observe(others, now.ms)
        followed.observe([(queue.name, True) for queue in holding], now.ms)
        ahead_ms = now.ms - at_ms
        for queue in holding:
            followed.note_times(queue.name, check.since_ms(queue), check.over_since_ms(queue), ahead_ms)

    def _notices_of_queues(self, rule: Rule, poll: Poll, due: Sequence[Due]) -> list[Notice]:
        snapshot, check = poll.snapshot, self._checks[rule.name]
        present = {queue.name: queue for queue in snapshot.queues}

        def affected(name: str, due: Due) -> Affected:
            queue, change = present.get(name), due.change
            if queue is None or due.is_gone:
                return Affected(name, None, None, f"queue {gone_words(due.deletions.get(name, change))}")
            words = check.words(queue, snapshot.at_ms, poll.thresholds)
            return Affected(name, queue.verdict.value, queue.depth, f"{change}; {words}" if change else words)

        def message(each: Due, names: Sequence[str]) -> AlertMessage:
            return AlertMessage(
                rule.name, each.state, rule.when.text, poll.now.wall_ms, poll.profile, snapshot.server, snapshot.ns,
                tuple(affected(name, each) for name in names[:LISTED]), len(names),
                each.lasts_ms if self._is_patient else None, is_gone=each.is_gone, change=each.change,
            )  # fmt: skip

        return [Notice(message(each, each.names), message(each, each.news) if each.news else None) for each in due]

    def _take_server(self, rule: Rule, poll: Poll) -> list[Notice]:
        """Apply a rule to a server, from the states of its places."""
        server, profile, now = poll.snapshot.server, poll.profile, poll.now
        if (rule.name, server) not in self._server_checks:
            self._server_checks[rule.name, server] = server_check(rule.when)
        check = self._server_checks[rule.name, server]
        followed = self._follow(Topic(self._contents[rule.name], rule.when.text, profile, server, ""), rule, now)
        followed.observe([("", check.holds(poll))], now.ms)
        found = []
        for each in followed.due(now, ()):
            if each.state is AlertState.RESOLVED:
                words = check.end_words(each, now)
            else:
                words = check.words(poll, [place for of, place in self._places.items() if of[:2] == (profile, server)])
            message = AlertMessage(
                rule.name, each.state, rule.when.text, now.wall_ms, profile, server, lasts_ms=each.lasts_ms,
                reason=words,
            )  # fmt: skip
            found.append(Notice(message, message if each.news else None))
        return found

    def _follow(self, topic: Topic, rule: Rule, now: Now) -> FollowedRule:
        if topic not in self._followed:
            self._followed[topic] = FollowedRule(rule, topic, self._store, now, is_patient=self._is_patient)
        return self._followed[topic]

    def topic_of(self, message: AlertMessage) -> Topic:
        """Return the topic of a rule's message."""
        return Topic(self._contents[message.rule], message.when, message.profile, message.server, message.ns)

    def _of_rule(self, rule: Rule, queues: Sequence[QueueState]) -> Sequence[QueueState]:
        """Return the queues that a rule names, by name or with the kind (``list:mail``); cached for each queue."""
        if not rule.queues:
            return queues
        wanted = self._wanted.setdefault(rule.name, {})
        if len(wanted) > 2 * sum(len(place.queues) for place in self._places.values()):
            # Most of these queues are gone.
            wanted.clear()
        found = []
        for queue in queues:
            key = queue.kind, queue.name
            is_wanted = wanted.get(key)
            if is_wanted is None:
                is_wanted = wanted[key] = is_among(queue.name, kind_named(queue.kind), rule.queues)
            if is_wanted:
                found.append(queue)
        return found


def _compared(poll: Poll) -> Poll:
    """Compare a poll with the last one of its place, and remember it."""
    place, snapshot, last_ms = poll.place, poll.snapshot, poll.place.polled_ms
    differences = snapshot.differences(place.queues)
    change, ahead_ms = server_change(place.info, snapshot.info), poll.now.ms - snapshot.at_ms
    if change is not None:
        # Another process answers for the server than before.
        place.change = change._replace(from_ms=change.from_ms + ahead_ms, until_ms=change.until_ms + ahead_ms)
        place.losses = losses_of(differences) if change.is_restart else Losses()
        place.changed_ms, place.span_ms = poll.now.ms, 0 if last_ms is None else poll.now.ms - last_ms
    place.queues, place.polled_ms, place.info = snapshot.queues, poll.now.ms, snapshot.info or place.info
    again = {one.name for was, one in differences.pairs if was_created_again(was.created_ms, one.created_ms)}
    is_whole = last_ms is None or differences.gone or differences.created
    return poll._replace(changed=None if is_whole else differences.after, again=again)


def _applied(rule: Rule, *, is_patient: bool) -> Rule:
    """Return a rule as it is applied: a restart has no duration and no end."""
    if rule.when.what == SERVER_RESTARTED:
        return replace(rule, for_ms=0, repeat_ms=None, resolved=False)
    return rule if is_patient else replace(rule, for_ms=0, repeat_ms=None)


def _contents_of(rules: Iterable[Rule]) -> dict[str, str]:
    """Return what identifies each rule beside its condition, by name: its queues, and its number if several are alike.

    So a rule with another name is still the same.
    """
    numbers: Counter[tuple[str, ...]] = Counter()
    contents = {}
    for rule in rules:
        queues = sorted(rule.queues)
        numbers[rule.when.text, *queues] += 1
        contents[rule.name] = json.dumps([queues, numbers[rule.when.text, *queues]])
    return contents


def _may_have_unread_counts(queue: QueueState) -> bool:
    """Return whether there may be receive counts that polls have not read since the start."""
    return bool(queue.depth and queue.totalrecv) and queue.looked_all_ms is None
