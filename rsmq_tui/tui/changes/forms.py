"""The forms of changes: their fields, how values become actions, and the screen of a form."""

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static, TextArea

from rsmq_tui.files import JsonError, expanded, parse_json, reason_of
from rsmq_tui.monitor import QueueState, Snapshot
from rsmq_tui.monitor.text import printable, read_whole_seconds, size
from rsmq_tui.triage import actions
from rsmq_tui.tui.changes.command_line import copy_command
from rsmq_tui.tui.keys import bindings_of, keymap_of
from rsmq_tui.tui.widgets.controls import ChoiceInput, Dialog, DialogButton, TickBox

T = TypeVar("T")

HIDE_SECONDS = ("30", "300", "3600")
# The beginnings of the labels that differ from the ids of their fields: a wrong answer is named as on the screen.
_LABELS = {"seconds": "how long", "count": "how many"}
_NAME_MAX = 60
_EDITABLE_BYTES = 200_000
ON = "yes"

# The value of each field, by its id; a switch that is on is "yes", and a body is bytes.
Answers = Mapping[str, str | bytes]


@dataclass(frozen=True, slots=True)
class Field:
    """One field; ``choices`` are suggestions, ``hint`` is the meaning of an empty field.

    Until the user sets it, a switch that is ``on_unless_chosen`` is on while the text of the field with that id is not
    one of its choices.
    """

    id: str
    label: str
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    kind: Literal["text", "switch", "body"] = "text"
    body: bytes = b""
    on_unless_chosen: str = ""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """Fields under a title; ``build`` makes the result from the answers, or raises ValueError or OSError.

    ``is_dangerous`` marks a form that removes messages.
    """

    title: str
    fields: tuple[Field, ...]
    build: Callable[[Answers], T]
    is_dangerous: bool = False


def form_of(name: str, queue: str, snapshot: Snapshot | None, body: bytes | None) -> Form[actions.Action] | None:
    """Return the form of the action of that name, or None if it has no fields."""
    queues = snapshot.queues if snapshot else ()
    # Other names cannot be valid targets, and an input would paint them unchanged.
    names = tuple(queue.name for queue in queues if queue.name.isascii() and queue.name.isprintable())
    others = tuple(name for name in names if name != queue)
    shown = printable(queue, _NAME_MAX)
    match name:
        case "hide":
            seconds = Field("seconds", "how long (30, 10m)", HIDE_SECONDS[0], choices=HIDE_SECONDS)
            return Form(f"Hide messages of {shown}", (seconds,), lambda got: _hide(actions.Hide, queue, got))
        case "move":
            return Form(f"Move messages of {shown}", _target(others), lambda got: _move(actions.Move, queue, got))
        case "copy":
            return Form(f"Copy messages of {shown}", _target(names), lambda got: _move(actions.Copy, queue, got))
        case "redrive":
            to = Field("target", "to queue", hint="the source queue of each message", choices=others)
            origin = Field("origin", "or from the body", hint="a JSON path, such as meta.queue")
            return Form(f"Redrive {shown}", (to, origin), lambda got: _redrive(queue, got))
        case "send":
            delay = Field("delay", "delay", hint="30, 10m; default: the queue's delay")
            fields = (*_content("body", body), delay)
            return Form(f"Send a message to {shown}", fields, lambda got: _send(queue, got))
        case "create":
            wanted = (Field("name", "name", hint="letters, digits, - and _"), *_attributes("30", "0", "65536"))
            return Form("Create a queue", wanted, _create)
        case "set":
            state = next((state for state in queues if state.name == queue), None)
            return Form(f"Attributes of {shown}", _attributes(*_values_of(state)), lambda got: _set(queue, state, got))
        case "import":
            file = Field("file", "file", hint="path of an export (one JSON object per line)")
            return Form(
                f"Import into {shown}", (file,), lambda got: actions.Import(queue=queue, path=_path(got, "file"))
            )
    return None


