"""A page for users, in a dialog."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Markdown

from rsmq_tui.docs import page, topics
from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.keys import bindings_of


class PageView(VerticalScroll):
    """Scrolls a page with the keys of every view of lines."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("lines")

    def action_scroll_lines(self, step: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=step, animate=False)

    def action_scroll_pages(self, step: int) -> None:
        """Scroll by screens."""
        self.scroll_relative(y=step * max(1, self.size.height - 1), animate=False)

    def action_scroll_to_end(self, step: int) -> None:
        """Scroll to the first line (-1) or to the last (1)."""
        self.scroll_to(y=0 if step < 0 else self.max_scroll_y, animate=False)


class PageScreen(ModalScreen[None]):
    """Shows the page of a topic; a link to another page leads there."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("modal")
    AUTO_FOCUS = "PageView"

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def compose(self) -> ComposeResult:
        """One view with the page in it."""
        with PageView() as view:
            view.border_title = f"Help: {self._topic}"
            # Who follows a link may sit behind SSH, where no browser can be opened.
            yield Markdown(page(self._topic), open_links=False)

    @on(Markdown.LinkClicked)
    async def _follow(self, event: Markdown.LinkClicked) -> None:
        topic = event.href.removesuffix(".md")
        if topic not in topics():
            dashboard_of(self.app).copy_text(event.href, "the link")
            return
        view = self.query_one(PageView)
        view.border_title = f"Help: {topic}"
        await event.markdown.update(page(topic))
        view.action_scroll_to_end(-1)

    def action_close(self) -> None:
        """Close."""
        self.dismiss()
