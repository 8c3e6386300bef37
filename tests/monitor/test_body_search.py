"""Searching many bodies at once finds what searching each for itself finds."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsmq_tui.monitor.filters import matching
from rsmq_tui.monitor.filters.matching import search_for_text

_BODIES = st.lists(
    st.one_of(
        st.none(),
        st.text("ab7 \n", max_size=6).map(str.encode),
        st.text("ab\xff\u017fK", max_size=4).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(st.sampled_from([b"a", b"b", b"7", b"\xff", b"\xc3"]), max_size=6).map(b"".join),
    ),
    max_size=8,
)


@given(bodies=_BODIES, text=st.text("abAB7\u017fsSkK\xdf", max_size=3))
@example(bodies=["a\u017fb".encode()], text="asb")
@example(bodies=["\u212a".encode(), b"K"], text="k")
@example(bodies=["\xdf".encode(), b"SS"], text="ss")
def test_a_text_is_found_in_small_letters_and_large(bodies: list[bytes | None], text: str) -> None:
    each = [
        place
        for place, body in enumerate(bodies)
        if body is not None and text.casefold() in body.decode("utf-8", "surrogateescape").casefold()
    ]

    assert search_for_text(text)(bodies) == each


def test_bodies_are_searched_as_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one: list[bytes] = []

    def holds_text(text: str) -> Callable[[bytes], bool]:
        def holds(body: bytes) -> bool:
            one_by_one.append(body)
            return True

        return holds

    monkeypatch.setattr(matching, "holds_text", holds_text)
    bodies = [b"large KEY", None, "caf\xe9 key".encode(), b"\xff", b"", "\u212aey".encode(), "ma\xdfe".encode()]

    assert search_for_text("key")(bodies) == [0, 2, 5]
    # What may become the text in small letters is looked at by itself.
    assert one_by_one == ["\u212aey".encode()]
