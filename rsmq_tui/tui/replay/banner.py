"""The banner of a replay: its time, its speed, and that it is not live."""

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.color import Color
from textual.strip import Strip

from rsmq_tui.history.analysis.values import DOWN
from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import and_more, clock, date_clock, duration, fitted, plural, printable
from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.keys import Keymap
from rsmq_tui.tui.widgets.painted import Painted, Piece

if TYPE_CHECKING:
    from rsmq_tui.history.names import Place
    from rsmq_tui.history.replay.player import Player
    from rsmq_tui.history.replay.polls import Turn, VerdictChange
    from rsmq_tui.tui.replay.session import ReplaySession


_CHANGES_SHOWN = 2
# From this share of the requested speed on, the actual speed is not shown.
_AS_ASKED = 0.95


def moment_words(at_ms: int) -> str:
    """Format a moment: 2031-05-17 21:50:05 UTC."""
    return date_clock(at_ms, zone=True)


def span_words(replay: "ReplaySession") -> str:
    """Format the recorded span: of 2031-05-10 08:00 … 2031-05-18 12:00."""
    span = replay.span
    return f"of {clock(span.from_ms, date=True)[:16]} … {clock(span.to_ms, date=True)[:16]}"


def speed_words(player: "Player") -> str:
    """Format the speed: x60, with the actual speed if that is slower."""
    words, real = f"x{player.speed:g}", player.real_speed
    return words if real > _AS_ASKED * player.speed else f"{words} (actual x{real:{',.0f' if real >= 10 else '.2g'}})"


def outcome_words(replay: "ReplaySession") -> str:
    """Describe what a seek found, or the gap that was skipped; empty if there is nothing to say."""
    outcome = replay.player.outcome
    if outcome.looking_ms is not None:
        return f"searching at {clock(outcome.looking_ms, date=True)[:16]} …"
    if outcome.is_stopped:
        return "the search was stopped"
    found = [*map(_change_words, outcome.changes), *map(_turn_words, outcome.turns)]
    if found:
        return and_more(found[:_CHANGES_SHOWN], len(found))
    if outcome.sought and outcome.is_queue:
        return "no verdict changes after this" if outcome.sought > 0 else "no verdict changed before this"
    if outcome.sought:
        return (
            "no incident begins or ends after this" if outcome.sought > 0 else "no incident began or ended before this"
        )
    if outcome.skipped is not None:
        lasted = duration(outcome.skipped.to_ms - outcome.skipped.from_ms)
        return f"skipped {lasted} from {clock(outcome.skipped.from_ms)[:8]}: nothing was recorded"
    return ""


def freshness(snapshot: Snapshot, replay: "ReplaySession") -> Piece:
    """Return how often polls were recorded, or why the numbers are old."""
    connection = snapshot.connection
    if not snapshot.at_ms:
        # This place was recorded only later.
        return "nothing was recorded here before this time ", "alarm"
    if connection.failure is None:
        return f"recorded every {round(snapshot.interval_s, 1):g} s ", "muted"
    return f"✗ {outage_words(snapshot, replay)} ", "alarm"


def outage_words(snapshot: Snapshot, replay: "ReplaySession") -> str:
    """Describe how old the numbers are, and why."""
    connection = snapshot.connection
    why = printable(connection.failure.sentence if connection.failure else "", 80)
    is_gap = connection.failure is not None and connection.failure.kind == "gap"
    age_ms = None if connection.fresh_at_s is None else replay.position_ms - connection.fresh_at_s * 1000
    parts = ["" if is_gap else "down", "" if age_ms is None else f"numbers {duration(age_ms)} old"]
    numbers = ", ".join(filter(None, parts))
    return f"{numbers}: {why}" if numbers else why


