"""Fixtures of the tests of the pictures."""

from tests.tui.quick_apps import painted_when_looked_at, painting, parsed_styles

__all__ = ["painted_when_looked_at", "painting", "parsed_styles"]
