"""Whoever searches, and whatever else they want read: what a filter looks at has been read, or nothing is found."""

from collections.abc import AsyncGenerator
from itertools import product

import pytest
import redis

from rsmq_tui.monitor import PeekError, parse_filter, search
from rsmq_tui.monitor.filters.json_paths import age_path
from rsmq_tui.monitor.filters.search import UnreadError, search_chunks
from rsmq_tui.protocol import RawMessage, Rsmq, RsmqReader, ScanChunk

NEEDS = {
    "size>50": "size",
    "!size<50": "size",
    "rc>=1": "counts",
    "state:inflight": "counts",
    "!body:short": "body",
    "json.long": "body",
    "json.long rc>=1 size>50": "body",
    "due>1m": None,
    "state:hidden": None,
}


@pytest.fixture(params=[65_536, -1])
def long(request: pytest.FixtureRequest, client: redis.Redis) -> str:
    """The id of the one message of the queue that all of these filters find."""
    queues = Rsmq(client)
    queues.create_queue("q", vt=600, maxsize=request.param)
    queues.send_message("q", '{"long": "%s"}' % ("x" * 100))
    received = queues.receive_message("q")
    assert received is not None
    queues.send_messages("q", ['{"short": 1}'] * 5)
    return received.id


@pytest.mark.parametrize("text", NEEDS)
async def test_what_a_filter_needs_is_read_whoever_asks(reader: RsmqReader, long: str, text: str) -> None:
    for counts, bodies, sizes in product((True, False), repeat=3):
        found = search(reader, "q", parse_filter(text), counts=counts, bodies=bodies, sizes=sizes)
        ids = [message.id.decode() async for progress in found for message in progress.messages]
        assert ids == [long], (counts, bodies, sizes)


@pytest.mark.parametrize("text", [text for text, needs in NEEDS.items() if needs])
async def test_what_was_not_read_is_not_guessed(reader: RsmqReader, long: str, text: str) -> None:
    chunks = reader.scan.chunks("q", counts=False, bodies=False, sizes=False)
    with pytest.raises(UnreadError, match=NEEDS[text] or "nothing"):
        _ = [progress async for progress in search_chunks(chunks, parse_filter(text), None)]
    assert not issubclass(UnreadError, PeekError)


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("bodies", [True, False])
@pytest.mark.parametrize("sizes", [True, False])
async def test_chunks_tell_what_was_read(
    reader: RsmqReader, long: str, counts: bool, bodies: bool, sizes: bool
) -> None:
    words = {"counts": counts, "body": bodies, "size": bodies or sizes}
    expected = {field for field, is_read in words.items() if is_read}
    found = [chunk async for chunk in reader.scan.chunks("q", counts=counts, bodies=bodies, sizes=sizes)]
    assert all(chunk.read == expected for chunk in found)
    more = await reader.scan.read("q", found[0], bodies=True, sizes=False)
    assert more.read == {"size", "body"} | ({"counts"} if counts else set())
    fronts = [chunk async for chunk in reader.ranges.chunks("q")]
    assert all(not chunk.read for chunk in fronts)


@pytest.mark.parametrize(("text", "unsearched"), [("age>1h", 1), ("!age>1h", 1), ("age>1h size<10", 0)])
async def test_the_age_of_what_is_too_long_to_be_read_is_not_guessed(text: str, unsearched: int) -> None:
    too_long = RawMessage(b"q:0:" + b"0" * 40, b"0", None, None, 5_000_000, None)

    async def chunks() -> AsyncGenerator[ScanChunk, None]:
        columns = tuple([value] for value in too_long)
        yield ScanChunk(1_700_000_000_000, 1, columns, 1, read=frozenset(("counts", "size", "body")))

    (progress,) = [each async for each in search_chunks(chunks(), parse_filter(text), None, age_path("made"))]
    assert (progress.matched, progress.not_searched) == (0, unsearched)
