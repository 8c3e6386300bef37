"""Consumers and producers at work between every two calls of ours: what they take and send stays theirs."""

import asyncio
import json
import shutil
from collections import Counter, deque
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.monitor.filters.search import INCOMPLETE
from rsmq_tui.monitor.list_poller import search_lists
from rsmq_tui.protocol.connections.script_runner import ScriptRunner
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.naming import item_id
from rsmq_tui.protocol.lists.pages import ListRanges
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.triage.actions import Action, Copy, Delete, Move, Pop, Trim
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.lists import select as list_select
from rsmq_tui.triage.scope import Everything, Matching, Named, Scope
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.changes.controller import end_of_export
from tests.triage.list_doing import NAMES, WORKING, A, B, lay, list_changes, read, send, take

pytestmark = pytest.mark.slow

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
    monkeypatch.setattr(list_select, "ITEMS_MAX", 5)
    return found


@given(steps=STEPS, name=st.sampled_from(sorted(ACTIONS)), places=PLACES, still=st.booleans())
@settings(
    max_examples=20,
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
        scope = Named(tuple(item_id("queue", place, ITEMS[place]) for place in sorted(places)))
    asked = _asked(name, places if scope is not None else None)
    others = Others(client, steps)

    async def change_and_back() -> tuple[ChangeReport, list[bytes], list[bytes], set[bytes], ChangeReport]:
        lists = list_changes(redis_url, NAME, folder)
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

    report, now, moved, theirs, _ = asyncio.run(change_and_back())
    assert report.stopped is None
    assert report.tally.handled == len(asked)
    gone = len(moved) if name == "move" else report.tally.done
    assert report.tally.done == gone
    assert set(moved) <= asked
    if name == "move":
        assert moved == [item for item in ITEMS if item in set(moved)]
    assert set(ITEMS) - set(now) - set(moved) - theirs <= asked

    # Nothing is told to be gone that is there, and nothing that was asked for is left. A trim keeps so many, also when
    # others have removed what was sent later.
    left = asked & set(now)
    assert left <= set(now[-20:] if name == "trim" else [])
    assert report.tally.skipped[list_select.KEPT] >= len(left)

    after = read(client, NAME, A)
    assert len(set(after)) == len(after)
    everything = Counter(after) + Counter(read(client, NAME, B)) + others.took
    assert everything == Counter(ITEMS) + Counter(others.sent)
    if name != "move" and still:
        assert after[-len(now) :] == now or not now
        assert after[: len(after) - len(now)] == [item for item in ITEMS if item in set(after) - set(now)]


async def test_what_is_copied_or_exported_while_consumers_take_is_not_doubled(
    client: Redis, redis_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [b"item %d" % number for number in range(3_000)]
    lay(client, NAME, A, items)
    commands, run = ScriptRunner.commands, ScriptRunner.run

    def taking(call: Any) -> Any:
        async def taken(self: ScriptRunner, *given: Any) -> Any:
            take(client, NAME, A, 7)
            return await call(self, *given)

        return taken

    monkeypatch.setattr(ScriptRunner, "commands", taking(commands))
    monkeypatch.setattr(ScriptRunner, "run", taking(run))
    lists = list_changes(redis_url, NAME, folder)
    path = folder.parent / "exported.jsonl"
    async for _ in lists.export(A, Everything(), path):
        pass
    exported = [json.loads(line)["body"] for line in path.read_text().splitlines()]
    assert len(exported) == len(set(exported)) > 1_000
    await lists.run(await lists.preview(Copy(queue=A, target=B), Everything())).to_end()
    copied = read(client, NAME, B)
    assert len(copied) == len(set(copied)) > 1_000
    await lists.aclose()


@pytest.mark.parametrize(
    ("what", "works", "take_from", "alike"),
    [
        ("search", "pops", "right", True),
        ("search", "leases", "right", False),
        ("search", "leases and returns", "left", True),
        ("export", "pops", "left", False),
        ("export", "leases", "right", True),
        ("export", "leases and returns", "left", False),
    ],
)
async def test_what_stays_is_found_once_while_others_take_and_send(
    client: Redis,
    redis_url: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    works: str,
    take_from: str,
    alike: bool,
) -> None:
    names = NAMES[take_from]
    items = [b"odd %d" % (n % 500) if alike and n % 3 == 0 else b"item %d" % n for n in range(10_000)]
    lay(client, names, A, items)
    took, sent, worked_on = Counter[bytes](), list[bytes](), deque[bytes]()

    def work() -> None:
        """What comes between two calls where each end sees a thousand a second."""
        for _ in range(20):
            if works == "pops":
                took.update(take(client, names, A))
            else:
                item = client.lmove(A, WORKING, names.take_from.upper(), "LEFT")
                assert isinstance(item, bytes)
                worked_on.append(item)
            sent.append(b"item theirs %d" % len(sent))
            send(client, names, A, sent[-1])
        while len(worked_on) > 30:
            item = worked_on.popleft()
            client.lrem(WORKING, -1, item)
            if works == "leases":
                took[item] += 1
            else:
                (client.lpush if names.take_from == "left" else client.rpush)(A, item)

    def between(call: Any) -> Any:
        async def working(self: ScriptRunner, *given: Any) -> Any:
            work()
            return await call(self, *given)

        return working

    monkeypatch.setattr(ScriptRunner, "commands", between(ScriptRunner.commands))
    if what == "search":
        reader = ListReader(redis_url, names, ())
        parts = [part async for part in search_lists(reader, A, parse_filter("body~item|odd"))]
        found = Counter(message.body or b"" for part in parts for message in part.messages)
        assert parts[-1].restarts == 0
        await reader.aclose()
    else:
        lists = list_changes(redis_url, names, folder)
        path = folder.parent / "exported.jsonl"
        (*_, last) = [part async for part in lists.export(A, Everything(), path)]
        found = Counter(json.loads(line)["body"].encode() for line in path.read_text().splitlines())
        assert (last.gone, last.is_incomplete) == (0, False)
        await lists.aclose()
    assert len(sent) > 250
    assert not Counter(items) - took - found, "missed"
    assert not found - Counter(items) - Counter(sent), "doubled"


async def test_what_changed_too_fast_to_be_read_is_said(
    client: Redis, redis_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(client, NAME, A, [b"item %d" % number for number in range(3_000)])
    read_ranges = ListRanges.read
    serials = count()

    async def replacing(self: ListRanges, *given: Any, **limits: Any) -> Any:
        client.delete(A)
        lay(client, NAME, A, [b"item %d" % next(serials) for _ in range(3_000)])
        return await read_ranges(self, *given, **limits)

    monkeypatch.setattr(ListRanges, "read", replacing)
    lists = list_changes(redis_url, NAME, folder)
    (*_, last) = [part async for part in lists.export(A, Everything(), folder.parent / "exported.jsonl")]
    assert last.is_incomplete
    assert end_of_export(last, Path("x")).words.endswith(f" to x; {INCOMPLETE}")
    preview = await lists.preview(Delete(queue=A), Matching(parse_filter("body:item")))
    assert any("may be missing" in note for note in preview.notes)
    preview.close()
    await lists.aclose()


async def test_the_first_of_all_are_copied_once_while_consumers_take(
    client: Redis, redis_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(client, NAME, A, [b"item %d" % number for number in range(3_000)])
    read_ranges = ListRanges.read

    async def taking(self: ListRanges, *given: Any, **limits: Any) -> Any:
        take(client, NAME, A, 7)
        send(client, NAME, A, *(b"theirs %d" % number for number in range(3)))
        return await read_ranges(self, *given, **limits)

    monkeypatch.setattr(ListRanges, "read", taking)
    lists = list_changes(redis_url, NAME, folder)
    report = await lists.run(await lists.preview(Copy(queue=A, target=B), Matching(parse_filter(""), 600))).to_end()
    copied = read(client, NAME, B)
    assert len(copied) == len(set(copied)) == report.tally.done > 500
    await lists.aclose()


@pytest.mark.parametrize("pushed", [3, 300])
async def test_what_is_pushed_between_two_reads_hides_nothing(
    client: Redis, redis_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, pushed: int
) -> None:
    items = [b"item %d" % number for number in range(3_000)]
    lay(client, NAME, A, items)
    read_ranges = ListRanges.read
    bursts = iter(range(12))

    async def pushing(self: ListRanges, *given: Any, **limits: Any) -> Any:
        # At first so much that reads do not overlap, and then no more.
        if next(bursts, None) is not None:
            send(client, NAME, A, *(b"theirs" for _ in range(pushed)))
        return await read_ranges(self, *given, **limits)

    lists = list_changes(redis_url, NAME, folder)
    preview = await lists.preview(Delete(queue=A), Matching(parse_filter("body:item")))
    take(client, NAME, A, 7)
    monkeypatch.setattr(ListRanges, "read", pushing)
    report = await lists.run(preview).to_end()
    assert set(read(client, NAME, A)) == {b"theirs"}
    assert (report.tally.done, dict(report.tally.skipped)) == (2_993, {"gone meanwhile": 7})
    await lists.aclose()


@pytest.mark.parametrize("taken", [30, 55])
async def test_trim_leaves_as_many_as_it_says_where_all_are_alike(
    client: Redis, redis_url: str, folder: Path, taken: int
) -> None:
    lay(client, NAME, A, [b"alike"] * 60)
    lists = list_changes(redis_url, NAME, folder)
    preview = await lists.preview(Trim(queue=A, keep=20))
    take(client, NAME, A, taken)
    report = await lists.run(preview).to_end()
    assert client.llen(A) == min(20, 60 - taken)
    assert report.tally.done == max(0, 40 - taken)
    await lists.aclose()


async def test_long_items_that_have_moved_are_copied_a_few_at_a_time(
    client: Redis, redis_url: str, folder: Path
) -> None:
    items = [b"%03d" % number + b"." * 1_000_000 for number in range(60)]
    for item in items:
        send(client, NAME, A, item)
    lists = list_changes(redis_url, NAME, folder)
    places = (10, 15, 25, 30, 40)
    scope = Named(tuple(item_id("queue", place, items[place]) for place in places))
    preview = await lists.preview(Delete(queue=A), scope)
    take(client, NAME, A, 2)
    client.lrem(A, 1, items[25])
    send(client, NAME, A, b"later")
    with client.monitor() as monitor:
        report = await lists.run(preview).to_end()
        back = await lists.run(await lists.preview_undo()).to_end()
        client.echo("the end")
        copied = list(_copied_by_scripts(monitor))
    assert (report.tally.done, dict(report.tally.skipped)) == (4, {"gone meanwhile": 1})
    assert back.tally.done == 4
    first = [items[place] for place in places if place != 25]
    assert read(client, NAME, A) == [*first, *(item for item in items[2:] if item not in (*first, items[25])), b"later"]
    assert copied
    assert max(copied) <= 10
    await lists.aclose()


async def test_short_items_among_long_ones_are_removed_without_copying_many_long_ones(
    client: Redis, redis_url: str, folder: Path
) -> None:
    items = [b"short %d" % n if n % 10 == 0 else b"%03d" % n + b"." * 300_000 for n in range(200)]
    for item in items:
        send(client, NAME, A, item)
    lists = list_changes(redis_url, NAME, folder)
    preview = await lists.preview(Delete(queue=A), Matching(parse_filter("body:short")))
    with client.monitor() as monitor:
        report = await lists.run(preview).to_end()
        client.echo("the end")
        copied = list(_copied_by_scripts(monitor))
    assert report.tally.done == 20
    assert read(client, NAME, A) == [item for item in items if not item.startswith(b"short")]
    # 2 MB between the first and the last, and some on both sides for what may have moved.
    assert copied
    assert max(copied) <= 40
    await lists.aclose()


def _copied_by_scripts(monitor: Any) -> Iterator[int]:
    """Tell how many items each command of a script copies at once."""
    for seen in monitor.listen():
        name, *arguments = seen["command"].split(" ")
        if name.upper() == "ECHO":
            return
        if seen["client_type"] == "lua" and name.upper() == "LRANGE":
            yield int(arguments[2]) - int(arguments[1]) + 1


async def _changed(
    lists: ChangeService, action: Action, scope: Scope | None, between: dict[str, Others], others: Others
) -> ChangeReport:
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
