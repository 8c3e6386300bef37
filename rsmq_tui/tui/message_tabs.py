"""The tabs over the messages of a queue: what each lists, and how they are written on one line."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rsmq_tui.monitor import Filter, MessageState, Page, QueueState, parse_filter
from rsmq_tui.monitor.wording import UNKNOWN, compact, printable
from rsmq_tui.protocol import Part
from rsmq_tui.tui.widgets.painted import Piece


@dataclass(frozen=True, slots=True)
class Tab:
    """Lists a ``part`` of the queue in pages, or where it is None what the ``term`` of a filter finds."""

    name: str
    term: str = ""
    part: Part | None = None


TABS = (
    Tab("all", part="all"),
    Tab("ready", "state:ready", part="ready"),
    Tab("in flight", "state:inflight"),
    Tab("delayed", "state:delayed"),
    Tab("poison", "state:poison"),
)
# Of a list queue; what is not ready is in processing.
LIST_TABS = (
    Tab("all", part="all"),
    Tab("ready", "state:ready", part="ready"),
    Tab("processing", "!state:ready", part="hidden"),
    Tab("expired", "state:expired"),
    Tab("no lease", "state:unleased"),
)


def wanted_in(tab: Tab, typed: Filter) -> Filter:
    """Return the filter for what is in a tab and matches what was typed."""
    if not tab.term:
        return typed
    own = parse_filter(tab.term, typed.poison_rc)
    text = f"{tab.term} {typed.text}".strip()
    return Filter(text, (*own.terms, *typed.terms), typed.poison_rc)


def nothing_in(tab: Tab, typed: Filter) -> str:
    """Say that a tab is empty, and what to do."""
    if typed.is_empty:
        return (
            f"There are no {tab.name} messages in this queue." if tab.term else "There are no messages in this queue."
        )
    return f"No message matches {printable(wanted_in(tab, typed).text, 60)}. Press esc to see all."


def told_number(number: float | None, *, is_sure: bool) -> str:
    """Say how much a tab holds; about so much, where it is not sure that it still does."""
    return compact(number) if is_sure or number is None else f"~{compact(number)}"


def shown_numbers(page: Page, at_ms: int, poison_rc: int) -> dict[str, int]:
    """Count what tabs hold where a page shows the whole queue, as its rows say at that time; else nothing."""
    rows = page.rows
    if not rows or page.request.part != "all" or len(rows) != page.depth:
        return {}
    states = Counter(row.state_at(at_ms) for row in rows)
    if rows[0].is_item:
        return {"expired": states[MessageState.EXPIRED], "no lease": states[MessageState.UNLEASED]}
    poison = sum(row.rc is not None and row.rc >= poison_rc for row in rows)
    in_flight, delayed = states[MessageState.IN_FLIGHT], states[MessageState.DELAYED]
    # A page is read again at each poll; until then its ready number would contradict what has become due since.
    return {"ready": states[MessageState.READY], "in flight": in_flight, "delayed": delayed, "poison": poison}


def known_numbers(state: QueueState, found: Mapping[str, str], *, is_sure: bool) -> dict[str, str]:
    """Say how much tabs hold of which a poll tells: nothing is hidden in parts where nothing is hidden at all.

    Of messages received often a poll sees some: at least so many there are, unless more were ``found`` or all were
    looked at.
    """
    if state.kind == "list":
        numbers: dict[str, float | None] = {"processing": state.hidden, "expired": state.expired}
        if state.hidden == 0:
            numbers["no lease"] = 0
    else:
        numbers = {"in flight": 0, "delayed": 0} if state.hidden == 0 else {}
        if state.depth == 0:
            numbers["poison"] = 0
    told = {name: told_number(number, is_sure=is_sure) for name, number in numbers.items()}
    if state.poison and "poison" not in {*found, *told}:
        told["poison"] = told_number(state.poison, is_sure=is_sure) + ("" if state.looked_all_ms is not None else "+")
    return told


def tab_pieces(
    tabs: Sequence[Tab], chosen: Tab, numbers: Mapping[str, str], marked: str, place: str, width: int
) -> list[Piece]:
    """Write the tabs with their numbers, what is marked, and where in the queue one is; what matters least goes first.

    Where not all tabs fit, the chosen one says which of them it is.
    """
    full = [_words(tab, numbers) for tab in tabs]
    short = [words if tab is chosen else tab.name for tab, words in zip(tabs, full, strict=True)]
    told: list[Piece] = [(f"   {marked}", "strong")] if marked else []
    where: list[Piece] = [(f"   {place}", "muted")] if place else []
    lines = (
        [*_line(tabs, full, chosen), *told, *where],
        [*_line(tabs, full, chosen), *told],
        [*_line(tabs, short, chosen), *told, *where],
        [*_line(tabs, short, chosen), *told],
        [*alone_pieces(tabs, chosen, numbers), *told, *where],
    )
    fitting = (pieces for pieces in lines if sum(len(text) for text, _ in pieces) <= width)
    return next(fitting, [*alone_pieces(tabs, chosen, numbers), *told])


def _line(tabs: Sequence[Tab], words: Sequence[str], chosen: Tab) -> list[Piece]:
    pieces: list[Piece] = [(" ", "")]
    for tab, text in zip(tabs, words, strict=True):
        pieces.append((f"[ {text} ]", "strong") if tab is chosen else (f"  {text}  ", "muted"))
    return pieces


def alone_pieces(tabs: Sequence[Tab], chosen: Tab, numbers: Mapping[str, str]) -> list[Piece]:
    """Write the chosen tab, and which of them it is."""
    return [
        (f" [ {_words(chosen, numbers)} ]", "strong"),
        (f" {tabs.index(chosen) + 1}/{len(tabs)}", "muted"),
    ]


def _words(tab: Tab, numbers: Mapping[str, str]) -> str:
    return f"{tab.name} {numbers.get(tab.name, UNKNOWN)}"
