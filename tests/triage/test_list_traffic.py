"""Changes of a list while a consumer takes from one end and a producer pushes to the other, and the books balance."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.lists.edits import ListBatch
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.triage.actions import Action, Delete, Move, Pop, Purge, Trim
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.lists.select import KEPT
from rsmq_tui.triage.scope import Matching, Preview, Scope
from tests.triage.list_doing import NAMES, A, B, lay, list_changes, read

pytestmark = pytest.mark.slow

ITEMS = 4_000
RATE_HZ = 1_000
# Whoever carries out a change waits until so many were taken and pushed since its preview.
TURNOVER = 150
WAIT_S = 60


def _taken_off(journal: Journal, change: int | None) -> list[bytes]:
    """Return the items that a change took, in the order in which it took them: what it missed at first comes last."""
    assert change is not None
    return [
        edit.before.body
        for entry in journal.entries(change)
        if isinstance(entry.batch, ListBatch)
        for edit, letter in zip(entry.batch.edits, letters_of(entry.outcome or ""), strict=True)
        if letter == Outcome.DONE and edit.before is not None and edit.before.body is not None
    ]


class Traffic:
    """A consumer and a producer at a rate each; ``took`` and ``sent`` are theirs, in order."""

    def __init__(self, url: str, names: ListNames, queue: str) -> None:
        self.took: list[bytes] = []
        self.sent: list[bytes] = []
        self._url, self._names, self._queue = url, names, queue
        self._over = threading.Event()
        self._progress = threading.Condition()

    @contextmanager
    def at_work(self, rate_hz: int) -> Iterator[None]:
        """Have both at work until this ends."""
        workers = [threading.Thread(target=self._repeat, args=(work, rate_hz)) for work in (self._take, self._send)]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self._over.set()
            for worker in workers:
                worker.join()

    async def turned_over(self, number: int) -> None:
        """Wait until so many more were taken, and pushed."""
        took, sent = len(self.took) + number, len(self.sent) + number

        def wait() -> None:
            with self._progress:
                assert self._progress.wait_for(lambda: len(self.took) >= took and len(self.sent) >= sent, WAIT_S)

        await asyncio.to_thread(wait)

    def _repeat(self, work: Callable[[Redis], None], rate_hz: int) -> None:
        with Redis.from_url(self._url) as client:
            start_s, number = time.monotonic(), 0
            while not self._over.is_set():
                due = int((time.monotonic() - start_s) * rate_hz)
                while number < due and not self._over.is_set():
                    work(client)
                    number += 1
                with self._progress:
                    self._progress.notify_all()
                self._over.wait(0.001)

    def _take(self, client: Redis) -> None:
        item = client.lpop(self._queue) if self._names.take_from == "left" else client.rpop(self._queue)
        if isinstance(item, bytes):
            self.took.append(item)

    def _send(self, client: Redis) -> None:
        item = b"theirs %d" % len(self.sent)
        (client.rpush if self._names.take_from == "left" else client.lpush)(self._queue, item)
        self.sent.append(item)


def items(number: int) -> list[bytes]:
    # One in three matches the filter, and of these some are of equal bytes; none of the newest equal the first.
    return [b"odd %d" % (n % 800) if n % 3 == 0 else b"item %d" % n for n in range(number)]


CASES: dict[str, tuple[Action, Scope | None]] = {
    "purge": (Purge(queue=A), None),
    "delete by filter": (Delete(queue=A), Matching(parse_filter("body:odd"))),
    "move": (Move(queue=A, target=B), None),
    "move to RSMQ": (Move(queue=A, target="rsmq:x"), Matching(parse_filter("body:odd"))),
    "pop": (Pop(queue=A, count=2_000), None),
    "trim to the newest": (Trim(queue=A, keep=1_000), None),
    "trim to the oldest": (Trim(queue=A, keep=1_000, keep_oldest=True), None),
}


@pytest.mark.parametrize(("what", "take_from"), [*((what, "right") for what in CASES), ("delete by filter", "left")])
def test_all_that_is_still_there_is_changed_and_every_item_is_accounted_for(
    client: Redis, redis_url: str, folder: Path, what: str, take_from: str
) -> None:
    names = NAMES[take_from]
    action, scope = CASES[what]
    stock = items(ITEMS)
    lay(client, names, A, stock)
    Rsmq(client).create_queue("x")
    traffic = Traffic(redis_url, names, A)
    taken: list[bytes] = []

    async def change() -> tuple[Preview, Counter[bytes], int, ChangeReport, ChangeReport, list[bytes], list[bytes]]:
        lists = list_changes(redis_url, names, folder)
        try:
            with traffic.at_work(RATE_HZ):
                await traffic.turned_over(10)
                preview = await lists.preview(action, scope)
                assert preview.selection is not None
                planned = Counter(item.body or b"" for item in preview.selection)
                await traffic.turned_over(TURNOVER)
                sent_before = len(traffic.sent)
                report = await lists.run(preview).to_end()
            taken.extend(traffic.took)
            there, target = read(client, names, A), read(client, names, B) + _messages(client)
            back = await lists.run(await lists.preview_undo(report.change)).to_end()
            return preview, planned, sent_before, report, back, there, target
        finally:
            await lists.aclose()

    preview, planned, sent_before, report, back, there, target = asyncio.run(change())
    tally = report.tally
    everything = Counter(stock) + Counter(traffic.sent)
    assert report.stopped is None
    assert (tally.failed.total(), tally.unknown, tally.unsure) == (0, 0, 0)
    assert tally.done + tally.skipped.total() == preview.count == planned.total()

    changed = everything - Counter(there) - Counter(taken)
    # Each is in one place only, and only what was planned was changed.
    assert Counter(there) + Counter(taken) + changed == everything
    assert changed.total() == tally.done
    assert not changed - planned
    if isinstance(action, Move):
        assert Counter(target) == changed
    # What is told to be gone was taken by the consumer, and nothing that was planned is left.
    keeps_newest = isinstance(action, Trim) and not action.keep_oldest
    assert set(tally.skipped) <= {KEPT if keeps_newest else "gone meanwhile"}
    gone = planned - changed
    assert gone.total() == tally.skipped.total()
    assert not gone - Counter(taken)
    # A trim leaves what was among the newest when it came to it, and equal items among them.
    newest = 1_000 + len(traffic.sent) - sent_before
    meant = there[:-newest] if what == "trim to the newest" else there
    assert not Counter(meant) & gone

    # The consumer is gone: all comes back, to be taken next, in the order in which it was taken off.
    assert back.tally.done == tally.done
    after = read(client, names, A)
    assert Counter(after) + Counter(taken) == everything
    if "move" not in what:
        assert after[tally.done :] == there
        # Of equal items nobody can tell which is which.
        first = [item for item in after[: tally.done] if everything[item] == 1]
        known = set(first)
        with closing(Journal(folder / "journal.sqlite")) as journal:
            assert first == [item for item in _taken_off(journal, report.change) if item in known]


def _messages(client: Redis) -> list[bytes]:
    return [body for name, body in client.hgetall("rsmq:x:Q").items() if len(name) == 32]
