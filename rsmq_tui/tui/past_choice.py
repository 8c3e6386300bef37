"""Which queues of the past the charts are of: those that are marked, or else what is under the cursor."""

from collections.abc import Iterable, Sequence
from typing import Any

from rsmq_tui.history.analysis.values import Episode, QueueFacts, QueueRef
from rsmq_tui.tui.past_loading import Shown
from rsmq_tui.tui.past_pages import Page


class PastChoice:
    """The marks, and the queues of the row that was last under the cursor."""

    def __init__(self) -> None:
        self.marked: dict[QueueRef, None] = {}
        self.refs: tuple[QueueRef, ...] = ()

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

    def toggle_all(self, refs: Sequence[QueueRef]) -> None:
        """Mark these queues and no other; take all marks off where these are marked already."""
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
