"""Searches of a queue's messages, and the tabs that show them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from enum import Enum, auto
from operator import attrgetter

from rich.cells import cell_len
from textual import work
from textual.containers import Vertical

from rsmq_tui.monitor import (
    Filter,
    MessageRow,
    MessageState,
    Page,
    PeekError,
    Progress,
    QueueState,
    Snapshot,
    parse_filter,
)
from rsmq_tui.monitor.filters.search import INCOMPLETE, found_row
from rsmq_tui.monitor.peek import RowsAgain
from rsmq_tui.monitor.reading import read_score
from rsmq_tui.monitor.text import UNKNOWN, compact, count, duration, matches, printable
from rsmq_tui.protocol import PREVIEW_BYTES, RawMessage
from rsmq_tui.protocol.kinds import Tab, kind_named
from rsmq_tui.protocol.lists.naming import order_of
from rsmq_tui.tui.dashboard import Dashboard, dashboard_of
from rsmq_tui.tui.queue.marks import Marks
from rsmq_tui.tui.widgets.painted import Piece


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


def number_text(number: float | None, *, is_sure: bool) -> str:
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
    if kind_named(state.kind).has_leases:
        numbers: dict[str, float | None] = {"processing": state.hidden, "expired": state.expired}
        if state.hidden == 0:
            numbers["no lease"] = 0
    else:
        numbers = {"in flight": 0, "delayed": 0} if state.hidden == 0 else {}
        if state.depth == 0:
            numbers["poison"] = 0
    told = {name: number_text(number, is_sure=is_sure) for name, number in numbers.items()}
    if state.poison and "poison" not in {*found, *told}:
        told["poison"] = number_text(state.poison, is_sure=is_sure) + ("" if state.looked_all_ms is not None else "+")
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


ROWS_MAX = 1_000
_NOW_MS = 1_000
_MATCH = "match"

_Place = tuple[float, bytes]


class Stage(Enum):
    """How a search stands."""

    RUNNING = auto()
    STOPPED = auto()
    DONE = auto()
    FAILED = auto()


class Hits:
    """The first ROWS_MAX matches by due time; those beyond are only counted, so that memory stays bounded.

    ``rows`` and ``keys`` are the same objects until something was found that belongs among them, or something became
    of a row. ``before`` is what the same search found earlier, ``gone`` the ids of rows that have left the queue since,
    ``unknown`` those of items that were not found again, and ``error`` why it failed: until the server has answered, it
    is as failed as that.
    """

    def __init__(self, wanted: Filter, before: "Hits | None" = None) -> None:
        self.wanted = wanted
        self.at_ms: int = 0
        self.error: str = "" if before is None else before.error
        self.before: Hits | None = None if before is None or not before.listed.at_ms else before.listed
        self.stage = Stage.RUNNING
        self.scanned = self.depth = self.matched = self.not_searched = self.begun_anew = 0
        self.rows: tuple[MessageRow, ...] = ()
        self.keys: tuple[str, ...] = ()
        self.gone: set[str] = set()
        self.unknown: set[str] = set()
        # Rows as they are now, by the ids that they were found with.
        self._again: dict[str, MessageRow] = {}
        self._kept: list[_Kept] = []
        self._arranged = True

    def add(self, progress: Progress) -> None:
        """Take what was found since the last time."""
        self.error = ""
        self.at_ms, self.depth = progress.at_ms, progress.depth
        self.scanned, self.matched = progress.scanned, progress.matched
        self.not_searched, self.begun_anew = progress.not_searched, progress.begun_anew
        if progress.messages:
            self._keep(progress)

    def arrange(self) -> None:
        """Bring ``rows`` and ``keys`` up to date."""
        if not self._arranged:
            self._arranged = True
            self.rows = tuple(self._again.get(each.row.id, each.row) for each in self._kept)
            self.keys = tuple(row.id for row in self.rows)

    def take_again(self, again: RowsAgain) -> None:
        """Take what has become of some of the rows since they were found; their order stays, and so do those gone."""
        self.arrange()
        for each, row in zip(self._kept, self.rows, strict=True):
            if (now := again.rows.get(row.id)) is not None:
                self._again[each.row.id] = now
        self.gone = (self.gone - again.rows.keys()) | {id for id, row in again.rows.items() if row is None}
        self.unknown = (self.unknown - again.rows.keys()) | again.unknown
        self._arranged = False
        keys = self.keys
        self.arrange()
        # The same object says that the rows are the same ones.
        self.keys = keys if keys == self.keys else self.keys

    def end(self, stage: Stage, error: str = "") -> None:
        """Say how it ended; what ends first counts. What is stopped before it got over a failure has failed."""
        if self.stage is Stage.RUNNING:
            is_as_failed = stage is Stage.STOPPED and self.error
            self.stage, self.error = (Stage.FAILED, self.error) if is_as_failed else (stage, error)
        if self.stage in (Stage.STOPPED, Stage.DONE):
            self.before = None

    @property
    def is_running(self) -> bool:
        """True while more may be found."""
        return self.stage is Stage.RUNNING

    @property
    def is_stale(self) -> bool:
        """True when what is listed could not be found again."""
        return bool(self.error and self.listed.at_ms)

    def is_of_now(self, now_ms: int) -> bool:
        """Tell whether what was found is not even a second old."""
        return now_ms - self.at_ms < _NOW_MS

    @property
    def listed(self) -> "Hits":
        """What to list: until the same search has come to an end again, what it found earlier."""
        if self.before is not None and self.stage in (Stage.RUNNING, Stage.FAILED):
            return self.before
        return self

    def _keep(self, progress: Progress) -> None:
        """Keep those that belong among the first; all may be found in the opposite order."""
        last = self._kept[-1].place if len(self._kept) == ROWS_MAX else None
        found = [(_place(message), message) for message in progress.messages]
        belonging = [_Kept(place, message, progress) for place, message in found if last is None or place < last]
        if belonging:
            self._kept += belonging
            self._kept.sort(key=attrgetter("place"))
            del self._kept[ROWS_MAX:]
            self._arranged = False


class _Kept:
    """A match among the first; its row is made when it is looked at, for by then most have been ousted."""

    __slots__ = ("_at", "_message", "_row", "place")

    def __init__(self, place: _Place, message: RawMessage, progress: Progress) -> None:
        self.place = place
        self._row: MessageRow | None = None
        if progress.age is None:
            # Of its body only what is shown is kept.
            body = message.body and message.body[:PREVIEW_BYTES]
            self._at, self._message = progress.at_ms, message._replace(body=body)
        else:
            self._row = progress.row(message)

    @property
    def row(self) -> MessageRow:
        """The match as the table shows it."""
        if self._row is None:
            self._row = found_row(self._message, self._at)
        return self._row


def _place(message: RawMessage) -> _Place:
    due_ms, _ = read_score(message.score.decode("latin-1"))
    return float("inf") if due_ms is None else due_ms, order_of(message.id)


class Searches:
    """What was found for each tab, by its name, and how much those held that were searched without a filter."""

    def __init__(self) -> None:
        self._hits: dict[str, Hits] = {}
        self._counted: dict[str, int] = {}

    @property
    def numbers(self) -> dict[str, str]:
        """How much tabs hold: about, for it was counted some time ago."""
        return {name: number_text(number, is_sure=False) for name, number in self._counted.items()}

    def found(self, tab: str) -> Hits | None:
        """Return what was found for a tab."""
        return self._hits.get(tab)

    def begin(self, tab: str, wanted: Filter) -> Hits:
        """Begin to search for a tab, anew where that was done or is under way."""
        before = self._hits.get(tab)
        hits = self._hits[tab] = Hits(wanted, before)
        if before is not None:
            before.end(Stage.STOPPED)
        return hits

    def count(self, tab: str, number: int) -> None:
        """Take how much a tab holds."""
        self._counted[tab] = number

    def forget(self) -> None:
        """Forget what was found: another filter asks for something else."""
        self._hits.clear()

    def forget_later(self, at_ms: int) -> None:
        """Forget what was found, or is looked for, at a later time than that."""
        self._hits = {tab: hits for tab, hits in self._hits.items() if not hits.is_running and hits.at_ms <= at_ms}
        self._counted.clear()


def search_pieces(
    hits: Hits, text: str, noun: str, now_ms: int, width: int, *, ascii_only: bool = False
) -> list[Piece]:
    """Say what is searched for, how much was found, and how far the search has come, in so many cells."""
    counted = hits.listed if hits.error else hits
    number = counted.matched if counted.at_ms or not hits.error else None
    matched = matches(number) if noun == _MATCH else f"{count(number)} {noun}"
    told = [_stage(hits, now_ms, ascii_only=ascii_only)]
    if hits.listed.matched > ROWS_MAX:
        told.append((f" · first {count(ROWS_MAX)} of {count(hits.listed.matched)} shown", "muted"))
    if hits.not_searched:
        told.append((f" · {count(hits.not_searched)} too long to search", "verdict-aged"))
    if hits.begun_anew:
        told.append((f" · {INCOMPLETE}", "verdict-aged"))
    wanted = f"filter: {printable(text)}   " if text else ""
    room = width - 1 - len(matched) - sum(len(words) for words, _ in told)
    if cell_len(wanted) > room:
        wanted = f"{printable(text, room - 3)}   " if text and room > 6 else ""
    return [(f" {wanted}", ""), (matched, "strong"), *told]


def nothing_found(hits: Hits) -> str:
    """Say that a search ended early and had found nothing until then; nothing where it searched all."""
    if hits.stage is not Stage.STOPPED:
        return ""
    if not hits.at_ms:
        return "Nothing was searched: the search was stopped before the first reply. Press r to search."
    return f"No match in the {count(hits.scanned)} of {count(hits.depth)} messages searched. Press r to search all."


def _stage(hits: Hits, now_ms: int, *, ascii_only: bool) -> Piece:
    if hits.error:
        return f" · {'X' if ascii_only else '✗'} {_staleness(hits.listed, now_ms)}{printable(hits.error, 200)}", "alarm"
    if hits.is_running:
        how_far = f"scanned {count(hits.scanned)} of {count(hits.depth)}" if hits.at_ms else "searching"
        return f" · {how_far} · esc stops", "muted"
    age = "before the first reply"
    if hits.at_ms:
        age = "as of now" if hits.is_of_now(now_ms) else f"{duration(now_ms - hits.at_ms)} old"
    if hits.stage is Stage.STOPPED:
        return f" · stopped at {count(hits.scanned)} of {count(hits.depth)}, {age} · r refreshes", "verdict-aged"
    return f" · {age}" if hits.is_of_now(now_ms) else f" · {age} · r refreshes", "muted"


def _staleness(listed: Hits, now_ms: int) -> str:
    """Say how old what is listed is, and where it is not all that there was; nothing where there is nothing."""
    if not listed.at_ms:
        return ""
    part = "" if listed.stage is Stage.DONE else f", at {count(listed.scanned)} of {count(listed.depth)}"
    return f"stale {max(0, now_ms - listed.at_ms) / 1000:.0f} s{part}: "


# While a search runs, the screen follows it so often.
_FOLLOW_S = 0.1
# Each of those that are missed is looked for in a round trip of its own.
MISSING_MAX = 20


class SearchedMessages(Vertical):
    """What can be searched: a tab of a queue, behind a filter, with marks.

    A search costs much, and is made again only by ``search_again``, or where it failed by the next poll that succeeds.
    Each tab keeps what was found for it until the filter changes.
    """

    def __init__(self, queue: str, place: str, tab: Tab) -> None:
        super().__init__()
        self.marks = Marks()
        self.typed = parse_filter("")
        self._queue = queue
        self._place = place
        self._tab = tab
        self._searches = Searches()
        self._snapshot: Snapshot | None = None
        self._searched_for_ms: int | None = None

    def on_mount(self) -> None:
        """Be ready to follow a search."""
        self._ticking = self.set_interval(_FOLLOW_S, self._follow, pause=True)

    @property
    def wanted(self) -> Filter:
        """The filter for what this tab shows."""
        return wanted_in(self._tab, self.typed)

    def show(self) -> None:
        """Show what there is."""
        raise NotImplementedError

    def search_again(self) -> None:
        """Search anew where a search was made; until it has ended, what was found before is shown."""
        if self._is_search:
            self._search()

    def end_search(self) -> bool:
        """Stop searching, keep what was found, and tell whether that stopped a search.

        One that has not yet got over a failure looks failed, and stays so.
        """
        hits = self._found
        if hits is None or not hits.is_running:
            return False
        self.workers.cancel_group(self, "search")
        hits.end(Stage.STOPPED)
        self.show()
        return hits.stage is Stage.STOPPED

    @property
    def _dashboard(self) -> Dashboard:
        return dashboard_of(self.app)

    @property
    def _is_search(self) -> bool:
        return self._tab.part is None or not self.typed.is_empty

    @property
    def _found(self) -> Hits | None:
        return self._searches.found(self._tab.name) if self._is_search else None

    def _search_after_failure(self, snapshot: Snapshot) -> None:
        """Search again what could not be searched, once a poll since then has got an answer."""
        hits = self._found
        if hits is None or hits.stage is not Stage.FAILED or snapshot.link.failure is not None:
            return
        if snapshot.at_ms != self._searched_for_ms:
            self._search()

    def _search(self) -> None:
        self._note_search()
        self._ticking.resume()
        self._find(self._searches.begin(self._tab.name, self.wanted))
        self.show()

    @work(group="search", exclusive=True)
    async def _find(self, hits: Hits) -> None:
        before = hits.before
        try:
            async with aclosing(self._dashboard.site(self._place).source.search(self._queue, hits.wanted)) as found:
                async for progress in found:
                    if not hits.is_running:
                        return
                    hits.add(progress)
        except PeekError as error:
            hits.end(Stage.FAILED, str(error))
            self._note_search()
        hits.end(Stage.DONE)
        if hits.stage is Stage.DONE:
            self._take_found(hits, before)
        self.show()

    def _note_search(self) -> None:
        """Remember the poll that a search was last begun or failed at."""
        self._searched_for_ms = self._snapshot.at_ms if self._snapshot else None

    def _take_found(self, hits: Hits, before: Hits | None) -> None:
        hits.arrange()
        if self.typed.is_empty:
            self._searches.count(self._tab.name, hits.matched)
        if before is not None:
            self.marks.follow(before.rows, hits.rows)
        if before is not None and hits.matched == len(hits.rows):
            gone = self.marks.ids & set(before.keys) - set(hits.keys)
            self._look_for([*gone][:MISSING_MAX])

    def _follow(self) -> None:
        self.show()
        hits = self._found
        if hits is None or not hits.is_running:
            self._ticking.pause()

    @work(group="missing", exclusive=True)
    async def _look_for(self, ids: list[str]) -> None:
        """Let those lose their marks that have left the queue; others have only moved in it."""
        for id in ids:
            try:
                view = await self._dashboard.site(self._place).source.read(self._queue, id)
            except PeekError:
                return
            if view.row is None:
                self.marks.lose(id)
            else:
                self.marks.keep(id)
        self.show()
