"""From states to rows: nothing unknown becomes a number, and what is kept from poll to poll is never stale."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rsmq_tui.history.rows import SampleRows, inventory_end, message_rows
from rsmq_tui.history.schema import OF_MEMORY, OF_SERVER
from rsmq_tui.monitor import QueueState, Verdict
from rsmq_tui.monitor.tracking.series import FlightTimes
from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.server.status import ServerInfo
from tests.history.made import NOON_MS, PLACE, polled, state

SAMPLED = ("sampled_age_ms", "sampled", "wait_p50_ms", "wait_p95_ms", "work_p50_ms", "work_p95_ms")
UNKNOWN: dict[str, Any] = dict.fromkeys(
    (
        "depth",
        "ready",
        "hidden",
        "oldest_ready_ms",
        "oldest_ready_due_ms",
        "totalsent",
        "totalrecv",
        "vt_s",
        "delay_s",
        "maxsize",
        "created_ms",
    )
)


def rows(*queues: QueueState, at_ms: int = NOON_MS, interval_ms: int | None = 5_000) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = SampleRows("me", PLACE).polled(queues, at_ms, interval_ms).to_pylist()
    return found


def test_a_queue_and_the_poll_itself() -> None:
    queue, poll = rows(state(verdict=Verdict.AGED, problems=("odd",)))

    common = {"at_ms": NOON_MS, "interval_ms": 5_000, "recorder": "me", **PLACE._asdict(), "status": "ok"}
    common["failure"] = None
    assert queue == common | {
        "queue": "orders", "kind": "rsmq", "depth": 7, "ready": 4, "hidden": 3, "oldest_ready_age_ms": 5_000,
        "vt_s": 30.0, "delay_s": 0.0, "maxsize": 65536, "created_ms": 1_000, "modified_ms": 2_000, "totalsent": 90,
        "totalrecv": 80, "poison": 1, "highest_rc": 6, "verdict": "aged", "broken": None, "problems": ["odd"],
        "expired": None, "oldest_ready_waiting_ms": 5_000, "since_ms": None, "idle_since_ms": None,
        "pending_since_ms": None, "pending_until_ms": None, "missing": 0, "looked": None, "looked_all_ms": None,
        "is_idle_longer": False, "drain": "unknown", "thresholds": None, "since_depth": None,
            "is_since_longer": False,
        **dict.fromkeys((*SAMPLED, *OF_SERVER, *OF_MEMORY)),
    }  # fmt: skip
    assert poll == dict.fromkeys(queue) | common


def test_a_sample_of_messages_in_flight_is_recorded_for_a_minute() -> None:
    kept, times = SampleRows("me", PLACE), FlightTimes(NOON_MS - 1_000, 3, 10, 20, None, 40)
    queues = state("a", times=times), state("b")

    def sampled(s: int, *queues: QueueState) -> list[list[Any]]:
        found = kept.polled(queues, NOON_MS + s * 1000, None).to_pylist()
        return [[row[name] for name in SAMPLED] for row in found]

    nothing = [None] * 6
    assert sampled(0, *queues) == [[1_000, 3, 10, 20, None, 40], nothing, nothing]
    assert sampled(59, *queues)[0] == [60_000, 3, 10, 20, None, 40]
    assert sampled(60, *queues) == [nothing] * 3
    newer = state("a", times=times._replace(at_ms=NOON_MS + 60_000, work_p50_ms=30))
    assert sampled(61, newer, queues[1])[:2] == [[1_000, 3, 10, 20, 30, 40], nothing]
    assert sampled(62, state("a"), queues[1]) == [nothing] * 3


def test_which_server_answers_is_in_the_row_of_the_poll() -> None:
    kept, info = (
        SampleRows("me", PLACE),
        ServerInfo("run\udcff", 77, "master", 2**70, 5, 6, NOON_MS, maxmemory_policy="noeviction"),
    )
    snapshots = [replace(polled(state(), at_ms=NOON_MS + number), info=info) for number in range(3)]
    snapshots[2] = replace(snapshots[2], info=info._replace(at_ms=NOON_MS + 2))
    rows = [kept.taken(snapshot, NOON_MS)[0].to_pylist() for snapshot in snapshots]

    fields = [[[row[name] for name in OF_SERVER] for row in of_poll] for of_poll in rows]
    known, nothing = ["run\\udcff", 77, "master", None, 5, 6, "noeviction"], [None] * 7
    # What was read before is not repeated.
    assert fields == [[nothing, known], [nothing, nothing], [nothing, known]]


def test_an_empty_namespace_leaves_a_row_too() -> None:
    (poll,) = rows()

    assert (poll["queue"], poll["status"], poll["depth"], poll["at_ms"]) == (None, "ok", None, NOON_MS)


def test_unknown_is_null() -> None:
    queue, _ = rows(state(**UNKNOWN, verdict=Verdict.BROKEN, broken="no keys"))

    spans = {"oldest_ready_ms": "oldest_ready_age_ms", "oldest_ready_due_ms": "oldest_ready_waiting_ms"}
    names = [spans.get(name, name) for name in UNKNOWN]
    assert [queue[name] for name in names] == [None] * len(names)
    assert (queue["verdict"], queue["broken"]) == ("broken", "no keys")


def test_a_poll_that_failed_is_one_row_without_numbers() -> None:
    (row,) = SampleRows("me", PLACE).failed("refused \udcff", NOON_MS).to_pylist()

    known = {"at_ms": NOON_MS, "recorder": "me", **PLACE._asdict(), "status": "down", "failure": "refused \\udcff"}
    assert row == dict.fromkeys(row) | known


def test_a_message_from_the_future_is_not_younger_than_nothing() -> None:
    assert rows(state(oldest_ready_ms=NOON_MS + 10))[0]["oldest_ready_age_ms"] == 0


@pytest.mark.parametrize("value", [2**63, -(2**70), 10**400])
def test_a_number_that_no_column_holds_is_unknown(value: int) -> None:
    queue, other, _ = rows(state("a", totalsent=value, vt_s=value, maxsize=value), state("b"))

    assert (queue["totalsent"], queue["maxsize"]) == (None, None)
    assert queue["vt_s"] in (float(value) if abs(value) < 1e300 else None, None)
    assert (other["totalsent"], other["maxsize"], other["vt_s"]) == (90, 65536, 30.0)


@pytest.mark.parametrize(("longer_ms", "age_ms"), [(0, 2**63 - 1), (1, None)])
def test_an_age_that_no_column_holds_is_unknown(longer_ms: int, age_ms: int | None) -> None:
    at_ms = NOON_MS - (2**63 - 1) - longer_ms

    queue, other, _ = rows(state("a", kind="list", oldest_ready_ms=at_ms, oldest_ready_due_ms=at_ms), state("b"))
    assert (queue["oldest_ready_age_ms"], queue["oldest_ready_waiting_ms"]) == (age_ms, age_ms)
    assert other["oldest_ready_age_ms"] == 5_000


def test_hostile_names_and_sentences() -> None:
    (queue, _) = rows(state("\x1b[2J[/foo]\udcff\\", problems=("\udc80",), verdict=Verdict.BROKEN, broken="\ud800"))

    assert queue["queue"] == "\x1b[2J[/foo]\\xff\\\\"
    assert (queue["problems"], queue["broken"]) == (["\\udc80"], "\\ud800")


_FIELDS = some.fixed_dictionaries(
    {
        "name": some.sampled_from(["a", "b", "c"]),
        "depth": some.none() | some.integers(0, 3),
        "oldest_ready_ms": some.none() | some.sampled_from([NOON_MS - 1, NOON_MS]),
        "vt_s": some.none() | some.sampled_from([1, 1.5, 10**20]),
        "verdict": some.sampled_from(list(Verdict)),
        "problems": some.sampled_from([(), ("one",), ("one", "two")]),
        "totalsent": some.sampled_from([None, 0, 2**64]),
        "times": some.sampled_from([None, FlightTimes(NOON_MS - 59_999, 1, 2, 3, None, 2**70)]),
    }
)


@settings(max_examples=60)
@given(some.lists(some.lists(_FIELDS, max_size=3), max_size=6))
def test_what_is_kept_from_poll_to_poll_is_never_stale(polls: list[list[dict[str, Any]]]) -> None:
    kept = SampleRows("me", PLACE)
    before: tuple[QueueState, ...] = ()
    for number, poll in enumerate(polls):
        made = tuple(state(**fields) for fields in poll)
        # As the tracker does: a queue that is as it was is the same object.
        queues = tuple(next((old for old in before if old == new), new) for new in made)
        before = queues
        assert kept.polled(queues, NOON_MS + number, number).to_pylist() == rows(
            *queues, at_ms=NOON_MS + number, interval_ms=number
        )


def test_messages() -> None:
    odd = [
        RawMessage(b"\xff\\", b"inf", b"x", None, 3, b"\xff\x00!"),
        RawMessage(b"b", b"1700000000", b"02", b"1700000000000", 0, None),
    ]
    first, second = message_rows("me", PLACE, "q\udcff", odd, at_ms=NOON_MS, inventory_ms=NOON_MS - 1).to_pylist()

    common = {"at_ms": NOON_MS, "inventory_ms": NOON_MS - 1, "recorder": "me", **PLACE._asdict(), "queue": "q\\xff"}
    assert first == common | {
        "id": "\\xff\\\\", "sent_ms": None, "due_ms": None, "rc": None, "fr_ms": None, "size": 3, "body": b"\xff\x00!",
    }  # fmt: skip
    assert second == common | {
        "id": "b", "sent_ms": None, "due_ms": 1_700_000_000_000, "rc": 2, "fr_ms": 1_700_000_000_000, "size": 0,
        "body": None,
    }  # fmt: skip


def test_the_end_of_an_inventory() -> None:
    (row,) = inventory_end("me", PLACE, "q", at_ms=NOON_MS, inventory_ms=NOON_MS - 1).to_pylist()

    known = {"at_ms": NOON_MS, "inventory_ms": NOON_MS - 1, "recorder": "me", **PLACE._asdict(), "queue": "q"}
    assert row == dict.fromkeys(row) | known
