"""Audits: each trouble is found exactly once, nothing is touched, and live traffic is no trouble."""

import asyncio
import dataclasses
import itertools
import time
from contextlib import aclosing

import pytest
import redis.asyncio
from redis import Redis

from rsmq_tui.monitor.audit.findings import _WORDS, Finding, FindingKind
from rsmq_tui.monitor.audit.rsmq import IDS_SHOWN, audit
from rsmq_tui.monitor.messages.peek import PeekError
from rsmq_tui.protocol import AsyncRsmq, Rsmq, RsmqReader
from rsmq_tui.protocol.rsmq.inspection import QueueInspection
from tests.monitor.auditing import found, progress_of, working
from tests.monitor.trouble import TROUBLE, K, Trouble
from tests.protocol.keyspace import everything, plant, send_old

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", TROUBLE)
async def test_each_is_found_once_and_nothing_is_touched(
    name: str, either: RsmqReader, client: Redis, queues: Rsmq
) -> None:
    trouble = TROUBLE[name]
    trouble.make(client, queues)
    before = everything(client)
    (finding,) = await found(either)

    assert (finding.kind, finding.queue, finding.count) == (trouble.kind, trouble.queue, trouble.count)
    assert not trouble.ids or set(finding.ids) == set(trouble.ids)
    assert (finding.fix is not None) == trouble.fixed
    assert all((finding.what, finding.words.maker, finding.words.effect))
    assert everything(client) == before
    assert await found(either, [trouble.queue]) == [finding]


async def test_all_of_them_at_once(reader: RsmqReader, client: Redis, queues: Rsmq) -> None:
    """Each in a queue of its own."""
    expected = set()
    for number, trouble in enumerate(TROUBLE.values()):
        trouble.make(client, queues)
        if trouble.queue == "q":
            was_listed = client.srem("rsmq:QUEUES", "q")
            for suffix in ("", ":Q"):
                if client.exists(f"rsmq:q{suffix}"):
                    client.rename(f"rsmq:q{suffix}", f"rsmq:q{number}{suffix}")
            if was_listed:
                client.sadd("rsmq:QUEUES", f"q{number}")
        expected.add((trouble.kind, f"q{number}" if trouble.queue == "q" else trouble.queue, trouble.count))
    progress = await progress_of(reader)
    findings = [finding for step in progress for finding in step.findings]

    assert {(finding.kind, finding.queue, finding.count) for finding in findings} == expected
    assert len(findings) == len(expected) == progress[-1].found
    assert [step.examined for step in progress] == sorted(step.examined for step in progress)
    assert progress[-1].queues == len(expected) + 1
    assert not progress[-1].unseen


def test_every_kind_has_its_words_and_its_trouble() -> None:
    assert set(_WORDS) == set(FindingKind) == {trouble.kind for trouble in TROUBLE.values()}


async def test_healthy_queues_have_none(either: RsmqReader, client: Redis, queues: Rsmq) -> None:
    for name in ("empty", "full"):
        queues.create_queue(name, maxsize=-1)
    queues.send_messages("full", ["", "x" * 100_000, *(f"{number}" for number in range(1_500))])
    queues.receive_messages("full", 700)
    queues.pop_message("full")
    client.hset("rsmq:full:Q", mapping={"createdby": "ersin", "msgs": 3, "hiddenmsgs": 1, "totalsend": 5})
    progress = await progress_of(either)

    assert not [finding for step in progress for finding in step.findings]
    assert (progress[-1].queues, progress[-1].found) == (2, 0)
    assert progress[-1].examined >= 1_501 * 2


