"""What the tests of the dashboard read: the app of a pilot, its source, and the text on its screen."""

from typing import Any

from textual.app import App
from textual.notifications import Notification
from textual.pilot import Pilot
from textual.widget import Widget

from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.widgets.lines import TextLine
from rsmq_tui.tui.widgets.row_table import RowTable
from tests.quick_apps import strips_unless_unchanged
from tests.tui.scripted import ScriptedSource


def app_of(pilot: Pilot[None]) -> RsmqApp:
    """The app, by its own type."""
    app = pilot.app
    assert isinstance(app, RsmqApp)
    return app


def source_of(pilot: Pilot[None]) -> ScriptedSource:
    """The app's source, by its own type."""
    source = app_of(pilot).dashboard.servers[0].source
    assert isinstance(source, ScriptedSource)
    return source


def table_of(pilot: Pilot[None]) -> RowTable[Any, Any]:
    """The table of the screen in front."""
    return pilot.app.screen.query_one(RowTable)


def text_of(app: RsmqApp) -> str:
    """The text of the whole screen, with dialogs and borders."""
    return "\n".join(strip.text for strip in strips_unless_unchanged(app))


def notes_of(app: App[Any]) -> list[Notification]:
    """The toasts that are shown: Textual has no public name for them."""
    return list(app._notifications)


def lines_of(widget: Widget) -> list[str]:
    """What a widget paints, line by line."""
    return [widget.render_line(y).text for y in range(widget.size.height)]


def names_in(pilot: Pilot[None]) -> list[str]:
    """The keys of the table's rows in their order."""
    return list(table_of(pilot).keys)


def facts_of(pilot: Pilot[None]) -> str:
    """The line of facts of a message."""
    return lines_of(pilot.app.screen.query_one("#facts", TextLine))[0].strip()


def tabs_of(pilot: Pilot[None]) -> str:
    """The line of tabs of a queue."""
    return " ".join(lines_of(pilot.app.screen.query_one("#tabs", TextLine))[0].split())
