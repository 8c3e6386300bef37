"""The table of kinds: references, and the parts of each layer."""

import pytest

from rsmq_tui.protocol.kinds import (
    KINDS,
    LIST,
    RSMQ,
    Kind,
    Reference,
    kind_named,
    kind_of,
    kind_of_batch,
    read_reference,
)
from tests.cli.running import printed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("list:queue:mail", Reference(LIST, "(lists)", "queue:mail")),
        ("list:", Reference(LIST, "(lists)", "")),
        ("list:rsmq:a/b", Reference(LIST, "(lists)", "rsmq:a/b")),
        ("rsmq:orders", Reference(RSMQ, "own", "orders")),
        ("rsmq:jobs/orders", Reference(RSMQ, "jobs", "orders")),
        ("rsmq:a/b/orders", Reference(RSMQ, "a/b", "orders")),
        ("rsmq:", Reference(RSMQ, "own", "")),
        ("orders", None),
        ("queue:mail", None),
        ("", None),
    ],
)
def test_a_reference_says_kind_namespace_and_queue(text: str, found: Reference | None) -> None:
    assert read_reference(text, "own") == found


@pytest.mark.parametrize("text", ["list:queue:mail", "rsmq:jobs/orders", "rsmq:a/b/orders"])
def test_a_whole_reference_is_written_as_it_is_read(text: str) -> None:
    found = read_reference(text, "own")

    assert found is not None
    assert found.text == text


def test_a_kind_is_found_by_its_name_and_by_what_stands_for_its_namespace() -> None:
    assert [kind_named(name).name for name in ("rsmq", "list", "unknown")] == ["rsmq", "list", "rsmq"]
    assert [kind_of(ns).name for ns in ("rsmq", "", "(lists)", "jobs")] == ["rsmq", "rsmq", "list", "rsmq"]
    assert [kind_of_batch(name).name for name in ("remove", "fields", "stray", "list-put", "")] == [
        *("rsmq", "rsmq", "rsmq", "list", "rsmq")
    ]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_each_part_that_a_kind_names_is_there(kind: Kind) -> None:
    for purpose in kind.parts:
        assert kind.part(purpose), purpose


def test_the_table_imports_no_part() -> None:
    program = "import sys; import rsmq_tui.protocol.kinds; print(*sys.modules)"
    loaded = printed(program).split()
    assert not {name for name in loaded if name.startswith(("rsmq_tui.monitor", "rsmq_tui.triage", "rsmq_tui.tui"))}
