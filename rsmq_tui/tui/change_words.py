"""What is told of a change or an export at its end, and of one that was interrupted."""

from pathlib import Path
from typing import TYPE_CHECKING

from rsmq_tui.monitor.search import INCOMPLETE
from rsmq_tui.monitor.wording import count, plural, printable
from rsmq_tui.tui.widgets.change_line import ChangeTold

if TYPE_CHECKING:
    from rsmq_tui.triage.changes import Change
    from rsmq_tui.triage.exporting import Exported
    from rsmq_tui.triage.previews import Scope
    from rsmq_tui.triage.reports import Report

# What is told while a change of that name runs.
DOING = {
    "delete": "deleting",
    "purge": "deleting",
    "hide": "hiding",
    "release": "releasing",
    "move": "moving",
    "copy": "copying",
    "redrive": "redriving",
    "send": "sending",
    "create": "creating",
    "set": "changing",
    "delete-queue": "deleting",
    "import": "importing",
    "undo": "putting back",
    "fix": "fixing",
    "pop": "taking off",
    "trim": "trimming",
    "requeue": "putting back",
    "ack": "acking",
}

# By their names, changes after which a message is no longer in its queue.
_TAKING = ("delete", "purge", "delete-queue", "move", "redrive", "ack", "pop", "trim")


def end_of(report: "Report") -> ChangeTold:
    """Say what a change came to."""
    undoes = " · u undoes" if report.undoable and report.name != "undo" else ""
    is_alarm = bool(report.tally.failed) or report.stopped not in (None, "cancelled")
    taken = report.tally.done if report.name in _TAKING else 0
    retries = f" · L retries the {count(len(report.changed))} received or changed" if report.changed else ""
    return ChangeTold(report.sentence + retries + undoes, is_alarm=is_alarm, taken=taken, change=report.change)


def meant_by(scope: "Scope | None") -> str:
    """Say which messages a form is for; nothing where it is for none in particular."""
    from rsmq_tui.triage.previews import Everything, Marked, Matching  # noqa: PLC0415 - only a change needs it

    match scope:
        case Marked(messages=(message,)):
            return f"the message {message.id}"
        case Marked(messages=messages):
            return f"the {plural(len(messages), 'marked message')}"
        case Matching(filter=wanted) if wanted.text.strip():
            return f"all that match {wanted.text.strip()}, in the whole queue"
        case Matching() | Everything():
            return "every message of the queue"
    return ""


def end_of_export(exported: "Exported | None", path: Path) -> ChangeTold:
    """Say what an export wrote, and what it left out."""
    if exported is None:
        return ChangeTold(f"exported {plural(0, 'message')} to {path}")
    # What could not be matched may not have been wanted: it is no part of the whole.
    whole = exported.written + exported.cut + exported.gone
    some = f"{count(exported.written)} of " if exported.written < whole else ""
    reasons = (
        (exported.cut, "too long to read"),
        (exported.gone, "gone meanwhile"),
        (exported.unsearched, "too long to search"),
    )
    left_out = ", ".join(f"{count(number)} {reason}" for number, reason in reasons if number)
    but = f" (left out: {left_out})" if left_out else ""
    missing = f"; {INCOMPLETE}" if exported.is_incomplete else ""
    words = f"exported {some}{plural(whole, 'message')}{but} to {path}{missing}"
    return ChangeTold(words, is_alarm=bool(left_out or missing))


def interrupted(change: "Change", ns: str) -> str:
    """Say what is known of a change that was interrupted before."""
    what = f"{change.past} {count(change.done)} of {count(change.planned)} in {printable(change.queue, 60)}"
    if change.ns != ns:
        what += f" (namespace {printable(change.ns, 40)})"
    if change.doubt:
        what += f" ({change.doubt})"
    undoes = "; u undoes it" if change.can_be_undone and change.ns == ns else ""
    return f"A change was interrupted: {what}{undoes}"
