"""Those who use what is watched: at a terminal, at pages, scraping; and the queues that come and go."""

import asyncio
import itertools
import re
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from redis import Redis

from rsmq_tui.cli.demo import EmbeddedError, WorkloadProcess
from rsmq_tui.protocol import Rsmq, RsmqError
from tests.hostile.terminal import Terminal
from tests.web.serving import Serving, Viewer, viewing

STEADY = "steady"
# The numbers are a few seconds old at most; a page that gets none shows their age instead.
_LIVE = "● live"
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# Between two keys of which the second is for what the first leads to.
_PAUSE_S = 1.0
# How often one who rests looks whether the run is over.
_LOOK_S = 0.2
_ESC, _SUBMIT = "\x1b", "\x13"
# What is typed, and what is on the screen after it.
Steps = tuple[tuple[str, str], ...]
_FOUND: Steps = ((f"/{STEADY}", ""), ("\r", ""))
LOOKS: tuple[Steps, ...] = (
    (*_FOUND, ("\r", "◀ steady"), ("jj\r", "[pretty]"), ("l", "[raw]"), ("l", "[hex]")),
    (("L", "◀ events"), ("jjj", "◀ events")),
    (("?", "Help"),),
    ((":", ""), ("them", "theme")),
    (("i", "esc back"),),
    (("f", "◀ search"), ("rc>=3\r", "match")),
    (("b", "group"), ("b", "group"), ("z", "60 min"), ("Z", "10 min")),
    (("/orders", ""), ("\r", ""), ("\r", "◀ orders"), ("G", "of"), ("g", "1 of"), ("l", "[ ready"), ("]", "orders")),
    (("G", ""), ("kkk", ""), ("s", ""), ("S", ""), ("S", "")),
    # All themes in three rounds, which is in the first ten minutes.
    (("T", ""),) * 8,
    (("F", "◀ audit"),),
)
CHANGES: tuple[Steps, ...] = (
    (*_FOUND, ("x", "type the queue's name")),
    (
        *_FOUND,
        ("a", "or a file"),
        ("a message of the soak", "a message of the soak"),
        (_SUBMIT, "Cancel      Send"),
        (_SUBMIT, "sent 1, skipped 0"),
        ("u", "Cancel      Undo"),
        (_SUBMIT, "removed 1, skipped 0"),
    ),
    (("J", "◀ journal"), ("\r", "")),
)


