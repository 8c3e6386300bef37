"""A recording of a queue that operators changed: a real server, recorder and changes; only the clock is the test's."""

import asyncio
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.history.recorder import Recorder
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.triage.actions import Action, Purge
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.clocked_server import ClockedServer

EVERY_US = 5_000_000
PURGED = 300


@dataclass
class Operated:
    """What was recorded: the ``history``, the audit ``log``, the server's address, and when changes began."""

    history: Path
    log: Path
    server: str = ""
    first_ms: int = 0
    last_ms: int = 0
    changed_ms: list[int] = field(default_factory=list)


async def operated(folder: Path) -> Operated:
    """Record ten minutes: a queue grows, is purged after four minutes, and after six the purge is undone."""
    found = Operated(folder / "history", folder / "state" / "audit.jsonl")
    recorder = Recorder(found.history, state=folder / "state")
    recorder.start()
    async with AsyncExitStack() as stack:
        server = stack.enter_context(ClockedServer())
        if not server.is_clocked:
            pytest.skip("this machine cannot set the clock of the server")
        client = stack.enter_context(Redis.from_url(server.url))
        poller = await stack.enter_async_context(aclosing(RsmqPoller(RsmqReader(server.url))))
        service = ChangeService(RsmqBackend(server.url, "rsmq"), folder / "state")
        await stack.enter_async_context(aclosing(service))
        queues = Rsmq(client)
        queues.create_queue("orders")
        queues.send_messages("orders", ["x"] * PURGED)

        async def change(preview_of: Action | None) -> ChangeReport:
            preview = await (service.preview_undo() if preview_of is None else service.preview(preview_of))
            found.changed_ms.append(server.at_us // 1000)
            return await service.run(preview).to_end()

        found.server, found.first_ms = service.server, server.at_us // 1000
        for poll in range(120):
            found.last_ms = server.at_us // 1000
            recorder.add(await poller.poll(), "")
            server.move(EVERY_US // 2)
            queues.send_message("orders", "y")
            if poll == 48:
                assert (await change(Purge(queue="orders"))).tally.done == PURGED + 49
            if poll == 72:
                assert (await change(None)).tally.done == PURGED + 49
            # Later than the changes of this moment.
            server.move(EVERY_US // 2)
    recorder.close()
    assert await asyncio.to_thread(recorder.wait, 100.0)
    assert recorder.tally.problem is None
    return found
