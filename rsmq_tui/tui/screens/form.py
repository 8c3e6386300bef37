"""What a change has to be asked for, field by field."""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from rsmq_tui.monitor.wording import printable
from rsmq_tui.tui.change_forms import Answers, Field, Form
from rsmq_tui.tui.keymap import bindings_of
from rsmq_tui.tui.widgets.body_area import BodyArea
from rsmq_tui.tui.widgets.choice_input import ChoiceInput
from rsmq_tui.tui.widgets.dialog_button import DialogButton
from rsmq_tui.tui.widgets.tick_box import TickBox

T = TypeVar("T")

_SENTENCE_MAX = 300
_ABOUT_MAX = 140


class FormScreen(ModalScreen[None], Generic[T]):
    """Asks for a form's fields and hands what they make to ``go_on``; it stays, so that one can come back to it.

    ``about`` says what it is for: the screen behind it may not be the one that its reader thinks of.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("modal")

    def __init__(
        self,
        form: Form[T],
        go_on: Callable[[T], None],
        *,
        yes: str = "Preview",
        note: str = "preview first",
        about: str = "",
    ) -> None:
        super().__init__()
        self._form = form
        self._go_on = go_on
        self._yes, self._note, self._about = yes, note, printable(about, _ABOUT_MAX)
        self._is_warned = False

    def compose(self) -> ComposeResult:
        """The fields, what is wrong with them, buttons."""
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
            yield Static(id="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield DialogButton("Cancel", id="cancel")
                yield DialogButton(self._yes, id="yes")

    def on_mount(self) -> None:
        """Begin in the first field."""
        dialog = self.query_one(".dialog")
        dialog.border_title = Content(self._form.title)
        dialog.border_subtitle = Content(self._note)
        first = self.query_one(f"#{self._form.fields[0].id}")
        first.focus()

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss()

    @on(Input.Submitted)
    @on(TickBox.Submitted)
    @on(Button.Pressed, "#yes")
    def _submit(self) -> None:
        self.run_worker(self._build(self._answers()), group="form", exclusive=True)

    def action_close(self) -> None:
        """Close; a text that was written is only dropped when it is asked for twice."""
        written = any(area.is_edited for area in self.query(BodyArea))
        if written and not self._is_warned:
            self._is_warned = True
            self._tell("Press esc again to close and discard the text.")
            return
        self.dismiss()

    async def _build(self, answers: Answers) -> None:
        try:
            # It may read a file.
            made = await asyncio.to_thread(self._form.build, answers)
        except (ValueError, OSError) as error:
            self._tell(str(error))
            return
        self._tell("")
        self._go_on(made)

    def _tell(self, sentence: str) -> None:
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
            return "yes" if value else ""
        case BodyArea(body=body):
            return body
        case Input(value=value):
            return value
    raise TypeError(f"no answer in {entry}")
