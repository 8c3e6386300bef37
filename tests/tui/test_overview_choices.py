"""What users arrange for themselves on the overview, and find again: favourites, groups, columns, saved filters."""

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from rsmq_tui.events.known import Known
from rsmq_tui.monitor import Verdict
from rsmq_tui.tui.overview.groups import Grouping, QueueGroup, prefix_of
from rsmq_tui.tui.overview.known import Silenced
from rsmq_tui.tui.overview.rows import trouble
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.overview.search import SearchScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from tests.tui.driving import opened, play, press, settled, until
from tests.tui.reading import app_of, lines_of, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource
from tests.tui.scripted_triage import ScriptedTriage
from tests.tui.states import poll_of, queue_of

HOSTILE = "shop:\x1b[2J[bold]\udc80"
QUEUES = [
    queue_of("shop:eu", ready=5, hidden=1, oldest_ready_ms=START_MS - 9000, arrivals_s=2.0, deletes_s=1.0),
    queue_of("shop:us", ready=7, hidden=2, oldest_ready_ms=START_MS - 60_000, arrivals_s=3.5, deletes_s=1.5,
             verdict=Verdict.GROWING),
    queue_of(HOSTILE, ready=1, depth=None),
    queue_of("mail:out", ready=90),
    queue_of("plain", ready=2),
]  # fmt: skip


def test_a_group_has_the_sums_the_worst_verdict_and_the_longest_wait() -> None:
    grouping, silenced = Grouping(), Silenced()
    rows = grouping.rows(QUEUES, ":", silenced, trouble)
    assert [row.name for row in rows] == ["shop:", "mail:out", "plain"]
    group = rows[0]
    assert isinstance(group, QueueGroup)
    assert (group.depth, group.ready, group.hidden, group.arrivals_s, group.deletes_s) == (15, 13, 3, 5.5, 2.5)
    assert (group.verdict, group.worst, group.change_s) == (Verdict.GROWING, QUEUES[1], 3.0)
    assert group.oldest_ready_due_ms == group.oldest_ready_ms == START_MS - 60_000
    # Without a change it stays the same object; with one, the others do.
    assert grouping.rows(QUEUES, ":", silenced, trouble)[0] is group
    changed = [*QUEUES[:3], QUEUES[3]._replace(ready=91), QUEUES[4]]
    assert grouping.rows(changed, ":", silenced, trouble)[0] is group
    assert grouping.rows([QUEUES[0]._replace(ready=6), *QUEUES[1:]], ":", silenced, trouble)[0].ready == 14
    # The worst is another one if that trouble is acknowledged.
    stalled = [*QUEUES, queue_of("shop:old", ready=1, verdict=Verdict.AGED)]
    silenced = Silenced({"": {"shop:us": Known("", "", "shop:us", "", 0)}})
    calm = grouping.rows(stalled, ":", silenced, lambda queue: trouble(queue, silenced))[0]
    assert isinstance(calm, QueueGroup)
    assert calm.worst is stalled[-1]
    two = [queue_of("a:1", place="x"), queue_of("a:2", place="x"), queue_of("a:3", place="y")]
    rows = Grouping().rows(two, ":", silenced, trouble)
    assert [(row.name, row.place) for row in rows] == [("a:", "x"), ("a:3", "y")]


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("a:b-c", "a:b-"), ("a", ""), ("", ""), (":", ":"), ("a.b/c_d", "a.b/c_"), ("aé:b", "aé:")],
)
def test_a_prefix_ends_with_the_last_separator(name: str, prefix: str) -> None:
    assert prefix_of(name, ":-_./") == prefix


