"""The life of one message, from its state at each poll, and the screen that shows it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.binding import BindingType
from textual.strip import Strip
from textual.worker import Worker

from rsmq_tui.monitor import MessageRow, MessageState, MessageView, PeekError, Snapshot
from rsmq_tui.monitor.messages.peek import item_place_of
from rsmq_tui.monitor.poller import ReadsAgain
from rsmq_tui.monitor.text import clock, duration, plural, printable, short_clock
from rsmq_tui.tui.keys import Where, bindings_of
from rsmq_tui.tui.queue.message import may_follow, may_read_again, row_pieces
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.painted import Painted, Piece
from rsmq_tui.tui.widgets.row_table import fit
from rsmq_tui.tui.widgets.text_view import LineView


class StageName(StrEnum):
    """The state of a message during a stage of its life."""

    SENT = "sent"
    DELAYED = "delayed"
    READY = "ready"
    IN_FLIGHT = "in flight"
    EXPIRED = "expired"
    BACK = "back"
    AGAIN = "received again"
    GONE = "deleted"


@dataclass(frozen=True, slots=True)
class Stage:
    """The state of a message from ``at_ms`` on; None if the time is unknown, because the message was first seen later.

    It began at ``after_ms`` at the earliest, if that is not known exactly. It ends by itself at ``ends_ms``, if at all.
    """

    name: StageName
    at_ms: float | None
    after_ms: float | None = None
    ends_ms: float | None = None
    rc: int | None = None


_WAITING = (StageName.READY, StageName.BACK)
_TAKEN = (StageName.IN_FLIGHT, StageName.AGAIN, StageName.EXPIRED)
# A message was ready at once if its score is its time; some clients write whole seconds.
_AT_ONCE_MS = 1_000


class Life:
    """The stages of one message, from successive observations; ``seen`` is the last one.

    ``vt_ms`` is the visibility timeout of its queue, if it has one, from which the time of a receive is computed.
    """

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.seen: MessageView | None = None
        self.vt_ms: float | None = None

    def see(self, view: MessageView) -> None:
        """Process the next observation."""
        before, self.seen = self.seen, view
        row = view.row
        if before is None or not self.stages:
            if row is not None:
                self._begin(row, view.at_ms)
        elif row is None:
            if before.row is not None:
                self._catch_up(before.row, view.at_ms)
                self._go_on(StageName.GONE, view.at_ms, self._seen_after(before.at_ms))
        elif before.row is None:
            # An undo has put it back.
            self._go_on(self._name_of(row), view.at_ms, before.at_ms, row)
        elif row.is_item:
            self._follow_item(before.row, row, before.at_ms, view.at_ms)
        else:
            self._follow(before.row, row, before.at_ms, view.at_ms)

    @property
    def receives(self) -> int | None:
        """How often it was received: by its receive count, or for a list item, as observed."""
        row = None if self.seen is None else self.seen.row
        counted = [stage.rc for stage in self.stages if stage.rc is not None]
        if row is not None and row.rc is not None:
            return row.rc
        return (
            max(counted)
            if counted
            else sum(stage.name in (StageName.IN_FLIGHT, StageName.AGAIN) for stage in self.stages)
        )

    @property
    def unseen_receives(self) -> int:
        """How many of its receives are no stage: those before the first observation, or between two of them."""
        seen = {stage.rc for stage in self.stages if stage.rc is not None}
        return (self.receives or 0) - len(seen) if seen else 0

    def lasted_ms(self, index: int, now_ms: float) -> float | None:
        """Return how long a stage lasted, or has lasted until now."""
        begun_ms = self.stages[index].at_ms
        ended_ms = self.stages[index + 1].at_ms if index + 1 < len(self.stages) else now_ms
        return None if begun_ms is None or ended_ms is None else max(0.0, ended_ms - begun_ms)

    def at(self, now_ms: float) -> "Life":
        """Return its life at a time after the last observation, if nothing changes it until then."""
        later = Life()
        later.stages, later.seen, later.vt_ms = list(self.stages), self.seen, self.vt_ms
        if self.seen is not None and self.seen.row is not None:
            later._catch_up(self.seen.row, now_ms)
        return later

    def _begin(self, row: MessageRow, at_ms: int) -> None:
        if row.sent_ms is not None:
            self.stages.append(Stage(StageName.SENT, row.sent_ms))
        if row.is_item:
            self._go_on(self._name_of(row), None if row.sent_ms is None or row.due_ms else row.sent_ms, None, row)
            self._catch_up(row, at_ms)
            return
        begun_ms = row.sent_ms
        if not row.rc:
            due_ms = row.due_ms
            if due_ms is None or due_ms > (at_ms if begun_ms is None else begun_ms + _AT_ONCE_MS):
                self._go_on(StageName.DELAYED, begun_ms, None, row)
            else:
                self._go_on(StageName.READY, due_ms if begun_ms is None else begun_ms, None)
        else:
            self._go_on(StageName.READY, begun_ms, None)
            if row.fr_ms is not None:
                self._go_on(StageName.IN_FLIGHT, row.fr_ms, None, replace(row, rc=1, due_ms=None))
            if row.rc > 1:
                # Neither the time nor the number is known.
                self._go_on(StageName.BACK, None, None)
            if row.rc > 1 or row.fr_ms is None:
                self._go_on(StageName.AGAIN if row.rc > 1 else StageName.IN_FLIGHT, self._received_ms(row), None, row)
            else:
                self.stages[-1] = replace(self.stages[-1], ends_ms=row.due_ms)
        self._catch_up(row, at_ms)

    def _follow(self, old: MessageRow, row: MessageRow, before_ms: int, at_ms: int) -> None:
        """Process the next row of an RSMQ message."""
        if (row.rc or 0) > (old.rc or 0):
            self._catch_up(old, at_ms)
            known_ms = row.fr_ms if row.rc == 1 else self._received_ms(row)
            is_known = known_ms is not None and before_ms <= known_ms <= at_ms
            name = StageName.IN_FLIGHT if row.rc == 1 else StageName.AGAIN
            self._go_on(name, known_ms if is_known else at_ms, None if is_known else self._seen_after(before_ms), row)
        elif row.due_ms == old.due_ms:
            self._catch_up(row, at_ms)
        elif row.due_ms is not None and row.due_ms <= at_ms:
            # Somebody has released it.
            self._go_on(StageName.BACK if row.rc else StageName.READY, max(before_ms, row.due_ms), None)
        elif self.stages[-1].name in _WAITING:
            # Somebody has hidden it.
            self._go_on(StageName.AGAIN if row.rc else StageName.DELAYED, at_ms, self._seen_after(before_ms), row)
        else:
            self.stages[-1] = replace(self.stages[-1], ends_ms=row.due_ms)
        self._catch_up(row, at_ms)

    def _follow_item(self, old: MessageRow, row: MessageRow, before_ms: int, at_ms: int) -> None:
        """Process the next row of a list item."""
        was_waiting, is_waiting = old.state is MessageState.READY, row.state is MessageState.READY
        if is_waiting and not was_waiting:
            self._catch_up(old, at_ms)
            self._go_on(StageName.BACK, at_ms, self._seen_after(before_ms))
        elif was_waiting and not is_waiting:
            self._go_on(self._name_of(row), at_ms, self._seen_after(before_ms), row)
        elif row.due_ms is not None and row.due_ms != old.due_ms:
            # Without a lease, it may be on its way back to the queue.
            if self.stages[-1].name is not StageName.EXPIRED:
                self.stages[-1] = replace(self.stages[-1], ends_ms=row.due_ms)
            elif row.due_ms > at_ms:
                # It was returned and taken again between two polls.
                self._go_on(StageName.AGAIN, at_ms, self._seen_after(before_ms), row)
        self._catch_up(row, at_ms)

    def _catch_up(self, row: MessageRow, at_ms: float) -> None:
        """Begin the stage that begins by itself, if it is due."""
        last = self.stages[-1]
        if last.ends_ms is None or last.ends_ms > at_ms:
            return
        if last.name is StageName.DELAYED:
            self._go_on(StageName.READY, last.ends_ms, None)
        elif last.name in (StageName.IN_FLIGHT, StageName.AGAIN):
            self._go_on(StageName.EXPIRED if row.is_item else StageName.BACK, last.ends_ms, None)

    def _go_on(
        self, name: StageName, at_ms: float | None, after_ms: float | None, row: MessageRow | None = None
    ) -> None:
        ends_ms = (
            row.due_ms
            if row is not None and name in (StageName.DELAYED, StageName.IN_FLIGHT, StageName.AGAIN)
            else None
        )
        rc = row.rc if row is not None and name in (StageName.IN_FLIGHT, StageName.AGAIN) else None
        self.stages.append(Stage(name, at_ms, after_ms, ends_ms, rc))

    def _name_of(self, row: MessageRow) -> StageName:
        if row.state is MessageState.READY:
            return StageName.BACK if self._was_taken else StageName.READY
        if row.state is MessageState.DELAYED:
            return StageName.DELAYED
        return StageName.AGAIN if self._was_taken else StageName.IN_FLIGHT

    @property
    def _was_taken(self) -> bool:
        return any(stage.name in _TAKEN for stage in self.stages)

    def _received_ms(self, row: MessageRow) -> float | None:
        """Return when it was last received, if its visibility was not changed since."""
        return None if row.due_ms is None or self.vt_ms is None else row.due_ms - self.vt_ms

    def _seen_after(self, before_ms: float) -> float:
        """Return when the next stage began at the earliest: after the last poll, and after the last stage began."""
        return max(before_ms, self.stages[-1].at_ms or 0)


def next_sentence(life: Life, now_ms: float, poison_rc: int) -> str:
    """Say what will happen to the message next."""
    view = life.seen
    if view is None or not life.stages:
        return ""
    is_item, stage = item_place_of(view.id) is not None, life.stages[-1]
    left = "" if stage.ends_ms is None else f"in {duration(stage.ends_ms - now_ms)}, at {_time(stage.ends_ms)}"
    match stage.name:
        case StageName.GONE:
            how = "Acknowledged" if is_item else "Deleted"
            return f"{how}, or removed in another way, between {_time(stage.after_ms)} and {_time(stage.at_ms)}."
        case StageName.DELAYED:
            return f"It becomes ready {left}." if left else "It never becomes ready: its score is not a time."
        case StageName.READY:
            return "The next consumer gets it, unless another one is before it."
        case StageName.BACK:
            times = life.receives or 0
            done, end = ("taken", "") if is_item else ("received", _poison_words(times, poison_rc))
            return f"It was {done} {plural(times, 'time')} and not deleted: the next consumer gets it again.{end}"
        case StageName.EXPIRED:
            return "Its lease has expired: a reaper returns it to the queue, unless its worker still acknowledges it."
        case _ if is_item:
            if stage.ends_ms is None:
                return "It has no lease: a reaper gives it one, and returns it when that expires."
            return f"Its worker acknowledges it, or its lease ends {left}."
        case _:
            return f"Its consumer deletes it, or it is ready again {left}." if left else "Its consumer deletes it."


def unseen_sentence(life: Life) -> str:
    """Say which receives are not among the stages, and so not in their numbers; empty if all are."""
    unseen = life.unseen_receives
    were = f"{unseen:,} were" if unseen > 1 else "one was"
    some = f"Of its {life.receives or 0:,} receives, {were} before this screen was opened, or between two polls: "
    return f"{some}these stages are not counted." if unseen > 0 else ""


def _poison_words(times: int, poison_rc: int) -> str:
    return "" if times < poison_rc else f" From {poison_rc} receives on it is poison."


def _time(at_ms: float | None) -> str:
    return clock(at_ms).split(".")[0]


# The names of the stages of list items.
_OF_ITEMS = {
    StageName.SENT: "pushed",
    StageName.READY: "waiting",
    StageName.IN_FLIGHT: "taken",
    StageName.EXPIRED: "lease expired",
    StageName.BACK: "returned",
    StageName.AGAIN: "taken again",
    StageName.GONE: "removed",
}
_TOKENS = {
    StageName.READY: "ready",
    StageName.BACK: "verdict-growing",
    StageName.IN_FLIGHT: "hidden",
    StageName.AGAIN: "hidden",
    StageName.EXPIRED: "alarm",
    StageName.GONE: "strong",
}
_STOP_CELLS = 9
_STOPS_HEIGHT = 6


class LifeLine(Painted):
    """Draws the stages of a life as stops on a line: each with its time and how long it lasted; below, what is left."""

    DEFAULT_CSS = f"""
    LifeLine {{ height: {_STOPS_HEIGHT}; margin-top: 1; }}
    """

    def __init__(self) -> None:
        super().__init__()
        self._life = Life()
        self._now_ms = 0.0

    def show(self, life: Life, now_ms: float) -> None:
        """Show a life at a time."""
        self._life, self._now_ms = life, now_ms
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the stops, their times, and the bar."""
        life, stops = self._life, self._stops()
        if not life.stages:
            return []
        width = max(_STOP_CELLS, (self.size.width - 2) // len(stops))
        rows: list[list[Piece]] = [[(" ", "")] for _ in range(4)]
        for number, name in enumerate(stops):
            index = max((at for at, stage in enumerate(life.stages) if stage.name is name), default=None)
            is_now = index == len(life.stages) - 1
            token = f"{_TOKENS.get(name, '')} strong" if is_now else "" if index is not None else "muted"
            sign = "▶" if is_now else "●" if index is not None else "○"
            rail = "" if number == len(stops) - 1 else "━" if index is not None and not is_now else "─"
            rows[0].append((f"{sign} {rail * (width - 3)} "[:width].ljust(width), token))
            rows[1].append((fit(self._title_of(name, width), width - 1) + " ", token))
            stage = None if index is None else life.stages[index]
            rows[2].append((fit(self._time_of(stage), width - 1) + " ", "" if is_now else "muted"))
            rows[3].append((fit(self._lasted(index), width - 1) + " ", "" if is_now else "muted"))
        return [self.line(row) for row in rows] + [Strip([]), self._bar()]

    def _stops(self) -> Sequence[StageName]:
        known = {stage.name for stage in self._life.stages}
        is_item = self._life.seen is not None and item_place_of(self._life.seen.id) is not None
        # Stages that few messages have are shown only once they happen.
        rare = {StageName.DELAYED, StageName.EXPIRED, *((StageName.SENT,) if is_item else ())}
        return [name for name in StageName if name in known or name not in rare]

    def _title_of(self, name: StageName, width: int) -> str:
        view = self._life.seen
        words = _OF_ITEMS.get(name, name.value) if view and item_place_of(view.id) is not None else name.value
        times = sum(stage.name is name for stage in self._life.stages)
        number = f" x{times}" if times > 1 else ""
        return f"{words if len(words + number) < width else words.split()[-1]}{number}"

    def _time_of(self, stage: Stage | None) -> str:
        if stage is None:
            return ""
        if stage.at_ms is None:
            return "unknown"
        return short_clock(stage.at_ms, self._now_ms)

    def _lasted(self, index: int | None) -> str:
        if index is None or self._life.stages[index].name in (StageName.SENT, StageName.GONE):
            return ""
        return duration(self._life.lasted_ms(index, self._now_ms))

    def _bar(self) -> Strip:
        stage = self._life.stages[-1]
        if stage.ends_ms is None:
            return Strip([])
        left_ms = max(0.0, stage.ends_ms - self._now_ms)
        whole_ms = self._life.vt_ms if stage.at_ms is None else stage.ends_ms - stage.at_ms
        of = "" if not whole_ms else f" of {duration(whole_ms)}"
        words = f" {duration(left_ms)} left{of}"
        room = min(60, self.size.width - cell_len(words) - 2)
        if not whole_ms or room < 4:
            return self.clipped([(words, "strong")])
        full = round(room * min(1.0, left_ms / whole_ms))
        token = "ready" if stage.name is StageName.DELAYED else "hidden"
        return self.line([(" ", ""), ("█" * full, token), ("░" * (room - full), "muted"), (words, "strong")])


# The bar is updated between two polls too.
_TICK_S = 0.25


class LifeScreen(DashboardScreen):
    """Follows one message: its state is read at each poll, by one bounded call, while the screen is shown."""

    WHERE: ClassVar[tuple[Where, ...]] = ("life", "lines")
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("life")
    AUTO_FOCUS = "LineView"

    def __init__(self, queue: str, id: str, place: str = "") -> None:
        super().__init__(place)
        self.queue = queue
        self.life = Life()
        self.message_id = id
        self._title, self._facts = TextLine(id="title"), TextLine(id="facts")
        self._line = LifeLine()
        self._next = TextLine(id="next")
        self._view = LineView()
        self.parts = (self._title, self._facts, self._line, self._next, self._view)
        self._reading: Worker[None] | None = None
        self._read_for_ms: int | None = None
        self._read_at_s = 0.0
        self._problem: str | None = None
        self._ns: str | None = None

    def on_mount(self) -> None:
        """Start the countdown."""
        self._view.border_title = "Stages, the last one first"
        self.set_interval(_TICK_S, self._show)

    @property
    def chosen_queue(self) -> tuple[str, str, str] | None:
        """The queue of the message."""
        return None if self.snapshot is None else (self.snapshot.server, self.snapshot.ns, self.queue)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Read the message again, and show its life."""
        if self._ns not in (None, snapshot.ns):
            # A queue of the same name in another namespace is another queue.
            self.life = Life()
        self._ns = snapshot.ns
        state = next((each for each in snapshot.queues if each.name == self.queue), None)
        if state is not None and state.vt_s is not None:
            self.life.vt_ms = state.vt_s * 1000
        if snapshot.at_ms != self._read_for_ms and not snapshot.paused and snapshot.connection.failure is None:
            self._read_for_ms = snapshot.at_ms
            self._read()
        self._show()

    def refresh_unpolled(self) -> None:
        """Read the message again, even if it is too long to be followed."""
        self._read(asked=True)

    @property
    def now_ms(self) -> float:
        """The server's time: that of the last read, plus the time since."""
        view = self.life.seen
        return 0.0 if view is None else view.at_ms + (self.dashboard.clock() - self._read_at_s) * 1000

    def _read(self, *, asked: bool = False) -> None:
        view, source = self.life.seen, self.server.source
        if self._reading is not None and not self._reading.is_finished:
            return
        if view is None:
            self._reading = self.run_worker(partial(self._take, None), group="life")
            return
        is_wanted = asked or may_follow(view, self.dashboard.changes.status)
        if is_wanted and isinstance(source, ReadsAgain) and may_read_again(view):
            self._reading = self.run_worker(partial(self._take, view), group="life")

    async def _take(self, known: MessageView | None) -> None:
        source, life = self.server.source, self.life
        try:
            if known is None or not isinstance(source, ReadsAgain):
                view = await source.read(self.queue, self.message_id)
            else:
                view = await source.read_again(self.queue, known)
        except PeekError as error:
            self._problem = str(error)
        else:
            self._problem = None
            if life is not self.life:
                # The namespace has been switched meanwhile: the message is another one.
                return
            self._read_at_s = self.dashboard.clock()
            # The screen needs no body, which may be long.
            self.life.see(replace(view, body=None))
            self.message_id = view.id
        self._show()

    @on(LineView.Resized)
    def _show(self) -> None:
        view = self.life.seen
        self._title.show(
            [
                (f" ◀ {printable(self.queue, 40)} ", "muted"),
                (printable(self.message_id, 60), "strong"),
                ("   its life", "muted"),
            ]
        )
        if view is None:
            self._facts.show([(f" {printable(self._problem or 'reading …', 200)}", "alarm" if self._problem else "")])
            return
        now_ms = self.now_ms
        problem: list[Piece] = [(f" {printable(self._problem, 100)} ·", "alarm")] if self._problem else []
        if view.row is not None:
            self._facts.show([*problem, *row_pieces(view.row, round(now_ms))], 2, keep=True)
        else:
            self._facts.show([*problem, (" not in the queue", "alarm")])
        life = self.life.at(now_ms)
        self._line.show(life, now_ms)
        sentence = next_sentence(life, now_ms, self.server.source.thresholds.poison_rc)
        sentence = sentence or "It is no longer in the queue, and was not seen in it."
        self._next.show([(f" {sentence}", ""), (f" {unseen_sentence(life)}", "muted")], 3)
        self._view.show(self._rows(life, now_ms), stay=True)

    def _rows(self, life: Life, now_ms: float) -> list[list[Piece]]:
        rows: list[list[Piece]] = []
        for index, stage in reversed(list(enumerate(life.stages))):
            lasted = "" if stage.name in (StageName.SENT, StageName.GONE) else duration(life.lasted_ms(index, now_ms))
            begun = "unknown" if stage.at_ms is None else clock(stage.at_ms)
            number = "" if stage.rc is None else f"receive {stage.rc}"
            between = "" if stage.after_ms is None else f"some time after {clock(stage.after_ms)}"
            name = _OF_ITEMS.get(stage.name, stage.name.value) if item_place_of(self.message_id) else stage.name.value
            rows.append(
                [
                    (f" {begun:<13} ", "muted"),
                    (f"{name:<15}", _TOKENS.get(stage.name, "")),
                    (f"{lasted:>8}  ", "strong"),
                    (f"{number:<11} {between}", "muted"),
                ]
            )
        return rows
