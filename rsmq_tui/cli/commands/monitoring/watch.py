"""`rsmq-tui watch`: applies the alert rules of the configuration file until it is stopped, without a screen."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from rsmq_tui.cli.errors import EXIT_FAILED, UsageError
from rsmq_tui.cli.interrupts import Interrupts, run_interruptibly, run_until_ended
from rsmq_tui.cli.options import json_option, reading
from rsmq_tui.cli.output import ProgressLine, print_json, print_words, say, say_when, wants_json
from rsmq_tui.cli.parsing import Command, Options, option
from rsmq_tui.cli.places import KindPlace, ask_all, named_places, words_of
from rsmq_tui.cli.servers import config_of, config_path, profiles_of
from rsmq_tui.events.alerts.channels import ChannelError, Write, sender
from rsmq_tui.events.alerts.message import AlertMessage, AlertState
from rsmq_tui.events.alerts.runner import AlertRunner
from rsmq_tui.events.alerts.store import AlertStore
from rsmq_tui.events.known import FILE_NAME as KNOWN_NAME
from rsmq_tui.events.known import KnownError, KnownStore
from rsmq_tui.events.recorder import EventRecorder, deletions
from rsmq_tui.files import state_folder
from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor.text import date_clock, plural, printable
from rsmq_tui.profiles.alerts import BELL, OVER_TIME, TERMINAL, Alerts, Channel
from rsmq_tui.profiles.values import meant

_LOOK_S = 1.0
_RULES_HINT = "`rsmq-tui help alerts` describes rules and channels"
# With --once, the slowest channel may need its whole time limit, and apprise a few seconds to be loaded.
_SPARE_S = 10.0
_NOTES = """\
It polls all namespaces and lists of the servers, applies the rules of [[alerts]], and prints and sends their messages.
It records events, as a dashboard does. A rule or channel with a mistake is reported and left out. A channel that fails
is retried for an hour. A restart does not repeat alerts that were sent before, and reports those that are over.

--once polls each server once, sends everything that is wrong now, even if it was sent before, and exits: `for` and
`repeat` do not apply. One poll cannot tell whether a queue is growing or leaking, when it or the memory will be full,
or that a server was restarted, and finds a queue stalled only if it was never received from.

