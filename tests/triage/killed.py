"""Queues and a journal for each step at which a change is killed, and what is known of it afterwards."""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from redis import Redis

from rsmq_tui.triage.change import Change, State
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.service import ChangeService
from tests.triage.crashing import Crasher
from tests.triage.doing import audit_lines
from tests.triage.keyspace import kept, markers


class KilledChanges(ABC):
    """The same queues, and a journal of their own, for each step at which somebody is killed."""

    def __init__(self, client: Redis, url: str, root: Path, process: "subprocess.Popen[str]") -> None:
        self.client = client
        self._url, self._root, self._process = url, root, process
        self._number = 0
        self.killed = False
        self.begin()

    def begin(self) -> None:
        self._number += 1
        self.folder = self._root / str(self._number)
        self.folder.mkdir()
        self.crasher = Crasher(self._process, self._url, self.folder)
        self.client.flushall()
        self._plant()
        self.before = kept(self.client)

    def steps(self) -> Iterator[int]:
        """Number the steps at which to kill, until ``killed`` says that the end came first; each has its own queues."""
        for kill_at in count(1):
            yield kill_at
            if not self.killed:
                assert kill_at > 6
                return
            self.begin()

    @abstractmethod
    def _plant(self) -> None:
        """Make the queues."""

    @abstractmethod
    def service(self) -> ChangeService:
        """What makes changes, as the next start of the program does."""

    async def recovered(self) -> list[Change]:
        service = self.service()
        found = await service.recover()
        assert await service.recover() == []
        await service.aclose()
        return found

    async def changes_if_killed(self, what: str, kill_at: int) -> list[Change]:
        """Have a change killed and recover; returns what the journal has of it, which is one change or none."""
        self.killed = self.crasher.run(what, kill_at)
        recovered = await self.recovered()
        self.check_all_is_reported()
        changes = self.changes()
        assert len(recovered) <= len(changes) <= 1
        return changes

    async def undone(self, change: int | None = None) -> None:
        service = self.service()
        report = await service.run(await service.preview_undo(change)).to_end()
        assert report.stopped is None
        await service.aclose()

    async def recover_and_undo(self) -> None:
        """Recover, and undo the change if it can be; nothing of either is unknown."""
        service = self.service()
        await service.recover()
        changes = self.changes()
        assert [change.unsure for change in changes] in ([], [0])
        if changes and changes[0].can_be_undone:
            report = await service.run(await service.preview_undo()).to_end()
            assert (report.tally.unknown, report.tally.unsure, report.stopped) == (0, 0, None)
        await service.aclose()

    def changes(self) -> list[Change]:
        path = self.folder / "journal.sqlite"
        if not path.exists():
            return []
        journal = Journal(path)
        found = journal.changes()
        journal.close()
        return found

    def check_all_is_reported(self) -> None:
        """Every change is known to its end, has one line in the audit log, and left no outcome on the server."""
        changes = self.changes()
        assert State.RUNNING not in {change.state for change in changes}
        lines = audit_lines(self.folder)
        assert sorted(line["change"] for line in lines) == sorted(change.change for change in changes)
        sentence = {line["change"]: line for line in lines}
        for change in changes:
            line = sentence[change.change]
            assert (line["done"], line["skipped"], line["failed"]) == (change.done, change.skipped, change.failed)
        assert set(markers(self.client).values()) <= {b""}