def empty_words(snapshot: Snapshot, replay: "ReplaySession", keymap: Keymap) -> list[Piece]:
    """Return why a replay shows no queue."""
    if snapshot.connection.failure is not None:
        poll, incident = keymap.first_key("next_poll"), keymap.first_key("next_verdict")
        return [
            (f"  No data for this time: {outage_words(snapshot, replay)}.", "alarm"),
            (f"  Press {poll} for the next poll, {incident} for the next incident.", "muted"),
        ]
    return [("  No queues existed at this time.", "muted")]


def inventory_pieces(replay: "ReplaySession", place: str, queue: str) -> list[Piece]:
    """Return the time of the listed messages; empty if none are listed."""
    at_ms = replay.inventory_ms(place, queue)
    if at_ms is None:
        return []
    ago = duration(max(0, replay.position_ms - at_ms))
    return [(f"   messages as of {clock(at_ms)[:8]}, {ago} before", "alarm")]


def _change_words(change: "VerdictChange") -> str:
    where = _server(change.place)
    if change.queue is None:
        return f"{where} is down" if change.after == DOWN else f"{where} answers again"
    before = f"{change.before} → " if change.before else "new, "
    return f"{printable(change.queue, 30)}: {before}{change.after}"


def _turn_words(turn: "Turn") -> str:
    """Describe an incident that begins or ends: orders becomes stalled; orders is ok again after 12m.

    Of one that began before anything was recorded: orders was already stalled, since 2031-05-17 21:50:05.
    """
    incident = turn.incident
    who = _server(incident.place) if incident.queue is None else printable(incident.queue, 30)
    if turn.is_end:
        return f"{who} is ok again after {duration(turn.at_ms - incident.start_ms)}"
    if incident.queue is None:
        return f"{who} is down"
    if turn.at_ms > incident.start_ms:
        return f"{who} was already {incident.verdicts[0]}, since {date_clock(incident.start_ms)}"
    return f"{who} becomes {incident.verdicts[0]}"


def _server(place: "Place") -> str:
    return printable(place.profile or place.server, 30)


_TICK_S = 0.25


class ReplayBanner(Painted):
    """Shows ``REPLAY 2031-05-17 21:50:05 UTC · x60 · playing · of …`` on a background that no live screen has.

    If the line is too narrow, parts are dropped or cut, but the time and the sign of the state are always shown.
    """

    DEFAULT_CSS = """
    ReplayBanner { height: 1; dock: top; }
    """

    def on_mount(self) -> None:
        """Repaint regularly: a search makes no snapshots. For each snapshot, the screen repaints it."""
        self.set_interval(_TICK_S, self.repaint)

    def paint(self) -> list[Strip]:
        """Paint the line."""
        replay = dashboard_of(self.app).replay
        if replay is None:
            return []
        player, width = replay.player, self.size.width
        sign, word = ("▶", "playing") if player.is_playing else ("‖", "paused")
        left_out, is_marked = len(replay.problems), replay.marked is not None
        marked = "" if replay.marked is None else f"marked {moment_words(replay.marked.at_ms)[11:19]}"
        parts = {
            "time": f" REPLAY {moment_words(replay.position_ms)}",
            "speed": speed_words(player),
            "state": f"{sign} {word}",
            "outcome": outcome_words(replay),
            "marked": f"{marked} · {dashboard_of(self.app).keymap.first_key('diff')} compares" if is_marked else "",
            "problems": f"{plural(left_out, 'file')} left out" if left_out else "",
        }
        for part, shorter in (
            ("", ""),
            ("marked", marked),
            ("problems", ""),
            ("marked", ""),
            ("speed", ""),
            ("state", sign),
        ):
            parts[part] = shorter
            words = " · ".join(filter(None, parts.values()))
            if cell_len(words) < width:
                break
        words = fitted(words, width)
        right = f"{span_words(replay)} "
        if cell_len(words) + cell_len(right) + 1 > width:
            right = ""
        gap = " " * max(0, width - cell_len(words) - cell_len(right))
        ground: Piece = (f"{words}{gap}{right}", Color.parse(self.app.theme_variables["replay"]).hex6.lower())
        return [self.line([ground])]
