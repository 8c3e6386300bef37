"""An empty namespace says what else there is, and another one can be chosen."""

import pytest
from textual.widgets import OptionList

from rsmq_tui.monitor.tracking.trend import TotalsPoint, Trend
from rsmq_tui.protocol import Namespaces
from rsmq_tui.tui.dialogs.screens import NamespaceScreen
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.widgets.charts import ChartPanel
from tests.tui.driving import opened, play, play_rows, press, settled
from tests.tui.reading import app_of, lines_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource, row_of
from tests.tui.states import one_of_each, poll_of, queue_of


async def test_empty_says_why_and_what_next(source: ScriptedSource) -> None:
    async with opened(source) as pilot:
        await play(pilot, source, poll_of(source, [], namespaces=("jobs", "mail", "rsmq")))
        text = text_of(app_of(pilot))
        assert "No queues in namespace rsmq. Other namespaces: jobs, mail. Press n to switch." in text
        await play(pilot, source, poll_of(source, [], namespaces=()))
        assert "No queues in namespace rsmq. No other namespaces were found." in text_of(app_of(pilot))
        await play(pilot, source, poll_of(source, [], namespaces=tuple(f"ns{n}" for n in range(20))))
        assert "Other namespaces: ns0, ns1, ns2, ns3, ns4, ns5, ns6, ns7. Press n" in text_of(app_of(pilot))
        await play(pilot, source, poll_of(source, [], namespaces=(), lists=("queue:*",)))
        text = text_of(app_of(pilot))
        assert "To see its Redis Lists as queues: rsmq-tui --lists 'queue:*'" in text
        await play(pilot, source, poll_of(source, [], notes=("rsmq:QUEUES is no set",)))
        assert "rsmq:QUEUES is no set" in text_of(app_of(pilot))
        await play(pilot, source, poll_of(source, one_of_each()))
        assert "No queues" not in text_of(app_of(pilot))


async def test_empty_says_what_was_there_before(source: ScriptedSource) -> None:
    queues = [queue_of("orders", depth=300), queue_of("mail", depth=100)]
    async with opened(source, []) as pilot:
        assert "It had" not in text_of(app_of(pilot))
        await play(pilot, source, poll_of(source, queues))
        await play(pilot, source, poll_of(source, [], START_MS + 4_000, namespaces=()))
        assert "It had 2 queues with 400 messages 4 s ago." in text_of(app_of(pilot))
        await play(pilot, source, poll_of(source, [], START_MS + 180_000, namespaces=()))
        assert "It had 2 queues with 400 messages 3m 0s ago." in text_of(app_of(pilot))
        # What another namespace had says nothing about this one.
        await play(pilot, source, poll_of(source, [], START_MS + 190_000, namespaces=(), ns="jobs"))
        assert "It had" not in text_of(app_of(pilot))


async def test_n_offers_what_a_scan_finds_and_enter_switches(source: ScriptedSource) -> None:
    source.found = Namespaces(("jobs", "mail", "[/odd]"), complete=True)
    async with opened(source, []) as pilot:
        await press(pilot, "n")
        assert isinstance(pilot.app.screen, NamespaceScreen)
        text = text_of(app_of(pilot))
        for words in ("jobs", "mail", "[/odd]", "enter switches"):
            assert words in text
        await press(pilot, "down", "enter")
        assert source.switched == ["mail"]
        assert isinstance(pilot.app.screen, OverviewScreen)
        await press(pilot, "n", "end", "enter")
        assert source.switched == ["mail", "[/odd]"]


async def test_a_namespace_is_chosen_by_mouse_too(source: ScriptedSource) -> None:
    source.found = Namespaces(("jobs", "mail"), complete=True)
    async with opened(source, []) as pilot:
        await press(pilot, "n")
        await pilot.click(OptionList, offset=(3, 1))
        await settled(pilot)
        assert source.switched == ["jobs"]


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_closing_the_choice_changes_nothing(source: ScriptedSource, key: str) -> None:
    source.found = Namespaces(("jobs",), complete=True)
    async with opened(source, []) as pilot:
        await press(pilot, "n", key)
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert source.switched == []


async def test_a_large_keyspace_and_none_found_are_told(source: ScriptedSource) -> None:
    async with opened(source, []) as pilot:
        await press(pilot, "n")
        assert "none found" in text_of(app_of(pilot))
        await press(pilot, "enter")
        assert source.switched == []
        await press(pilot, "escape")
        source.found = Namespaces(("",), complete=False)
        await press(pilot, "n")
        text = text_of(app_of(pilot))
        assert "(no prefix)" in text
        assert "enter switches · not all keys were scanned" in text


async def test_a_scan_that_fails_says_why(source: ScriptedSource) -> None:
    source.scan_error = "this user may not SCAN [/x]\x1b[2J"
    async with opened(source, []) as pilot:
        await press(pilot, "n")
        assert "this user may not SCAN [/x]␛[2J" in text_of(app_of(pilot))
        await press(pilot, "enter", "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)


async def test_the_charts_are_those_of_the_new_namespace_at_once(source: ScriptedSource) -> None:
    """Its past is known from an earlier run."""
    others = Trend()
    for minute in range(10):
        others.add_totals(TotalsPoint(START_MS + minute * 60_000, 9, 9, 5_000.0, 5_000.0, 0.0))
    async with opened(source, size=(132, 36)) as pilot:
        for minute in range(12):
            rows = {"orders": row_of(depth=minute * 60, sent=minute * 60)}
            await play_rows(pilot, rows, START_MS + minute * 60_000)
        chart = pilot.app.screen.query_one("#throughput", ChartPanel)
        assert "5k" not in "".join(lines_of(chart))
        await play(pilot, source, poll_of(source, [queue_of("mail")], source.last.at_ms, ns="jobs", trend=others))
        assert "5k" in "".join(lines_of(chart))


async def test_page_keys_need_no_room(source: ScriptedSource) -> None:
    source.found = Namespaces(("jobs", "mail"), complete=True)
    async with opened(source, one_of_each(), size=(40, 4)) as pilot:
        await press(pilot, "n", "down", "pageup", "pagedown", "escape")
        assert isinstance(pilot.app.screen, OverviewScreen)