class Troubles:
    """What went wrong for users, with the time."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, who: str, what: object) -> None:
        """Note what went wrong."""
        words = " ".join(re.sub(r"[─│╭╮╰╯═║]+", " ", str(what)).split())
        # The beginning says what was waited for, the end what was on the screen.
        text = f"{who}: {words if len(words) < 900 else f'{words[:200]} … {words[-700:]}'}"
        if not self.said or not self.said[-1].endswith(text):
            self.said.append(f"{time.strftime('%H:%M:%S')} {text}")


class Rests:
    """How long a user rests after each excursion: ``short_s`` in the first half of each ``every_s``, then to its end.

    In the first ``busy_s`` all rests are short: what a program needs at most, it needs in that time. ``every_s`` is the
    time between two samples. If it is a minute, as in runs of an hour or more, the program gives back what closed
    screens took before the long rest is over, and the lowest look of each sample sees it as it is then. ``clock`` is a
    monotonic clock in seconds.
    """

    def __init__(
        self, every_s: float, short_s: float, busy_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every_s, self._short_s, self._clock = every_s, short_s, clock
        self._began_s = clock() + busy_s

    def next_s(self) -> float:
        """Return how long the next rest is, which begins now."""
        now_s = self._clock()
        if now_s < self._began_s + self._every_s / 2:
            return self._short_s
        # An excursion may take longer than ``every_s``.
        self._began_s = max(now_s + self._short_s, self._began_s + self._every_s)
        return self._began_s - now_s


def excursions() -> Iterator[Steps]:
    """Yield what one does at a terminal, one after the other, without end."""
    for number in itertools.count():
        yield LOOKS[number % len(LOOKS)]
        if number % 4 == 3:
            yield CHANGES[number // 4 % len(CHANGES)]


def use_terminal(terminal: Terminal, stop: threading.Event, troubles: Troubles, rests: Rests) -> int:
    """Walk through the screens of a dashboard until it is stopped; return how many excursions were made."""
    made = 0
    terminal.wait_for(STEADY)
    for steps in excursions():
        if stop.is_set():
            break
        try:
            for keys, words in steps:
                terminal.type(keys)
                if words:
                    terminal.wait_for(words)
                terminal.read_for(_PAUSE_S)
            terminal.wait_for(_LIVE)
            made += 1
        except AssertionError as error:
            troubles.say("terminal", f"{steps}: {error}")
            if terminal.process.poll() is not None:
                status, said = terminal.wait_for_end(), _SEQUENCE.sub("", terminal.output.decode("utf-8", "replace"))
                troubles.say("terminal", f"exit status {status}, after {made} excursions: {said[-400:]}")
                break
        for _ in range(4):
            # Alone, or it would begin a sequence.
            terminal.type(_ESC)
            terminal.read_for(0.4)
        rested_s = time.monotonic() + rests.next_s()
        while time.monotonic() < rested_s and not stop.is_set():
            terminal.read_for(_LOOK_S)
        # Kept for tests, which end.
        terminal.output.clear()
        terminal.screen.written.clear()
    return made


async def use_pages(
    at: Serving, stop: threading.Event, troubles: Troubles, rests: Rests, rest_s: float, opened: Callable[[int], None]
) -> int:
    """Walk through one page, and open and close others, until it is stopped; return how many were opened."""
    number = 1
    async with viewing(at) as page:
        await page.says(STEADY)
        opened(min(at.sessions))
        walk = asyncio.create_task(_walk(page, stop, troubles, rests))
        while not stop.is_set() and not walk.done():
            try:
                async with viewing(at) as other:
                    await other.says(STEADY)
                    for keys, _ in _FOUND:
                        await other.type(keys)
                        await asyncio.sleep(_PAUSE_S)
                    await other.type("\r")
                    await other.says("◀ steady", _LIVE)
                    number += 1
            except (AssertionError, OSError) as error:
                troubles.say("page", error)
            for _ in range(20):
                if not stop.is_set():
                    await asyncio.sleep(rest_s)
        await walk
    return number


async def _walk(page: Viewer, stop: threading.Event, troubles: Troubles, rests: Rests) -> None:
    for steps in itertools.cycle(LOOKS):
        if stop.is_set() or page.is_closed:
            break
        try:
            for keys, words in steps:
                await page.type(keys)
                if words:
                    await page.says(words)
                await asyncio.sleep(_PAUSE_S)
            await page.says(_LIVE)
        except AssertionError as error:
            troubles.say("page", f"{steps}: {error}")
        for _ in range(4):
            await page.type(_ESC)
            await asyncio.sleep(0.4)
        rested_s = time.monotonic() + rests.next_s()
        while time.monotonic() < rested_s and not stop.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(_LOOK_S)
        page.output = b""
        page.screen.written.clear()
        page.messages.clear()


def scrape(url: str, stop: threading.Event, troubles: Troubles, rest_s: float) -> int:
    """Read the metrics until it is stopped; return how often."""
    number = 0
    while not stop.wait(rest_s):
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert b"rsmq_up" in answer.read()
            number += 1
        except (OSError, AssertionError) as error:
            troubles.say("scraper", error)
    return number


def come_and_go(url: str, queues: int, stop: threading.Event, rest_s: float) -> int:
    """Create queues with names that were never used, and delete the oldest; return how many were created."""
    rng, names, number = Random(7), deque[str](), 0
    with Redis.from_url(url) as client:
        rsmq = Rsmq(client)
        with suppress(RsmqError):
            rsmq.create_queue(STEADY)
        rsmq.send_messages(STEADY, [f'{{"number": {each}}}' for each in range(30)])
        while not stop.is_set():
            while len(names) >= queues:
                rsmq.delete_queue(names.popleft())
            number += 1
            names.append(f"soak-{number}")
            rsmq.create_queue(names[-1], vt=2)
            rsmq.send_messages(names[-1], [rng.randbytes(40).hex() for _ in range(rng.randint(1, 40))])
            for name in rng.sample(names, len(names) // 4):
                for message in rsmq.receive_messages(name, rng.randint(1, 5)):
                    if rng.random() < 0.5:
                        rsmq.delete_message(name, message.id)
            stop.wait(rest_s)
    return number


def switch_consumers(workload: WorkloadProcess, stop: threading.Event, troubles: Troubles, rest_s: float) -> int:
    """Stop and start consumers in turn, so that verdicts change; return how often."""
    number = 0
    # What piled up while its consumer was stopped must be consumed, or the queue would grow with the hours.
    wanted = [
        ("thumbnails", "consumer-stop"),
        ("thumbnails", "consumer-fast"),
        ("orders", "consumer-fast"),
        ("webhooks", "producer-fast"),
    ]
    for queue, control in itertools.cycle(wanted):
        for on in (True, False):
            try:
                workload.switch(control, queue, on)
                number += 1
            except EmbeddedError as error:
                troubles.say("switch", error)
            if stop.wait(rest_s):
                return number
    return number
