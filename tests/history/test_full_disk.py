"""A disk without room: one sentence, no broken file, and it goes on when there is room."""

import json
from pathlib import Path
from typing import Any

from tests.cli.running import printed
from tests.history.made import left_over, rows_of

# Files may not become longer than this: the system cuts a write short there, and refuses the next, as a full disk does.
LIMITED = """
import json, resource, sys
from pathlib import Path
from rsmq_tui.history.recorder import Recorder, RecordingSettings
from tests.history.made import NOON_MS, polled, state
from tests.waiting import wait_until

out, limit = Path(sys.argv[1]), int(sys.argv[2])
recorder = Recorder(out, RecordingSettings(), state=out)
recorder.start()
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
number = 0
def take(count):
    global number
    for _ in range(count):
        number += 1
        recorder.add(polled(*(state(f"q{n}", depth=number) for n in range(50)), at_ms=NOON_MS + number))
        wait_until(lambda: recorder.tally.polls + recorder.tally.lost == number)
take(20)
full = recorder.tally
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
take(3)
wait_until(lambda: not recorder.tally.is_failing)
room = recorder.tally
recorder.close()
assert recorder.wait(100)
print(json.dumps([[t.polls, t.lost, t.problem, t.is_failing] for t in (full, room, recorder.tally)]))
"""


def limited(out: Path, limit: int) -> list[list[Any]]:
    # Bytecode that is cut short would break later imports.
    found: list[list[Any]] = json.loads(printed(LIMITED, out, limit, env={"PYTHONDONTWRITEBYTECODE": "1"}))
    return found


def test_polls_are_lost_until_there_is_room(tmp_path: Path) -> None:
    full, room, end = limited(tmp_path, 20_000)

    polls, lost, problem, is_failing = full
    assert polls > 2
    assert polls + lost == 20
    assert is_failing
    assert problem == f"no space left for {tmp_path}: free some space, or use --max-size to delete the oldest days"
    assert room == [polls + 3, lost, problem, False]
    assert end == room
    rows = rows_of(tmp_path)
    polled = [row for row in rows if row["queue"] is None]
    assert len(polled) == polls + 3
    assert len(rows) == 51 * len(polled)
    assert left_over(tmp_path) == []
    # What was lost is a gap, and no interval spans it.
    first, after = polled[0], polled[polls]
    assert [row["at_ms"] - polled[0]["at_ms"] for row in polled if row["interval_ms"] is None] == [
        0, after["at_ms"] - first["at_ms"],
    ]  # fmt: skip


def test_no_room_at_all(tmp_path: Path) -> None:
    full, room, _ = limited(tmp_path, 100)

    assert full[:2] == [0, 20]
    assert room[:2] == [3, 20]
    assert len([row for row in rows_of(tmp_path) if row["queue"] is None]) == 3
