"""The dashboard on a real server with a real journal, for tests that change queues."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import redis
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Input

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.protocol import Rsmq, RsmqReader
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.scope import Scope
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.confirm import ConfirmScreen
from rsmq_tui.tui.changes.forms import FormScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.servers import WatchedServer
from tests.triage.keyspace import kept
from tests.tui.driving import says, until
from tests.tui.reading import app_of, names_in


@asynccontextmanager
async def changing(
    url: str,
    folder: Path,
    *,
    size: tuple[int, int] = (120, 36),
    read_only: bool = False,
    notifications: bool = False,
    interval_s: float = 0.1,
) -> AsyncIterator[Pilot[None]]:
    """Open the dashboard; the first poll is on the screen."""
    make_triage = partial(ChangeService, RsmqBackend(url, "rsmq"), folder, read_only=read_only)
    poller = RsmqPoller(RsmqReader(url), interval_s=interval_s)
    app = RsmqApp([WatchedServer(poller, make_triage=make_triage, read_only=read_only)])
    async with app.run_test(size=size, notifications=notifications) as pilot:
        dashboard = app.dashboard
        await until(
            pilot, lambda: dashboard.snapshot and dashboard.snapshot.connection.fresh_at_s, "the first poll arrives"
        )
        yield pilot


async def on_queue(pilot: Pilot[None], queue: str) -> None:
    """Put the overview's cursor on a queue."""
    screen = pilot.app.screen
    assert isinstance(screen, OverviewScreen)
    await until(pilot, lambda: queue in names_in(pilot), "the queue is shown")
    screen.table.place_cursor(names_in(pilot).index(queue))


async def in_queue(pilot: Pilot[None], queue: str, messages: int) -> None:
    """Open a queue's screen, and wait for its messages."""
    await on_queue(pilot, queue)
    await pilot.press("enter")
    await until(pilot, lambda: not isinstance(pilot.app.screen, OverviewScreen), "the queue opens")
    await until(pilot, lambda: len(names_in(pilot)) == messages, "its messages are shown")


_PAST_OF_UNDO = {
    "hidden": "restored ",
    "extended": "restored ",
    "released": "restored ",
    "requeued": "moved back ",
    "changed": "restored ",
    "moved": "moved back ",
    "redriven": "moved back ",
    "copied": "removed ",
    "sent": "removed ",
    "imported": "removed ",
    "created": "removed ",
}


def past_of_undo(shown: str) -> str:
    """Return how the outcome of an undo begins, from the outcome of its change."""
    return _PAST_OF_UNDO.get(shown.split(maxsplit=1)[0], "put back ")


async def fill(pilot: Pilot[None], **values: str | bool) -> None:
    """Wait for the form, fill it in, and ask for its preview."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, FormScreen) and app.screen.is_mounted, "the form opens")
    for id, value in values.items():
        if isinstance(value, bool):
            app.screen.query_one(f"#{id}", Checkbox).value = value
        elif id == "body":
            app.screen.query_one(f"#{id}").load_text(value)  # type: ignore[attr-defined]
        else:
            app.screen.query_one(f"#{id}", Input).value = value
    app.screen.query_one("#yes").focus()
    await pilot.press("enter")


class Orders:
    """Queues ``orders``, ``other`` and ``orders-dlq`` on a server, and the dashboard to change them in."""

    def __init__(self, url: str, client: redis.Redis, folder: Path) -> None:
        self.url, self.client, self.folder = url, client, folder
        self.queues = Rsmq(client)
        for name in ("orders", "other", "orders-dlq"):
            self.queues.create_queue(name, vt=600)
        self.queues.send_messages("orders", [f'{{"order": {number}}}' for number in range(5)])
        self.queues.send_messages("orders-dlq", [f"dead {number}" for number in range(3)])

    def dashboard(self, **options: Any) -> AbstractAsyncContextManager[Pilot[None]]:
        """Open the dashboard; the options are those of ``changing``."""
        return changing(self.url, self.folder, **options)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Pilot[None]]:
        """Open the dashboard, and the screen of ``orders`` in it."""
        async with self.dashboard() as pilot:
            await in_queue(pilot, "orders", 5)
            yield pilot

    def everything(self) -> dict[bytes, Any]:
        return kept(self.client)

    def depth(self, queue: str) -> int:
        return self.client.zcard(f"rsmq:{queue}")

    def bodies(self) -> list[bytes]:
        """The bodies in ``orders``, sorted."""
        return sorted(value for name, value in self.client.hgetall("rsmq:orders:Q").items() if len(name) == 32)

    def ids(self, queue: str) -> list[str]:
        """The ids in a queue, by due time."""
        return [id.decode() for id in self.client.zrange(f"rsmq:{queue}", 0, -1)]


def ask_change(
    app: RsmqApp,
    name: str,
    queue: str,
    scope: Scope | None = None,
    *,
    body: bytes | None = None,
    place: str | None = None,
) -> None:
    """Ask for a change of that name, on the first server or the one of a place."""
    dashboard = app.dashboard
    server = dashboard.servers[0] if place is None else dashboard.server(place)
    dashboard.changes.ask(server, name, queue, scope, body=body)


async def confirm(pilot: Pilot[None], outcome: str = "") -> str:
    """Confirm the preview, and wait until the change has ended; returns its outcome, which begins so, as ``made``."""
    await say_yes(pilot)
    said = await made(pilot)
    assert said.startswith(outcome), said
    return said


async def say_yes(pilot: Pilot[None]) -> None:
    """Wait for the preview, and confirm it."""
    await until(pilot, lambda: _is_armed(pilot), "the preview can be said yes to")
    pilot.app.screen.query_one("#yes").focus()
    await pilot.press("enter")
    await until(pilot, lambda: not isinstance(pilot.app.screen, ModalScreen), "the dialogs close")


async def made(pilot: Pilot[None]) -> str:
    """Wait until a change has ended, and return its outcome, and the key that undoes it."""
    changes = app_of(pilot).dashboard.changes
    await until(pilot, lambda: changes.status is not None and not changes.status.is_running, "the change ends")
    assert changes.status is not None
    return f"{changes.status.words}{' · u undoes' if changes.status.may_undo else ''}"


async def asked(pilot: Pilot[None], words: str = "") -> None:
    """Wait until the dialog of a preview is on the screen, and these words with it."""
    is_there = "the dialog opens"
    await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen) and pilot.app.screen.is_mounted, is_there)
    await says(pilot, words)


def _is_armed(pilot: Pilot[None]) -> bool:
    screen = pilot.app.screen
    if not (isinstance(screen, ConfirmScreen) and screen.is_mounted):
        return False
    yes = screen.query_one("#yes")
    return bool(yes.display and not yes.disabled)
