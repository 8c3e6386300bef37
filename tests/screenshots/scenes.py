"""The pictures: which screen, which size, which theme, and how one gets there."""

import base64
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from rsmq_tui.events.model import Event, EventKind, Severity
from rsmq_tui.events.recorder import EventRecorder
from rsmq_tui.events.store import FILE_NAME, EventStore
from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import History
from rsmq_tui.monitor import Connection, MessageState, Snapshot, parse_filter
from rsmq_tui.monitor.audit.findings import Finding, FindingKind
from rsmq_tui.monitor.audit.rsmq import AuditProgress
from rsmq_tui.protocol import Failure, Row
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.server.status import ServerStatus, SlowCommand
from rsmq_tui.triage.actions import Undo
from rsmq_tui.triage.change import Change, State
from rsmq_tui.triage.scope import still_matching
from rsmq_tui.triage.undo.part import ChangedMessage
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.overview.search import SearchScreen
from rsmq_tui.tui.replay.session import ReplaySession, replay_session
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.lines import StatusLine
from rsmq_tui.tui.widgets.pane import Pane
from rsmq_tui.tui.widgets.tour import TourStrip
from tests.history.replayed import Tape
from tests.screenshots.analysis import scripted_analysis, scripted_changes
from tests.screenshots.history import NOW_MS, TOUR_STORIES, order_messages, play_history
from tests.screenshots.lists import list_server
from tests.screenshots.moving import Step, moving
from tests.tui.scripted import FakeClock, ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage, change_of

_TITLE = "rsmq-tui"


@dataclass(frozen=True, slots=True)
class Server:
    """One of several servers in a picture, in its profile's colour; one that ``is_down`` has just stopped answering."""

    name: str
    colour: str
    queues: Sequence[str]
    is_down: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """One picture: keys pressed from the overview on, of servers or of a replay of one, then a look.

    With ``steps`` it is one that moves.
    """

    name: str
    keys: Sequence[str] = ()
    size: tuple[int, int] = (132, 32)
    theme: str = "rsmq-dark"
    ascii_only: bool = False
    servers: Sequence[Server] = ()
    is_replay: bool = False
    has_analysis: bool = False
    has_lists: bool = False
    has_events: bool = False
    has_life: bool = False
    steps: Sequence[Step] = ()


_SERVERS = (
    Server("prod-eu", "#ff5f5f", ("orders", "invoices", "thumbnails", "webhooks")),
    Server("prod-us", "#ff9f43", ("orders", "emails", "search-index", "audit-log"), is_down=True),
    Server("staging", "#5fd787", ("webhooks", "reminders", "search-index")),
)
_FINDINGS = (
    Finding(
        FindingKind.DANGLING, "invoices", 2, ("hocx8qopw1aQ0zR7cK2mV5nB8xL4jD6g", "hocx8qrk02hF9sT3yW6eP1uI7oG5kZ4b")
    ),
    Finding(
        FindingKind.LEAKED, "orders", 1_204, ("hocwz1m3kd0Xv5Ys8Aq2Wb7Ec4Rf9Tg1", "hocwz1m9a7Jm3Kp6Lq8No1Ui5Yh2Bv4c")
    ),
    Finding(FindingKind.GHOST, "orders-old"),
    Finding(FindingKind.UNLISTED, "emails-retry"),
    Finding(FindingKind.FOREIGN_ID, "webhooks", 3, ("6A1f0c2b-94d7-4e0a-b6f3-71c2d8a95e10",)),
)
_HOST, _BESIDE_LISTS = "cache-1", ("orders", "invoices", "emails")
_INFO = {
    "redis_version": "7.2.11", "role": "master", "connected_slaves": "1", "uptime_in_seconds": "1814400",
    "slave0": "ip=10.0.0.7,port=6379,state=online,offset=88120,lag=0", "master_repl_offset": "88120",
    "used_memory": "3865470566", "maxmemory": "4294967296", "maxmemory_policy": "allkeys-lru", "evicted_keys": "0",
    "connected_clients": "41", "blocked_clients": "6", "maxclients": "10000", "instantaneous_ops_per_sec": "2140",
    "rdb_last_bgsave_status": "ok", "rdb_changes_since_last_save": "1204", "aof_enabled": "0", "loading": "0",
}  # fmt: skip
_SLOW = (SlowCommand(NOW_MS - 340_000, 48_200, ("KEYS", "session:*")),)
_LOGGED = (
    (-3_140, None, EventKind.RESTARTED, Severity.WARNING, "restarted after 21d 0h: up for 4 s"),
    (-2_470, "reports-2024", EventKind.DELETED, Severity.INFO, "deleted by change 41; it held 12 messages before"),
    (-1_215, "orders", EventKind.ATTRIBUTES, Severity.INFO, "vt 30 s to 60 s"),
    (-655, "invoices", EventKind.CHANGE, Severity.INFO, "change 42, move: moved 5 of 5 messages to spare, by ann"),
)
_REFUNDS = tuple(
    b'{"type": "refund", "order": %d, "amount": %.2f}' % (order, amount)
    for order, amount in ((48211, 19.9), (48230, 204.0), (48307, 8.75))
)


