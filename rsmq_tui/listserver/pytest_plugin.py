"""The fixture ``list_server``, for tests of other projects.

pytest finds it if ``rsmq-tui`` is installed: ``def test_worker(list_server): redis.Redis(port=list_server.port)``.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rsmq_tui.listserver import ListServer


@pytest.fixture
def list_server() -> "Iterator[ListServer]":
    """A list server for one test, which controls its clock and its faults."""
    # Every run of pytest loads this module; few start a server.
    from rsmq_tui.listserver import ListServer  # noqa: PLC0415

    with ListServer() as running:
        yield running
