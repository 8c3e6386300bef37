"""Known troubles: how they are kept, and how they end, by a clock that the test holds."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rsmq_tui.events.known import UNTIL_OK, Known, KnownError, KnownStore, read_until
from rsmq_tui.events.recorder import EventRecorder
from rsmq_tui.monitor import QueueState, Thresholds, Verdict
from tests.events.made import NOON_MS, SERVER, polled, state

# 2031-05-17, 12:00 UTC.
_SATURDAY_MS = 1_936_785_600_000
_HOSTILE = "\x1b[31m\udcff\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KnownStore]:
    with closing(KnownStore(tmp_path / "known.sqlite")) as opened:
        yield opened


def known(queue: str = "orders", note: str = "deploying", until_ms: int | None = None) -> Known:
    return Known(SERVER, "rsmq", queue, note, NOON_MS, until_ms)


def test_what_is_known_is_kept_with_any_name_and_note(store: KnownStore, tmp_path: Path) -> None:
    store.put(known())
    store.put(known(_HOSTILE, _HOSTILE, NOON_MS + 1))
    store.put(known(note="deploying again"))

    with closing(KnownStore(tmp_path / "known.sqlite")) as other:
        assert other.all() == [known(_HOSTILE, _HOSTILE, NOON_MS + 1), known(note="deploying again")]


def test_only_one_of_several_programs_ends_it_and_the_note_stays(store: KnownStore, tmp_path: Path) -> None:
    store.put(known())
    with closing(KnownStore(tmp_path / "known.sqlite")) as other:
        assert other.has_news()
        assert not other.has_news()
        assert store.end(known(), NOON_MS + 5)
        assert other.has_news()
        assert not other.end(known(), NOON_MS + 6)
        (ended,) = other.all()
    assert (ended.is_active, ended.note, ended.ended_ms) == (False, "deploying", NOON_MS + 5)


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "known.sqlite"
    path.write_bytes(b"no database" * 1_000)
    with pytest.raises(KnownError, match=r"the file of known troubles .* cannot be used: it is not one of rsmq-tui"):
        KnownStore(path)


def test_rows_of_other_programs_are_left_out(store: KnownStore, tmp_path: Path) -> None:
    store.put(known())
    with closing(sqlite3.connect(tmp_path / "known.sqlite")) as other:
        other.execute("INSERT INTO known VALUES (1, 2, 3, 4, 5, NULL, NULL)")
        other.commit()
    assert store.all() == [known()]


@pytest.mark.parametrize("text", ["", "ok", UNTIL_OK, " Until  it is OK "])
def test_until_it_is_ok(text: str) -> None:
    assert read_until(text, NOON_MS) is None


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_until_a_time_in_the_day_or_in_the_next() -> None:
    # 01:00 on the day on which 02:00 becomes 03:00.
    now_ms = 1_932_591_600_000
    assert time.strftime("%H:%M", time.localtime(now_ms / 1000)) == "00:00"
    for text, hours in (("01:00", 1), ("06:00", 5), ("until 06:00", 5), ("0:00", 23)):
        assert read_until(text, now_ms) == now_ms + hours * 3_600_000, text
        assert read_until(text, now_ms, ZoneInfo("Europe/Berlin")) == now_ms + hours * 3_600_000, text
    assert read_until("00:30", now_ms, UTC) == now_ms + 5_400_000


@pytest.mark.usefixtures("berlin")
def test_an_event_names_the_zone_of_its_end() -> None:
    end_ms = round(datetime(2031, 5, 17, 6, tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)
    assert (
        known(until_ms=end_ms).event(NOON_MS).text
        == "its trouble is acknowledged until 2031-05-17 06:00 CEST: deploying"
    )


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("2031-05-17 12:01", "2031-05-17T12:01Z"),
        ("until 2031-05-18 09:00", "2031-05-18T09:00Z"),
        ("2031-05-19", "2031-05-19T00:00Z"),
        ("2032-05-17t12:00", "2032-05-17T12:00Z"),
    ],
)
def test_until_a_day(text: str, end: str) -> None:
    assert read_until(text, _SATURDAY_MS, UTC) == round(datetime.fromisoformat(end).timestamp() * 1000)


@pytest.mark.parametrize("text", ["2031-05-17 12:00", "2031-05-17", "2031-13-01", "2033-01-01", "9999-12-31", "now"])
def test_not_until_a_day_that_is_past_or_far_away(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time such as 06:00 or 2031-05-19 09:00"):
        read_until(text, _SATURDAY_MS, UTC)


def test_until_after_some_time() -> None:
    assert read_until("2h", NOON_MS) == NOON_MS + 7_200_000
    for text in ("2", "25:00", "soon", "-1h", "0", "1000d"):
        with pytest.raises(ValueError, match=r"is not a time such as 06:00"):
            read_until(text, NOON_MS)


class _Source:
    thresholds = Thresholds()


class Watched:
    """A recorder whose thread is not started: each step is the test's."""

    def __init__(self, folder: Path) -> None:
        self.now_s = NOON_MS / 1000
        self.recorder = EventRecorder(folder, clock=lambda: self.now_s, wall_s=lambda: self.now_s)

    def turn(self) -> list[str]:
        """Do what is to be done, and return the texts of all events of what is known."""
        works = [self.recorder._work.popleft() for _ in range(len(self.recorder._work))]
        self.recorder._turn(works)
        return [event.text for event in self.recorder.recent if event.kind == "known"]

    def poll(self, *queues: QueueState) -> list[str]:
        snapshot = polled(*queues, s=self.now_s - NOON_MS / 1000)
        self.recorder.observe(snapshot, _Source())  # type: ignore[arg-type]
        return self.turn()

    def close(self) -> None:
        """Do what the thread does at its end."""
        self.recorder.close()
        self.recorder._run()


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Callable[[], Watched]]:
    """Begins a recorder, as another dashboard does."""
    with ExitStack() as begun:
        yield lambda: begun.enter_context(closing(Watched(tmp_path)))


