"""Fixtures of the tests of the pictures."""

from tests.quick_apps import exact_idleness, painted_when_looked_at, painting, parsed_styles

__all__ = ["exact_idleness", "painted_when_looked_at", "painting", "parsed_styles"]
