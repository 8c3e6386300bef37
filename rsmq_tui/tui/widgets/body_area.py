"""Where a message's body is written; a body that is no text is kept as it is."""

from rich.text import Text
from textual.widgets import TextArea

from rsmq_tui.monitor.wording import printable, size

_EDITABLE_BYTES = 200_000


class BodyArea(TextArea):
    """Edits a body; one that is not touched, or cannot be edited as text without a change, keeps its every byte."""

    def __init__(self, body: bytes, *, id: str) -> None:
        self._original = body
        text = _editable(body)
        super().__init__(text or "", id=id, compact=True, tab_behavior="focus")
        # A text area has its own mind about line ends: what comes out as it went in can be edited.
        self._is_kept = text is None or self.text != text
        if self._is_kept:
            self.load_text("")
            self.read_only = True
            self.placeholder = f"{size(len(body))} of binary data: cannot be edited, sent unchanged"
        self._before = self.text

    @property
    def is_edited(self) -> bool:
        """True when something was written."""
        return self.text != self._before

    @property
    def body(self) -> bytes:
        """The body as it is now."""
        return self.text.encode() if self.is_edited else self._original

    def get_line(self, line_index: int) -> Text:
        """Show a line; characters that a terminal would act upon are shown as others, one for one."""
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
