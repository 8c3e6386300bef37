"""Recording what the dashboard polls: said at the top, and never in its way."""

from dataclasses import dataclass, field
from typing import cast

from rsmq_tui.history.recorder import Recorder
from rsmq_tui.monitor import Snapshot, Thresholds
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.tui.driving import play, until
from tests.tui.reading import text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import poll_of, queue_of


@dataclass
class Tally:
    polls: int = 0
    problem: str | None = None
    is_failing: bool = False


@dataclass
class Kept:
    """Keeps what it is given."""

    taken: list[tuple[Snapshot, str | None]] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def add(self, snapshot: Snapshot, profile: str | None = None, thresholds: Thresholds | None = None) -> None:
        self.taken.append((snapshot, profile))


async def test_each_snapshot_is_recorded_under_its_profile(source: ScriptedSource) -> None:
    kept = Kept()
    app = RsmqApp([WatchedServer(source, name="prod")], recording=cast(Recorder, kept), clock=source.clock)
    async with app.run_test(size=(120, 30)) as pilot:
        snapshot = poll_of(source, [queue_of("orders")])
        await play(pilot, source, snapshot)
        assert kept.taken == [(snapshot, "prod")]
        assert text_of(app).splitlines()[0].rstrip().endswith("● live REC")
        kept.tally = Tally(problem="no space left on device", is_failing=True)
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=1)]))
        await until(pilot, lambda: "✗ not recorded: no space left on device" in text_of(app), "it is said")
        assert "● live" in text_of(app)


async def test_without_a_recording_nothing_is_said(source: ScriptedSource) -> None:
    app = RsmqApp([WatchedServer(source)], clock=source.clock)
    async with app.run_test(size=(120, 30)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        assert "REC " not in text_of(app).splitlines()[0]
