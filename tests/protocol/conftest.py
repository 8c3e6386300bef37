"""Fixtures of the protocol's tests: a test that takes ``queues`` runs once with each of the two clients."""

from collections.abc import Callable

import pytest
import redis
import redis.asyncio

from rsmq_tui.protocol import AsyncRsmq, Rsmq
from tests.protocol.either import Either

MakeQueues = Callable[..., Either]


@pytest.fixture(params=["sync", "async"])
def make_queues(request: pytest.FixtureRequest, client: redis.Redis, aclient: redis.asyncio.Redis) -> MakeQueues:
    def make(ns: str = "rsmq", *, realtime: bool = False) -> Either:
        if request.param == "sync":
            return Either(Rsmq(client, ns, realtime))
        return Either(AsyncRsmq(aclient, ns, realtime))

    return make


@pytest.fixture
def queues(make_queues: MakeQueues) -> Either:
    return make_queues()
