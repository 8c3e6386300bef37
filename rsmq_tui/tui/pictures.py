"""Pictures of the screen, for those who show others how queues behave."""

from collections.abc import Iterable
from pathlib import Path

from textual.app import App, SystemCommand
from textual.screen import Screen


class Pictures(App[None]):
    """An app whose palette offers Textual's theme picker and screenshot, and nothing else of its commands."""

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer Textual's theme picker and screenshot besides our own commands."""
        wanted = {"Theme", "Screenshot"}
        return (command for command in super().get_system_commands(screen) if command.title in wanted)

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save a picture of the screen in the user's downloads, or here where there are none."""
        downloads = Path.home() / "Downloads"
        folder = path or str(downloads if downloads.is_dir() else Path.cwd())
        return super().deliver_screenshot(filename, folder, time_format)
