"""Where a scan goes on in a list that others have changed."""

from array import array

import pytest

from rsmq_tui.protocol.lists.scan import Left, is_cut_short, kept, landmark_in, left_of, place_after_most, places_after


def marks(text: str) -> list[int]:
    return list(map(ord, text))


def history(text: str) -> "array[int]":
    return array("q", marks(text))


@pytest.mark.parametrize(
    ("window", "tail", "ends"),
    [
        ("abcdef", "abc", [3]),
        ("xyabcdef", "abc", [5]),
        ("aaaaa", "aaa", [3, 4, 5]),
        ("abab", "ab", [2, 4]),
        ("abd", "abc", []),
        ("", "abc", []),
    ],
)
def test_a_tail_is_found_wherever_it_is_whole(window: str, tail: str, ends: list[int]) -> None:
    assert places_after(marks(window), marks(tail)) == ends


@pytest.mark.parametrize(
    ("window", "tail", "place"),
    [
        ("abcdefghXYZ", "abcdefghij", (8, 0)),
        ("bcdefghijXYZ", "abcdefghij", (9, -1)),
        ("NNabcdefghjXYZ", "abcdefghij", (11, 2)),
        ("aaaaaaaaaaa", "aaaaaaaaab", None),
        ("abcdefg", "abcdefghij", None),
    ],
)
def test_a_tail_of_which_some_have_gone_is_found_where_that_is_sure(
    window: str, tail: str, place: tuple[int, int] | None
) -> None:
    assert place_after_most(marks(window), marks(tail)) == place


def test_a_list_that_ends_within_the_tail_is_cut_short() -> None:
    assert is_cut_short(marks("abcdefghi"), marks("abcdefghij"))
    assert is_cut_short(marks("newabcdefgh"), marks("abcdefghij"))
    assert not is_cut_short(marks("newabc"), marks("abcdefghij"))
    assert not is_cut_short(marks("zzzzzzzzz"), marks("abcdefghij"))


@pytest.mark.parametrize(
    ("window", "before", "found"),
    [
        ("acdXY", "abcd", (3, 4)),
        ("XY", "abcd", (0, 0)),
        ("abcd", "abcd", (4, 4)),
        ("aaX", "aaaa", (2, 2)),
        ("dX", "abcd", (1, 4)),
    ],
)
def test_what_was_there_before_is_told_from_what_is_new(window: str, before: str, found: tuple[int, int]) -> None:
    assert kept(marks(window), marks(before)) == found


@pytest.mark.parametrize(
    ("read", "place"), [("abcdefgh", 8), ("abcd" + "x" * 20, 7), ("x" * 50, None), ("ab" * 50, None), ("abc", None)]
)
def test_a_landmark_is_like_nothing_near(read: str, place: int | None) -> None:
    assert landmark_in(history(read)) == place


@pytest.mark.parametrize(
    ("read", "now", "left"),
    [
        ("abcdef", "abcdef", Left(6, 0)),
        ("abcdef", "abc", Left(3, 0)),
        ("abcdef", "NNabcZ", Left(3, 1)),
        ("abcdef", "NNNN", Left(0, 4)),
        ("aaaa", "aa", Left(2, 0)),
        ("aaaa", "aaaaa", Left(4, 1)),
        ("aaaa", "Naaaa", Left(4, 0)),
        ("abcdef", "", Left(0, 0)),
        ("", "ab", Left(0, 2)),
    ],
)
def test_what_is_left_of_what_was_read_is_told_by_both_ends(read: str, now: str, left: Left) -> None:
    assert left_of(history(read), marks(now), marks(now), len(now), is_all=True) == left


def test_far_ends_are_enough_where_they_are_like_nothing_else() -> None:
    read = [*range(1_000)]
    now = [*range(-5, 0), *range(900), 7_777]
    assert left_of(array("q", read), now[:64], now[-64:], len(now), is_all=False) == Left(900, 1)
    # The start is behind more pushes than are looked through.
    now = [*range(-500, 0), *range(900), 7_777]
    assert left_of(array("q", read), now[:64], now[-64:], len(now), is_all=False) == Left(900, 1)
    assert left_of(array("q", read[:9]), [*range(64)], [7] * 64, 200, is_all=False) == Left(9, 191)
    other = [*range(5_000, 6_000)]
    assert left_of(array("q", read), other[:64], other[-64:], len(other), is_all=False) is None
