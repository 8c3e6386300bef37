"""What is said where there are no new numbers: why there are none, how old the last ones are, and what to do."""

from typing import TYPE_CHECKING

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.wording import duration, printable
from rsmq_tui.protocol import ENDED
from rsmq_tui.tui.host import Dashboard
from rsmq_tui.tui.replay_words import empty_words, outage_words
from rsmq_tui.tui.widgets.painted import Piece

if TYPE_CHECKING:
    from rsmq_tui.tui.replaying import Replaying


def age_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Say how old the numbers of a server are that does not answer."""
    fresh_s = part.link.fresh_at_s
    if fresh_s is None:
        return "no data yet"
    if dashboard.replay is not None:
        return f"stale {duration(dashboard.replay.position_ms - fresh_s * 1000)}"
    return f"stale {max(0.0, dashboard.clock() - fresh_s):.0f} s"


def stale_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Say how old the numbers of a server are that does not answer, when it is asked again, and why."""
    if dashboard.replay is not None:
        return outage_words(part, dashboard.replay)
    failure, age = part.link.failure, age_words(part, dashboard)
    if len({each.server for each in part.parts}) > 1:
        # Each of them has its own age and its own reason, which its queues tell.
        return f"no server answers · {age} or more · {_retry_words(part, dashboard)}"
    if failure is not None and failure.kind == ENDED:
        return f"{age} · {printable(failure.sentence, 80)}: {printable(failure.hint, 80)}"
    return f"{age} · {_retry_words(part, dashboard)}: {printable(failure.sentence if failure else '', 80)}"


def _retry_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Say when a server that does not answer is asked again."""
    if part.paused:
        return "paused"
    link = part.link
    doing = "retrying" if link.fresh_at_s is None else "reconnecting"
    again_s = 0.0 if link.retry_at_s is None else link.retry_at_s - dashboard.clock()
    return f"{doing} in {again_s:.0f} s" if again_s >= 0.5 else doing


def why_empty(snapshot: Snapshot, typed: str, replay: "Replaying | None") -> list[Piece]:
    """Say why there is no row, ``typed`` being what is looked for, and what to do next."""
    failure = snapshot.link.failure
    if replay is not None and not (typed and snapshot.queues):
        return empty_words(snapshot, replay)
    if snapshot.link.fresh_at_s is None:
        if failure is None:
            return [(f"  Connecting to {printable(snapshot.server)} …", "muted")]
        return [
            (f"  Cannot read {printable(snapshot.server)}: {printable(failure.sentence, 200)}.", "alarm"),
            (f"  Try: {failure.hint}{'' if failure.hint.endswith('?') else '.'}", ""),
            ("  It retries automatically; r retries now, q quits. `rsmq-tui demo` shows example queues.", "muted"),
        ]
    notes: list[Piece] = [(f"  {printable(note, 200)}", "alarm") for note in snapshot.notes]
    if typed and snapshot.queues:
        return [(f"  No queue matches {printable(typed, 60)}. Press esc to see all.", "muted")]
    others = [printable(name, 40) or "(no prefix)" for name in snapshot.namespaces or () if name != snapshot.ns]
    found = (
        f"Other namespaces: {', '.join(others[:8])}. Press n to switch."
        if others
        else "No other namespaces were found."
    )
    return [*notes, (f"  No queues in namespace {printable(snapshot.ns, 60)}. {found}", "")]
