"""The tabs of a queue's messages: which one is shown, and how many messages each has."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rsmq_tui.monitor import Filter, MessageState, Page, QueueState, parse_filter
from rsmq_tui.monitor.text import UNKNOWN, compact, printable
from rsmq_tui.protocol.kinds import Tab, kind_named
from rsmq_tui.tui.widgets.lines import tab_alone, tab_line
from rsmq_tui.tui.widgets.painted import Piece


class Tabs:
    """The tabs of a queue, and the chosen one, which is shown.

    ``counted`` has the numbers that searches found, by the names of their tabs; messages came and went since.
    ``unleased`` is the number of items of a list without a lease, None if it is unknown.
    """

    def __init__(self, tabs: Sequence[Tab]) -> None:
        self._tabs = tabs
        self.chosen = tabs[0]
        self.counted: dict[str, int] = {}
        self.unleased: int | None = None

    def turn(self, step: int) -> None:
        """Choose the next tab or the one before."""
        self.chosen = self._tabs[(self._tabs.index(self.chosen) + step) % len(self._tabs)]

    def choose_part(self, part: str) -> None:
        """Choose the tab that shows a part of the queue."""
        self.chosen = next(tab for tab in self._tabs if tab.part == part)

    def wanted(self, typed: Filter) -> Filter:
        """Return the filter of the chosen tab combined with what was typed."""
        term = self.chosen.term
        if not term:
            return typed
        own = parse_filter(term, typed.poison_rc)
        return Filter(f"{term} {typed.text}".strip(), (*own.terms, *typed.terms), typed.poison_rc)

    def nothing(self, typed: Filter) -> str:
        """Return the text for a tab without messages."""
        if typed.is_empty:
            return f"There are no {f'{self.chosen.name} ' if self.chosen.term else ''}messages in this queue."
        return f"No message matches {printable(self.wanted(typed).text, 60)}. Press esc to see all."

    def number_in_part(self, counted: Page | QueueState | None) -> int | None:
        """Return how many messages the part of the chosen tab has."""
        if counted is None:
            return None
        depth, ready = counted.depth, counted.ready
        hidden = None if depth is None or ready is None else depth - ready
        return {"all": depth, "ready": ready, "hidden": hidden}.get(self.chosen.part or "")

    def numbers(
        self, state: QueueState | None, page: Page | None, at_ms: int, poison_rc: int, *, is_sure: bool
    ) -> dict[str, str]:
        """Return the numbers of messages in the tabs, as text, by the last poll and the page that is shown.

        Unless the poll succeeded, and so ``is_sure``, they are marked as approximate.
        """
        counted = page or state
        numbers: dict[str, float | None] = {"all": counted and counted.depth, "ready": counted and counted.ready}
        if state is not None:
            # The page was counted at another moment than the poll: all tabs must agree.
            numbers |= _numbers_of(state if page is None else _counted_in(page, state))
        if self.unleased is not None:
            numbers["no lease"] = self.unleased
        if page is not None:
            numbers |= _numbers_in(page, max(at_ms, page.at_ms), poison_rc)
        texts = {name: number_text(number, is_sure=False) for name, number in self.counted.items()}
        texts |= {name: number_text(number, is_sure=is_sure) for name, number in numbers.items()}
        if state is not None and state.poison and "poison" not in texts:
            # A poll knows only a minimum until all messages were checked.
            more = "+" if state.looked_all_ms is None else ""
            texts["poison"] = f"{number_text(state.poison, is_sure=is_sure)}{more}"
        return texts

    def pieces(
        self, numbers: Mapping[str, str], width: int, *, marked: str = "", position: str = "", stale: str = ""
    ) -> list[Piece]:
        """Return the tabs with their numbers, the marks, and the position; what does not fit is dropped by importance.

        The position is more important than the numbers of the other tabs. If not all tabs fit, only the chosen one is
        shown, with its number among them. A ``stale`` text replaces the other tabs, to be visible on a narrow screen
        too.
        """
        index = self._tabs.index(self.chosen)
        full = [f"{tab.name} {numbers.get(tab.name, UNKNOWN)}" for tab in self._tabs]
        short = [words if tab is self.chosen else tab.name for tab, words in zip(self._tabs, full, strict=True)]
        marks: list[Piece] = [(f"   {marked}", "strong")] if marked else []
        if stale:
            return [tab_alone(full, index)[0], *marks, (f" ✗ {printable(stale, 230)}", "alarm")]
        where: list[Piece] = [(f"   {position}", "muted")] if position else []
        lines = (
            [*tab_line(full, index), *marks, *where],
            [*tab_line(short, index), *marks, *where],
            [*tab_line(full, index), *marks],
            [*tab_line(short, index), *marks],
            [*tab_alone(full, index), *marks, *where],
        )
        short_enough = (pieces for pieces in lines if sum(len(text) for text, _ in pieces) <= width)
        return next(short_enough, [*tab_alone(full, index), *marks])


def number_text(number: float | None, *, is_sure: bool) -> str:
    """Format the number of messages in a tab, marked as approximate unless ``is_sure``."""
    return compact(number) if is_sure or number is None else f"~{compact(number)}"


def _counted_in(page: Page, state: QueueState) -> QueueState:
    return state._replace(depth=page.depth, ready=page.ready, hidden=page.depth - page.ready)


def _numbers_in(page: Page, at_ms: int, poison_rc: int) -> dict[str, int]:
    """Count the messages of tabs from the rows of a page that shows the whole queue; otherwise return {}."""
    rows = page.rows
    if not rows or page.request.part != "all" or len(rows) != page.depth:
        return {}
    states = Counter(row.state_at(at_ms) for row in rows)
    if rows[0].is_item:
        return {"expired": states[MessageState.EXPIRED], "no lease": states[MessageState.UNLEASED]}
    poison = sum(row.rc is not None and row.rc >= poison_rc for row in rows)
    in_flight, delayed = states[MessageState.IN_FLIGHT], states[MessageState.DELAYED]
    # Until the page is read again, its own ready number would not count messages that became due since.
    return {"ready": states[MessageState.READY], "in flight": in_flight, "delayed": delayed, "poison": poison}


def _numbers_of(state: QueueState) -> dict[str, float | None]:
    """Return the numbers of tabs that follow from a poll: if nothing is hidden, nothing is in flight or delayed."""
    if kind_named(state.kind).has_leases:
        of_leases: dict[str, float | None] = {"processing": state.hidden, "expired": state.expired}
        return {**of_leases, "no lease": 0} if state.hidden == 0 else of_leases
    numbers: dict[str, float | None] = {"in flight": 0, "delayed": 0} if state.hidden == 0 else {}
    return {**numbers, "poison": 0} if state.depth == 0 else numbers
