"""Fixtures of the tests of the pictures."""

from tests.quick_apps import exact_idleness, freed_at_the_end, painted_when_looked_at, painting, parsed_styles

__all__ = ["exact_idleness", "freed_at_the_end", "painted_when_looked_at", "painting", "parsed_styles"]
