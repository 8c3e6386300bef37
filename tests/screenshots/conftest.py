"""Fixtures of the tests of the pictures."""

from tests.tui.parsed_styles import parsed_styles

__all__ = ["parsed_styles"]
