"""Fixtures of the tests of the pictures."""

from tests.tui.conftest import exact_idleness
from tests.tui.quick_apps import painted_when_looked_at, painting, parsed_styles

__all__ = ["exact_idleness", "painted_when_looked_at", "painting", "parsed_styles"]