def list_form_of(name: str, queue: str, snapshot: Snapshot | None, body: bytes | None) -> Form[actions.Action] | None:
    """Return the form of the action of that name on a list queue, or None if it has no fields."""
    shown = printable(queue, _NAME_MAX)
    match name:
        case "send":
            first = Field("first", "at the front (next to be taken)", kind="switch")
            fields = (*_content("item", body), first)
            return Form(f"Push an item to {shown}", fields, lambda got: _push(queue, got))
        case "extend":
            seconds = Field("seconds", "how long (30, 10m)", HIDE_SECONDS[0], choices=HIDE_SECONDS)
            return Form(f"Extend leases of {shown}", (seconds,), lambda got: _hide(actions.ExtendLease, queue, got))
        case "pop":
            count = Field("count", "how many", "1")
            return Form(f"Pop items from {shown}", (count,), lambda got: _pop(queue, got), is_dangerous=True)
        case "trim":
            trimmed = (Field("keep", "keep", hint="how many items"), Field("oldest", "keep the oldest", kind="switch"))
            return Form(f"Trim {shown}", trimmed, lambda got: _trim(queue, got), is_dangerous=True)
        case "purge":
            processing = Field("processing", "also items in processing", kind="switch")
            return Form(f"Purge {shown}", (processing,), lambda got: _purge(queue, got), is_dangerous=True)
        case "move" | "copy":
            form = form_of(name, queue, snapshot, body)
            # Without the field "create": a list is created by its first item, and an RSMQ queue needs attributes.
            return form and replace(form, fields=(replace(form.fields[0], hint="a key, or rsmq:queue"),))
    return form_of(name, queue, snapshot, body)


def export_form(queue: str) -> Form[Path]:
    """Return the form of an export; its result is the path of a file that does not exist."""
    safe = "".join(character if character.isalnum() and character.isascii() else "-" for character in queue)
    file = Field("file", "file", f"{safe[:_NAME_MAX]}.jsonl", hint="path of a file to write")
    return Form(f"Export messages of {printable(queue, _NAME_MAX)}", (file,), _new_path)


def save_form(name: str) -> Form[Path]:
    """Return the form of saving a body; its result is the path of a file that does not exist."""
    safe = "".join(character if character.isalnum() and character.isascii() else "-" for character in Path(name).stem)
    file = Field("file", "file", f"{safe[:_NAME_MAX]}{Path(name).suffix}", hint="path of a file to write")
    return Form("Save the body", (file,), _new_path)


def _content(label: str, body: bytes | None) -> tuple[Field, ...]:
    file = Field("file", "or a file", hint="path of a file to send as one message")
    return Field("body", label, kind="body", body=body or b""), file


def _target(names: tuple[str, ...]) -> tuple[Field, ...]:
    return (
        Field("target", "to queue", choices=names, hint="name of a queue"),
        Field("create", "create it if missing", kind="switch", on_unless_chosen="target"),
    )


def _attributes(vt: str, delay: str, maxsize: str) -> tuple[Field, ...]:
    return (
        Field("vt", "vt (30, 10m)", vt),
        Field("delay", "delay (30, 10m)", delay),
        Field("maxsize", "maxsize (-1 none)", maxsize),
    )


def _values_of(state: QueueState | None) -> tuple[str, str, str]:
    """Return the attributes of a queue as the fields of its form have them."""
    if state is None:
        return "", "", ""
    return _plain(state.vt_s), _plain(state.delay_s), _plain(state.maxsize)


def _plain(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.0f}"


def _hide(kind: type[actions.Hide], queue: str, got: Answers) -> actions.Hide:
    return kind(queue=queue, seconds=_seconds(got, "seconds"))


def _move(kind: type[actions.Move], queue: str, got: Answers) -> actions.Move:
    target = _text(got, "target")
    if not target:
        raise ValueError("enter the name of a queue; ↓ shows suggestions")
    return kind(queue=queue, target=target, create=_text(got, "create") == ON)


