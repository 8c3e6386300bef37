"""Message ids: how they are made, and what time they tell."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.protocol import make_id, sent_ms
from tests.protocol.keyspace import base36

CANONICAL = re.compile(r"[a-zA-Z0-9:]{32}")
NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
SUFFIX = "ABCDEFGHIJKLMNOPQRSTUV"


@given(at_us=st.integers(min_value=0, max_value=36**10 - 1))
def test_a_made_id_is_canonical_and_carries_its_time(at_us: int) -> None:
    made = make_id(at_us)

    assert CANONICAL.fullmatch(made)
    assert int(made[:10], 36) == at_us
    assert made[:10] == made[:10].lower()


def test_ids_of_one_microsecond_differ() -> None:
    assert len({make_id(1_700_000_000_000_000) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "message_id",
    [
        pytest.param(base36(NOW_MS * 1000) + SUFFIX, id="canonical, microseconds"),
        pytest.param(base36(NOW_MS * 1000) + "0123456789abcdef" * 2, id="2013, microseconds and md5"),
        pytest.param(base36(NOW_MS) + SUFFIX, id="rsmq_async 3 to 15, milliseconds"),
        pytest.param(base36(NOW_MS // 1000) + SUFFIX, id="rsmq_async 7, seconds"),
    ],
)
def test_the_time_is_read_in_the_unit_that_the_length_tells(message_id: str) -> None:
    assert sent_ms(message_id, now_ms=NOW_MS) == NOW_MS


@pytest.mark.parametrize(
    "message_id",
    [
        pytest.param("", id="empty"),
        pytest.param("short", id="short"),
        pytest.param("x" * 32, id="a time in 2079"),
        pytest.param("0" * 32, id="a time in 1970"),
        pytest.param(SUFFIX, id="22 random characters of Go and Ruby"),
        pytest.param("123e4567-e89b-12d3-a456-426614174000", id="a UUID of Scala"),
        pytest.param("0fb8be1d0c1ffd6d4e0e14ff2cd0ff68", id="hex of rbmq"),
        pytest.param(base36(NOW_MS * 1000).upper() + SUFFIX, id="an upper-case prefix"),
        pytest.param("gyj8 hf!xq" + SUFFIX, id="no base36"),
        pytest.param("é" * 32, id="no ASCII"),
        pytest.param("\udcff" * 32, id="invalid UTF-8"),
    ],
)
def test_an_id_without_a_plausible_time_tells_none(message_id: str) -> None:
    assert sent_ms(message_id, now_ms=NOW_MS) is None


def test_a_time_of_before_2012_is_not_plausible() -> None:
    first_of_2012_ms = 1_325_376_000_000

    assert sent_ms(make_id(first_of_2012_ms * 1000), now_ms=NOW_MS) == first_of_2012_ms
    assert sent_ms(make_id(first_of_2012_ms * 1000 - 1), now_ms=NOW_MS) is None


def test_a_time_ahead_of_the_servers_by_more_than_a_day_is_not_plausible() -> None:
    assert sent_ms(make_id((NOW_MS + DAY_MS) * 1000), now_ms=NOW_MS) == NOW_MS + DAY_MS
    assert sent_ms(make_id((NOW_MS + DAY_MS + 1) * 1000), now_ms=NOW_MS) is None


@given(message_id=st.text(max_size=50))
def test_any_text_can_be_asked_for_its_time(message_id: str) -> None:
    assert isinstance(sent_ms(message_id, now_ms=NOW_MS), int | None)
