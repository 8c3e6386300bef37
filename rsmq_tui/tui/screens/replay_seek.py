"""Asking for a time to go to in a replay."""

from rsmq_tui.history.moments import read_moment
from rsmq_tui.monitor.wording import clock
from rsmq_tui.tui.change_forms import Answers, Field, Form
from rsmq_tui.tui.replaying import Replaying
from rsmq_tui.tui.screens.form import FormScreen

_DAY_MS = 86_400_000
_NOTE = "21:50 · 2031-05-17 21:50 · -10m · +1h, in UTC"


def seek_screen(replaying: Replaying) -> FormScreen[int]:
    """Return a dialog that goes to the time that is typed."""
    span = replaying.span
    ends = tuple(clock(at_ms, date=True)[:19] for at_ms in span)
    field = Field("time", "time", hint="21:50 or -10m", choices=("-10m", "+10m", "-1h", "+1h", *ends))

    def go(at_ms: int) -> None:
        screen.dismiss()
        replaying.player.seek(at_ms)

    form = Form("Go to a time", (field,), lambda answers: _time_ms(answers, replaying))
    screen = FormScreen(form, go, yes="Go", note=_NOTE)
    return screen


def _time_ms(answers: Answers, replaying: Replaying) -> int:
    """Return the time that was typed; raises ``ValueError`` for one of which nothing was recorded."""
    text, now_ms, span = str(answers["time"]).strip(), replaying.position_ms, replaying.span
    if text in ("now", "end"):
        return span.to_ms
    if text[:1] in ("-", "+"):
        # As far as there is something.
        return max(span.from_ms, min(read_moment(text, now_ms), span.to_ms))
    # A time of day is that of the day that is shown.
    at_ms = read_moment(text, now_ms // _DAY_MS * _DAY_MS + _DAY_MS - 1)
    # Whoever types the last minute means the last poll in it.
    if not span.from_ms - 60_000 < at_ms <= span.to_ms + 60_000:
        first, last = (clock(end_ms, date=True)[:19] for end_ms in span)
        raise ValueError(f"nothing was recorded at {clock(at_ms, date=True)[:19]}; recorded: {first} to {last}")
    return at_ms