async def test_groups_fold_and_unfold_and_no_change_is_offered_on_them(triage: ScriptedTriage, tmp_path: Path) -> None:
    source, choices = ScriptedSource(), tmp_path / "dashboard.json"
    async with opened(source, triage=triage, choices=choices, size=(140, 30), notifications=True) as pilot:
        table = table_of(pilot)
        await play(pilot, source, poll_of(source, QUEUES))
        assert " a send " in text_of(app_of(pilot))
        await press(pilot, "b")
        assert " a send " not in text_of(app_of(pilot))
        assert [key.rsplit("\0", 1)[-1] for key in table.keys] == ["shop:", "mail:out", "plain"]
        row = next(line for line in lines_of(table) if "shop:" in line)
        assert row.split()[:7] == ["▲", "growing", "▸", "3", "shop:…", "13", "3"]
        assert "3 queues: 1 growing, 2 ok; the worst is" in text_of(app_of(pilot))
        for key in ("x", "a", "N", "E", "asterisk"):
            await press(pilot, key)
        assert "this is a group of 3 queues: enter unfolds it" in text_of(app_of(pilot))

        await press(pilot, "enter")
        assert list(table.keys)[1:4] == ["shop:us", "shop:eu", HOSTILE]
        assert "  shop:us" in lines_of(table)[2]
        assert "\x1b" not in text_of(app_of(pilot))
        # A sort order applies to the groups, and within them; left folds from a member.
        await press(pilot, "j", "j", *"sss")
        assert [key.rsplit("\0", 1)[-1] for key in table.keys] == ["mail:out", "shop:", "shop:us", "shop:eu", HOSTILE,
                                                                   "plain"]  # fmt: skip
        assert table.cursor_key == "shop:eu"
        await press(pilot, "left")
        assert table.cursor_key is not None
        assert table.cursor_key.endswith("shop:")
        assert len(table.keys) == 3
        # The filter chooses the members, and one alone is no group.
        await press(pilot, "slash", *"shop:eu", "enter")
        assert lines_of(table)[1].split()[2] == "shop:eu"
        await press(pilot, "escape", "right")
        assert len(table.keys) == 6
        await press(pilot, "B")
        await until(pilot, lambda: len(pilot.app.screen.query(Input)) == 1, "the form is there")
        pilot.app.screen.query_one(Input).value = "i"
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, OverviewScreen), "the form closes")
        assert [key.rsplit("\0", 1)[-1] for key in table.keys] == ["mail:out", "shop:us", "shop:eu", "plain", HOSTILE]
        await press(pilot, "b")
        assert len(table.keys) == 5
    assert json.loads(choices.read_text())["separators"] == "i"


async def test_favourites_columns_and_the_order_are_there_again(tmp_path: Path) -> None:
    source, choices = ScriptedSource(), tmp_path / "dashboard.json"
    async with opened(source, choices=choices, size=(140, 30)) as pilot:
        table = table_of(pilot)
        await play(pilot, source, poll_of(source, QUEUES))
        await press(pilot, "G", "asterisk")
        favourite = table.cursor_key
        assert table.keys[0] == favourite == HOSTILE
        assert "★ shop:" in lines_of(table)[1]
        # It stays on top of each order, and out of its group.
        await press(pilot, "s", "s", "s", "S", "b")
        assert table.keys[0] == favourite
        assert "2 queues" not in text_of(app_of(pilot))
        assert table.sorted_by == ("ready", False)

        await press(pilot, "V")
        options = pilot.app.screen.query_one(OptionList)
        await press(pilot, "space", "down", "j", "k", "j", "J", "shift+down", "enter")
        assert [str(option.prompt) for option in options.options][:5] == [
            *("[ ] VERDICT", "[x] QUEUE", "[x] HIDDEN", "[x] DEPTH", "[ ] READY")
        ]
        # Those for which there is no room are marked.
        prompts = [str(option.prompt) for option in options.options]
        missing = [prompt[4:].removesuffix("  no room") for prompt in prompts if prompt.endswith("  no room")]
        await press(pilot, "escape")
        assert lines_of(table)[0].split()[:3] == ["QUEUE", "HIDDEN", "DEPTH"]
        assert "READY" not in lines_of(table)[0]
        assert [title for title in missing if title in lines_of(table)[0].split()] == []
        assert "WAIT" in missing
    async with opened(source := ScriptedSource(), choices=choices, size=(140, 30), ascii_only=True) as pilot:
        table = table_of(pilot)
        await play(pilot, source, poll_of(source, QUEUES))
        assert table.keys[0] == HOSTILE
        assert "* shop:" in text_of(app_of(pilot))
        assert "> 2 shop:" in text_of(app_of(pilot))
        assert lines_of(table)[0].split()[:3] == ["QUEUE", "HIDDEN", "DEPTH"]
        await press(pilot, "V", "r", "escape", "g", "asterisk", "b")
        assert lines_of(table)[0].split()[:3] == ["VERDICT", "QUEUE", "↑READY"]
        # Sorted by READY, the least first.
        assert list(table.keys)[:2] == [HOSTILE, "plain"]
        assert "* shop:" not in text_of(app_of(pilot))
    known = json.loads(choices.read_text())
    assert (known["favourites"], known["columns"], known["sort"], known["reverse"]) == ([], [], "ready", True)


