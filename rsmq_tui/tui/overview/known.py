"""Troubles without alerts on the screen: how they are shown, and the form that acknowledges one."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rsmq_tui.local_clock import now_ms
from rsmq_tui.monitor import QueueState, Snapshot, Verdict
from rsmq_tui.monitor.text import date_clock, printable, shown_zone, zone_words
from rsmq_tui.tui.widgets.painted import Piece

if TYPE_CHECKING:
    from rsmq_tui.events.known import Known
    from rsmq_tui.monitor.incidents import Expected
    from rsmq_tui.tui.changes.forms import Answers, FormScreen
    from rsmq_tui.tui.dashboard import Dashboard

SIGN = "‖"
_NAME_MAX = 60
_NO_TROUBLE = tuple(verdict for verdict in Verdict if not verdict.is_trouble)
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Silenced(NamedTuple):
    """The troubles without alerts: those that are acknowledged, and those of queues that a profile ignores.

    ``known`` has the acknowledgements in force, by place and by the names of their queues; ``ignored`` what is
    expected, by place.
    """

    known: "Mapping[str, Mapping[str, Known]]" = _NOTHING
    ignored: "Mapping[str, Expected]" = _NOTHING

    def holds(self, queue: QueueState) -> bool:
        """Return whether no alerts are sent for the trouble of a queue."""
        # Fast path: most dashboards have none.
        if not self.known and not self.ignored:
            return False
        expected = self.ignored.get(queue.place)
        is_known = queue.name in self.known.get(queue.place, _NOTHING)
        return is_known or (expected is not None and expected.ignores(queue))

    def verdicts(self, queues: Iterable[QueueState]) -> Counter[Verdict]:
        """Count the verdicts of the queues that are in trouble for which no alerts are sent."""
        if not self.known and not self.ignored:
            return Counter()
        return Counter(queue.verdict for queue in queues if queue.verdict not in _NO_TROUBLE and self.holds(queue))

    def pieces(self, queue: QueueState) -> list[Piece]:
        """Return why no alerts are sent for a queue, or the note of its last acknowledgement."""
        known = self.known.get(queue.place, _NOTHING).get(queue.name)
        return [*known_pieces(known), *ignored_pieces(queue, self.ignored.get(queue.place))]


NONE_SILENCED = Silenced()


def silenced_verdict(queue: QueueState) -> str:
    """Return the verdict of a queue for which no alerts are sent, with the sign for that."""
    return f"{SIGN} {queue.verdict.value}"


def ignored_pieces(queue: QueueState | None, expected: "Expected | None") -> list[Piece]:
    """Return that the trouble of a queue is expected, if it is."""
    if queue is None or expected is None or not expected.ignores(queue):
        return []
    return [(f"   {SIGN} expected: `ignore` in the configuration names this queue", "verdict-watching")]


def known_pieces(known: "Known | None") -> list[Piece]:
    """Return the acknowledgement of a queue's trouble, or the note of the last one."""
    if known is None or not (known.is_active or known.note):
        return []
    note = printable(known.note)
    if not known.is_active:
        return [(f"   note: {note}", "muted")]
    until_ms = known.until_ms
    until = known.until if until_ms is None else f"until {date_clock(until_ms)[:16]} {zone_words(until_ms)}"
    return [(f"   {SIGN} acknowledged {until}{': ' if note else ''}{note}", "verdict-watching")]


def ask_known(dashboard: "Dashboard", part: Snapshot, queue: str) -> "FormScreen[Known] | str":
    """Return the form that acknowledges the trouble of a queue, or why there is none."""
    from rsmq_tui.events.known import NOTE_MAX, UNTIL_OK, Known, local_minute, read_until  # noqa: PLC0415 - not before the first paint
    from rsmq_tui.tui.changes.command_line import known_command  # noqa: PLC0415
    from rsmq_tui.tui.changes.forms import ON, Field, Form, FormScreen  # noqa: PLC0415

    events = dashboard.events
    if events is None:
        return "nothing can be acknowledged here: there is no log of events"
    before = events.known(part).get(queue)
    is_known = before is not None and before.is_active

    def build(got: "Answers") -> Known:
        at_ms = now_ms()
        if before is not None and got.get("end") == ON:
            return before._replace(ended_ms=at_ms)
        note = str(got["note"]).strip()
        if len(note) > NOTE_MAX:
            raise ValueError(f"a note has at most {NOTE_MAX} characters")
        until_ms = read_until(str(got["until"]), at_ms, shown_zone())
        return Known(part.server, part.ns, queue, note, at_ms, until_ms)

    def command(known: Known, got: "Answers") -> str:
        until = str(got["until"]).strip() or UNTIL_OK
        if ":" in until and known.until_ms is not None:
            # A command reads a time as local time.
            until = local_minute(known.until_ms)
        given = until if known.is_active else None
        profile = dashboard.server(part.place).name
        return known_command(queue, known.note, given, server=part.server, ns=part.ns, profile=profile)

    def keep(known: Known) -> None:
        loop = asyncio.get_running_loop()
        events.set_known(known, at_ms=part.at_ms, failed=lambda why: loop.call_soon_threadsafe(show_failure, why))
        screen.dismiss()

    def show_failure(why: str) -> None:
        what = f"The acknowledgement of {printable(queue, _NAME_MAX)} was not saved"
        again = f"press {dashboard.keymap.first_key('known')} again"
        words = f"{why}. Free some space or make the file writable, then {again}; alerts continue until then"
        dashboard.warn_of(words, title=what)

    fields = (
        Field("note", "note", "" if before is None else printable(before.note), hint="why alerts are not needed"),
        Field(
            "until",
            f"until ({zone_words(part.at_ms)})",
            UNTIL_OK,
            hint="06:00, 2031-05-19 09:00, 2h",
            choices=(UNTIL_OK, "1h", "8h", "06:00"),
        ),
        *([Field("end", "end the acknowledgement", kind="switch")] if is_known else []),
    )
    title = f"Acknowledge trouble of {printable(queue, _NAME_MAX)}"
    note = "no alerts, Redis unchanged"
    screen = FormScreen(Form(title, fields, build), keep, yes="Keep", note=note, command=command)
    return screen
