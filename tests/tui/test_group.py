"""What a backlog consists of: asked for, counted live, and turned into a filter."""

import asyncio

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from rsmq_tui.monitor import MessageGroups, parse_filter
from rsmq_tui.monitor.filters.json_paths import fields_in, read_path
from rsmq_tui.protocol import RawMessage
from rsmq_tui.tui.queue.groups import GroupScreen, term_of
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.lines import TextLine
from tests.tui.driving import opened, play_orders, press, settled, until
from tests.tui.reading import app_of, lines_of, names_in, notes_of, table_of, text_of
from tests.tui.scripted import START_MS, ScriptedSource

pytestmark = pytest.mark.slow

BODIES = [b'{"type": "refund"}'] * 30 + [b'{"type": "order", "n": 1}'] * 60 + [b'{"n": 2}'] * 9 + [b"text \x1b[2J"]


async def _open(pilot: Pilot[None], source: ScriptedSource, bodies: list[bytes], *keys: str) -> list[str]:
    await play_orders(pilot, source, bodies, "enter", *keys)
    return [row.id for row in source.messages["orders"]]


def _rows(pilot: Pilot[None]) -> list[str]:
    return [" ".join(line.split()) for line in lines_of(table_of(pilot))[1:] if line.strip()]


def _shown(pilot: Pilot[None]) -> str:
    return lines_of(pilot.app.screen.query_one("#counted", TextLine))[0].strip()


async def test_groups_are_counted_and_the_largest_comes_first(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 30)) as pilot:
        await _open(pilot, source, BODIES, "b")
        # The fields that are there are named, and suggested.
        assert _shown(pilot) == "↓ fields of 100 messages: json.type 90 · json.n 69"
        entry = pilot.app.screen.query_one("#by", Input)
        assert entry.value == "json.type"
        await press(pilot, "down")
        assert entry.value == "json.n"
        await press(pilot, "up", "enter")
        head, *_ = lines_of(table_of(pilot))
        assert head.split() == ["GROUP", "COUNT", "SHARE", "BYTES", "OLDEST"]
        assert _rows(pilot) == [
            "order 60 60.0% 1.5 KiB –",
            "refund 30 30.0% 540 B –",
            "(no type) 9 9.0% 72 B –",
            "(not JSON) 1 1.0% 9 B –",
        ]
        assert _shown(pilot) == "100 counted · enter filters by a group"


async def test_a_group_becomes_a_filter_on_top_of_what_was_typed(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 30)) as pilot:
        ids = await _open(pilot, source, BODIES, "slash", *"json.n", "enter", "b", "down", "enter")
        assert names_in(pilot) == ["order", "(no type)"]
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, QueueScreen)
        assert str(source.searches[-1]) == 'json.n json.type="order"'
        assert names_in(pilot) == ids[30:90]


async def test_a_group_that_no_filter_finds_says_so(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 30), notifications=True) as pilot:
        await _open(pilot, source, BODIES, "b")
        pilot.app.screen.query_one("#by", Input).value = "shape"
        await press(pilot, "enter", "enter")
        assert isinstance(pilot.app.screen, GroupScreen)
        assert any("no filter matches" in str(note.message) for note in notes_of(app_of(pilot)))
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, QueueScreen)
        assert table_of(pilot).has_focus


async def test_what_cannot_be_grouped_by_is_said(source: ScriptedSource) -> None:
    async with opened(source, size=(120, 30)) as pilot:
        await _open(pilot, source, BODIES, "b")
        pilot.app.screen.query_one("#by", Input).value = "colour[/x]"
        await press(pilot, "enter")
        assert _shown(pilot).startswith("group by shape, or by a JSON path")
        # One has found the fields that are there.
        assert len(source.searches) == 1


async def test_counts_grow_while_it_searches_and_closing_ends_it(source: ScriptedSource) -> None:
    source.search_step = 40
    async with opened(source, size=(120, 30)) as pilot:
        await _open(pilot, source, BODIES, "b")
        source.search_gate = asyncio.Semaphore(1)
        await pilot.press("enter")
        await until(pilot, lambda: names_in(pilot) == ["refund", "order"], "the first are counted")
        await until(pilot, lambda: _shown(pilot) == "40 counted · scanned 40 of 100", "how far it is")
        await pilot.press("j")
        assert table_of(pilot).cursor_key == "order"
        source.search_gate.release()
        await until(pilot, lambda: names_in(pilot) == ["order", "refund"], "more are counted")
        assert table_of(pilot).cursor_key == "order"
        await pilot.press("escape")
        await settled(pilot)
        assert source.searches_closed == 2
        source.search_gate, source.search_error = None, "NOPERM [/x]"
        await press(pilot, "b", "enter")
        assert _shown(pilot) == "NOPERM [/x]"


