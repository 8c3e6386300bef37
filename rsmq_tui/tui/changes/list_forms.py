"""The fields of change forms that differ for list queues."""

from dataclasses import replace

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.text import printable
from rsmq_tui.triage.actions import Action, Pop, Purge, PurgeList, Push, Send, Trim
from rsmq_tui.tui.changes import forms
from rsmq_tui.tui.changes.forms import ON, Answers, Field, Form, sent_body, whole_number

_NAME_MAX = 60


def form_of(name: str, queue: str, snapshot: Snapshot | None, body: bytes | None) -> Form[Action] | None:
    """Return the form of the action of that name on a list queue, or None if it has no fields."""
    shown = printable(queue, _NAME_MAX)
    match name:
        case "send":
            fields = (
                Field("body", "item", kind="body", body=body or b""),
                Field("file", "or a file", hint="path of a file to send as one message"),
                Field("first", "at the front (next to be taken)", kind="switch"),
            )
            return Form(f"Push an item to {shown}", fields, lambda got: _push(queue, got))
        case "pop":
            count = Field("count", "how many", "1")
            return Form(f"Pop items from {shown}", (count,), lambda got: Pop(queue=queue, count=_count(got, "count")))
        case "trim":
            trimmed = (Field("keep", "keep", hint="how many items"), Field("oldest", "keep the oldest", kind="switch"))
            return Form(f"Trim {shown}", trimmed, lambda got: _trim(queue, got))
        case "purge":
            processing = Field("processing", "also items in processing", kind="switch")
            return Form(f"Purge {shown}", (processing,), lambda got: _purge(queue, got))
        case "move" | "copy":
            form = forms.form_of(name, queue, snapshot, body)
            # Without the field "create": a list is created by its first item, and an RSMQ queue needs attributes.
            return form and replace(form, fields=(replace(form.fields[0], hint="a key, or rsmq:queue"),))
    return forms.form_of(name, queue, snapshot, body)


def _push(queue: str, got: Answers) -> Send:
    return Push(queue=queue, bodies=(sent_body(got),), first=got.get("first") == ON)


def _trim(queue: str, got: Answers) -> Trim:
    return Trim(queue=queue, keep=whole_number(got, "keep", least=0), keep_oldest=got.get("oldest") == ON)


def _purge(queue: str, got: Answers) -> Purge:
    return PurgeList(queue=queue, processing=got.get("processing") == ON)


def _count(got: Answers, id: str) -> int:
    return whole_number(got, id, least=1)
