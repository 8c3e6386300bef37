"""Work that swallows a cancel ends all the same."""

import asyncio

import pytest

from rsmq_tui.monitor.cancelling import ended_by_cancel


async def stubborn(times: int, ended: list[str]) -> None:
    for _ in range(times):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("swallowed")
    ended.append("ended")


async def test_the_result_and_the_error_come_through() -> None:
    async def fail() -> None:
        raise ValueError("no")

    assert await ended_by_cancel(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ValueError, match="no"):
        await ended_by_cancel(fail())


async def test_a_cancel_is_repeated_until_the_work_has_ended() -> None:
    ended: list[str] = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await ended_by_cancel(stubborn(3, ended))
    assert ended == ["swallowed"] * 3 + ["ended"]


async def test_an_error_on_the_way_out_is_not_told() -> None:
    async def fails_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while closing")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await ended_by_cancel(fails_when_cancelled())