def _changes() -> list[Change]:
    """What was done in the last hour, the newest first."""
    server = ScriptedSource().last.server
    made: tuple[dict[str, Any], ...] = (
        {"change": 44, "at_ms": NOW_MS - 131_000, "name": "undo", "past": "put back", "undoes": 42, "done": 5,
         "planned": 5, "queue": "invoices", "what": "change 42: moved 5 messages to spare", "who": "ben"},
        {"change": 43, "at_ms": NOW_MS - 322_000, "what": "match json.type=refund, in the whole queue", "done": 1_195,
         "planned": 1_204, "skipped": 9, "undone": 2},
        {"change": 42, "at_ms": NOW_MS - 655_000, "name": "move", "past": "moved", "queue": "invoices",
         "target": "spare", "what": "the 5 marked messages", "done": 5, "planned": 5, "who": "ann",
         "state": State.UNDONE},
        {"change": 41, "at_ms": NOW_MS - 2_470_000, "name": "delete-queue", "past": "deleted", "queue": "reports",
         "what": "every message of the queue", "done": 13, "planned": 13, "who": "ann"},
    )  # fmt: skip
    return [
        change_of(**{"profile": "PROD-EU", "server": server, "state": State.DONE, "touched": 1} | each) for each in made
    ]


_TOUR = (
    Step((), 5, "rsmq-tui demo --tour: ten things to do, on queues of its own"),
    Step(("j", "j"), 4, "j moves down", 1),
    Step(("enter",), 5, "Enter opens a queue", 2),
    Step(("enter",), 5, "Enter opens a message", 3),
    Step(("escape", "l", "l", "W"), 5, "W watches a message until its timeout is over", 4),
    Step(
        ("escape", "escape", "escape", "g", "j", "enter", "plus", "ctrl+s"),
        5,
        "+ hides a message: first what it will do",
    ),
    Step(("ctrl+s", "0", "ctrl+s"), 5, "0 releases it", 5),
    Step(("slash", *"welcome", "enter"), 5, "/ finds messages by what is in them", 6),
    Step(("a", *"hello", "ctrl+s", "ctrl+s"), 4, "a sends a message", 7),
    Step(("x",), 5, "x deletes: first the numbers, exactly"),
    Step(("ctrl+s", "u", "ctrl+s"), 5, "u takes it back", 8),
)
_DOWN = Failure("timeout", "no answer within 5 s", "is it busy, or is the network?")

SCENES = (
    Scene("tour", size=(132, 30), steps=_TOUR),
    Scene("overview", keys=("j",), size=(164, 40)),
    Scene("overview-light", keys=("j",), size=(164, 40), theme="rsmq-light"),
    Scene("overview-narrow", size=(60, 16)),
    Scene("pane", keys=("j",), size=(160, 44)),
    Scene("queue", keys=("j", "enter")),
    Scene("filter", keys=("j", "enter", "slash", *"json.type=refund", "enter", "space", "space", "j", "space")),
    Scene("queue-light", keys=("j", "enter"), theme="rsmq-light"),
    Scene("message", keys=("j", "enter", "enter")),
    Scene("life", keys=("j", "enter", "W"), size=(132, 24), has_life=True),
    Scene("body", keys=("slash", *"invoices", "enter", "enter", "G", "enter", *"jjjj", "space", "slash", *"sku")),
    Scene("search", keys=("f", *"queue:*s json.type=refund", "enter", "space", "j", "j"), size=(132, 24)),
    Scene("confirm", keys=("j", "enter", "A", "x")),
    Scene("journal", keys=("J", "j"), size=(132, 20)),
    Scene("change", keys=("J", "j", "enter", "j", "space", "j", "j", "v", "j", "j", "v"), size=(132, 20)),
    Scene("servers", size=(132, 19), servers=_SERVERS),
    Scene("lists", keys=("j",), size=(132, 20), has_lists=True),
    Scene("groups", keys=("G", "asterisk", "b", "g", "j", "j", "enter"), size=(132, 24), has_lists=True),
    Scene("commands", keys=("colon", *"order"), size=(132, 24)),
    Scene("audit", keys=("F", "j")),
    Scene("events", keys=("L",), size=(132, 20), has_events=True),
    Scene("server", keys=("i",)),
    Scene("history", keys=("H", "l", "l", "j", "j"), has_analysis=True),
    Scene("help", keys=("question_mark",)),
    Scene("replay", keys=("m", *["full_stop"] * 7, "p"), is_replay=True),
    Scene("diff", keys=("m", *["full_stop"] * 7, "D"), size=(132, 16), is_replay=True),
)


