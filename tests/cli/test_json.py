"""What the commands print as JSON: one shape everywhere, and the table of the page on output has every key."""

import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.docs import page
from rsmq_tui.events.store import EventStore
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.cli.test_slo import CONFIG as OBJECTIVES
from tests.events.made import event
from tests.history.analysis.made import scripted
from tests.history.made import sealed_one_by_one

# Keys of these objects are data: names of states, of thresholds, what an event tells besides its text.
_COUNTED = {"states", "thresholds", "details", "verdicts"}


@pytest.fixture(scope="module")
def known() -> dict[str, list[Any]]:
    """What the commands have printed for a test of this module."""
    return {}


@pytest.fixture
def printed(
    known: dict[str, list[Any]],
    command: Command,
    anywhere: Command,
    trouble: Rsmq,
    client: Redis,
    state: Path,
    tmp_path: Path,
) -> dict[str, list[Any]]:
    """What each command prints, by the name of its row in the table; every kind of line that it has."""
    if known:
        return known
    client.rpush("queue:jobs", '{"id": 1}', "plain")
    exported, config = tmp_path / "orders.jsonl", tmp_path / "config.toml"
    config.write_text("[profiles.one]\nhost = 'one.example'\ncolor = 'red'\n")
    profiles = anywhere("profiles", "--config", str(config)).lines
    history = tmp_path / "history"
    sealed_one_by_one(history)
    orders = ("orders", "--filter", "json.type")
    lists = ("--lists", "queue:*")
    read = [
        command("messages", "list", "orders"),
        command("messages", "get", *orders),
        command("messages", "export", "orders"),
    ]
    read.append(command("messages", "list", "list:queue:jobs"))
    trouble.send_message("spare", "x" * 1_100_000)
    read.append(command("messages", "list", "spare"))
    snapshot, queues = json.loads(command("snapshot", *lists).text), command("queues", "list", *lists).lines
    previews = [
        command("messages", "delete", *orders),
        command("messages", "move", *orders, "--to", "spare"),
        command("queues", "set", "orders", "--vt", "7"),
        command("messages", "send", "orders", "x"),
        command("messages", "delete", "list:queue:jobs", "--all"),
    ]
    assert command("messages", "export", "orders", "-o", str(exported)).status == 0
    reports = [
        command("messages", "delete", *orders, "--yes"),
        command("messages", "delete", "orders", "--id", "nope", "--yes"),
        command("undo", "--yes"),
        command("messages", "move", *orders, "--to", "spare", "--yes"),
        command("messages", "import", "orders", str(exported), "--yes"),
        command("messages", "send", "orders", "x", "--yes"),
        command("queues", "set", "orders", "--vt", "7", "--yes"),
        command("messages", "delete", "list:queue:jobs", "--all", "--yes"),
        command("audit", "--fix", "--yes"),
    ]
    assert command("known", "add", "orders").status == 0
    changes = command("journal", "list")
    shown = [anywhere("journal", "show", str(line["change"])) for line in changes.lines]
    fixed = _lines(reports[-1:])
    scripted(tmp_path / "analysis")
    config.write_text(OBJECTIVES)
    kept = anywhere("slo", "--analysis", str(tmp_path / "analysis"), "--config", str(config), "--json")
    with closing(EventStore(state / "rsmq-tui" / "events.sqlite")) as store:
        store.write([event(1, details={"depth": 1})])
    known |= {
        "`snapshot`": [snapshot],
        "`queues list`": queues,
        "`messages list`, `get`, `export`": _lines(read),
        "`messages list --group-by`": command("messages", "list", "orders", "--group-by", "shape").lines,
        "`messages list --count`": command("messages", "list", "*", "--count").lines,
        "a preview, without `--yes`": _lines(previews),
        "a report, with `--yes`": [*_lines(reports[:-1]), *(line for line in fixed if "done" in line)],
        "`events`": anywhere("events").lines,
        "`journal list`": changes.lines,
        "`journal show`": _lines(shown),
        "`audit`": [*command("audit").lines, *(line for line in fixed if "done" not in line)],
        "`who`": [*_watched(command, trouble), *command("who", "list:queue:jobs").lines],
        "`check --json`": command("check", "--json", "--max-depth", "1").lines,
        "`doctor --json`": command("doctor", "--json").lines,
        "`keys`": anywhere("keys", "--json").lines,
        "`profiles`": profiles,
        "`history compact`": anywhere("history", "compact", "--history", str(history)).lines,
        "`slo`": kept.lines,
        "`known`": command("known").lines,
        "`themes`": command("themes").lines,
    }
    return known


def _watched(command: Command, rsmq: Rsmq) -> list[Any]:
    """What `who` prints while a client sends."""
    ends = threading.Event()

    def send() -> None:
        while not ends.is_set():
            rsmq.send_message("spare", "x")

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    try:
        return command("who", "spare", "--yes").lines
    finally:
        ends.set()
        sending.join()


def test_keys_and_values_have_one_shape(printed: dict[str, list[Any]]) -> None:
    for name, lines in printed.items():
        assert lines, name
        for value in _objects(lines):
            keys = [*value, *value.get("states", ()), *value.get("thresholds", ())]
            assert all(re.fullmatch(r"[a-z][a-z0-9_]*", key) for key in keys), (name, keys)
            for key in ("skipped", "failed", "planned", "done"):
                assert type(value.get(key, 0)) is int, (name, key)
            for key in ("target", "queue", "stopped"):
                assert isinstance(value.get(key), str | None), (name, key)
            for key in (key for key in value if key.endswith("_ms")):
                assert isinstance(value[key], int | float | None), (name, key)
            if "body" in value or "body_base64" in value:
                assert isinstance(value["rc"], int), name
            if "reasons" in value:
                counts = [reason["count"] for reason in value["reasons"]]
                assert sum(counts) == value["skipped"] + value["failed"], name
            if ("done" in value and "skipped" in value) or value.get("preview"):
                assert {"action", "queue", "target", "server", "ns", "planned"} <= set(value), name


def test_lines_of_one_kind_have_the_same_keys(printed: dict[str, list[Any]]) -> None:
    for name in ("a preview, without `--yes`", "a report, with `--yes`", "`journal list`", "`audit`"):
        assert len({tuple(line) for line in printed[name]}) == 1, name


def test_the_pages_table_has_all_keys(printed: dict[str, list[Any]]) -> None:
    (table,) = re.findall(r"\n\| JSON of \| keys \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page("output"))
    rows = dict(line.removeprefix("| ").removesuffix(" |").split(" | ") for line in table.splitlines())

    # Only Spark prints it.
    del rows["`pipeline run`"]
    found = {name: set(re.findall(r"`([a-z0-9_]+)`", keys)) for name, keys in rows.items()}
    # Instead of the keys of another row, one may name that.
    for name, keys in rows.items():
        for other in re.findall(r"the keys of (`.*?`)", keys):
            found[name] |= found[other]
    there = {name: {key for value in _objects(lines) for key in value} for name, lines in printed.items()}
    assert there.keys() == found.keys()
    wrong = {name: found[name] ^ there[name] for name in there if found[name] != there[name]}
    assert not wrong, f"on the page or in the output, not in both: {wrong}"


def _lines(commands: Iterable[Any]) -> list[Any]:
    return [line for done in commands for line in done.lines]


def _objects(value: Any, key: str = "") -> Iterator[dict[str, Any]]:
    """Walk through all objects within a value, but for those whose keys are data."""
    if isinstance(value, dict):
        if key not in _COUNTED:
            yield value
        for name, inner in value.items():
            yield from _objects(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner, key)
