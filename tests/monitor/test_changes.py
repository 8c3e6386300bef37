"""The audit log is read as it was written, and whatever else is in such a file is left out and counted."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.monitor import changes
from rsmq_tui.monitor.changes import ON_REQUEST, AuditedChange, _linked, by_subject, read_changes, read_line


def change(number: int = 1, **fields: Any) -> AuditedChange:
    usual: dict[str, Any] = {
        "at_ms": 1_000 * number, "action": "delete", "who": "ada", "host": "laptop", "profile": "prod",
        "server": "db:6379/0", "ns": "rsmq", "queue": "orders", "target": None, "filter": "every message of the queue",
        "planned": 10, "done": 10, "skipped": 0, "failed": 0, "ended": "done", "change": number, "undoes": None,
        "past": "deleted", "lasted_ms": 40,
    }  # fmt: skip
    return AuditedChange(**{**usual, **fields})


def undo(number: int, undoes: int, **fields: Any) -> AuditedChange:
    return change(number, **{"action": "undo", "past": "put back", "undoes": undoes, **fields})


def log(path: Path, *lines: AuditedChange | str | bytes) -> Path:
    texts = [one.line if isinstance(one, AuditedChange) else one for one in lines]
    path.write_bytes(b"".join((text if isinstance(text, bytes) else text.encode()) + b"\n" for text in texts))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_a_line_is_read_as_it_was_written() -> None:
    odd = change(queue="a\udcff\n\x1b[2J", target="list:é", lasted_ms=None, part=True, moved={"b\udcff\n": 3})
    assert odd.line.isascii()
    assert "\n" not in odd.line
    assert read_line(odd.line) == odd


def test_a_line_of_an_earlier_version_says_less(path: Path) -> None:
    known = json.loads(change(planned=12, skipped=2).line)
    for name in ("past", "part", "lasted_ms"):
        del known[name]
    (found,) = read_changes([log(path, json.dumps(known))]).changes
    assert (found.lasted_ms, found.summary) == (None, "delete: 10 of 12 messages, 2 skipped")


def test_a_line_of_a_later_version_may_say_more(path: Path) -> None:
    later = json.dumps({**json.loads(change(action="shuffle", past="").line), "colour": [1, 2]})
    (found,) = read_changes([log(path, later)]).changes
    assert (found.summary, found.counts) == ("shuffle: 10 of 10 messages", ())


WRONG: list[str | bytes] = [
    "", "{", "[]", "null", "1", '"text"', "{}", "[" * 100_000, b"\xff\xfe\x00", "{" + '"a":' * 9,
    *(
        json.dumps({**json.loads(change().line), name: value})
        for name, value in [
            ("at_ms", "now"), ("at_ms", 1.5), ("at_ms", True), ("at_ms", -1), ("at_ms", 10**400), ("done", None),
            ("done", -3), ("change", "1"), ("undoes", "1"), ("undoes", -1), ("queue", None), ("queue", ["a"]),
            ("target", 3), ("who", {}), ("past", 1), ("part", 1), ("lasted_ms", -1), ("lasted_ms", "long"),
            ("moved", None), ("moved", ["a"]), ("moved", {"a": "3"}), ("moved", {"a": 0}), ("moved", {"a": True}),
        ]
    ),
    json.dumps({name: value for name, value in json.loads(change().line).items() if name != "who"}),
]  # fmt: skip


def test_a_redrive_names_the_queues_that_it_moved_messages_to_and_so_does_its_undo(path: Path) -> None:
    moved = {"orders": 5, "mail\x1b": 3, "a": 1, "b": 1}
    redrive = change(1, action="redrive", past="redriven", queue="dead", moved=moved)
    found, back = read_changes([log(path, redrive, undo(2, 1, queue="dead", done=3, moved={"mail\x1b": 3}))]).changes
    assert found.summary == "redrive: redriven 10 of 10 messages to orders (5), mail␛ (3), a (1) and 1 more"
    assert [one.queue for one in found.queues] == ["dead", *moved]
    assert [(one.queue.queue, one.arrivals, one.deletes) for one in found.counts] == [
        ("dead", 0, 10), ("orders", 0, -5), ("mail\x1b", 0, -3), ("a", 0, -1), ("b", 0, -1),
    ]  # fmt: skip
    assert back.summary == "undo: put back 3 of 10 messages"
    assert [(one.queue.queue, one.arrivals, one.deletes) for one in back.counts] == [
        ("dead", 0, -3),
        ("mail\x1b", 0, 3),
    ]


def test_other_lines_are_left_out_and_counted(path: Path) -> None:
    found = read_changes([log(path, change(1), *WRONG, change(2))])
    assert [one.change for one in found.changes] == [1, 2]
    # An empty line is no line.
    number = len(WRONG) - 1
    assert found.problems == (
        f"{number} lines of the audit log audit.jsonl were left out: no change that this version can read",
    )


def test_a_line_that_is_too_long_is_left_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_LINE_BYTES", 1_000)
    for filler in ("x" * 900, "x" * 3_000, "x" * (1_000 - len(change(2, who="").line))):
        found = read_changes([log(path, change(1), change(2, who=filler), change(3))])
        assert [one.change for one in found.changes] == [1, 3]
        assert found.problems[0].startswith("1 line of the audit log audit.jsonl was left out")
    fits = read_changes([log(path, change(2, who="x" * (999 - len(change(2, who="").line))))])
    assert [one.change for one in fits.changes] == [2]


def test_only_the_end_of_a_huge_log_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(path, *(change(number) for number in range(10, 50)))
    monkeypatch.setattr(changes, "_LOG_BYTES", 3 * len(change(10).line))
    found = read_changes([path])
    assert [one.change for one in found.changes] == [48, 49]
    (problem,) = found.problems
    assert problem.startswith("of the audit log audit.jsonl, only the last ")
    monkeypatch.undo()
    monkeypatch.setattr(changes, "_CHANGES_MAX", 5)
    found = read_changes([path])
    assert [one.change for one in found.changes] == [45, 46, 47, 48, 49]
    assert found.problems == ("only the last 5 changes of the audit logs are shown",)


def test_what_is_no_file_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = read_changes([tmp_path / "none", tmp_path / "pipe", tmp_path])
    assert found.changes == ()
    assert [problem.split(": ")[1] for problem in found.problems] == ["it is not a regular file"] * 2


def test_the_last_line_of_a_change_has_its_result(path: Path) -> None:
    (found,) = read_changes([log(path, change(done=3, ended="interrupted"), change(done=7, ended="settled"))]).changes
    assert (found.done, found.is_complete) == (7, False)


@pytest.mark.parametrize("ended", ["interrupted", "settled", ON_REQUEST])
def test_a_change_that_has_come_to_its_last_message_did_not_end_early(ended: str) -> None:
    moment = str
    assert change(ended=ended).in_words(moment) == "delete: deleted 10 of 10 messages"
    assert change(ended=ended, done=7, skipped=3).in_words(moment) == "delete: deleted 7 of 10 messages, 3 skipped"
    assert change(ended=ended, done=7, skipped=2).in_words(moment).endswith(", 2 skipped, ended early")


def test_what_was_done_is_certain_if_a_change_ended_between_two_batches() -> None:
    # Earlier versions called a change that was stopped cancelled.
    for ended in ("done", ON_REQUEST, "cancelled"):
        assert change(ended=ended).is_certain
    for ended in ("interrupted", "settled", "connection lost"):
        assert not change(ended=ended).is_certain


def test_logs_of_a_team_are_one(tmp_path: Path) -> None:
    ada = [change(1), undo(2, 1)]
    grace = [change(1, who="grace", host="desk", at_ms=1_500), change(2, who="grace", host="desk", at_ms=5_000)]
    logs = [log(tmp_path / "ada", *ada), log(tmp_path / "grace", *grace), log(tmp_path / "copy", *ada)]
    found = read_changes(logs).changes
    assert [(one.who, one.change, one.undone) for one in found] == [
        ("ada", 1, 10), ("grace", 1, 0), ("ada", 2, 0), ("grace", 2, 0),
    ]  # fmt: skip


def test_an_undo_undoes_the_last_change_of_its_number(path: Path) -> None:
    # A new journal counts from 1 again.
    first, second = change(1), change(1, at_ms=9_000)
    found = read_changes([log(path, first, second, undo(2, 1, at_ms=9_500, done=4))]).changes
    assert [(one.at_ms, one.undone, one.undone_ms) for one in found] == [
        (1_000, 0, None), (9_000, 4, 9_500), (9_500, 0, None),
    ]  # fmt: skip
    assert found[-1].amount == "4 of 10 messages"


@pytest.mark.parametrize("undoes", [5, 6, 99])
def test_an_undo_of_what_is_not_in_the_log_says_what_it_knows(path: Path, undoes: int) -> None:
    (found,) = read_changes([log(path, undo(5, undoes))]).changes
    assert (found.origin, found.is_undo, found.summary, found.counts) == (None, False, "undo: put back 10 of 10", ())


def test_an_undo_is_that_of_the_same_host_or_else_of_the_same_user(path: Path) -> None:
    known = [
        change(1, at_ms=1_000), change(1, at_ms=2_000, who="grace"), change(1, at_ms=3_000, host="desk"),
        change(1, at_ms=4_000, host="desk", who="grace"),
    ]  # fmt: skip
    for undoing, at_ms in (
        ({}, 1_000),
        ({"who": "alan"}, 2_000),
        ({"host": "other"}, 3_000),
        ({"host": "other", "who": "grace"}, 4_000),
        ({"server": "other"}, None),
        ({"host": "other", "who": "alan"}, None),
    ):
        found = read_changes([log(path, *known, undo(2, 1, at_ms=9_000, **undoing))]).changes[-1]
        assert (None if found.origin is None else found.origin.at_ms) == at_ms, undoing


def test_many_changes_of_one_number_do_not_take_long(path: Path) -> None:
    class Counted(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    made = [change(1, at_ms=number, who=Counted("ada"), host=Counted("laptop")) for number in range(2_000)]
    undone = [undo(2, 1, at_ms=number, who=Counted("ada"), host=Counted("laptop")) for number in range(2_000)]
    assert all(one.origin is not None for one in _linked([*made, *undone]) if one.undoes is not None)
    assert Counted.compared < 100 * len(made)


def test_changes_are_found_by_queue_namespace_and_server() -> None:
    moved, listed = change(1, action="move", target="list:done"), change(2, ns="jobs", server="other")
    assert by_subject([moved, listed]) == {
        ("db:6379/0",): [moved], ("db:6379/0", "rsmq"): [moved], ("db:6379/0", "rsmq", "orders"): [moved],
        ("db:6379/0", "(lists)"): [moved], ("db:6379/0", "(lists)", "done"): [moved],
        ("other",): [listed], ("other", "jobs"): [listed], ("other", "jobs", "orders"): [listed],
    }  # fmt: skip


def test_only_what_is_wanted_is_kept(path: Path) -> None:
    log(path, change(1), change(2, server="other"))
    found = read_changes([path], lambda one: one.server == "other")
    assert [one.change for one in found.changes] == [2]