async def picture(scene: Scene) -> str:
    """Drive the app to the scene and return its picture as SVG, the same bytes at each run."""
    with tempfile.TemporaryDirectory() as folder:
        return await _picture(scene, Path(folder))


async def _picture(scene: Scene, folder: Path) -> str:
    clock = FakeClock()
    is_tour = bool(scene.steps)
    servers = [_watched(server, clock) for server in scene.servers] or [
        _tour_server(clock) if is_tour else _one_server(clock)
    ]
    if scene.has_lists:
        servers = [
            _watched(Server(_HOST, "", _BESIDE_LISTS), clock, is_named=False),
            list_server(clock, _HOST, _triage()),
        ]
    # Its clock stands still: time that passes for the screen is not played.
    replay = _replay(FakeClock(), folder) if scene.is_replay else None
    app = RsmqApp(
        servers if replay is None else replay.servers,
        replay=replay,
        analysis=scripted_analysis() if scene.has_analysis else None,
        change_logs=scripted_changes(Path(folder)) if scene.has_analysis else (),
        events=_events(clock, folder) if scene.has_events else None,
        clock=clock,
        theme=scene.theme,
        ascii_only=scene.ascii_only,
        tour=is_tour,
    )
    app.animation_level = "none"
    async with app.run_test(size=scene.size) as pilot:
        await _settle(pilot)
        while scene.has_events and not _is_logged(app):
            await pilot.pause(0.01)
        pictures = []
        for step in scene.steps or [Step(scene.keys)]:
            for key in step.keys:
                await pilot.press(key)
                await _settle(pilot)
                await _may_confirm(pilot)
            if scene.has_life:
                await _live(pilot, servers[0].source, clock)
            if is_tour:
                await _poll_again(pilot, servers[0].source, clock)
            await _follow_tour(pilot, step.done)
            pictures.append(await _at_rest(pilot, clock))
    return moving(pictures, scene.steps, _TITLE) if scene.steps else pictures[0]


async def _poll_again(pilot: Pilot[None], source: Any, clock: FakeClock) -> None:
    """Let the same queues be polled once more, as they are between two steps of a person."""
    source.play(replace(source.last, connection=Connection(fresh_at_s=clock.now_s)))
    await _settle(pilot)


async def _may_confirm(pilot: Pilot[None]) -> None:
    """Wait until the button of a preview works: it has to be seen for a moment before."""
    while pilot.app.screen.query("#yes:disabled"):
        await pilot.pause(0.05)


async def _follow_tour(pilot: Pilot[None], done: int) -> None:
    """Wait until as many steps of the tour are done, and the strip says so."""
    tour = dashboard_of(pilot.app).tour
    while tour is not None and len(tour.done) < done:
        await pilot.pause(0.01)
    for strip in pilot.app.screen.query(TourStrip):
        strip.follow()


async def _at_rest(pilot: Pilot[None], clock: FakeClock) -> str:
    """Return the picture of the screen once nothing is to come."""
    # The pane shows the rest of what the cursor is on when it rests. What has none may count by this clock at any time.
    if pilot.app.screen.query(Pane):
        clock.now_s += 0.3
    while any(pane.is_waiting for pane in pilot.app.screen.query(Pane)):
        await pilot.pause(0.01)
    # They follow the age twice a second by the clock of the machine, and count it by this one.
    for screen in pilot.app.screen_stack:
        if isinstance(screen, DashboardScreen):
            screen.dim_stale()
    await pilot.pause()
    for line in pilot.app.screen.query(StatusLine):
        line.repaint()
    svg = pilot.app.export_screenshot(title=_TITLE, simplify=True)
    # The random ids that Rich gives a picture's parts are the only thing that differs between runs.
    return re.sub(r"terminal-\d+", "terminal", svg)


