"""What the original program did on the same commands: ours does the same, or what the page's table says.

`side_by_side.json` holds observations of the program that its first lines name, a case a line: what the database held
before (``before``, commands of Redis), the arguments, and the original's exit status, output and keys as ``observing``
masks them; no ``keys`` where they stayed as they were. Where ours differs, ``row`` is the row of the page's table that
says so, and ``here`` is what ours does.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rsmq_tui.docs import page
from tests.cli.rsmqctl.conftest import Ctl
from tests.cli.rsmqctl.observing import as_json, lay, observed, server_of, written_out

pytestmark = pytest.mark.slow

_RECORDED = json.loads(Path(__file__).with_name("side_by_side.json").read_text(encoding="ascii"))
_CASES: list[dict[str, Any]] = _RECORDED["cases"]
_PARTS = ("status", "out", "err", "keys")


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in _CASES])
def test_it_does_what_the_original_did_or_what_the_table_says(
    case: dict[str, Any], anywhere: Ctl, client: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of(redis_url)
    places = {"{url}": redis_url, "{server}": server, "{user}": server.replace("//", "//nobody:wrong@")}
    known = json.dumps([case["before"], case["run"]])
    for name, value in (case.get("env") or {"REDIS_URL": redis_url}).items():
        monkeypatch.setenv(name, value)
    lay(client, case["before"])
    before = as_json(observed(client, 0, "", "", known, redis_url))["keys"]

    done = anywhere(*(written_out(_placed(word, places)) for word in case["run"]))

    expected = {"keys": before} | {part: case[part] for part in _PARTS if part in case} | case.get("here", {})
    found = as_json(observed(client, done.status, done.out, done.err, known, redis_url))
    assert found == expected


def test_the_pages_table_has_a_row_for_each_difference_and_no_other() -> None:
    (table,) = re.findall(r"\n\| \| the original \| here \|\n\|[-| ]+\|\n((?:\|.*\n)+)", page("rsmqctl"))

    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]

    assert sorted(rows) == sorted({case["row"] for case in _CASES if "row" in case})


def test_a_difference_is_one_and_says_which_row_tells_of_it() -> None:
    for case in _CASES:
        assert ("row" in case) == ("here" in case), case["name"]
        assert all(value != case.get(part) for part, value in case.get("here", {}).items()), case["name"]


def test_there_are_enough_cases_to_tell() -> None:
    names = [case["name"] for case in _CASES]
    assert len(names) == len(set(names)) > 250
    assert set(_RECORDED) == {"program", "cases"}


def _placed(word: str, places: dict[str, str]) -> str:
    for place, text in places.items():
        word = word.replace(place, text)
    return word