def _redrive(queue: str, got: Answers) -> actions.Redrive:
    target, origin = _text(got, "target") or None, _text(got, "origin") or None
    if target and origin:
        raise ValueError("either a queue or a path, not both")
    return actions.Redrive(queue=queue, target=target, origin=origin)


def _send(queue: str, got: Answers) -> actions.Send:
    delay_s = _seconds(got, "delay") if _text(got, "delay") else None
    return actions.Send(queue=queue, bodies=(_sent_body(got),), delay_s=delay_s)


def _sent_body(got: Answers) -> bytes:
    """Return the body to send, as typed or from a file; raises ValueError or OSError."""
    body, file = got["body"], _text(got, "file")
    if file and body:
        raise ValueError("either a body or a file, not both")
    return _read(_path(got, "file")) if file else body if isinstance(body, bytes) else body.encode()


def _create(got: Answers) -> actions.CreateQueue:
    name = _text(got, "name")
    if not name:
        raise ValueError("a queue needs a name")
    return actions.CreateQueue(
        queue=name, vt=_seconds(got, "vt"), delay=_seconds(got, "delay"), maxsize=_number(got, "maxsize")
    )


def _set(queue: str, state: QueueState | None, got: Answers) -> actions.SetAttributes:
    # Unchanged values are not written: another client may have changed them meanwhile.
    now = dict(zip(("vt", "delay", "maxsize"), _values_of(state), strict=True))
    changed = {
        name: (_number if name == "maxsize" else _seconds)(got, name)
        for name in now
        if _text(got, name) not in ("", now[name])
    }
    if not changed:
        raise ValueError("nothing was changed")
    return actions.SetAttributes(queue=queue, **changed)


def _push(queue: str, got: Answers) -> actions.Push:
    return actions.Push(queue=queue, bodies=(_sent_body(got),), first=got.get("first") == ON)


def _trim(queue: str, got: Answers) -> actions.Trim:
    return actions.Trim(queue=queue, keep=_number(got, "keep", least=0), keep_oldest=got.get("oldest") == ON)


def _purge(queue: str, got: Answers) -> actions.PurgeList:
    return actions.PurgeList(queue=queue, processing=got.get("processing") == ON)


def _pop(queue: str, got: Answers) -> actions.Pop:
    return actions.Pop(queue=queue, count=_number(got, "count", least=1))


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"{printable(str(path), _NAME_MAX)} is not a file")
    return path.read_bytes()


def _path(got: Answers, id: str) -> Path:
    text = _text(got, id)
    if not text:
        raise ValueError("enter the path of a file")
    try:
        return expanded(text)
    except ValueError as error:
        raise ValueError(f"the path {error}") from None


def _new_path(got: Answers) -> Path:
    path = _path(got, "file")
    if path.exists():
        raise ValueError(f"{printable(path.name, _NAME_MAX)} already exists")
    return path.absolute()


def _seconds(got: Answers, id: str) -> int:
    seconds = read_whole_seconds(_text(got, id))
    if isinstance(seconds, str):
        raise ValueError(f"{_LABELS.get(id, id)}: {seconds}")
    return seconds


def _number(got: Answers, id: str, *, least: int | None = None) -> int:
    """Return a whole number, of at least ``least`` if given; raises ValueError."""
    words = f"{_LABELS.get(id, id)} must be a whole number"
    try:
        number = int(_text(got, id))
    except ValueError:
        raise ValueError(words) from None
    if least is not None and number < least:
        raise ValueError(f"{words}, {least} or more")
    return number


def _text(got: Answers, id: str) -> str:
    value = got.get(id, "")
    return "" if isinstance(value, bytes) else value.strip()


def lost_json(before: bytes, after: bytes) -> str | None:
    """Return why a body is no longer JSON, with line and column; None if it still is, or never was."""
    try:
        parse_json(before)
    except JsonError:
        return None
    try:
        parse_json(after)
    except JsonError as error:
        return f"The body was JSON; now it is {error}"
    return None


