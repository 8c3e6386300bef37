"""The fixture ``list_server``, for tests of other projects.

``pytest_plugins = ["rsmq_tui.listserver.pytest_plugin"]`` in the top-level conftest.py of the tests loads it. It is not
an entry point: pytest would compile every module of this package anew in each run of every project.
"""

from collections.abc import Iterator

import pytest

from rsmq_tui.listserver import ListServer


@pytest.fixture
def list_server() -> Iterator[ListServer]:
    """A list server for one test, which controls its clock and its faults."""
    with ListServer() as running:
        yield running
