"""`rsmq-tui replay` as it is started: where it begins, and what it says where it cannot."""

import sys
from pathlib import Path

import pytest

from rsmq_tui.tui.replay.session import ReplaySession
from tests.cli.conftest import Command
from tests.history.made import ClockedWriter
from tests.history.replayed import NOON_MS, PLACE, Tape, said
from tests.hostile.terminal import Terminal

MINUTE_MS = 60_000
DAY = "2024-10-04"


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Two hours from noon on, minute by minute."""
    tape = Tape(tmp_path / "history")
    for minute in range(120):
        tape.poll(NOON_MS + minute * MINUTE_MS, said("ok" if minute < 30 else "stalled", depth=1000 + minute))
    tape.seal()
    return tape.out


@pytest.fixture
def zones() -> list[str]:
    """The time zones of the apps of ``started``."""
    return []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, zones: list[str]) -> list[ReplaySession]:
    """The replays that an app was made for; it ends at once."""
    found: list[ReplaySession] = []

    class App:
        return_code = 0

        def __init__(self, servers: object, *, replay: ReplaySession, zone: object, **options: object) -> None:
            assert servers is replay.servers
            found.append(replay)
            zones.append(str(zone))

        def run(self) -> None:
            return None

    monkeypatch.setattr("rsmq_tui.tui.app.RsmqApp", App)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    return found


@pytest.mark.parametrize(
    ("arguments", "from_minute", "end_minute"),
    [
        ((), 59, 119),
        (("--from", "12:30"), 30, 119),
        (("--from", f"{DAY} 12:30", "--to", "12:45"), 30, 45),
        (("--from=-30m",), 89, 119),
        (("--from", "-30d"), 0, 119),
        (("--to", "13:30"), 30, 90),
        (("--from", str(NOON_MS // 1000 + 600)), 10, 119),
        (("--from", DAY + "T12:02Z"), 2, 119),
    ],
)
def test_where_it_begins_and_ends(
    anywhere: Command,
    started: list[ReplaySession],
    history: Path,
    arguments: tuple[str, ...],
    from_minute: int,
    end_minute: int,
) -> None:
    done = anywhere("replay", str(history), *arguments, terminal=True)

    assert (done.status, done.err) == (0, "")
    (replaying,) = started
    assert replaying.position_ms == NOON_MS + from_minute * MINUTE_MS
    assert replaying.player.replay.end_ms == NOON_MS + end_minute * MINUTE_MS
    assert replaying.player.is_playing
    assert replaying.player.speed == 60


def test_an_end_without_a_date_is_the_first_after_the_beginning(
    anywhere: Command, started: list[ReplaySession], tmp_path: Path
) -> None:
    tape = Tape(tmp_path)
    for hour in range(100):
        tape.poll(NOON_MS + 60 * hour * MINUTE_MS, said("ok"))
    tape.seal()
    anywhere("replay", str(tmp_path), "--from", f"{DAY} 13:50", "--to", "14:30", terminal=True)
    assert started[0].player.replay.end_ms == NOON_MS + 150 * MINUTE_MS


@pytest.mark.usefixtures("started")
def test_times_are_shown_in_the_zone_of_the_profiles(
    anywhere: Command, zones: list[str], history: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[profiles.a]\nzone = "Asia/Kolkata"\n[profiles.b]\n')
    for more in ((), ("--tz", "Asia/Tokyo")):
        done = anywhere("replay", str(history), "--config", str(config), *more, terminal=True)
        assert done.err == ""
    assert zones == ["Asia/Kolkata", "Asia/Tokyo"]


def test_how_fast_and_paused(anywhere: Command, started: list[ReplaySession], history: Path) -> None:
    anywhere("replay", str(history), "--speed", "x3600", "--paused", terminal=True)
    assert (started[0].player.speed, started[0].player.is_playing) == (3600, False)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--from", "noon"), "--from: 'noon' is not a time: write 21:50, 2031-05-17 21:50, -10m or seconds"),
        (("--to", "25:00"), "--to: '25:00' is not a time: this time of day does not exist"),
        (
            ("--from", "2024-10-03 12:00"),
            "--from: nothing was recorded at 2024-10-03 12:00:00: "
            f"the recording covers {DAY} 12:00:00 to {DAY} 13:59:00 UTC",
        ),
        (
            ("--from", "13:00", "--to", "12:30"),
            f"--to is {DAY} 12:30:00 UTC, which is not after --from, {DAY} 13:00:00",
        ),
        (("--speed", "0.5"), "Invalid value for '--speed': '0.5' is not a speed from 1 to 3600"),
        (("--speed", "fast"), "Invalid value for '--speed': 'fast' is not a speed from 1 to 3600"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    anywhere: Command, started: list[ReplaySession], history: Path, arguments: tuple[str, ...], why: str
) -> None:
    done = anywhere("replay", str(history), *arguments, terminal=True)

    assert done.status == 2
    assert why in done.err.splitlines()[-1]
    assert started == []


def test_a_folder_that_is_no_history(anywhere: Command, tmp_path: Path) -> None:
    done = anywhere("replay", str(tmp_path / "none"), terminal=True)
    assert done.status == 2
    assert "is not a history: rsmq-tui record --out" in done.err
    assert done.err.count("\n") == 1


def test_an_empty_history(anywhere: Command, tmp_path: Path) -> None:
    ClockedWriter(tmp_path, tmp_path).writer.close()
    done = anywhere("replay", str(tmp_path), terminal=True)
    assert done.status == 2
    assert done.err.startswith(f"rsmq-tui: {tmp_path} contains nothing to replay yet: a recorder seals a file after ")
    assert done.err.count("\n") == 1


def test_files_that_were_left_out_are_named_at_the_end(
    anywhere: Command, started: list[ReplaySession], history: Path
) -> None:
    victim = sorted(history.rglob("*.parquet"))[1]
    victim.write_bytes(b"PAR1")
    done = anywhere("replay", str(history), terminal=True)

    assert done.status == 0
    assert done.err.startswith(f"rsmq-tui: {victim} was left out: ")
    assert done.err.count("\n") == 1


def test_without_a_terminal_it_says_so(anywhere: Command, history: Path) -> None:
    done = anywhere("replay", str(history))
    assert (done.status, done.out) == (2, b"")
    assert "the dashboard needs a terminal" in done.err


@pytest.mark.parametrize("missing", ["pyarrow", "fsspec"])
def test_without_the_extra_it_says_what_to_install(
    anywhere: Command, monkeypatch: pytest.MonkeyPatch, missing: str, history: Path
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    done = anywhere("replay", str(history))
    assert done.status == 2
    assert done.err.endswith("extra `history`: pip install 'rsmq-tui[history]'\n")


def test_the_help_has_examples_keys_and_statuses(anywhere: Command) -> None:
    done = anywhere("replay", "--help")
    assert done.status == 0
    for words in ("rsmq-tui replay history", "-10m", "mark a time", "you quit"):
        assert words in done.text


def test_in_a_terminal(tmp_path: Path, history: Path) -> None:
    with Terminal("replay", str(history), "--paused", "--from", "12:10", settings=tmp_path) as terminal:
        terminal.wait_for(f"REPLAY {DAY} 12:10:00 UTC", "paused", "orders", "1,010")
        terminal.type("}")
        terminal.wait_for(f"REPLAY {DAY} 12:30:00 UTC", "orders becomes stalled", "1,030")
        terminal.type("q")
        assert terminal.wait_for_end() == 0
        assert terminal.is_as_before


def test_expected_trouble_is_shown_as_such(tmp_path: Path, history: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.{PLACE.profile}]\nignore = ["orders"]\n')
    arguments = "replay", str(history), "--paused", "--from", "12:40", "--config", str(config)
    with Terminal(*arguments, settings=tmp_path) as terminal:
        # The pane wraps the rest.
        terminal.wait_for("‖ stalled", "‖ expected: `ignore` in the configuration")
        terminal.type("q")
        assert terminal.wait_for_end() == 0
