"""A stock ``DataTable`` of 40 queues in which one cell changes whenever the bench says so."""

import sys

from textual.app import App, ComposeResult
from textual.widgets import DataTable, Footer, Header

from tests.bench.peers.channel import Channel

COLUMNS = ("VERDICT", "QUEUE", "READY", "HIDDEN", "DEPTH", "OLDEST", "IN/s", "OUT/s", "RECV/s", "10 MIN", "DRAINS IN")
ROWS = 40


class StockTable(App[None]):
    """The obvious first version of the table."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def compose(self) -> ComposeResult:
        """Header, table, footer."""
        yield Header()
        yield DataTable()
        yield Footer()

    def on_mount(self) -> None:
        """Fill the table."""
        table = self.query_one(DataTable)
        for column in COLUMNS:
            table.add_column(column, key=column)
        for number in range(ROWS):
            counts = (f"{30_000 + number:,}", f"{212 + number}", f"{30_212 + number:,}")
            rest = ("2h 14m", "612.0", "401.3", "440.1", "▅▅▆▆▇▇██▇▇▆▆", "no: +211/s")
            table.add_row("▲ growing", f"jobs-orders-{number:05d}", *counts, *rest, key=str(number))
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        """Change the depth of the first queue to each number that is told."""
        self._channel.listen()
        table = self.query_one(DataTable)
        while (line := await self._channel.next()) is not None:
            table.update_cell("0", "DEPTH", line)
        self.exit()


if __name__ == "__main__":
    StockTable(Channel(*sys.argv[1:])).run()
