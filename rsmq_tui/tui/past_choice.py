"""Which queues of the past the charts are of: those that are marked, or else what is under the cursor."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rsmq_tui.history.analysis.values import Episode, QueueFacts, QueueRef
from rsmq_tui.tui.past_loading import Lists, Shown
from rsmq_tui.tui.past_pages import Page


class PastChoice:
    """The marks, the queues of the row that was last under the cursor, and what is left out.

    That is what does not match the words that are ``typed``, and the episodes of others than the ``only`` queue.
    """

    def __init__(self) -> None:
        self.marked: dict[QueueRef, None] = {}
        self.refs: tuple[QueueRef, ...] = ()
        self.only: QueueRef | None = None
        self.typed = ""
        self._before: tuple[Page, dict[QueueRef, None]] | None = None

    def narrow(self, ref: QueueRef, page: Page) -> None:
        """Look at the episodes of one queue, from that page."""
        self._before = page, self.marked
        self.only, self.marked = ref, {ref: None}

    def widen(self) -> Page | None:
        """Look at all again, with the marks of before; return the page that one came from, None where it is so."""
        before, self._before, self.only = self._before, None, None
        if before is None:
            return None
        page, self.marked = before
        return page

    def rows(self, page: Page, lists: Lists, name: Callable[[QueueRef], str]) -> list[Any]:
        """Return the rows of a page that are looked at, and pass the filter by their queue's ``name``."""
        return [row for row in page.rows(lists) if self._holds(row) and self.passes(page.ref(row), name)]

    def passes(self, ref: QueueRef | None, name: Callable[[QueueRef], str]) -> bool:
        """Tell whether a queue, or what is of none, passes the filter."""
        return passes("" if ref is None else name(ref), self.typed)

    def _holds(self, row: Any) -> bool:
        """Tell whether an episode is of the queue that is looked at, or of all queues of its place."""
        only = self.only
        return only is None or row.ref == only or (row.ref is None and row.place == only.place)

    def follow(self, page: Page, row: Any, queues: Iterable[QueueFacts]) -> tuple[QueueRef, ...]:
        """Return the queues that charts are of, now that this row is under the cursor; None is no row."""
        refs = tuple(self.marked)
        if not refs and row is not None:
            ref = page.ref(row)
            if ref is not None:
                refs = (ref,)
            elif isinstance(row, Episode):
                refs = tuple(facts.ref for facts in queues if facts.ref.place == row.place)
        self.refs = refs or self.refs
        return self.refs

    def toggle(self, ref: QueueRef) -> None:
        """Mark a queue, or take the mark off."""
        if ref in self.marked:
            del self.marked[ref]
        else:
            self.marked[ref] = None

    def toggle_all(self, refs: Sequence[QueueRef], name: Callable[[QueueRef], str]) -> None:
        """Mark those that pass the filter and no other; take all marks off where these are marked already."""
        refs = [ref for ref in refs if self.passes(ref, name)]
        self.marked = {} if set(refs) == set(self.marked) else dict.fromkeys(refs)

    def begin_with(self, wanted: tuple[str, str, str], shown: Shown) -> bool:
        """Mark a queue by its server, namespace and name, or one of that name elsewhere; tell whether there is one."""
        server, ns, queue = wanted
        found = [facts.ref for facts in shown.lists.queues if facts.ref.queue == queue]
        here = [ref for ref in found if (ref.server, ref.ns) == (server, ns)] or found[:1]
        self.marked = dict.fromkeys(here)
        return bool(found)


def passes(name: str, typed: str) -> bool:
    """Tell whether a name holds each word that was typed, and none of those that a ! stands before."""
    shown = name.lower()
    # A word that is only begun says nothing yet.
    words = [word for word in typed.lower().split() if word != "!"]
    return all((word[1:] not in shown) if word.startswith("!") else word in shown for word in words)
