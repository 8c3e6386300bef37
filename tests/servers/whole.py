"""One walk through everything that needs a connection: send, poll, undo."""

from pathlib import Path

from rsmq_tui.monitor import RsmqPoller, Snapshot
from rsmq_tui.protocol import Address, RsmqReader
from rsmq_tui.triage.actions import CreateQueue, Send
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from tests.triage.doing import done, undone


async def whole_walk(address: Address, ns: str, folder: Path) -> None:
    """Create a queue, send to it and take that back, and see each in a poll."""
    triage, poller = ChangeService(RsmqBackend(address, ns), folder), RsmqPoller(RsmqReader(address, ns))
    try:
        assert (await done(triage, CreateQueue(queue="walk", vt=5, delay=0, maxsize=1024))).tally.done == 1
        assert (await done(triage, Send(queue="walk", bodies=(b"one", b"two")))).tally.done == 2
        assert depths(await poller.poll()) == {"walk": 2}
        assert (await undone(triage)).tally.done == 2
        assert depths(await poller.poll()) == {"walk": 0}
    finally:
        await triage.aclose()
        await poller.aclose()


def depths(snapshot: Snapshot) -> dict[str, int | None]:
    """The depth of each queue; that the poll succeeded is part of it."""
    assert snapshot.connection.failure is None, snapshot.connection.failure
    return {queue.name: queue.depth for queue in snapshot.queues}