class TestWhatIsNotOurs:
    """Keys of other namespaces and other programs, which the names may look like."""

    async def test_keys_of_others(self, reader: RsmqReader, client: Redis) -> None:
        Rsmq(client, ns="rsmq:nested").create_queue("inner")
        Rsmq(client, ns="rsmqx").create_queue("inner")
        Rsmq(client, ns="rsmq:nested").send_message("inner", "x")
        client.srem("rsmqx:QUEUES", "inner")
        client.zadd("rsmq:highscores", {"alice": 12, "bob": 99})
        client.zadd("rsmq:times", {"x": 1_700_000_000_000})
        client.hset("rsmq:settings:Q", "colour", "red")
        client.set("rsmq:lock", "1")
        client.set("rsmq:rsmq-tui:0123456789abcdef01234567", "d")

        assert await found(reader) == []

    async def test_a_namespace_is_no_pattern(self, client: Redis, redis_url: str) -> None:
        for ns in ("r*[a]?\\", "rx[a]y\\", "ra"):
            Rsmq(client, ns=ns).create_queue("q")
            client.srem(f"{ns}:QUEUES", "q")
        reader = RsmqReader(redis_url, "r*[a]?\\")
        (finding,) = await found(reader)
        await reader.aclose()

        assert (finding.kind, finding.queue) == (FindingKind.UNLISTED, "q")

    async def test_an_id_that_looks_like_a_counter(self, either: RsmqReader, client: Redis, queues: Rsmq) -> None:
        """The message ``a…a:rc`` is legal, and no counter of ``a…a``; nor is its body a bad count of that."""
        queues.create_queue("q")
        for id in ("a" * 29, "a" * 29 + ":rc"):
            plant(client, "q", id, due_ms=1_700_000_000_000, body="text")
        assert {finding.kind: finding.ids for finding in await found(either)} == {FindingKind.FOREIGN_ID: ("a" * 29,)}
        client.zrem("rsmq:q", "a" * 29 + ":rc")
        client.delete("rsmq:q")
        client.hdel("rsmq:q:Q", "a" * 29)
        (leaked,) = await found(either)

        assert (leaked.kind, leaked.ids) == (FindingKind.LEAKED, ("a" * 29 + ":rc",))


