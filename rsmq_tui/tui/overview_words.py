"""What the overview says where it has no numbers: why there are none, how old the last ones are, and what to do."""

from typing import TYPE_CHECKING

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.wording import printable
from rsmq_tui.tui.host import Dashboard
from rsmq_tui.tui.replay_words import empty_words, outage_words
from rsmq_tui.tui.widgets.painted import Piece

if TYPE_CHECKING:
    from rsmq_tui.tui.replaying import Replaying


def stale_words(part: Snapshot, dashboard: Dashboard) -> str:
    """Say how old the numbers of a server are that does not answer, why, and when it is asked again."""
    if dashboard.replay is not None:
        return outage_words(part, dashboard.replay)
    link, now_s = part.link, dashboard.clock()
    age = "no data yet" if link.fresh_at_s is None else f"{max(0.0, now_s - link.fresh_at_s):.0f} s old"
    again_s = 0.0 if link.retry_at_s is None else max(0.0, link.retry_at_s - now_s)
    again = f" · retrying in {again_s:.0f} s" if again_s >= 0.5 else " · retrying"
    return f"{age}{again}: {printable(link.failure.sentence if link.failure else '', 80)}"


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
