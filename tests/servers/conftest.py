"""Fixtures of the real servers."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.servers import real


@pytest.fixture(scope="module")
def cluster() -> Iterator[real.Cluster]:
    """A cluster of three masters, the first of which has a replica; tests that break it do so at the end."""
    with real.cluster(masters=3, replicas=1) as running:
        yield running


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What is entered here is left after the test."""
    with ExitStack() as entered:
        yield entered