async def test_an_index_that_is_none(reader: RsmqReader, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q")
    client.delete("rsmq:QUEUES")
    client.zadd("rsmq:QUEUES", {"x": 1})
    findings = await found(reader)

    assert [(finding.kind, finding.queue) for finding in findings] == [
        (FindingKind.WRONG_TYPE, "QUEUES"),
        (FindingKind.UNLISTED, "q"),
    ]


async def test_counts_are_exact_and_ids_a_few(reader: RsmqReader, client: Redis, queues: Rsmq) -> None:
    queues.create_queue("q")
    ids = send_old(client, "q", ["x"] * 3_000)
    client.hdel("rsmq:q:Q", *ids[:1_200])
    client.zrem("rsmq:q", *ids[2_000:])
    client.hset("rsmq:q:Q", mapping={f"{number:032}:fr": 1 for number in range(1_100)})
    findings = {finding.kind: finding for finding in await found(reader)}

    assert {kind: finding.count for kind, finding in findings.items()} == {
        FindingKind.DANGLING: 1_200,
        FindingKind.LEAKED: 1_000,
        FindingKind.STRAY: 1_100,
    }
    assert {len(finding.ids) for finding in findings.values()} == {IDS_SHOWN}


async def test_names_and_ids_that_are_no_text(reader: RsmqReader, client: Redis) -> None:
    client.sadd("rsmq:QUEUES", b"\xff\x1b[2J")
    client.hset(b"rsmq:\xff\x1b[2J:Q", mapping={"vt": 1, "delay": 0, "maxsize": -1, b"\xfe\x00": b"\x00"})
    (finding,) = await found(reader)

    assert (finding.kind, finding.queue, finding.ids) == (K.UNKNOWN, "\udcff\x1b[2J", ("\udcfe\x00",))


async def test_a_queue_that_is_not_there(reader: RsmqReader, queues: Rsmq) -> None:
    with pytest.raises(PeekError, match="queue nope does not exist"):
        await found(reader, ["nope"])


class TestPermissions:
    """What a user may not do is told, and the rest is audited nevertheless."""

    @pytest.mark.parametrize(
        ("rules", "unseen", "kinds"),
        [
            (["+@all", "-scan"], ["missing from the index were not searched for"], {"dangling", "leaked"}),
            (
                ["+@all", "-hscan"],
                ["bodies and counters without messages were not searched for"],
                {"dangling", "unlisted"},
            ),
            (["+@all", "-zscan"], ["2 queues: messages were not checked"], {"leaked", "unlisted"}),
            (
                ["+@all", "-time"],
                ["queues: messages were not checked", "queues: bodies and counters without"],
                {"unlisted"},
            ),
            (["+@all", "-sscan"], ["in the index were not checked"], {"unlisted"}),
            (["+@read", "+@connection", "+time"], [], {"dangling", "leaked", "unlisted"}),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    async def test_told(
        self, rules: list[str], unseen: list[str], kinds: set[str], client: Redis, queues: Rsmq, redis_url: str
    ) -> None:
        queues.create_queue("q")
        plant(client, "q", "a" * 32, due_ms=1_700_000_000_000)
        client.hset("rsmq:q:Q", "b" * 32, "leaked")
        queues.create_queue("hidden")
        queues.send_message("hidden", "x")
        client.srem("rsmq:QUEUES", "hidden")
        client.acl_setuser("some", enabled=True, passwords=["+pw"], keys=["*"], commands=[])
        client.execute_command("ACL", "SETUSER", "some", *rules)
        reader = RsmqReader(redis_url.replace("redis://", "redis://some:pw@"))
        progress = await progress_of(reader)
        await reader.aclose()

        assert {finding.kind.value for step in progress for finding in step.findings} == kinds
        assert len(progress[-1].unseen) == len(unseen)
        for sentence, words in zip(progress[-1].unseen, unseen, strict=True):
            assert words in sentence
            assert "no permissions" in sentence
            refused = [rule for rule in rules if rule.startswith("-")]
            assert sentence.endswith(f"; grant it +{refused[0].removeprefix('-')}")

    async def test_many_queues_are_one_sentence(self, client: Redis, queues: Rsmq, redis_url: str) -> None:
        for number in range(3):
            queues.create_queue(f"q{number}")
            queues.send_message(f"q{number}", "x")
        client.acl_setuser("some", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-hscan"])
        reader = RsmqReader(redis_url.replace("redis://", "redis://some:pw@"))
        (sentence,) = (await progress_of(reader))[-1].unseen
        await reader.aclose()

        assert sentence.startswith("3 queues: bodies and counters without messages were not searched for: ")
        assert sentence.endswith("grant it +hscan")

    async def test_nothing_at_all(self, client: Redis, redis_url: str) -> None:
        client.acl_setuser("none", enabled=True, passwords=["+pw"], keys=[], commands=["-@all", "+auth"])
        reader = RsmqReader(redis_url.replace("redis://", "redis://none:pw@"))
        with pytest.raises(PeekError, match="may not read the queues"):
            await found(reader, ["q"])
        await reader.aclose()


class TestManyQueues:
    """An audit of many queues is quick where nothing is in them, says how far it is, and can be ended earlier."""

    COUNT = 2_000

    @pytest.fixture
    def ghosts(self, client: Redis) -> None:
        client.sadd("rsmq:QUEUES", *(f"ghost-{number}" for number in range(self.COUNT)))

    async def test_many_are_looked_at_together_and_it_says_how_far_it_is(
        self, ghosts: None, queues: Rsmq, client: Redis, reader: RsmqReader
    ) -> None:
        for number in range(20):
            queues.create_queue(f"q{number}")
        client.config_resetstat()
        progress = await progress_of(reader)
        assert (progress[-1].queues, progress[-1].found) == (self.COUNT + 20, self.COUNT)
        # Two looks at each ghost and one at each queue, which is empty: nothing in it is walked through.
        stats = client.info("commandstats")
        assert stats["cmdstat_type"]["calls"] <= 2 * (2 * self.COUNT + 20)
        assert not {"cmdstat_zscan", "cmdstat_hscan"} & set(stats)

        first = next(step for step in progress if step.queues)
        assert first.words.startswith(f"1 of {self.COUNT + 20:,} queues")
        assert all(before.elapsed_s <= step.elapsed_s for before, step in itertools.pairwise(progress))
        halfway = dataclasses.replace(first, listed=12_000, queues=3_000, elapsed_s=6.0)
        assert halfway.words == "3,000 of 12,000 queues, 500/s, 18 s left, 0 messages and fields checked"
        named = dataclasses.replace(halfway, listed=0)
        assert named.words == "3,000 queues, 500/s, 0 messages and fields checked"

    async def test_it_ends_after_so_many_queues(self, ghosts: None, reader: RsmqReader) -> None:
        async with aclosing(audit(reader, limit=7)) as steps:
            progress = [step async for step in steps]
        assert (progress[-1].queues, progress[-1].found) == (7, 7)
        assert progress[-1].unseen == ("not everything was checked: stopped after 7 queues, as requested",)

    async def test_it_ends_after_so_long(self, ghosts: None, reader: RsmqReader) -> None:
        async with aclosing(audit(reader, seconds=0.001)) as steps:
            progress = [step async for step in steps]
        assert progress[-1].queues < self.COUNT
        assert progress[-1].unseen == ("not everything was checked: stopped after 1 ms, as requested",)


DEPTH = 4_000


async def _send(client: redis.asyncio.Redis, queues: AsyncRsmq) -> None:
    # As much as is consumed, so that the audit has an end.
    free = DEPTH - await client.zcard("rsmq:q")
    await queues.send_messages("q", ["", *["x" * 50] * max(0, min(60, free))])


async def _consume(client: redis.asyncio.Redis, queues: AsyncRsmq) -> None:
    for message in await queues.receive_messages("q", 30, vt=5):
        await queues.delete_message("q", message.id)
    await queues.pop_message("q")
    # Back at once: received, and never deleted.
    await queues.receive_messages("q", 3, vt=0)


async def _make_and_delete(client: redis.asyncio.Redis, queues: AsyncRsmq) -> None:
    """As the canonical client does: the hash first, the name in a step of its own; only, a thousand times a second."""
    created = time.monotonic_ns()
    async with client.pipeline(transaction=True) as pipeline:
        for name, value in (("vt", 30), ("delay", 0), ("maxsize", 65536), ("created", created), ("modified", 1)):
            pipeline.hsetnx("rsmq:brief:Q", name, value)
        await pipeline.execute()
    await client.sadd("rsmq:QUEUES", "brief")
    await queues.send_message("brief", "x")
    await queues.delete_queue("brief")


async def test_live_traffic_is_no_trouble(either: RsmqReader, redis_url: str, queues: Rsmq) -> None:
    queues.create_queue("q")
    queues.send_messages("q", ["y"] * DEPTH)
    async with working(redis_url, _send, _send, _consume, _consume, _make_and_delete):
        for _ in range(3):
            assert await found(either) == []
        after = queues.get_queue_attributes("q")

    # There was traffic: it is not a quiet queue that is whole.
    assert min(after.totalsent - DEPTH, after.totalrecv) > 200


async def test_a_server_that_leaves_values_in(
    reader: RsmqReader, client: Redis, queues: Rsmq, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Redis 7.4 an HSCAN returns bodies as well: fewer at a time, with the same outcome."""
    queues.create_queue("q")
    queues.send_messages("q", ["x" * 100] * 600)
    client.hset("rsmq:q:Q", mapping={f"{number:032}": "y" * 2_000 for number in range(90)})
    reader.inspection._can_leave_values_out = False
    asked: list[int] = []
    step = QueueInspection._field_step

    async def noted(self: QueueInspection, attributes: bytes, cursor: bytes, width: int) -> object:
        asked.append(width)
        return await step(self, attributes, cursor, width)

    monkeypatch.setattr(QueueInspection, "_field_step", noted)
    (finding,) = await found(reader)

    assert (finding.kind, finding.count) == (FindingKind.LEAKED, 90)
    assert asked[0] == 16
    assert max(asked) <= 250


async def test_leaving_early_leaves_nothing_behind(reader: RsmqReader, queues: Rsmq) -> None:
    queues.create_queue("q")
    queues.send_messages("q", ["x"] * 2_000)
    steps = audit(reader)
    async for step in steps:
        if step.examined:
            break
    await steps.aclose()

    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def test_trouble_is_told_without_its_numbers_wrong() -> None:
    one, many = Finding(FindingKind.DANGLING, "q", 1), Finding(FindingKind.DANGLING, "q", 1_234)

    assert (one.what, many.what) == ("message id without a body", "1,234 message ids without bodies")
    assert isinstance(next(iter(TROUBLE.values())), Trouble)