def json_words(text: str) -> str:
    """Say whether a text is JSON, or where the error is; empty if it does not begin like an object or an array."""
    if not text.lstrip().startswith(("{", "[")):
        return ""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg}, line {error.lineno}, column {error.colno}"
    except RecursionError:
        return "not JSON: nested too deeply"
    return "JSON"


_SENTENCE_MAX = 300
_ABOUT_MAX = 140


class FormScreen(Dialog[None], Generic[T]):
    """Asks for a form's fields and passes the result to ``go_on``; it stays open, so that the user can return to it.

    ``about`` describes the messages that it applies to, because the screen behind it may not show that. ``command``
    makes the command that does the same, if there is one; a form with a preview has none, because the preview offers
    it.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("form")

    def __init__(
        self,
        form: Form[T],
        go_on: Callable[[T], None],
        *,
        yes: str = "Preview",
        note: str = "preview first",
        about: str = "",
        command: Callable[[T, Answers], str] | None = None,
    ) -> None:
        super().__init__()
        self._form = form
        self._go_on = go_on
        self._command = command
        self._yes, self._note, self._about = yes, note, printable(about, _ABOUT_MAX)
        self._is_warned = False
        self._set_by_user: set[str] = set()

    def compose(self) -> ComposeResult:
        """The fields, their error, the buttons."""
        with Vertical(classes="dialog"):
            if self._about:
                with Horizontal(classes="about"):
                    yield Static("for", classes="label")
                    yield Static(Content(self._about), id="about")
            with VerticalScroll(classes="fields", can_focus=False):
                for field in self._form.fields:
                    with Vertical(classes="field") if field.kind == "body" else Horizontal(classes="field"):
                        if field.kind != "switch":
                            yield Static(Content(field.label), classes="label")
                        yield _entry(field)
                        if field.kind == "body":
                            yield Static(id="syntax", markup=False)
            yield Static(id="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield DialogButton("Cancel", id="cancel")
                yield DialogButton(self._yes, id="yes")

    def on_mount(self) -> None:
        """Focus the first field."""
        dialog = self.query_one(".dialog")
        dialog.border_title = Content(self._form.title)
        keymap = keymap_of(self.app)
        copies = "" if self._command is None else f" · {keymap.first_key('copy_form')} copies the command"
        dialog.border_subtitle = Content(f"{self._note} · {keymap.first_key('submit')} continues{copies}")
        dialog.set_class(self._form.is_dangerous, "-danger")
        first = self.query_one(f"#{self._form.fields[0].id}")
        first.focus()

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss()

    @on(Input.Changed)
    def _follow_choice(self, event: Input.Changed) -> None:
        """Set the switches that depend on whether one of the choices was made."""
        for field in self._form.fields:
            if field.on_unless_chosen == event.input.id and field.id not in self._set_by_user:
                text = event.value.strip()
                choices = next(each.choices for each in self._form.fields if each.id == event.input.id)
                with self.prevent(TickBox.Changed):
                    self.query_one(f"#{field.id}", TickBox).value = bool(text) and text not in choices

    @on(TickBox.Changed)
    def _keep_switch(self, event: TickBox.Changed) -> None:
        self._set_by_user.add(event.checkbox.id or "")

    @on(Input.Changed)
    @on(TextArea.Changed)
    @on(TickBox.Changed)
    def _forget_problem(self) -> None:
        """Remove the error of earlier answers."""
        self._is_warned = False
        self._show_problem("")

    @on(TextArea.Changed)
    def _check_syntax(self, event: TextArea.Changed) -> None:
        """Say whether a body that looks like JSON is valid, and warn of one that no longer is."""
        area = event.text_area
        if isinstance(area, BodyArea):
            words = json_words(area.text)
            problem = lost_json(area.original, area.body) if words != "JSON" else None
            syntax = self.query_one("#syntax", Static)
            syntax.update(Content(words if problem is None else problem))
            syntax.set_class(problem is not None, "-warning")

    @on(Input.Submitted)
    @on(TickBox.Submitted)
    @on(Button.Pressed, "#yes")
    def action_submit(self) -> None:
        """Continue with the answers."""
        self._build(self._answers(), self._go_on)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """If there is no command, leave its key to the fields."""
        return action != "copy_command" or self._command is not None

    def action_copy_command(self) -> None:
        """Copy the command that does the same, with the answers."""
        answers, command = self._answers(), self._command
        if command is not None:
            self._build(answers, lambda made: copy_command(self, partial(command, made, answers)))

    def action_close(self) -> None:
        """Close; an edited text is discarded only on the second request."""
        written = any(area.is_edited for area in self.query(BodyArea))
        if written and not self._is_warned:
            self._is_warned = True
            self._show_problem("Press esc again to close and discard the text.")
            return
        self.dismiss()

    @work(group="form", exclusive=True)
    async def _build(self, answers: Answers, go_on: Callable[[T], None]) -> None:
        try:
            # In a thread, because it may read a file.
            made = await asyncio.to_thread(self._form.build, answers)
        except (ValueError, OSError) as error:
            self._show_problem(reason_of(error))
            return
        self._show_problem("")
        go_on(made)

    def _show_problem(self, sentence: str) -> None:
        self.query_one("#problem", Static).update(Content(printable(sentence, _SENTENCE_MAX)))

    def _answers(self) -> Answers:
        return {field.id: _answer(self.query_one(f"#{field.id}")) for field in self._form.fields}


def _entry(field: Field) -> Widget:
    if field.kind == "switch":
        return TickBox(Content(field.label), id=field.id, compact=True)
    if field.kind == "body":
        return BodyArea(field.body, id=field.id)
    return ChoiceInput(
        field.value,
        choices=field.choices,
        placeholder=_placeholder(field),
        id=field.id,
    )


def _placeholder(field: Field) -> str:
    suggests = "↓ suggests" if field.choices else ""
    return " · ".join(filter(None, (field.hint, suggests)))


def _answer(entry: Widget) -> str | bytes:
    match entry:
        case TickBox(value=value):
            return ON if value else ""
        case BodyArea(body=body):
            return body
        case Input(value=value):
            return value
    raise TypeError(f"no answer in {entry}")


class BodyArea(TextArea):
    """Edits a body; an unedited one, or one that is not editable text, keeps its exact bytes."""

    def __init__(self, body: bytes, *, id: str) -> None:
        self._original = body
        text = _editable(body)
        super().__init__(text or "", id=id, compact=True, tab_behavior="focus")
        # A text area may change line ends: only a body that a round trip leaves unchanged can be edited.
        self._is_kept = text is None or self.text != text
        if self._is_kept:
            self.load_text("")
            self.read_only = True
            self.placeholder = f"{size(len(body))} of binary data: cannot be edited, sent unchanged"
        self._before = self.text

    @property
    def original(self) -> bytes:
        """The body before it was edited."""
        return self._original

    @property
    def is_edited(self) -> bool:
        """Whether the text was edited."""
        return self.text != self._before

    @property
    def body(self) -> bytes:
        """The current body."""
        return self.text.encode() if self.is_edited else self._original

    def get_line(self, line_index: int) -> Text:
        """Return a line in which each unprintable character is replaced by a printable one."""
        line = super().get_line(line_index)
        if printable(line.plain) != line.plain:
            line.plain = "".join(map(_one_for_one, line.plain))
        return line


def _one_for_one(character: str) -> str:
    shown = printable(character)
    return character if character == "\t" else shown if len(shown) == 1 else "�"


def _editable(body: bytes) -> str | None:
    if len(body) > _EDITABLE_BYTES:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
