"""The fixture ``list_server``, for tests of other projects.

pytest finds it where ``rsmq-tui`` is installed: ``def test_worker(list_server): redis.Redis(port=list_server.port)``.
"""

from collections.abc import Iterator

import pytest

from rsmq_tui.listserver import ListServer


@pytest.fixture
def list_server() -> Iterator[ListServer]:
    """A list server for one test, which controls its clock and its faults."""
    with ListServer() as running:
        yield running
