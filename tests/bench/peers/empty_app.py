"""The least that a Textual app with a header, a table and a footer costs."""

from textual.app import App, ComposeResult
from textual.widgets import DataTable, Footer, Header


class EmptyApp(App[None]):
    """Nothing but the three widgets."""

    def compose(self) -> ComposeResult:
        """Header, table, footer."""
        yield Header()
        yield DataTable()
        yield Footer()


if __name__ == "__main__":
    EmptyApp().run()
