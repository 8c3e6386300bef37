"""The two clients of list queues offer the same, and cost nothing to whoever does not ask for them."""

import inspect

import pytest

from rsmq_tui.protocol import AsyncListQueue, ListQueue, RsmqError
from rsmq_tui.protocol.lists.client import AsyncListQueue as Asynchronous
from rsmq_tui.protocol.lists.client import ListQueue as Synchronous
from tests.cli.running import printed
from tests.protocol.either import Either
from tests.protocol.lists.conftest import each_once
from tests.protocol.test_exports import public_methods

LOADED = "import sys, rsmq_tui.protocol; print(*(name for name in sys.modules if name.startswith('rsmq_tui.')))"


def test_both_have_the_same_methods_with_the_same_signatures() -> None:
    assert public_methods(ListQueue) == public_methods(AsyncListQueue)
    made = [inspect.signature(cls).parameters for cls in (ListQueue, AsyncListQueue)]
    assert [*made[0]] == [*made[1]] == ["client", "name", "names"]


@pytest.mark.parametrize("name", sorted(public_methods(ListQueue)))
def test_only_the_one_of_asyncio_has_coroutines(name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(AsyncListQueue, name))
    assert not inspect.iscoroutinefunction(getattr(ListQueue, name))
    assert inspect.getdoc(getattr(ListQueue, name))


def test_they_are_loaded_when_they_are_asked_for() -> None:
    assert (ListQueue, AsyncListQueue) == (Synchronous, Asynchronous)
    loaded = set(printed(LOADED).split())
    assert "rsmq_tui.protocol.rsmq.reader" in loaded
    assert not {"rsmq_tui.protocol.lists.client", "rsmq_tui.protocol.rsmq.client"} & loaded


@each_once
async def test_what_is_no_item_is_refused_before_anything_is_sent(queue: Either) -> None:
    for item in (1, None, "\ud800"):
        for method in ("push", "push_front", "push_existing", "remove"):
            with pytest.raises(RsmqError) as refused:
                await getattr(queue, method)(item)
            assert refused.value.code == "messageNotString"
    with pytest.raises(ValueError, match="at least one item"):
        await queue.push()
    with pytest.raises(ValueError, match="count must be at least 0"):
        await queue.pop_many(-1)
    with pytest.raises(TypeError, match="a list of queues"):
        await queue.pop_blocking(1, others="other")
    assert await queue.length() == 0


@each_once
async def test_text_is_sent_as_utf8(queue: Either) -> None:
    await queue.push("Grüße")
    assert await queue.remove("Grüße") == 1
    assert await queue.push_existing("Grüße") == 0