async def _live(pilot: Pilot[None], source: Any, clock: FakeClock) -> None:
    """Let the message that is watched be received, return, and be received again."""
    row = source.messages["orders"][0]
    at_ms, first_ms = NOW_MS, NOW_MS + 9_000
    for later_ms, rc, due_ms in ((10_000, 1, 39_000), (40_000, 1, 39_000), (44_000, 2, 73_500), (62_000, 2, 73_500)):
        clock.now_s += (NOW_MS + later_ms - at_ms) / 1000
        at_ms = NOW_MS + later_ms
        state = MessageState.IN_FLIGHT if due_ms > later_ms else MessageState.READY
        now = replace(row, rc=rc, fr_ms=first_ms, due_ms=NOW_MS + due_ms, score=str(NOW_MS + due_ms), state=state)
        source.messages["orders"] = [now, *source.messages["orders"][1:]]
        source.play(replace(source.last, at_ms=at_ms, connection=Connection(fresh_at_s=clock.now_s)))
        await _settle(pilot)


def _events(clock: FakeClock, folder: Path) -> Callable[[], EventRecorder]:
    """Write what happened earlier to a log, and return what goes on with it."""
    with closing(EventStore(folder / FILE_NAME)) as store:
        store.write(
            Event(NOW_MS + s * 1000, ScriptedSource().last.server, "rsmq", queue, kind, severity, words, same=words)
            for s, queue, kind, severity, words in _LOGGED
        )

    def start() -> EventRecorder:
        recorder = EventRecorder(folder, clock=clock, tick_s=0.01)
        recorder.start()
        return recorder

    return start


def _is_logged(app: RsmqApp) -> bool:
    """Tell whether the log is read."""
    recorder = app.dashboard.events
    return recorder is not None and len(recorder.recent) >= len(_LOGGED)


class _KnownServer(ScriptedSource):
    """Its server tells of itself."""

    async def server(self) -> tuple[ServerStatus, ...]:
        return (ServerStatus("", NOW_MS, _INFO, None, _SLOW, ()),)


def _envelope() -> bytes:
    """Make a body as some services send it: JSON in a string, in base64."""
    lines = [{"sku": f"A-{number}", "count": number % 4 + 1, "price": 4.5 * number} for number in range(1, 9)]
    detail = json.dumps({"customer": {"id": 4711, "vip": True, "country": "DE"}, "currency": "EUR", "lines": lines})
    return base64.b64encode(json.dumps({"type": "invoice.paid", "version": 3, "detail": detail}).encode())


def _one_server(clock: FakeClock) -> WatchedServer:
    source = _KnownServer(clock)
    source.messages["orders"] = order_messages(60)
    source.messages["invoices"] = order_messages(24)
    source.bodies[source.messages["invoices"][-1].id] = _envelope()
    source.audit_steps = (AuditProgress(None, 8, 59_321, 120, len(_FINDINGS), _FINDINGS),)
    source.play(play_history(source))
    return WatchedServer(source, make_triage=_triage)


def _tour_server(clock: FakeClock) -> WatchedServer:
    """What the tour of the demo begins with: a queue that works, one that nobody receives from, and dead letters."""
    source = ScriptedSource(clock)
    source.messages["orders"] = order_messages(18, NOW_MS - 1_400, 80)
    for number, row in enumerate(order_messages(6, NOW_MS - 18_000, 700)):
        fr_ms = NOW_MS - 14_000 + 700 * number
        due_ms, state = fr_ms + 30_000, MessageState.IN_FLIGHT
        taken = replace(row, state=state, rc=1, fr_ms=fr_ms, due_ms=due_ms, score=str(due_ms))
        source.messages["orders"].append(taken)
    source.messages["emails"] = [
        replace(row, rc=0, fr_ms=None, preview=body, size=len(body))
        for number, row in enumerate(order_messages(12, NOW_MS - 640_000, 500))
        for body in [json.dumps({"to": f"customer-{number}@example.com", "template": "welcome"}).encode()]
    ]
    snapshot = play_history(source, TOUR_STORIES)
    source.depths = {queue.name: (queue.depth or 0, queue.ready or 0) for queue in snapshot.queues}
    source.due_counts = (("now", 18), ("< 10 s", 0), ("< 1 min", 6), ("< 10 min", 0))
    source.play(snapshot)
    triage: Any = _KeptTriage(count=1)
    return WatchedServer(source, make_triage=lambda: triage)


