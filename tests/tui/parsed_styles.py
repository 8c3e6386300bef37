"""Styles parsed once for all apps of a test session: each new app would parse the same rules again, twice.

That is a quarter of what a short test of a screen takes. The rules are the same ones that Textual keeps for an app.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet


@pytest.fixture(scope="session", autouse=True)
def parsed_styles() -> Iterator[None]:
    """Share what was parsed between apps that have the same colours."""
    kept: dict[tuple[Any, ...], Any] = {}
    parse = Stylesheet._parse_rules

    def parse_once(self: Stylesheet, css: str, read_from: Any, *where: Any, **how: Any) -> Any:
        key = (css, read_from, where, tuple(how.items()), tuple(self._variables.items()))
        if key not in kept:
            kept[key] = parse(self, css, read_from, *where, **how)
        return kept[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stylesheet, "_parse_rules", parse_once)
        yield
