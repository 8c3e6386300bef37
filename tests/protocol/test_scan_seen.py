"""What a scan has returned before is known again, and nothing else is."""

from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.protocol.rsmq.scan import Seen

_IDS = st.integers(0, 40).map(lambda number: b"%d" % number)


@given(chunks=st.lists(st.lists(_IDS, max_size=12), max_size=20))
def test_within_its_window_each_id_is_fresh_once(chunks: list[list[bytes]]) -> None:
    seen, known = Seen(window=1_000), set[bytes]()

    for found in chunks:
        wanted = []
        for id in found:
            wanted.append(id not in known)
            known.add(id)
        fresh = seen.fresh(found, depth=1_000_000)
        assert (fresh if fresh is not None else [True] * len(found)) == wanted


@given(chunks=st.lists(st.lists(_IDS, min_size=1, max_size=12), min_size=1, max_size=20))
def test_past_its_window_a_queue_that_shrank_to_nothing_shows_no_id_again(chunks: list[list[bytes]]) -> None:
    seen = Seen(window=3)
    for found in chunks:
        seen.fresh(found, depth=1_000_000)
    last = chunks[0]

    assert seen.fresh(last, depth=1) == [False] * len(last)


def test_ids_return_by_the_window_and_not_by_how_often_they_came() -> None:
    seen = Seen(window=4)
    for _ in range(10):
        seen.fresh([b"a", b"b", b"c"], depth=1_000_000)

    # Coming again has not pushed anything out.
    assert seen.fresh([b"a", b"d"], depth=1_000_000) == [False, True]
    assert seen.fresh([b"a", b"b", b"c", b"d"], depth=1_000_000) == [False] * 4
