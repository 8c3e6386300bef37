"""List queues for a picture, as a poll finds them."""

from dataclasses import replace
from typing import Any

from rsmq_tui.monitor import Drain, Verdict
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.tui.servers import WatchedServer
from tests.screenshots.history import NOW_MS
from tests.tui.scripted import FakeClock, ScriptedSource
from tests.tui.states import poll_of, queue_of

PLACE = "lists"
# What nobody counts of a list.
_UNKNOWN = dict.fromkeys(
    ("vt_s", "delay_s", "maxsize", "created_ms", "modified_ms", "totalsent", "totalrecv"),
)


def list_server(clock: FakeClock, beside: str, triage: Any) -> WatchedServer:
    """Three lists of the server ``beside``: one whose worker has died, one that grows, and one that is well."""
    source = ScriptedSource(clock, place=PLACE)
    states = (
        queue_of(
            "queue:imports", kind="list", ready=2, hidden=14, expired=9, net_s=0.0, since_ms=NOW_MS - 1_460_000,
            verdict=Verdict.LEAKING, drain=Drain.STEADY, **_UNKNOWN,
        ),
        queue_of(
            "queue:previews", kind="list", ready=8_204, hidden=32, expired=0, net_s=12.4, since_ms=NOW_MS - 340_000,
            verdict=Verdict.GROWING, drain=Drain.GROWING, oldest_ready_ms=NOW_MS - 412_000, **_UNKNOWN,
        ),
        queue_of(
            "queue:mails", kind="list", ready=310, hidden=8, expired=0, net_s=-2.1,
            drain=Drain.CLEARS, drain_s=147.0, oldest_ready_ms=NOW_MS - 9_000, **_UNKNOWN,
        ),
    )  # fmt: skip
    snapshot = poll_of(source, (state._replace(place=PLACE) for state in states), NOW_MS)
    source.play(replace(snapshot, server=ScriptedSource(clock, place=beside).last.server, ns=LISTS_NS, place=PLACE))
    return WatchedServer(source, place=PLACE, ns=LISTS_NS, make_triage=lambda: triage)
