"""The audit's screen: what was found comes as it is found, and is mended from there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from textual.pilot import Pilot

from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.monitor.audit.rsmq import AuditProgress
from rsmq_tui.protocol import Rsmq
from rsmq_tui.tui.changes.controller import ChangeStatus
from rsmq_tui.tui.overview.audit import AuditScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from tests.protocol.keyspace import send_old
from tests.triage.keyspace import kept
from tests.tui.changing import changing, confirm, made, on_queue, say_yes
from tests.tui.driving import opened, play, press, says, until
from tests.tui.reading import app_of, table_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

LEAKED = Finding(FindingKind.LEAKED, "orders", 3, ("one", "two", "three"))
SECONDS = Finding(FindingKind.SECONDS, "orders", 1, ("four",))
WRONG = Finding(FindingKind.WRONG_TYPE, "mail", detail="messages are a list, attributes a hash")


def _step(*findings: Finding, queues: int = 2, found: int = 0) -> AuditProgress:
    return AuditProgress("orders", queues, 1_204, 0, found, findings)


@asynccontextmanager
async def _auditing(source: ScriptedSource, **options: Any) -> AsyncIterator[Pilot[None]]:
    """Run the app, and begin an audit of all queues."""
    async with opened(source, [queue_of("orders", ready=3), queue_of("mail")], **options) as pilot:
        await press(pilot, "F")
        assert isinstance(pilot.app.screen, AuditScreen)
        yield pilot


async def test_findings_come_as_they_are_found(source: ScriptedSource) -> None:
    source.audit_steps = (_step(LEAKED), _step(WRONG, found=2))
    source.search_gate = asyncio.Semaphore(0)
    async with opened(source, [queue_of("orders", ready=3), queue_of("mail")]) as pilot:
        await pilot.press("F")
        await until(pilot, lambda: "   checking" in text_of(app_of(pilot)), "it looks")
        source.search_gate.release()
        await until(pilot, lambda: len(table_of(pilot).rows) == 1, "the first is shown")
        assert "3 bodies without messages" in text_of(app_of(pilot))
        assert "checking orders" in text_of(app_of(pilot))
        source.search_gate.release()
        await until(pilot, lambda: len(table_of(pilot).rows) == 2, "the second is shown")
        await until(pilot, lambda: "   checking" not in text_of(app_of(pilot)), "it ends")
        assert "2 findings · 2 queues, 1,204 messages and fields checked" in text_of(app_of(pilot))
        assert source.audits == [None]


async def test_the_finding_under_the_cursor_is_explained(source: ScriptedSource) -> None:
    source.audit_steps = (_step(LEAKED, WRONG),)
    async with _auditing(source) as pilot:
        await says(pilot, "made by")
        assert "one, two, three" in text_of(app_of(pilot))
        assert LEAKED.words.effect[:40] in text_of(app_of(pilot))
        await press(pilot, "j")
        assert "no safe fix" in text_of(app_of(pilot))


async def test_nothing_found_is_said(source: ScriptedSource) -> None:
    source.audit_steps = (_step(),)
    async with _auditing(source) as pilot:
        await says(pilot, "No problems found.")


async def test_a_server_that_cannot_be_read_is_no_clean_bill(source: ScriptedSource) -> None:
    source.peek_error = "the connection was refused"
    async with _auditing(source) as pilot:
        await says(pilot, "the connection was refused")
        assert "No problems found" not in text_of(app_of(pilot))


async def test_what_was_not_looked_at_is_said(source: ScriptedSource) -> None:
    source.audit_steps = (AuditProgress(None, 1, 2, 3, 0, (), ("queues were not looked for: no permission",)),)
    async with _auditing(source) as pilot:
        await says(pilot, "no permission")


async def test_enter_opens_the_queue_and_r_looks_again(source: ScriptedSource) -> None:
    source.audit_steps = (_step(LEAKED),)
    async with _auditing(source) as pilot:
        await until(pilot, lambda: len(table_of(pilot).rows) == 1, "it is found")
        await press(pilot, "r")
        await until(pilot, lambda: source.audits == [None, None], "it looks again")
        await until(pilot, lambda: len(table_of(pilot).rows) == 1, "it is found once")
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, QueueScreen)


async def test_a_fix_is_for_all_of_the_queue_but_what_may_be_meant_so(source: ScriptedSource) -> None:
    triage = ScriptedTriage()
    source.audit_steps = (_step(LEAKED, SECONDS, WRONG),)
    async with _auditing(source, triage=triage, notifications=True) as pilot:
        await until(pilot, lambda: len(table_of(pilot).rows) == 3, "they are found")
        await press(pilot, "f")
        await until(pilot, lambda: len(triage.asked) == 1, "it is previewed")
        assert triage.asked[0][0].findings == (LEAKED,)
        assert triage.asked[0][0].ns == "rsmq"
        await press(pilot, "escape", "j", "f")
        await until(pilot, lambda: len(triage.asked) == 2, "it is previewed")
        assert triage.asked[1][0].findings == (SECONDS, LEAKED)
        await press(pilot, "escape", "j", "f")
        await says(pilot, "check it manually")
        assert len(triage.asked) == 2


async def test_another_namespace_is_looked_at_anew(source: ScriptedSource) -> None:
    triage = ScriptedTriage()
    source.audit_steps = (_step(LEAKED),)
    async with _auditing(source, triage=triage) as pilot:
        await until(pilot, lambda: len(table_of(pilot).rows) == 1, "it is found")
        source.audit_steps = (_step(),)
        await play(pilot, source, replace(poll_of(source, [queue_of("orders")]), ns="mail"))
        await until(pilot, lambda: len(source.audits) == 2, "it looks again")
        await says(pilot, "No problems found.")
        await press(pilot, "f")
        assert triage.asked == []


async def test_a_change_that_ends_while_it_looks_makes_it_look_again(source: ScriptedSource) -> None:
    source.audit_steps = (_step(LEAKED),)
    source.search_gate = asyncio.Semaphore(0)
    async with opened(source, [queue_of("orders", ready=3)]) as pilot:
        await pilot.press("F")
        await until(pilot, lambda: "   checking" in text_of(app_of(pilot)), "it looks")
        app_of(pilot).dashboard.changes._show(ChangeStatus("fixed 1"))
        source.search_gate.release()
        await until(pilot, lambda: len(source.audits) == 2, "it looks again")
        source.search_gate.release()
        await until(pilot, lambda: "   checking" not in text_of(app_of(pilot)), "it ends")
        assert len(table_of(pilot).rows) == 1


async def test_what_could_not_be_looked_at_is_no_clean_bill(source: ScriptedSource) -> None:
    source.audit_steps = (AuditProgress(None, 1, 2, 3, 0, (), ("HSCAN was refused",)),)
    async with _auditing(source) as pilot:
        await says(pilot, "HSCAN was refused")
        assert "No problems found" not in text_of(app_of(pilot))


async def test_where_nothing_may_be_changed_there_is_no_fix(source: ScriptedSource) -> None:
    triage = ScriptedTriage(read_only=True)
    source.audit_steps = (_step(LEAKED),)
    async with _auditing(source, triage=triage) as pilot:
        await until(pilot, lambda: len(table_of(pilot).rows) == 1, "it is found")
        await press(pilot, "f")
        assert isinstance(pilot.app.screen, AuditScreen)
        assert "f fix" not in text_of(app_of(pilot)).splitlines()[-1]
        assert triage.asked == []


async def test_on_a_real_server_a_leak_is_found_mended_and_brought_back(
    redis_url: str, client: redis.Redis, tmp_path: Path
) -> None:
    queues = Rsmq(client)
    queues.create_queue("orders")
    send_old(client, "orders", ["kept", "leaked"])
    client.zrem("rsmq:orders", client.zrange("rsmq:orders", 0, 0)[0])
    before = kept(client)
    async with changing(redis_url, tmp_path, size=(132, 36)) as pilot:
        await on_queue(pilot, "orders")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "the queue opens")
        await pilot.press("F")
        await says(pilot, "body without a message")
        await pilot.press("f")
        await say_yes(pilot)
        assert "fixed 1" in await made(pilot)
        assert client.hlen("rsmq:orders:Q") == len(before[b"rsmq:orders:Q"]) - 1
        await says(pilot, "No problems found")
        app_of(pilot).dashboard.changes._show(None)
        await pilot.press("u")
        await confirm(pilot)
    assert kept(client) == before
