"""Which page of messages is asked for, which one is on the screen, and which answers still count."""

from dataclasses import replace

from rsmq_tui.monitor import Page, PageRequest
from rsmq_tui.monitor.wording import count
from rsmq_tui.protocol import Part


class Pager:
    """The page of one queue that is read again at each poll, from its first message on.

    So it stays where it is while messages before it come and go. A reply to an older question is dropped. A question
    that failed leaves the last page, with the sentence why, and it is that page which is asked for next.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        # Nothing is asked for before it is known how many rows are in sight.
        self.request = PageRequest(queue, count=0)
        self.page: Page | None = None
        self.error: str | None = None
        self.pending: PageRequest | None = None
        self._page_again = self.request

    @property
    def is_stale(self) -> bool:
        """True when the page could not be read again."""
        return self.page is not None and self.error is not None

    @property
    def place(self) -> str:
        """Where in its part of the queue the page is: 1–20 of 3,021."""
        page = self.page
        if page is None or not page.rows:
            return ""
        low = page.ready if page.request.part == "hidden" else 0
        high = page.ready if page.request.part == "ready" else page.depth
        first = page.start - low + 1
        return f"{count(first)}–{count(first + len(page.rows) - 1)} of {count(high - low)}"

    def staleness(self, now_ms: int) -> str:
        """Say for how long the page could not be read again, and why; nothing where it could."""
        if self.page is None or self.error is None:
            return ""
        return f"stale {max(0, now_ms - self.page.at_ms) / 1000:.0f} s: {self.error}"

    def ask(self, request: PageRequest, rows: int) -> PageRequest:
        """Return the question for so many rows of a page; answers to older ones do not count any more."""
        self.request = self.pending = replace(request, count=rows)
        return self.pending

    def of_part(self, part: Part) -> PageRequest:
        """Return the request for the first page of a part."""
        return PageRequest(self._queue, part)

    def turned(self, step: int) -> PageRequest | None:
        """Return the request for the next page or the one before; None where there is none."""
        page = self.page
        if page is None or not page.rows or (page.is_last if step > 0 else page.is_first):
            return None
        if step > 0:
            return replace(self.request, where="after", anchor=page.rows[-1].anchor)
        return replace(self.request, where="before", anchor=page.rows[0].anchor)

    def take(self, request: PageRequest, page: Page) -> bool:
        """Take a page; False when something else was asked meanwhile."""
        if not self._is_answered(request):
            return False
        self.error, self.page = None, page
        if page.rows and not page.is_first:
            self.request = replace(request, where="at", anchor=page.rows[0].anchor)
        else:
            self.request = PageRequest(self._queue, request.part, count=request.count)
        self._page_again = self.request
        return True

    def fail(self, request: PageRequest, error: str) -> bool:
        """Take a failure; False when something else was asked meanwhile."""
        if not self._is_answered(request):
            return False
        self.error = error
        if self.page is not None:
            self.request = self._page_again
        return True

    def _is_answered(self, request: PageRequest) -> bool:
        """Take an answer; False when something else was asked meanwhile, for a cancelled worker may come this far."""
        if self.pending is not request:
            return False
        self.pending = None
        return True
