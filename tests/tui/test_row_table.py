"""The table itself: cells that fit whatever they hold, and the mouse."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

from rsmq_tui.monitor import QueueState
from rsmq_tui.tui.overview.search import SearchScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.row_table import Cursor, fit
from tests.tui.driving import opened, play, press, press_for_screen, settled
from tests.tui.reading import lines_of, names_in, table_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import poll_of, queue_of

# What terminals and libraries disagree about: wide, combining, joined, varied, right to left, none of them printable.
_CLUSTERS = st.sampled_from(
    ["日", "ｱ", "e\u0301", "\u0301", "\u200d", "\ufe0f", "\u2764\ufe0f", "\U0001f469\u200d\U0001f467",
     "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\u202e", "\x1b[31m", "\0", "\t", "\n", "\u2028", "\udcff",
     "\ufdfa", "\u1100\u1161", "\u0e33"]
)  # fmt: skip
_TEXTS = st.text(max_size=40) | st.lists(_CLUSTERS | st.characters(), max_size=25).map("".join)


@given(_TEXTS, st.integers(1, 40), st.booleans(), st.booleans())
@example("日本語", 4, False, False)
@example("日本語", 1, False, False)
@example("日本語", 4, False, True)
@example("日本語", 1, False, True)
@example("e\u0301" * 9, 4, True, False)
@example("\u2764\ufe0f" * 3, 3, False, True)
@example("", 5, True, False)
def test_a_cell_is_exactly_as_wide_as_its_place(text: str, width: int, right: bool, middle: bool) -> None:
    cell = fit(text, width, right=right, middle=middle)
    assert cell_len(cell) == width
    assert cell.isprintable()


@pytest.mark.parametrize(
    ("width", "cut"), [(9, "mail…ry-3"), (10, "mail…try-3"), (2, "…3"), (1, "…"), (20, "mail-of-a…ts-retry-3")]
)
def test_a_cut_in_the_middle_keeps_both_ends(width: int, cut: str) -> None:
    assert fit("mail-of-all-tenants-retry-3", width, middle=True) == cut
    assert fit("mail-3", 20, middle=True) == "mail-3".ljust(20)
    assert fit("a" * 10_000 + "b", 9, middle=True) == "aaaa…aaab"


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40), st.integers(1, 40))
def test_a_text_that_fits_is_padded_and_one_that_does_not_is_cut_visibly(text: str, width: int) -> None:
    if len(text) <= width:
        assert fit(text, width) == text.ljust(width)
        assert fit(text, width, right=True) == text.rjust(width)
    else:
        assert fit(text, width) == fit(text, width, right=True) == text[: width - 1] + "…"


@pytest.mark.parametrize(
    ("text", "cell"),
    [("日本語テ", "日本語テ"), ("日本語テキ", "日本語 …"), ("a日本語テ", "a日本語…"), ("a\x1b[2Jb", "a␛[2Jb  "),
     ("\u202eab", "\\u202eab"), ("\u202eabc", "\\u202ea…"), ("[/x]", "[/x]    "), ("e\u0301", "e\u0301       ")],
)  # fmt: skip
def test_cells_eight_wide(text: str, cell: str) -> None:
    assert fit(text, 8) == cell


def _queues(number: int) -> list[QueueState]:
    return [queue_of(f"q{n:02d}", ready=100 - n) for n in range(number)]


async def _click(pilot: Pilot[None], line: int) -> None:
    await pilot.click("#queues", offset=(20, line))
    await settled(pilot)


async def test_a_click_moves_the_cursor_and_a_second_one_opens(source: ScriptedSource) -> None:
    async with opened(source, _queues(9)) as pilot:
        await _click(pilot, 4)
        assert table_of(pilot).cursor_key == "q03"
        await _click(pilot, 4)
        assert isinstance(pilot.app.screen, QueueScreen)
        assert pilot.app.screen.queue == "q03"


async def test_a_click_below_the_rows_does_nothing(source: ScriptedSource) -> None:
    async with opened(source, _queues(3)) as pilot:
        await _click(pilot, 10)
        assert table_of(pilot).cursor_key == "q00"
        assert len(pilot.app.screen_stack) == 1


async def test_a_click_counts_as_a_move_so_rows_keep_their_places(source: ScriptedSource) -> None:
    async with opened(source, _queues(3)) as pilot:
        await _click(pilot, 2)
        await play(pilot, source, poll_of(source, [queue_of(f"q{n:02d}", ready=n) for n in range(3)]))
        assert names_in(pilot) == ["q00", "q01", "q02"]


async def test_a_click_finds_its_row_after_scrolling(source: ScriptedSource) -> None:
    async with opened(source, _queues(80), size=(100, 20)) as pilot:
        await press(pilot, "G", "k")
        wanted = lines_of(table_of(pilot))[3].split()[2]
        await _click(pilot, 3)
        assert table_of(pilot).cursor_key == wanted


async def test_the_wheel_moves_by_three_and_stops_at_the_ends(source: ScriptedSource) -> None:
    async with opened(source, _queues(8)) as pilot:
        for event, name in ((MouseScrollDown, "q03"), (MouseScrollDown, "q06"), (MouseScrollDown, "q07"),
                            (MouseScrollUp, "q04"), (MouseScrollUp, "q01"), (MouseScrollUp, "q00")):  # fmt: skip
            await pilot._post_mouse_events([event], "#queues")
            await settled(pilot)
            assert table_of(pilot).cursor_key == name
        await play(pilot, source, poll_of(source, _queues(0)))
        await pilot._post_mouse_events([MouseScrollDown], "#queues")
        await settled(pilot)
        assert table_of(pilot).cursor_row is None


async def test_the_row_under_the_cursor_is_known(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        assert table_of(pilot).cursor_row is None
        await play(pilot, source, poll_of(source, _queues(3)))
        await press(pilot, "j")
        assert table_of(pilot).cursor_row == source.last.queues[1]


async def test_what_is_said_in_place_of_rows_is_whole_and_keeps_its_indent(source: ScriptedSource) -> None:
    async with opened(source, _queues(1), size=(60, 24)) as pilot:
        await press_for_screen(pilot, "f", SearchScreen)
        await settled(pilot)
        said = [line.rstrip() for line in lines_of(table_of(pilot))[2:] if line.strip()]
        assert len(said) > 1
        assert " ".join(line.strip() for line in said).endswith(" to search only these queues.")
        assert all(line.startswith("  ") and line[2] != " " for line in said)


def test_a_cursor_follows_its_row_and_keeps_it_at_its_line() -> None:
    cursor = Cursor(follows_at_once=False)
    cursor.show("abcdef", room=3)
    cursor.show("fabcde", room=3)
    assert cursor.key == "f"
    cursor.place(4, room=3)
    assert (cursor.key, cursor.top) == ("d", 2)
    cursor.show("dfabce", room=3)
    assert (cursor.key, cursor.top) == ("d", 0)
    # The row that is in its place, if its row is gone, or moved where it must not follow.
    cursor.place(2, room=3)
    cursor.show("dfbce", room=3)
    assert cursor.key == "b"
    cursor.stay_when_moved({"b"})
    cursor.show("dfceb", room=3)
    assert cursor.key == "c"


def test_a_cursor_returns_to_where_it_was_held_unless_it_was_moved() -> None:
    cursor = Cursor(follows_at_once=False)
    cursor.show("abcdef", room=3)
    cursor.place(4, room=3)
    cursor.hold()
    cursor.show("ad", room=3)
    cursor.place(0, room=3, for_now=True)
    cursor.show("xabcdef", room=3)
    cursor.restore(room=3)
    assert (cursor.key, cursor.top) == ("e", 3)
    cursor.hold()
    cursor.place(0, room=3)
    cursor.restore(room=3)
    assert (cursor.key, cursor.top, cursor.is_held) == ("x", 0, False)


async def test_no_number_is_cut_off_where_a_name_can_be(source: ScriptedSource) -> None:
    async with opened(source, size=(30, 24)) as pilot:
        long = queue_of("mail-of-all-tenants-of-the-shop", ready=12_345)
        await play(pilot, source, poll_of(source, [long]))
        head, row = (line.rstrip() for line in lines_of(table_of(pilot))[:2])
        assert head.endswith(" READY")
        assert row.endswith(" 12,345")
        assert " mail" in row
        assert cell_len(row) <= 30
