"""Consumers and producers at work between every two calls of ours: what they take and send stays theirs."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import list_item
from rsmq_tui.triage import list_batches
from rsmq_tui.triage.actions import Action, Delete, Move
from rsmq_tui.triage.list_actions import Pop, Trim
from rsmq_tui.triage.list_desk import ListTriage
from rsmq_tui.triage.previews import Named, Scope
from rsmq_tui.triage.reports import Report
from tests.triage.list_doing import NAMES, A, B, lay, read, send, take

NAME = NAMES["right"]
ITEMS = [b"item %d" % number for number in range(60)]
ACTIONS: dict[str, Action] = {
    "delete": Delete(queue=A),
    "pop": Pop(queue=A, count=30),
    "trim": Trim(queue=A, keep=20),
    "move": Move(queue=A, target=B),
}
STEPS = st.lists(st.sampled_from(["", "take", "take 3", "send", "remove"]), min_size=1, max_size=8)
PLACES = st.none() | st.sets(st.integers(min_value=0, max_value=59), min_size=1, max_size=40)


class Others:
    """Those who work on the queue; ``took`` and ``sent`` are theirs."""

    def __init__(self, client: Redis, steps: list[str]) -> None:
        self.took: Counter[bytes] = Counter()
        self.sent: list[bytes] = []
        self._client = client
        self._steps: Iterator[str] = cycle(steps)

    def step(self) -> None:
        what = next(self._steps)
        if what.startswith("take"):
            took = take(self._client, NAME, A, 3 if what.endswith("3") else 1)
            self.took.update(item for item in took if item is not None)
        elif what == "send":
            self.sent.append(b"theirs %d" % len(self.sent))
            send(self._client, NAME, A, self.sent[-1])
        elif what == "remove" and (there := read(self._client, NAME, A)):
            # As somebody does who acks by LREM from the midst.
            self._client.lrem(A, 1, there[len(there) // 2])
            self.took[there[len(there) // 2]] += 1


@pytest.fixture
def others_between_calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, Others]:
    found: dict[str, Others] = {}
    apply = ListEditor.apply

    async def applied(self: ListEditor, *given: Any) -> str:
        if "now" in found:
            found["now"].step()
        return await apply(self, *given)

    monkeypatch.setattr(ListEditor, "apply", applied)
    monkeypatch.setattr(list_batches, "_ITEMS", 5)
    monkeypatch.setattr(list_batches, "_INSERTED", 3)
    return found


@given(steps=STEPS, name=st.sampled_from(sorted(ACTIONS)), places=PLACES, still=st.booleans())
@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_nothing_is_lost_or_doubled_whoever_works_there(
    client: Redis,
    redis_url: str,
    folder: Path,
    others_between_calls: dict[str, Others],
    steps: list[str],
    name: str,
    places: set[int] | None,
    still: bool,
) -> None:
    client.flushall()
    shutil.rmtree(folder, ignore_errors=True)
    lay(client, NAME, A, ITEMS)
    action = ACTIONS[name]
    scope = None
    if places is not None and name in ("delete", "move"):
        scope = Named(tuple(list_item(place, ITEMS[place]).id.decode() for place in sorted(places)))
    asked = _asked(name, places if scope is not None else None)
    others = Others(client, steps)

    async def change_and_back() -> tuple[Report, list[bytes], list[bytes], set[bytes], Report]:
        lists = ListTriage(redis_url, NAME, folder)
        try:
            report = await _changed(lists, action, scope, others_between_calls, others)
            now, moved = read(client, NAME, A), read(client, NAME, B)
            theirs = set(others.took) | set(others.sent)
            if still:
                others_between_calls.clear()
            back = await lists.run(await lists.preview_undo(report.change)).to_end() if report.undoable else report
            return report, now, moved, theirs, back
        finally:
            others_between_calls.clear()
            await lists.aclose()

    report, now, moved, theirs, back = asyncio.run(change_and_back())
    assert report.stopped is None
    assert report.tally.handled == len(asked)
    gone = len(moved) if name == "move" else report.tally.done
    assert report.tally.done == gone
    assert set(moved) <= asked
    if name == "move":
        assert moved == [item for item in ITEMS if item in set(moved)]
    assert set(ITEMS) - set(now) - set(moved) - theirs <= asked

    after = read(client, NAME, A)
    assert len(set(after)) == len(after)
    everything = Counter(after) + Counter(read(client, NAME, B)) + others.took
    lost = Counter(ITEMS) + Counter(others.sent) - everything
    # What was removed and could not be put back would be lost; what was put back twice, doubled.
    assert everything - Counter(ITEMS) - Counter(others.sent) == Counter()
    assert sum(lost.values()) == (0 if name == "move" or report.undoable else report.tally.done)
    if not back.tally.inexact:
        known = [item for item in after if item in ITEMS]
        assert known == [item for item in ITEMS if item in set(known)]


async def _changed(
    lists: ListTriage, action: Action, scope: Scope | None, between: dict[str, Others], others: Others
) -> Report:
    preview = await lists.preview(action, scope)
    others.step()
    between["now"] = others
    return await lists.run(preview).to_end()


def _asked(name: str, places: set[int] | None) -> set[bytes]:
    if name == "pop":
        return set(ITEMS[:30])
    if name == "trim":
        return set(ITEMS[:40])
    return set(ITEMS) if places is None else {ITEMS[place] for place in places}
