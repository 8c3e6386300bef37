"""Fixtures of the tests of the pictures."""

from tests.tui.quick_apps import parsed_styles

__all__ = ["parsed_styles"]
