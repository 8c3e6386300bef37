"""The lines over the messages of a queue: tabs and marks, the filter being typed, and how a search stands."""

from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical

from rsmq_tui.monitor.wording import printable
from rsmq_tui.tui.message_tabs import Tab, alone_pieces, tab_pieces
from rsmq_tui.tui.searching import Hits, search_pieces
from rsmq_tui.tui.widgets.filter_line import FilterLine
from rsmq_tui.tui.widgets.text_line import TextLine


class ListHead(Vertical):
    """Two lines, of which the second is there only while a filter is typed or something was searched for."""

    DEFAULT_CSS = """
    ListHead { height: auto; }
    """

    def __init__(self, tabs: Sequence[Tab]) -> None:
        super().__init__()
        self.tabs = tabs
        self.filter_line = FilterLine()
        self._tabs = TextLine(id="tabs")
        self._told = TextLine(id="search")
        self._told.display = False

    def compose(self) -> ComposeResult:
        """Tabs, then the filter or the search."""
        yield self._tabs
        yield self.filter_line
        yield self._told

    def show_tabs(self, chosen: Tab, numbers: Mapping[str, str], marked: str, place: str = "", stale: str = "") -> None:
        """Show the tabs; what is ``stale`` says so in place of the other tabs, to be seen on a narrow screen too."""
        if not stale:
            self._tabs.show(tab_pieces(self.tabs, chosen, numbers, marked, place, self.size.width))
            return
        alone, _ = alone_pieces(self.tabs, chosen, numbers)
        told = [(f"   {marked}", "strong")] if marked else []
        cross = "X" if self._tabs.ascii_only else "✗"
        self._tabs.show([alone, *told, (f" {cross} {printable(stale, 230)}", "alarm")])

    def show_search(self, hits: Hits, typed: str, noun: str, now_ms: int) -> None:
        """Show how a search stands, whose matches go by that noun."""
        self._told.display = not self.filter_line.is_open
        ascii_only, width = self._told.ascii_only, self.size.width
        self._told.show(search_pieces(hits, typed, noun, now_ms, width, ascii_only=ascii_only))

    def hide_search(self) -> None:
        """Show no search."""
        self._told.display = False
