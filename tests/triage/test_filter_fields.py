"""Every term of a filter chooses for every action what a few lines of plain Python choose, with a limit or without."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.protocol import RawMessage, Rsmq, make_id
from rsmq_tui.triage.actions import Delete
from rsmq_tui.triage.scope import Matching
from rsmq_tui.triage.service import ChangeService
from tests.protocol.keyspace import now_ms
from tests.triage.doing import message_actions
from tests.triage.keyspace import lay

pytestmark = pytest.mark.slow

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Laid:
    """A message as the model sees it: ages and when it is due in ms from now."""

    id: bytes
    age_ms: int
    due_ms: int
    rc: int
    body: bytes

    @property
    def number(self) -> int:
        return int(json.loads(self.body)["n"])

    @property
    def hidden(self) -> bool:
        return self.due_ms > 0


ACTIONS = message_actions("a", "b")
MODEL: dict[str, Callable[[Laid], bool]] = {
    "": lambda each: True,
    "size<60": lambda each: len(each.body) < 60,
    "!size<60": lambda each: len(each.body) >= 60,
    "size>400": lambda each: len(each.body) > 400,
    "size=0": lambda each: False,
    "rc>=3": lambda each: each.rc >= 3,
    "rc=0": lambda each: each.rc == 0,
    "!rc=0": lambda each: each.rc != 0,
    "age>30m": lambda each: each.age_ms > 30 * MINUTE_MS,
    "!age>30m": lambda each: each.age_ms <= 30 * MINUTE_MS,
    "due<10m": lambda each: each.due_ms < 10 * MINUTE_MS,
    "due>0s": lambda each: each.due_ms > 0,
    "state:ready": lambda each: not each.hidden,
    "state:inflight": lambda each: each.hidden and each.rc > 0,
    "state:delayed": lambda each: each.hidden and not each.rc,
    "!state:hidden": lambda each: not each.hidden,
    "state:poison": lambda each: each.rc >= 5,
    "body:needle": lambda each: b"needle" in each.body,
    "!body:needle": lambda each: b"needle" not in each.body,
    "body~ne+dle": lambda each: b"needle" in each.body,
    "json.n>11": lambda each: each.number > 11,
    "!json.n>11": lambda each: each.number <= 11,
    "size<60 rc>=1": lambda each: len(each.body) < 60 and each.rc >= 1,
    "size>60 body:needle": lambda each: len(each.body) > 60 and b"needle" in each.body,
    "size>60 state:delayed age>30m json.n": lambda each: (
        len(each.body) > 60 and each.hidden and not each.rc and each.age_ms > 30 * MINUTE_MS
    ),
}


@pytest.fixture(params=[65_536, -1], ids=["short bodies", "bodies of any length"])
def laid(request: pytest.FixtureRequest, client: Redis, queues: Rsmq) -> list[Laid]:
    """Messages that differ in every field from each other, in the order in which they are due."""
    at_ms = now_ms(client)
    queues.create_queue("a", vt=1000, maxsize=request.param)
    queues.create_queue("b", vt=1000, maxsize=-1)
    found = []
    for number in range(24):
        age_ms = (5 if number % 2 else 60) * MINUTE_MS + number
        due_ms = (-5, 5, 60)[number % 3] * MINUTE_MS + number
        rc = (0, 0, 1, 3, 7)[number % 5]
        word = "needle" if number % 4 < 2 else "straw"
        body = json.dumps({"n": number, word: "x" * (5, 100, 500)[number // 2 % 3]}).encode()
        found.append(Laid(make_id((at_ms - age_ms) * 1000).encode(), age_ms, due_ms, rc, body))
    for each in found:
        count = b"%d" % each.rc if each.rc else None
        score = b"%d" % (at_ms + each.due_ms)
        lay(client, "a", RawMessage(each.id, score, count, count and b"%d" % at_ms, len(each.body), each.body))
    return sorted(found, key=lambda each: each.due_ms)


@pytest.mark.parametrize(("laid", "name"), [*((65_536, name) for name in ACTIONS), (-1, "delete")], indirect=["laid"])
async def test_what_is_chosen_is_what_the_model_chooses(triage: ChangeService, laid: list[Laid], name: str) -> None:
    # What compare-and-set compares.
    rcs = {each.id: b"%d" % each.rc if each.rc else None for each in laid}
    for text, matches in MODEL.items():
        matching = [each for each in laid if matches(each)]
        assert len(matching) > 1 or text == "size=0"
        for limit in (None, 5, 24):
            meant = [each for each in matching if each.hidden] if limit and name == "release" else matching
            preview = await triage.preview(ACTIONS[name], Matching(parse_filter(text), limit))
            assert preview.selection is not None
            chosen = {message.id: message for message in preview.selection}
            assert set(chosen) == {each.id for each in meant[:limit]}, (text, limit)
            assert preview.count == len(chosen)
            if name in ("delete", "move", "redrive"):
                assert {id: message.size for id, message in chosen.items()} == {
                    each.id: len(each.body) for each in meant[:limit]
                }
            assert all(message.rc == rcs[id] for id, message in chosen.items())
            preview.close()


@pytest.mark.parametrize("limit", [None, 5])
async def test_an_export_writes_what_the_model_chooses(
    triage: ChangeService, laid: list[Laid], limit: int | None, tmp_path: Path
) -> None:
    for number, (text, matches) in enumerate(MODEL.items()):
        path = tmp_path / f"{number}.jsonl"
        async for _ in triage.export("a", Matching(parse_filter(text), limit), path):
            pass
        lines = path.read_text().splitlines()
        written = {json.loads(line)["id"].encode() for line in lines}
        matching = {each.id for each in laid if matches(each)}
        assert written <= matching, text
        assert len(written) == len(lines) == min(len(matching), limit or len(matching)), text


@pytest.mark.parametrize("limit", [3, 24])
async def test_what_is_deleted_by_size_has_that_size(
    triage: ChangeService, client: Redis, laid: list[Laid], limit: int
) -> None:
    await triage.run(await triage.preview(Delete(queue="a"), Matching(parse_filter("size<60"), limit))).to_end()
    small = [each.id for each in laid if len(each.body) < 60]
    assert set(client.zrange("rsmq:a", 0, -1)) == {each.id for each in laid} - set(small[:limit])