`rsmq-tui help alerts` describes rules and channels."""
_STATUSES = {
    0: "done, or ended by SIGTERM",
    1: "with --once or --test: a message could not be sent",
    2: "a usage error, or there is no valid rule",
    130: "ended by Ctrl+C",
}


@click.command(cls=Command, notes=_NOTES, examples=("", "--once --json", "--test oncall"), statuses=_STATUSES)
@option("--once", "poll each server once, send what is wrong, and exit")
@option("--test CHANNEL", "only send a test message through this channel, and exit")
@json_option
@reading
def command(options: Options) -> int:
    """Watch, and return the exit status; raises ``UsageError``."""
    return run_interruptibly(lambda interrupts: _watch(options, interrupts), runs_for_days=True)


async def _watch(options: Options, interrupts: Interrupts) -> int:
    config = config_of(options)
    alerts = Alerts() if config is None else config.alerts
    if options.test is not None:
        return await _test(_channel(alerts, options.test))
    if not alerts.rules:
        for problem in alerts.problems:
            say(problem)
        path = config_path(options)[0]
        missing = f"there is no {path}, which has the rules" if config is None else f"{path} has no [[alerts]]"
        why = "no rule can be used" if alerts.problems else missing
        raise UsageError(f"{why}; {_RULES_HINT}")
    places = named_places(profiles_of(options))
    if _terminal() is None and all(channel.kind in (BELL, TERMINAL) for channel in _used(alerts)):
        say("no channel works without a terminal: messages are only printed; `rsmq-tui help alerts` describes channels")
    watch = _once if options.once else _go_on
    return await watch(options, interrupts, alerts, places)


def _used(alerts: Alerts) -> list[Channel]:
    """Return the channels of the rules, without invalid ones."""
    names = {name for rule in alerts.rules for name in rule.channels}
    return [channel for name, channel in alerts.channels.items() if name in names]


def _channel(alerts: Alerts, name: str) -> Channel:
    channel = alerts.channels.get(name)
    if channel is None:
        for problem in alerts.problems:
            say(problem)
        known = f"{meant(name, alerts.channels)}: {', '.join(alerts.channels)}" if alerts.channels else ""
        raise UsageError(f"there is no channel {name}{known}; {_RULES_HINT}")
    return channel


async def _test(channel: Channel) -> int:
    message = AlertMessage("test", AlertState.TEST, "--test", now_ms(), reason="this is a test of a channel")
    try:
        await asyncio.to_thread(sender(channel, _terminal()), message)
    except ChannelError as error:
        say(f"channel {channel.name}: {error}")
        return EXIT_FAILED
    say(f"sent by channel {channel.name}")
    return 0


def _terminal() -> Write:
    """Return a function that writes to the terminal; a program may read standard output."""
    if not sys.stderr.isatty():
        return None

    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    return write


def _print(message: AlertMessage, options: Options) -> None:
    if wants_json(options):
        print_json(message.as_json())
    else:
        print_words(f"{date_clock(message.at_ms, zone=True)}  {message.title}: {message.text}")
    sys.stdout.flush()


def _acknowledged_queues(folder: Path) -> dict[tuple[str, str], set[str]]:
    """Return the queues whose trouble is known, by server and namespace; none if the file cannot be read."""
    found: dict[tuple[str, str], set[str]] = {}
    if (folder / KNOWN_NAME).exists():
        try:
            with closing(KnownStore(folder / KNOWN_NAME)) as store:
                for known in store.all():
                    if known.is_active and (known.until_ms is None or known.until_ms > now_ms()):
                        found.setdefault((known.server, known.ns), set()).add(known.queue)
        except KnownError as error:
            say(str(error))
    return found


async def _once(
    options: Options, interrupts: Interrupts, alerts: Alerts, places: Sequence[tuple[str, KindPlace]]
) -> int:
    found: list[AlertMessage] = []
    known = _acknowledged_queues(state_folder())
    runner = AlertRunner(
        alerts,
        _terminal(),
        on_message=found.append,
        acknowledged=lambda snapshot: known.get((snapshot.server, snapshot.ns), ()),
        is_patient=False,
    )
    runner.start()
    mistakes = runner.problems
    for problem in mistakes.values():
        say(problem)
    if over_time := [rule.when.text for rule in alerts.rules if rule.when.what in OVER_TIME]:
        say(f"one poll cannot tell: {', '.join(over_time)}; `rsmq-tui watch` without --once can")
    line = ProgressLine()
    snapshots = await ask_all([place for _, place in places], lambda place: place.poll_once(line), line)
    polled = zip(places, snapshots, strict=True)
    # A server is gone only if none of its places answers, so places that answer come first.
    for (name, place), snapshot in sorted(polled, key=lambda one: one[1].connection.failure is not None):
        runner.apply(replace(snapshot, place=name), place.profile.thresholds, place.profile.name)
    slowest_s = max((channel.timeout_s for channel in _used(alerts)), default=0.0)
    await asyncio.to_thread(runner.close, slowest_s + _SPARE_S)
    for message in found:
        _print(message, options)
    if runner.unsent is None:
        return 0
    for name, problem in runner.problems.items():
        if name not in mistakes:
            say(f"{name}: {problem}")
    say(runner.unsent)
    return EXIT_FAILED


async def _go_on(
    options: Options, interrupts: Interrupts, alerts: Alerts, places: Sequence[tuple[str, KindPlace]]
) -> int:
    loop = asyncio.get_running_loop()

    def print_message(message: AlertMessage) -> None:
        loop.call_soon_threadsafe(_print, message, options)

    recorder = EventRecorder(state_folder())
    runner = AlertRunner(
        alerts,
        _terminal(),
        on_message=print_message,
        acknowledged=recorder.acknowledged,
        deletions=partial(deletions, state_folder() / "journal.sqlite"),
        store=AlertStore(state_folder()),
    )
    recorder.start()
    runner.start()
    what = words_of([place for _, place in places])
    say(f"watching {what}, by {plural(len(alerts.rules), 'rule')}; Ctrl+C stops it")
    jobs = [_follow(name, place, runner, recorder) for name, place in places]
    try:
        return await run_until_ended(interrupts, [*jobs, _print_problems(runner, recorder)])
    finally:
        await asyncio.to_thread(runner.close)
        await recorder.aclose()
        if runner.unsent is not None:
            say(runner.unsent)


async def _follow(name: str, place: KindPlace, runner: AlertRunner, recorder: EventRecorder) -> None:
    async with aclosing(place.follower(name)) as poller, aclosing(poller.snapshots()) as snapshots:
        async for snapshot in snapshots:
            runner.apply(snapshot, place.profile.thresholds, place.profile.name)
            recorder.observe(snapshot, poller, place.profile.expected)


async def _print_problems(runner: AlertRunner, recorder: EventRecorder) -> None:
    """Print what has begun to fail, and what works again."""
    known: dict[str, str] = {}
    while True:
        now = runner.problems | recorder.problems
        for name in known.keys() | now.keys():
            if known.get(name) != now.get(name):
                say_when(f"{printable(name)}: {now.get(name, 'works again')}")
        known = now
        await asyncio.sleep(_LOOK_S)
