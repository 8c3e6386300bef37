"""What the state machines have in common that make changes between those of others: see the tests of interleavings."""

import asyncio
import shutil
from abc import abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from redis import Redis

from rsmq_tui.triage.actions import Action
from rsmq_tui.triage.change import ChangeReport
from rsmq_tui.triage.scope import Preview
from rsmq_tui.triage.service import ChangeService
from tests.triage.doing import done, undone

T = TypeVar("T")
S = TypeVar("S")


@dataclass
class Change(Generic[S]):
    """One that was made, and what lay there just before and just after."""

    number: int
    action: Action
    before: S
    after: S


class ChangeMachine(RuleBasedStateMachine, Generic[S]):
    """Makes changes in parts, so that others can come between them, on a server without keys and with a new journal."""

    def __init__(self, client: Redis, url: str, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.client, self.url, self.folder, self.loop = client, url, folder, loop
        self.previewed: tuple[Any, ...] | None = None
        self.made: list[Change[S]] = []

    @abstractmethod
    def service(self) -> ChangeService:
        """Return what makes the changes."""

    @abstractmethod
    def state(self) -> S:
        """Return what lies in the queues."""

    @abstractmethod
    def check_undo(self, change: Change[S], report: ChangeReport, now: S, after: S) -> None:
        """Check what an undo has done, by what lay there before and after it."""

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def clear(self) -> None:
        self.client.flushall()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.triage = self.service()

    def teardown(self) -> None:
        if hasattr(self, "triage"):
            if self.previewed is not None:
                self.previewed[0].close()
            self.wait(self.triage.aclose())

    def ran(self, preview: Preview) -> tuple[ChangeReport, S, S]:
        """Make what was previewed; returns its report, and what lay there before and after."""
        before = self.state()
        report = self.wait(self.triage.run(preview).to_end())
        after = self.state()
        assert report.stopped is None
        assert report.tally.handled == preview.count
        return report, before, after

    @precondition(lambda self: self.made)
    @rule()
    def undo(self) -> None:
        change = self.made.pop()
        report, now, after = self.ran(self.wait(self.triage.preview_undo(change.number)))
        self.check_undo(change, report, now, after)

    def make_and_undo(self, action: Action) -> None:
        """Make a change, and undo all of it if it did anything."""
        report = self.wait(done(self.triage, action))
        if report.undoable:
            back = self.wait(undone(self.triage, report.change))
            assert (back.tally.done, back.tally.skipped, back.tally.failed) == (report.tally.done, {}, {})
