"""The pages of a queue's messages: which is shown, which is requested, the next ones, and when to read again."""

from dataclasses import replace

from rsmq_tui.monitor import Page, PageRequest
from rsmq_tui.monitor.text import count
from rsmq_tui.protocol import Part


class Pager:
    """The shown page of one queue, which is read again at each poll, starting at its first message.

    So it stays in place while messages before it come and go. A reply to an older request is dropped. A failed request
    leaves the last page, with the error, and that page is requested next.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        # Nothing is requested before the number of visible rows is known.
        self.request = PageRequest(queue, count=0)
        self.page: Page | None = None
        self.error: str | None = None
        self.pending: PageRequest | None = None
        self._coming: PageRequest | None = None
        self._asked_for_ms: int | None = None
        # With an open range, pages are turned one by one; the number of pages still to come.
        self.turns_left = 0
        self._page_again = self.request

    @property
    def is_stale(self) -> bool:
        """Whether the page could not be read again."""
        return self.page is not None and self.error is not None

    def position(self, row: int) -> str:
        """Return the position of a row of the page in its part of the queue: 31 of 3,021."""
        page = self.page
        if page is None or not page.rows:
            return ""
        low, high = page.bounds(page.request.part)
        return f"{count(page.start - low + row + 1)} of {count(high - low)}"

    def staleness(self, now_ms: int) -> str:
        """Describe how long the page could not be read again, and why; empty if it could."""
        if self.page is None or self.error is None:
            return ""
        return f"stale {max(0, now_ms - self.page.at_ms) / 1000:.0f} s: {self.error}"

    def is_due(self, polled_ms: int) -> bool:
        """Return whether to read the page again after a poll.

        Not while a request is pending: on a slow link, no reply would ever be accepted.
        """
        return polled_ms != self._asked_for_ms and self.pending is None and bool(self.request.count)

    def ask(self, request: PageRequest, rows: int, polled_ms: int | None) -> PageRequest:
        """Return the request for a page of ``rows`` rows after a poll; replies to older requests are dropped now."""
        self._asked_for_ms = polled_ms
        is_same = request is self._page_again
        self.request = self.pending = replace(request, count=rows)
        self._coming = None if is_same else self.pending
        return self.pending

    def of_part(self, part: Part) -> PageRequest:
        """Return the request for the first page of a part."""
        return PageRequest(self._queue, part)

    @property
    def is_turning(self) -> bool:
        """Whether another page than the shown one is on its way."""
        return self.pending is not None and self._coming is self.pending

    def numbered(self, part: Part, offset: int, rows: int) -> PageRequest:
        """Return the request for the page with the message at an offset in a part.

        It is the top row, unless too few messages come after it.
        """
        if self.page is not None:
            low, high = self.page.bounds(part)
            offset = max(0, min(offset, high - low - rows))
        return replace(self.of_part(part), offset=offset)

    def turned(self, step: int) -> PageRequest | None:
        """Return the request for the next page or the one before; None if there is none.

        While another page is on its way, it is the one beside that.
        """
        page = self.page
        if page is None or not page.rows:
            return None
        if self.is_turning:
            return self._turned_further(page, step)
        if page.is_last if step > 0 else page.is_first:
            return None
        if step > 0:
            return replace(self.request, where="after", anchor=page.rows[-1].anchor)
        return replace(self.request, where="before", anchor=page.rows[0].anchor)

    def _turned_further(self, page: Page, step: int) -> PageRequest | None:
        asked, rows = self.request, self.request.count
        low, high = page.bounds(asked.part)
        starts = {"first": low, "last": high - rows, "after": page.start + len(page.rows), "before": page.start - rows}
        base = starts.get(asked.where, page.start)
        start = base + asked.offset
        is_end = start + rows >= high if step > 0 else start <= low
        return None if is_end else replace(asked, offset=max(low, start + step * rows) - base)

    def accept(self, request: PageRequest, page: Page) -> bool:
        """Take a page; False if it is the reply to an older request."""
        if not self._is_answered(request):
            return False
        self.error, self.page = None, page
        if page.rows and not page.is_first:
            self.request = replace(request, where="at", anchor=page.rows[0].anchor, offset=0)
        else:
            self.request = PageRequest(self._queue, request.part, count=request.count)
        self._page_again = self.request
        return True

    def fail(self, request: PageRequest, error: str) -> bool:
        """Take a failure; False if it belongs to an older request."""
        if not self._is_answered(request):
            return False
        self.error, self.turns_left = error, 0
        if self.page is not None:
            self.request = self._page_again
        return True

    def next_turn(self) -> int:
        """Return the next of the turns that are left, which is a step; 0 if none is."""
        step = (self.turns_left > 0) - (self.turns_left < 0)
        self.turns_left -= step
        return step

    def _is_answered(self, request: PageRequest) -> bool:
        """Clear the pending request; False if another one is pending: a cancelled worker may still get here."""
        if self.pending is not request:
            return False
        self.pending = None
        return True


class OncePerPoll:
    """Allows one read for each poll, and none while one is pending, as for pages."""

    def __init__(self) -> None:
        self._polled_ms: int | None = None
        self._is_pending = False

    def begin(self, polled_ms: int) -> bool:
        """Return whether a read may begin; it must ``end``."""
        if self._is_pending or polled_ms == self._polled_ms:
            return False
        self._polled_ms, self._is_pending = polled_ms, True
        return True

    def end(self) -> None:
        """Let the next poll read again."""
        self._is_pending = False
