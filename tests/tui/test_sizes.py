"""Terminals of all sizes, and one that changes its size in the middle."""

from dataclasses import replace

import pytest
from textual.dom import DOMNode
from textual.screen import Screen

from rsmq_tui.monitor import Verdict
from rsmq_tui.protocol.kinds import KINDS, RSMQ
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.changes.forms import FormScreen, list_form_of
from rsmq_tui.tui.overview.columns import columns_of
from rsmq_tui.tui.overview.totals import NowPanel
from rsmq_tui.tui.widgets.charts import ChartPanel, SparkPanel
from rsmq_tui.tui.widgets.lines import TextLine
from tests.tui.driving import opened, play, play_orders, press, resized, settled, until
from tests.tui.reading import app_of, lines_of, names_in, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, messages_of
from tests.tui.states import one_of_each, poll_of, queue_of

pytestmark = pytest.mark.slow

TITLES = {column.title: column for column in columns_of()}
SIZES = [(40, 10), (60, 16), (80, 24), (99, 30), (100, 30), (132, 36), (200, 60)]


def _shown(head: str) -> list[str]:
    return [title for title in TITLES if f"{title} " in f"{head} "]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_names_ready_and_verdict_are_always_there(source: ScriptedSource, size: tuple[int, int]) -> None:
    async with opened(source, one_of_each(), size=size) as pilot:
        head, *rows = lines_of(table_of(pilot))
        shown = _shown(head)
        assert shown[:3] == ["VERDICT", "QUEUE", "READY"]
        # Those of a higher rank have left before any of a lower one.
        left = [column.drop for title, column in TITLES.items() if title not in shown]
        assert max([TITLES[title].drop for title in shown]) < min([*left, 99])
        assert rows[1].split()[:3] == ["■", "stalled", "emails"]
        assert "3,020" in rows[1]
        assert all(len(line) == size[0] for line in text_of(app_of(pilot)).splitlines())


async def test_columns_leave_one_by_one_as_the_terminal_narrows(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), size=(170, 20)) as pilot:
        before = len(_shown(lines_of(table_of(pilot))[0]))
        assert before == len(TITLES)
        for width in range(160, 38, -10):
            await resized(pilot, width, 20)
            lines = lines_of(table_of(pilot))
            now = len(_shown(lines[0]))
            assert now <= before
            assert {len(line) for line in lines} == {table_of(pilot).size.width}
            assert table_of(pilot).region.width == width
            before = now
        assert before == 3


async def test_a_very_narrow_terminal_cuts_but_does_not_break(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), size=(12, 4)) as pilot:
        assert {len(line) for line in text_of(app_of(pilot)).splitlines()} == {12}
        await press(pilot, "G", "enter", "escape", "question_mark", "escape")
        await resized(pilot, 1, 1)
        await resized(pilot, 80, 24)
        assert "invoices" in text_of(app_of(pilot))


async def test_panels_fold_into_sparklines_and_these_leave_last(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), size=(120, 30)) as pilot:
        panels = [pilot.app.screen.query_one(panel) for panel in (ChartPanel, NowPanel, SparkPanel)]
        shown = lambda: [panel.region.height > 0 for panel in panels]  # noqa: E731
        assert shown() == [True, True, False]
        for size, wanted in (
            ((99, 30), [False, False, True]),
            ((120, 19), [False, False, True]),
            ((120, 15), [False, False, False]),
            ((40, 10), [False, False, False]),
            ((40, 16), [False, False, True]),
            ((120, 30), [True, True, False]),
        ):
            await resized(pilot, *size)
            assert shown() == wanted, size


async def test_a_terminal_of_120_cells_shows_every_column_but_the_extra_ones(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 30)) as pilot:
        rich = queue_of("one-busy-queue", ready=99_999, hidden=99_999, depth=381_000_000, arrivals_s=999.94,
                        deletes_s=999.96, receives_s=812_345.6, oldest_ready_ms=START_MS - 86_399_000)  # fmt: skip
        await play(pilot, source, poll_of(source, [*one_of_each(), rich]))
        table = table_of(pilot)
        head, *rows = lines_of(table)
        assert _shown(head) == [title for title, column in TITLES.items() if not column.extra]
        row = next(line for line in rows if "one-busy" in line)
        assert row.split()[3:-2] == ["99,999", "99,999", "381M", "23h", "59m", "23h", "59m", "999.9", "1,000", "812k"]
        await play(pilot, source, poll_of(source, [], START_MS + 1000))
        await play(pilot, source, poll_of(source, [queue_of("a")], START_MS + 2000))
        assert lines_of(table)[0] == head


