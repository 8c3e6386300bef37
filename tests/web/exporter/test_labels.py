"""Label values: harmless, valid, bounded, and a different one for each name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.web.exporter.metrics import LABEL_MAX, label_value


def decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"orders", "orders"),
        (b"", ""),
        ("订单 🚀".encode(), "订单 🚀"),
        (b'say "hi"', 'say "hi"'),
        (b"[/foo]", "[/foo]"),
        (b"\x1b[2J", r"\x1b[2J"),
        (b"a\nb", r"a\x0ab"),
        (b"caf\xc3", r"caf\xc3"),
        ("\u202egnp".encode(), r"\xe2\x80\xaegnp"),
        # What another name is written as is itself written in another way.
        (rb"\x1b[2J", r"\x5cx1b[2J"),
    ],
)
def test_a_name_is_written_as(raw: bytes, value: str) -> None:
    assert label_value(decoded(raw)) == value


def test_a_long_name_is_cut_and_still_told_apart() -> None:
    longest = "x" * LABEL_MAX
    cut = label_value(longest + "x")

    assert label_value(longest) == longest
    assert len(cut) < LABEL_MAX + 40
    assert label_value(longest + "y" * 10_000) not in {cut, longest}
    # A queue that is called like the cut value of another.
    assert label_value(cut) != cut


@given(st.sets(st.one_of(st.binary(max_size=8), st.text("\\x0a1\n", max_size=6).map(str.encode)), max_size=20))
def test_no_two_names_share_a_value_and_none_does_harm(names: set[bytes]) -> None:
    values = [label_value(decoded(name)) for name in names]

    assert len(set(values)) == len(names)
    assert all(value.isprintable() and value.encode() for value in values if value)