class _KeptTriage(ScriptedTriage):
    """Its journal has the runs."""

    async def changes(self, limit: int) -> list[Change]:
        made: list[Change] = []
        for number, run in enumerate(self.runs, 1):
            if run.report is None:
                continue
            if isinstance(run.preview.action, Undo):
                made[-1] = replace(made[-1], state=State.UNDONE)
            done = run.report.tally.done
            made.append(change_of(change=number, name=run.report.name, done=done, planned=done, state=State.DONE))
        return made[::-1][:limit]


def _watched(server: Server, clock: FakeClock, *, is_named: bool = True) -> WatchedServer:
    source = ScriptedSource(clock, place=server.name)
    snapshot = play_history(source, server.queues)
    if server.is_down:
        link = Connection(_DOWN, clock.now_s - 12, clock.now_s + 4)
        source.play(replace(snapshot, connection=link))
    else:
        source.play(snapshot)
    name, colour = (server.name, server.colour) if is_named else ("", None)
    return WatchedServer(source, place=server.name, name=name, colour=colour, make_triage=_triage)


def _replay(clock: FakeClock, folder: Path) -> ReplaySession:
    """Record the ten minutes by hand, and open a replay of them."""
    tape = Tape(folder, place=Place("prod-eu", "redis://cache-1:6379/0", "rsmq"))
    play_history(_RecordedSource(clock, tape))
    tape.seal()
    return replay_session(History(folder), from_ms=NOW_MS - 500_000, playing=False, clock=clock)


class _RecordedSource(ScriptedSource):
    """Writes down what it is polled."""

    def __init__(self, clock: FakeClock, tape: Tape) -> None:
        super().__init__(clock)
        self._tape = tape

    def snapshot_of(self, rows: dict[str, Row], at_ms: int = NOW_MS) -> Snapshot:
        snapshot = super().snapshot_of(rows, at_ms)
        self._tape.poll(at_ms, *snapshot.queues)
        return snapshot


def _triage() -> Any:
    triage = ScriptedTriage()
    triage.profile = "PROD-EU"
    triage.what = "match json.type=refund, in the whole queue"
    triage.notes = (still_matching(parse_filter("json.type=refund")).sentence,)
    triage.bodies, triage.known, triage.messages = _REFUNDS, _changes(), _refunds()
    triage.states = {MessageState.READY: 1190, MessageState.IN_FLIGHT: 14}
    return triage


def _refunds() -> list[ChangedMessage]:
    """Return the messages of a change, of which two have come back."""
    return [
        ChangedMessage(
            1,
            place,
            row.id,
            row.rc or 0,
            row.sent_ms,
            row.size,
            row.preview,
            Outcome.DONE,
            is_known=True,
            undone=place in (2, 8),
        )
        for place, row in enumerate(row for row in order_messages(3 * 1_195) if b"refund" in (row.preview or b""))
    ]


def _shows_state_of(replay: ReplaySession, app: App[None]) -> bool:
    """Tell whether the screens know by now that it plays, or that it is paused."""
    snapshot = app.dashboard.snapshot if isinstance(app, RsmqApp) else None
    return snapshot is None or snapshot.paused is not replay.player.is_playing


async def _settle(pilot: Pilot[None]) -> None:
    """Let the messages, the workers and the painting that a key led to come to rest."""
    for _ in range(3):
        await pilot.pause()
        replay = pilot.app.dashboard.replay if isinstance(pilot.app, RsmqApp) else None
        while replay is not None and (replay.player.is_busy or not _shows_state_of(replay, pilot.app)):
            await pilot.pause(0.01)
        # An empty list would mean all workers, and the one that polls never ends.
        if busy := [worker for worker in pilot.app.workers if worker.group != "poll"]:
            await pilot.app.workers.wait_for_complete(busy)
    # What it has found is shown at intervals.
    if isinstance(pilot.app.screen, SearchScreen):
        pilot.app.screen._tick()
    await pilot.pause()