@pytest.mark.parametrize("size", [(80, 24), (100, 30)], ids=str)
async def test_words_about_a_queue_take_the_lines_that_no_row_needs(
    source: ScriptedSource, size: tuple[int, int]
) -> None:
    problems = ("message ids are not canonical (x): the canonical client can receive but never delete them",
                "scores are in seconds: clients that write milliseconds see every message as ready")  # fmt: skip
    odd = queue_of("odd", ready=1, verdict=Verdict.STALLED, since_ms=START_MS - 60_000, problems=problems)
    async with opened(source, [odd, queue_of("plain", ready=1)], size=size) as pilot:
        why, table = pilot.app.screen.query_one("#why"), table_of(pilot)
        await until(pilot, lambda: why.size.height > 2, "the words have more lines")
        lines = [line.rstrip() for line in lines_of(why)]
        shown = " ".join(line.strip() for line in lines)
        assert shown.endswith(problems[1])
        assert shown.startswith("■ stalled odd: 1 message ready, never received for 1m 0s since the first was due")
        assert all(line.startswith(" ") and len(line) <= size[0] for line in lines)
        # Another queue needs one line, and one that must share the screen with many has no more.
        height = table.size.height
        await press(pilot, "G")
        await until(pilot, lambda: why.size.height == 1, "the words have one line")
        assert table.size.height == height + len(lines) - 1
        many = [queue_of(f"queue-{number:02d}", ready=1) for number in range(40)]
        await play(pilot, source, poll_of(source, [odd, *many], START_MS + 1000))
        await press(pilot, "g")
        assert table.cursor_row is not None
        assert table.cursor_row.name == "odd"
        assert (why.size.height, lines_of(why)[0].rstrip()[-1]) == (1, "…")
        # With just so many rows that one more line is free, the end of the second is cut off.
        rows = table.size.height - 2
        await play(pilot, source, poll_of(source, [odd, *many[: rows - 1]], START_MS + 2000))
        await until(pilot, lambda: why.size.height == 2, "the words have two lines")
        assert lines_of(why)[1].rstrip()[-1] == "…"
        assert all(f" queue-{number:02d} " in "".join(lines_of(table)) for number in range(rows - 1))


@pytest.mark.parametrize("size", [(160, 48), (110, 32), (100, 30), (80, 24), (60, 20), (40, 10)], ids=str)
async def test_titles_are_whole_with_the_mark_of_the_order_too(source: ScriptedSource, size: tuple[int, int]) -> None:
    async with opened(source, one_of_each(), size=size) as pilot:
        for lists in (False, True):
            table = table_of(pilot)
            table.columns = columns_of(KINDS.values() if lists else [RSMQ], several_servers=lists)
            table.context = replace(table.context, titles={"": "prod-eu"})
            for column in table.columns:
                for is_down in (False, True):
                    table.sorted_by = column.id, is_down
                    table.repaint_all()
                    await settled(pilot)
                    head = lines_of(table)[0]
                    assert "…" not in head
                    mark = "↓" if is_down else "↑"
                    shown = [each for each, _ in table._fitting()]
                    if column in shown:
                        assert (f"{mark}{column.title}" if column.right else f"{column.title}{mark}") in head


async def test_drains_in_leaves_after_all_others_but_what_a_row_is_told_apart_by(source: ScriptedSource) -> None:
    async with opened(source, one_of_each(), size=(140, 20)) as pilot:
        for columns in (columns_of(), columns_of(KINDS.values()), columns_of(KINDS.values(), several_servers=True)):
            table = table_of(pilot)
            table.columns = columns
            seen: list[set[str]] = []
            for width in range(140, 38, -3):
                await resized(pilot, width, 20)
                seen.append({column.id for column, _ in table._fitting()})
            stays = {"verdict", "queue", "ready"}
            assert all(stays <= ids for ids in seen)
            assert all("drains" in ids for ids in seen if ids > stays)
            assert seen[-1] == stays


async def test_room_goes_to_long_names_and_is_not_left_between_short_ones_and_their_numbers(
    source: ScriptedSource,
) -> None:
    async with opened(source, one_of_each(), size=(180, 30)) as pilot:
        table = table_of(pilot)
        widths = {column.id: width for column, width in table._fitting()}
        assert widths["queue"] == 12
        assert sum(width + 1 for width in widths.values()) == table.size.width + 1
        long = "tenant-4711.region-eu-central-1.mail-of-all"
        await play(pilot, source, poll_of(source, [*one_of_each(), queue_of(long, ready=1)], START_MS + 1000))
        assert any(f" {long} " in line for line in lines_of(table))
        # Widths do not jump back when it has gone.
        await play(pilot, source, poll_of(source, one_of_each(), START_MS + 2000))
        assert {column.id: width for column, width in table._fitting()}["queue"] == len(long)


async def test_a_resize_keeps_the_cursor_in_sight(source: ScriptedSource) -> None:
    async with opened(source, [queue_of(f"q{n:03d}", ready=500 - n) for n in range(300)], size=(100, 40)) as pilot:
        await press(pilot, "pagedown", "pagedown")
        table = table_of(pilot)
        key = str(table.cursor_key)
        for width, height in ((100, 24), (60, 12), (40, 10), (160, 50)):
            await resized(pilot, width, height)
            lines = lines_of(table)
            assert sum(f" {key} " in line for line in lines) == 1
            assert {len(line) for line in lines} == {table_of(pilot).size.width}
            assert table.cursor_key == key
        assert len(names_in(pilot)) == 300