async def _saved(pilot: Pilot[None], name: str) -> None:
    """Save what is in the filter line."""
    below = pilot.app.screen
    await press(pilot, "ctrl+s")
    await until(pilot, lambda: pilot.app.screen is not below and pilot.app.screen.query("#name"), "it asks for a name")
    pilot.app.screen.query_one("#name", Input).value = name
    await press(pilot, "enter")
    await until(pilot, lambda: pilot.app.screen is below, "it is saved")


async def test_a_filter_is_saved_chosen_and_deleted_on_each_kind_of_screen(tmp_path: Path) -> None:
    source, choices = ScriptedSource(), tmp_path / "dashboard.json"
    async with opened(source, choices=choices, size=(140, 30), notifications=True) as pilot:
        table, app = table_of(pilot), app_of(pilot)
        await play(pilot, source, poll_of(source, QUEUES))
        await press(pilot, "apostrophe")
        assert "no filter is saved" in text_of(app)
        await press(pilot, "slash", *"shop !us")
        await _saved(pilot, "not the \x1b[2J US")
        await until(pilot, lambda: "↓ lists the saved filters" in text_of(app), "it is said")
        await press(pilot, "escape")
        assert len(table.keys) == 5
        await press(pilot, "apostrophe")
        await until(pilot, lambda: "shop !us" in text_of(app), "it is in the list")
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, OverviewScreen), "the list closes")
        await settled(pilot)
        assert sorted(table.keys) == sorted(["shop:eu", HOSTILE])
        # The palette has it too, and the keys go to the table afterwards.
        await press(pilot, "escape", "colon", *"not the us", "enter")
        await until(pilot, lambda: len(table.keys) == 2, "it is applied")
        await press(pilot, "G", "escape")

        await press(pilot, "f", "down")
        assert "no filter is saved for such a screen" in text_of(app)
        await press(pilot, "escape")

        # The queue's screen has others.
        await press(pilot, "g", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "the queue is open")
        await press(pilot, "slash", *"rc>=5", "down")
        assert isinstance(pilot.app.screen, QueueScreen)
        await _saved(pilot, "poison")
        await press(pilot, "escape", "apostrophe")
        await until(pilot, lambda: pilot.app.screen.query(OptionList), "the list is there")
        assert "rc>=5" in text_of(app)
        assert "shop !us" not in text_of(app)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueueScreen), "the list closes")
        screen = pilot.app.screen
        assert isinstance(screen, QueueScreen)
        await until(pilot, lambda: screen.messages.typed.text == "rc>=5", "it is applied")
        # The search over queues has those of a queue.
        await press(pilot, "escape", "escape", "f", "down")
        await until(pilot, lambda: pilot.app.screen.query(OptionList), "the list is there")
        assert "rc>=5" in text_of(app)
        await press(pilot, "enter")
        await until(pilot, lambda: "◀ rc>=5 " in text_of(app), "it is applied")
        # One that names queues is offered there only.
        await press(pilot, "slash", "ctrl+u", *"queue:shop* rc>1")
        await _saved(pilot, "shops")
        await press(pilot, "escape", "escape", "enter", "slash", "down")
        await until(pilot, lambda: pilot.app.screen.query(OptionList), "the list is there")
        assert "rc>=5" in text_of(app)
        assert "queue:shop*" not in text_of(app)
        await press(pilot, "escape", "escape", "escape", "f", "down")
        await until(pilot, lambda: pilot.app.screen.query(OptionList), "the list is there")
        assert "queue:shop*" in text_of(app)
        await press(pilot, "down", "x", "escape", "escape", "f")
        await press(pilot, "slash", "down")
        await until(pilot, lambda: pilot.app.screen.query(OptionList), "the list is there")
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(pilot.app.screen, SearchScreen), "the empty list closes")
    assert json.loads(choices.read_text())["filters"] == {"overview": {"not the \x1b[2J US": "shop !us"}, "queue": {}}
