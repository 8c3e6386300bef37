"""Prefetching: in order, no further than there is room, and nothing is lost, left behind or done after an end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, MessageBatch
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.rsmq.plan import _bytes_of, prefetched
from tests.triage.keyspace import message


class Making:
    """A generator of numbers that tells how far it is."""

    def __init__(self, count: int, error: BaseException | None = None) -> None:
        self.made = 0
        self.closed = False
        self._count, self._error = count, error

    async def numbers(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(self._count):
                await asyncio.sleep(0)
                self.made += 1
                yield number
            if self._error is not None:
                raise self._error
        finally:
            await asyncio.sleep(0)
            self.closed = True


async def turns(count: int = 100) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_come_in_their_order() -> None:
    making = Making(50)
    assert [number async for number in prefetched(making.numbers(), 3)] == list(range(50))
    assert making.closed


@pytest.mark.parametrize("count", [1, 8])
async def test_no_more_are_made_than_may_wait(count: int) -> None:
    making = Making(50)
    async with aclosing(prefetched(making.numbers(), count)) as coming:
        async for number in coming:
            await turns()
            assert making.made == min(50, number + 1 + count)


async def test_heavy_ones_wait_alone() -> None:
    making = Making(50)
    async with aclosing(prefetched(making.numbers(), 8, lambda number: 10 if number % 10 == 5 else 1, 10)) as coming:
        async for number in coming:
            await turns()
            waiting = range(number + 1, making.made)
            assert sum(10 if each % 10 == 5 else 1 for each in waiting[:-1]) < 10
            if number == 3:
                # 4, and 5 that is heavy.
                assert making.made == 6
            if number == 6:
                assert making.made == 15


@pytest.mark.parametrize("error", [ValueError("here"), asyncio.CancelledError()])
async def test_an_error_comes_behind_what_was_made_before_it(error: BaseException) -> None:
    making, found = Making(3, error), list[int]()

    async def take() -> None:
        async for number in prefetched(making.numbers(), 8):
            await turns()
            found.append(number)

    with pytest.raises(type(error)):
        await take()
    assert found == [0, 1, 2]
    assert making.closed


@pytest.mark.parametrize("taken", [0, 1, 4])
async def test_leaving_early_ends_the_making(taken: int) -> None:
    making, before = Making(50), asyncio.all_tasks()
    coming = prefetched(making.numbers(), 3)
    for _ in range(taken):
        await anext(coming)
    await coming.aclose()
    made = making.made
    await turns()
    assert making.made == made <= taken + 4
    assert making.closed or not taken
    assert asyncio.all_tasks() == before


async def test_cancelling_whoever_waits_ends_the_making() -> None:
    making, before = Making(50), asyncio.all_tasks()
    stuck = asyncio.Event()

    async def work() -> None:
        async with aclosing(prefetched(making.numbers(), 3)) as coming:
            async for _ in coming:
                await stuck.wait()

    working = asyncio.create_task(work())
    await turns()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert making.closed
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    ("edits", "weight"),
    [
        ([Edit(message(body=b"x" * 9), None), Edit(message(body=None), None)], 9),
        ([Edit(None, message(body=b"x" * 9))], 9),
        ([Edit(message(body=b"x" * 9), message(body=b"x" * 9))], 9),
    ],
)
def test_bodies_are_what_weighs(edits: list[Edit], weight: int) -> None:
    assert _bytes_of(Step(MessageBatch(EditKind.REMOVE, "a", tuple(edits)))) == weight
    assert _bytes_of(Step()) == 0