async def test_a_taller_terminal_leaves_no_empty_rows_at_the_end(source: ScriptedSource) -> None:
    async with opened(source, [queue_of(f"q{n:03d}", ready=500 - n) for n in range(60)], size=(100, 24)) as pilot:
        await press(pilot, "G")
        await resized(pilot, 100, 44)
        assert "q059" in lines_of(table_of(pilot))[-1]


@pytest.mark.parametrize("size", [(40, 10), (110, 25)], ids=str)
async def test_every_screen_survives_a_resize_in_the_middle(source: ScriptedSource, size: tuple[int, int]) -> None:
    source.messages["orders"] = messages_of([b'{"type": "refund", "order": 88121}'] * 100)
    async with opened(source, [queue_of("orders", ready=100)], size=(132, 36)) as pilot:
        for keys in ((), ("enter",), ("enter",), ("question_mark",), ("escape", "n")):
            await press(pilot, *keys)
            await resized(pilot, *size)
            assert {len(line) for line in text_of(app_of(pilot)).splitlines()} == {size[0]}
            await resized(pilot, 132, 36)


async def test_a_larger_terminal_fills_the_page_of_messages(source: ScriptedSource) -> None:
    source.messages["orders"] = messages_of([b"x"] * 200)
    async with opened(source, [queue_of("orders", ready=200)], size=(100, 20)) as pilot:
        await press(pilot, "enter")
        assert len(names_in(pilot)) == table_of(pilot).visible_rows
        await resized(pilot, 100, 50)
        await until(pilot, lambda: len(names_in(pilot)) == table_of(pilot).visible_rows, "the page grows")
        assert len(names_in(pilot)) > 30


async def test_lines_on_80_columns_lose_no_reason_and_no_half_of_a_word(source: ScriptedSource) -> None:
    """Title and facts of a queue take two lines; a line that is too long ends with a whole word."""
    odd = queue_of("odd", ready=7, verdict=Verdict.STALLED, since_ms=START_MS - 60_000)
    source.messages["odd"] = messages_of([b"x"] * 7)
    async with opened(source, [odd], size=(80, 24)) as pilot:
        await press(pilot, "enter")
        title, facts = (pilot.app.screen.query_one(id, TextLine) for id in ("#title", "#facts"))
        await until(pilot, lambda: title.size.height == 2, "the title has two lines")
        shown = " ".join(" ".join(lines_of(title)).split())
        assert shown.startswith("◀ odd ■ stalled: 7 messages ready, never received")
        assert shown.endswith("since the first was due")
        await resized(pilot, 200, 24)
        whole = lines_of(facts)[0].rstrip()
        await resized(pilot, 70, 24)
        await until(pilot, lambda: facts.size.height == 2, "the facts have two lines")
        assert " ".join(line.strip() for line in lines_of(facts)) == whole.strip()
        # Wherever the cut is: within a word, before and after its end.
        for width in range(70, 82):
            facts.show([(whole, "")])
            await resized(pilot, width, 24)
            cut = lines_of(facts)[0].rstrip()
            assert cut.endswith(" …"), width
            assert whole.startswith(f"{cut[:-2]} "), width
        await resized(pilot, 80, 24)
        # The box of a list's form is one line, as its other fields.
        form = list_form_of("send", "odd", None, None)
        assert form is not None
        await pilot.app.push_screen(FormScreen(form, print))
        await settled(pilot)
        assert pilot.app.screen.query_one("#first").region.height == 1
        assert "Preview" in text_of(app_of(pilot))


@pytest.mark.parametrize("size", [(40, 10), (90, 18), (132, 36), (220, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screens_are_styled_once_as_they_open(
    source: ScriptedSource, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    restyled: list[DOMNode] = []
    update_styles = RsmqApp.update_styles

    def update(self: RsmqApp, node: DOMNode, animate: bool = True) -> None:
        restyled.append(node)
        update_styles(self, node, animate)

    monkeypatch.setattr(RsmqApp, "update_styles", update)
    async with opened(source, size=size) as pilot:
        await play_orders(pilot, source, [b"one", b"two"])
        # The queue, its first message, the help and a dialog.
        for key in ("", "enter", "enter", "question_mark", "escape", "b"):
            if key:
                await press(pilot, key)
            screen = app_of(pilot).screen
            begun = [dict(node.styles.base.get_rules()) for node in screen.walk_children(with_self=True)]
            assert not [node for node in restyled if isinstance(node, Screen)]
            # They are the right ones: they stay the same if all are computed again.
            update_styles(app_of(pilot), screen)
            assert begun == [dict(node.styles.base.get_rules()) for node in screen.walk_children(with_self=True)]