async def test_hostile_labels_and_narrow_terminals_are_harmless(source: ScriptedSource) -> None:
    bodies = [b'{"type": "[/x]\\u001b[2J\\u202e"}', b'{"type": "[b]"}', b"\xff\xfe"]
    async with opened(source, size=(40, 10)) as pilot:
        await _open(pilot, source, bodies, "b", "enter")
        assert {len(line) for line in text_of(app_of(pilot)).splitlines()} == {40}
        assert "\x1b" not in text_of(app_of(pilot))
        assert "\u202e" not in text_of(app_of(pilot))


def test_fields_are_those_of_objects_in_the_order_of_how_many_have_them() -> None:
    bodies = [b'{"a": {"b": 1, "c": [2]}, "d": null}', b'{"a": {"b": ""}, "odd key": 1}', b"[1]", b"text", b"[" * 9999]
    bodies.append(b'{"1":{"2":{"3":{"4":{"5":6}}}}}')
    found = [(field.path, field.bodies) for field in fields_in(bodies)]
    assert found == [(("a", "b"), 2), (("d",), 1), (("odd key",), 1)]


def test_fields_that_tell_messages_apart_come_first() -> None:
    bodies = [b'{"id": %d, "version": 1, "kind": "%s"}' % (n, [b"mail", b"sms"][n % 2]) for n in range(10)]
    bodies += [b'{"id": 10, "version": 1}', b"no object"]
    assert [(field.path, field.bodies, field.groups) for field in fields_in(bodies)] == [
        (("kind",), 10, 3), (("id",), 11, 11), (("version",), 11, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "by"), [(b'{"id": %d, "kind": "a"}', "json.kind"), (b"%d is no JSON", "shape"), (b'{"id": %d}', "json.id")]
)
async def test_what_suits_the_messages_is_suggested_at_once(source: ScriptedSource, body: bytes, by: str) -> None:
    bodies = [body % number for number in range(9)]
    bodies[0] = bodies[0].replace(b'"a"', b'"b"')
    async with opened(source, size=(120, 30)) as pilot:
        await _open(pilot, source, bodies, "b")
        entry = pilot.app.screen.query_one("#by", Input)
        assert entry.value == by
        await press(pilot, "enter")
        # What is counted stays.
        assert (entry.value, len(names_in(pilot))) == (by, {"json.kind": 2, "shape": 1}.get(by, 9))


async def test_what_was_typed_is_not_replaced_by_a_suggestion(source: ScriptedSource) -> None:
    source.search_gate = asyncio.Semaphore(0)
    async with opened(source, size=(120, 30)) as pilot:
        await play_orders(pilot, source, [b'{"kind": "a"}'] * 2, "enter")
        await pilot.press("b")
        await until(pilot, lambda: isinstance(pilot.app.screen, GroupScreen), "it opens")
        await pilot.press("s")
        source.search_gate.release()
        await settled(pilot)
        assert pilot.app.screen.query_one("#by", Input).value == "s"


@pytest.mark.parametrize("body", [
    b'{"a": "plain"}', b'{"a": "with \\"quotes\\" and \\\\ no"}', b'{"a": "42"}', b'{"a": 42}', b'{"a": 4.5}',
    b'{"a": true}', b'{"a": "true"}', b'{"a": null}', b'{"a": ""}', b'{"a": "(no a)"}', b'{"a": "two words"}',
    b'{"b": 1}', b'{"a": "[x"}', b'{"a": {"b": 1}}', b'{"a": [1]}', b"text", b'{"a": "%s"}' % (b"x" * 200),
    b'{"a": "\\u001b"}', b'{"a": "\xe2\x90\x9b"}', b'{"a": "caf\xc3\xa9"}',
])  # fmt: skip
@pytest.mark.parametrize("others", [(), (b'{"a": "42"}', b'{"a": "true"}', b"text", b'{"a": null}', b'{"a": 4.5}')])
def test_the_filter_of_a_group_finds_its_messages_and_no_others(body: bytes, others: tuple[bytes, ...]) -> None:
    groups = MessageGroups("json.a")
    labels = {}
    for each in (*others, body):
        labels[each] = groups.add(_raw(each), START_MS)
    term = term_of(labels[body], read_path(".a")[0], frozenset(labels.values()))
    if term is None:
        return
    matches = parse_filter(term).predicate()
    assert {each for each in labels if matches(_raw(each), START_MS)} == {
        each for each, label in labels.items() if label == labels[body]
    }


@pytest.mark.parametrize(("label", "term"), [
    ("refund", 'json.a="refund"'), ("42", "json.a=42"), ('"42"', 'json.a="42"'), ("true", "json.a=true"),
    ("(no a)", "!json.a"), ("(other)", None), ("{b}", None), ("[2 items]", None), ("(not JSON)", None),
])  # fmt: skip
def test_what_can_be_filtered_by(label: str, term: str | None) -> None:
    assert term_of(label, ("a",), frozenset({label})) == term
    assert term_of(label, None, frozenset({label})) is None


def _raw(body: bytes) -> RawMessage:
    return RawMessage(b"hocx8qopw" + b"0" * 23, b"1", None, None, len(body), body)