@pytest.fixture
def watched(another: Callable[[], Watched]) -> Watched:
    return another()


def test_it_ends_when_the_queue_is_ok_and_the_events_say_so(watched: Watched, another: Callable[[], Watched]) -> None:
    other = another()
    bad, good = state("orders", Verdict.STALLED), state("orders")
    watched.poll(bad)
    watched.recorder.set_known(known(), at_ms=NOON_MS)
    assert watched.turn() == ["its trouble is acknowledged until it is ok: deploying"]
    for one in (watched, other):
        assert one.poll(bad) == ["its trouble is acknowledged until it is ok: deploying"]
        assert one.recorder.acknowledged(polled()) == {"orders"}
    assert watched.poll(state("orders", Verdict.WATCHING))[1:] == []

    sent = watched.poll(good)
    assert sent[1:] == ["its trouble is no longer acknowledged: it is ok"]
    assert other.poll(good) == sent
    for one in (watched, other):
        assert one.recorder.acknowledged(polled()) == set()
        assert one.recorder.known(polled())["orders"].note == "deploying"


def test_it_ends_at_its_time_also_while_the_trouble_goes_on(watched: Watched) -> None:
    bad = state("orders", Verdict.STALLED)
    watched.recorder.set_known(known(note="", until_ms=NOON_MS + 60_000), at_ms=NOON_MS)
    watched.poll(bad)
    watched.now_s += 59
    assert len(watched.poll(state("orders"))) == 1
    assert watched.recorder.acknowledged(polled()) == {"orders"}
    watched.now_s += 1

    assert watched.poll(bad)[1:] == ["its trouble is no longer acknowledged: its time is over"]
    assert watched.recorder.acknowledged(polled()) == set()


def test_somebody_ends_it(watched: Watched) -> None:
    watched.recorder.set_known(known(), at_ms=NOON_MS)
    watched.recorder.set_known(known()._replace(ended_ms=NOON_MS + 1), at_ms=NOON_MS)

    assert watched.turn()[1:] == ["its trouble is no longer acknowledged: somebody ended it"]


def test_a_damaged_file_keeps_no_event_from_being_recorded(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "known.sqlite").write_bytes(b"no database" * 1_000)
    watched.poll(state("orders", Verdict.STALLED))

    assert [event.queue for event in watched.recorder.recent] == ["orders"]
    assert "known troubles" in (watched.recorder.known_problem or "")


def test_a_problem_of_one_file_does_not_hide_that_of_the_other(watched: Watched, tmp_path: Path) -> None:
    for name in ("known.sqlite", "events.sqlite"):
        (tmp_path / name).write_bytes(b"no database" * 1_000)
    failures: list[str] = []
    watched.recorder.set_known(known(), at_ms=NOON_MS, failed=failures.append)
    watched.turn()

    assert watched.recorder.problems.keys() == {"events", "known troubles"}
    (failure,) = failures
    assert watched.recorder.problems["known troubles"] == f"{failure}; everything else continues"
