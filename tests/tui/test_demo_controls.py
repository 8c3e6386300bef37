"""The control pane of a demo, with controls that only remember what was turned on."""

from dataclasses import dataclass

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.dialogs.demo import ControlsScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.servers import WatchedServer
from tests.tui.driving import opened, play, press, says, settled, until
from tests.tui.reading import lines_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import poll_of, queue_of

pytestmark = pytest.mark.slow

QUEUES = ("emails", "orders")


@dataclass(frozen=True)
class FakeControl:
    name: str
    key: str
    group: str
    title: str
    expect: str


CONTROLS = (
    FakeControl("pause", "2", "server", "paused", "Nothing answers."),
    *(FakeControl(f"c{key}", key, "consumer", f"is {key}", f"What {key} does.") for key in "swfcSWFbpdto"),
)


class FakeControls:
    """Controls of two queues; those of the server are the same for both."""

    queues = QUEUES

    def __init__(self) -> None:
        self.on: set[tuple[str, str]] = set()
        self.problem: str | None = None

    def of(self, queue: str) -> tuple[FakeControl, ...]:
        return CONTROLS if queue == "orders" else CONTROLS[:3]

    def is_on(self, name: str, queue: str) -> bool:
        return (name, "" if name == "pause" else queue) in self.on

    def switch(self, name: str, queue: str) -> str:
        if self.problem is not None:
            raise RuntimeError(self.problem)
        self.on ^= {(name, "" if name == "pause" else queue)}
        return f"{name} of {queue}"


def app_with(source: ScriptedSource, controls: FakeControls | None) -> RsmqApp:
    return RsmqApp([WatchedServer(source)], clock=source.clock, controls=controls)


def shown(pilot: Pilot[None]) -> list[list[str]]:
    """The rows of the list: key, group, title, state."""
    screen = pilot.app.screen
    assert isinstance(screen, ControlsScreen)
    return [line.split() for line in lines_of(screen.table)[1:]]


@pytest.mark.parametrize("size", [(80, 24), (140, 45)])
async def test_each_key_turns_a_control_on_and_off_again(source: ScriptedSource, size: tuple[int, int]) -> None:
    controls = FakeControls()
    app = app_with(source, controls)
    async with app.run_test(size=size, notifications=True) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders"), queue_of("emails")]))
        await press(pilot, "slash", *"orders", "enter", "D")
        assert len(shown(pilot)) == len(CONTROLS)
        expect = pilot.app.screen.query_one("#expect", Static)
        await press(pilot, "s")
        assert controls.on == {("cs", "orders")}
        assert shown(pilot)[1] == ["s", "consumer", "is", "s", "●", "on"]
        assert str(expect.visual) == "What s does."
        assert str(pilot.app.screen.query_one("#said", Static).visual) == "is s: on; cs of orders"
        await press(pilot, "2", "j", "enter")
        assert controls.on == {("pause", "")}
        # What is turned on of the server is so for each queue.
        await press(pilot, "l")
        assert [row[0] for row in shown(pilot)] == ["2", "s", "w"]
        assert shown(pilot)[0][-1] == "on"
        assert "the server, and emails" in text_of(app)
        await press(pilot, "h", "2", "D")
        assert controls.on == set()
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_the_dashboard_behind_goes_on(source: ScriptedSource) -> None:
    app = app_with(source, FakeControls())
    async with app.run_test(size=(140, 45)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=7)]))
        await press(pilot, "D")
        await play(pilot, source, poll_of(source, [queue_of("orders", ready=4_711)]))
        await until(pilot, lambda: "4,711" in text_of(app), "the new number is shown")


async def test_what_cannot_be_done_is_told(source: ScriptedSource) -> None:
    controls = FakeControls()
    controls.problem = "The server cannot be asked: [/foo]."
    app = app_with(source, controls)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        await press(pilot, "D", "2")
        await until(pilot, lambda: "[/foo]" in text_of(app), "the problem is told")
        assert shown(pilot)[0][-1] == "○"


async def test_only_a_demo_has_the_key(source: ScriptedSource) -> None:
    async with opened(source, [queue_of("orders")]) as pilot:
        await press(pilot, "D")
        await settled(pilot)
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert " D " not in text_of(pilot.app)  # type: ignore[arg-type]


async def test_the_help_of_a_demo_without_a_tour_has_no_key_for_its_steps(source: ScriptedSource) -> None:
    app = app_with(source, FakeControls())
    async with app.run_test(size=(100, 100)) as pilot:
        await play(pilot, source, poll_of(source, [queue_of("orders")]))
        await press(pilot, "?")
        await says(pilot, "Demo: stop, slow or break its clients")
        assert "tour" not in text_of(app)
