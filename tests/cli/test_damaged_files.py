"""A history or an analysis that is damaged, or made to harm: a sentence for what is wrong, and the rest is shown."""

import asyncio
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from textual.pilot import Pilot

from rsmq_tui.history.analysis.schema import MANIFEST_FILE
from rsmq_tui.history.names import HistoryError, Place
from rsmq_tui.history.reading import History
from rsmq_tui.history.replay.messages import Inventories
from rsmq_tui.history.replay.replay import Replay
from rsmq_tui.history.report import html
from rsmq_tui.history.report.html import as_html
from rsmq_tui.history.report.markdown import as_markdown
from rsmq_tui.history.schema import SCHEMA_FILE
from rsmq_tui.history.store import open_store
from rsmq_tui.monitor import PageRequest, PeekError
from rsmq_tui.monitor.filters.language import parse_filter
from rsmq_tui.pipeline.sources import damage_in
from rsmq_tui.tui.history.loading import Loader, LoadRequest
from tests.cli.conftest import Command
from tests.history.analysis.made import Made, episode, named, roll_up
from tests.history.analysis.queues import END_MS, EU, ORDERS, PROD
from tests.history.replayed import NOON_MS, STEP_MS, Tape
from tests.history.replayed import said as said_of
from tests.hostile.damaged_files import COLUMNS, INSTEAD, NOT_JSON, TEXT, ending, manifests, other_columns, put_instead
from tests.tui.driving import settled
from tests.tui.reading import app_of, text_of
from tests.tui.test_history import past_of, press
from tests.tui.test_replay import replayed, taped

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
POLLS = 15
TABLES = ("rollup_1h", "rollup_1m", "episodes", "poison", "advice", "forecast", "anomalies", "baseline")
# Changed together: where the queues are not known nothing else is shown, and where there are no counts no chart is.
GROUPS = (("queues",), TABLES[:2], TABLES[2:])
# What is looked at on screens as well.
SHOWN = (
    "texts",
    "an outage in such words",
    "highest",
    "lowest",
    "times of 2970",
    "times outside the calendar",
    "nulls in places",
)
WHERE: tuple[Literal["first", "last"], ...] = ("first", "last")


def small_analysis(out: Path) -> Made:
    """Three hours of three queues, and something in every table."""
    made = Made(out, "/var/lib/history")
    from_ms, to_ms = END_MS - 3 * HOUR_MS, END_MS
    for ref in (ORDERS, EU_JOBS, OTHER):
        made.add("rollup_1h", *roll_up(ref, "rollup_1h", from_ms, to_ms))
        made.add("rollup_1m", *roll_up(ref, "rollup_1m", from_ms, to_ms))
        known = {"kind": "rsmq", "first_ms": from_ms, "last_ms": to_ms - 5_000, "samples": 600}
        made.add("queues", {**named(ref), **known, "peak_depth": 90, "last_depth": 24})
        usual = {"metric": "depth", "hour_of_week": 1, "hours": 4, "median": 300.0, "mad": 20.0}
        made.add("baseline", {**named(ref), **usual})
        place = {**named(ref)}
        seen = {"first_seen_ms": from_ms, "last_seen_ms": to_ms - 60_000, "is_there": True}
        made.add("poison", {**place, "id": "x" * 32, "sent_ms": from_ms, "fr_ms": from_ms, "rc": 9, "size": 5, **seen})
        made.add("advice", {**place, "vt_s": 30.0, "receives": 9, "redeliveries": 5,
                            "advised_vt_s": 90.0, "told": "raise it"})  # fmt: skip
        made.add("forecast", {**place, "metric": "depth", "at_ms": to_ms, "value": 9.0, "slope_s": 0.5, "hours": 6,
                              "limit": 1e5, "reaches_ms": to_ms + HOUR_MS, "told": "it grows"})  # fmt: skip
        unusual = {"bucket_ms": from_ms, "metric": "depth", "value": 9.0, "median": 1.0, "mad": 1.0, "score": 8.0}
        made.add("anomalies", {**place, **unusual})
    made.add("episodes", episode(PROD, "orders", "growing", from_ms, to_ms - HOUR_MS))
    made.add("episodes", episode(EU, None, "down", from_ms, to_ms - HOUR_MS))
    made.publish()
    return made


EU_JOBS = ORDERS._replace(profile=EU.profile, server=EU.server, ns=EU.ns, queue="jobs")
OTHER = ORDERS._replace(queue="emails")


@pytest.fixture(scope="module")
def whole_analysis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "analysis"
    small_analysis(out)
    return out


@pytest.fixture(scope="module")
def whole_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Three files: going to a moment of a replay takes as long as the history has polls.
    return taped(tmp_path_factory.mktemp("whole") / "history", polls=POLLS, polls_a_file=6).out


@pytest.fixture
def analysis(whole_analysis: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole_analysis, tmp_path / "analysis"))


@pytest.fixture
def history(whole_history: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole_history, tmp_path / "history"))


def files_of(folder: Path, table: str) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if table in path.relative_to(folder).parts)


@pytest.fixture
def both_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report is written in both formats of the facts that are gathered for it, one behind the other."""
    monkeypatch.setattr(html, "as_html", lambda facts: f"{as_html(facts)}\n{as_markdown(facts)}")


def report(command: Command, folder: Path) -> tuple[int, str, str]:
    """Write a report; its status, the file and what was said: a sentence, whatever it is."""
    out = folder.parent / "report.html"
    done = command("report", "--analysis", str(folder), "--out", str(out))
    assert done.status in (0, 1, 2), done.err
    assert not any(sign in done.err for sign in ("\x1b", "\x00", "\u202e", "Traceback"))
    assert all(len(line) < 2_000 for line in done.err.splitlines())
    return done.status, out.read_text("utf-8") if out.exists() else "", done.err


def load(folder: Path, *, heat: bool = True) -> Any:
    """Read what the screen of the past shows."""
    loader = Loader(str(folder))
    wanted = LoadRequest(is_heat=heat)
    return loader.load(wanted, lambda whole: whole)


def use(folder: Path) -> tuple[str, int]:
    """Replay a history from its start to its end, and back, and by its changes; a sentence, and how many queues."""
    try:
        opened = History(folder, state=folder)
        replay = Replay(opened)
    except HistoryError as error:
        return str(error), 0
    most = 0
    span = replay.span
    for at_ms in (span.from_ms, span.to_ms, NOON_MS + POLLS // 2 * STEP_MS, (span.from_ms + span.to_ms) // 2):
        replay.seek(at_ms)
        most = max(most, len(replay.snapshot.queues))
        replay.step(1)
        replay.step(-2)
        replay.play(600_000)
        replay.go_to_incident(1)
        replay.go_to_incident(-1)
    places = replay.timeline.places

    async def look() -> None:
        inventories = Inventories(opened)
        for place in places:
            for queue in ("orders", TEXT):
                try:
                    found = await inventories.last(place, queue, NOON_MS + 600_000)
                except PeekError:
                    continue
                for where in WHERE:
                    found.page(PageRequest(queue, "all", where, None, 20))
                found.due(NOON_MS)
                found.view("x")
                async for _ in found.search(parse_filter("rc>1 age>1s body:n")):
                    pass

    asyncio.run(look())
    return " ".join(opened.problems), most


@pytest.mark.usefixtures("both_formats")
def test_no_manifest_makes_more_than_a_sentence(anywhere: Command, analysis: Path) -> None:
    manifest = json.loads((analysis / MANIFEST_FILE).read_text())
    assert report(anywhere, analysis)[0] == 0
    wrong = {}
    for name, text in manifests(manifest).items():
        (analysis / MANIFEST_FILE).write_text(text)
        with ending():
            status, _, said = report(anywhere, analysis)
            shown = load(analysis)
        is_reported = shown.failure is not None or shown.problems or shown.whole is None
        if status == 2 and not is_reported:
            wrong[name] = said, shown.problems
    assert wrong == {}


@pytest.mark.parametrize("what", INSTEAD)
def test_whatever_lies_in_the_place_of_a_manifest(anywhere: Command, analysis: Path, what: str) -> None:
    put_instead(analysis / MANIFEST_FILE, what)
    with ending():
        status, _, said = report(anywhere, analysis)
        assert status == 2
        assert load(analysis).failure is not None
    assert "analysis" in said


@pytest.mark.parametrize(
    ("table", "what"), [*(("rollup_1m", what) for what in INSTEAD), ("episodes", "a folder"), ("poison", "zeros")]
)
def test_whatever_lies_in_the_place_of_a_table_the_rest_is_told(
    anywhere: Command, analysis: Path, table: str, what: str
) -> None:
    put_instead(files_of(analysis, table)[0], what)
    with ending():
        status, page, said = report(anywhere, analysis)
        shown = load(analysis)
    assert status == 1
    assert f"/{table}/" in said
    assert "emails" in page
    assert shown.failure is None
    assert len(shown.lists.queues) == 3
    assert any(f"/{table}/" in problem for problem in shown.problems)


@pytest.mark.usefixtures("both_formats")
@pytest.mark.parametrize("kind", COLUMNS)
def test_whatever_is_in_the_columns_of_an_analysis(
    anywhere: Command, whole_analysis: Path, tmp_path: Path, kind: str
) -> None:
    for tables in GROUPS:
        folder = Path(shutil.copytree(whole_analysis, tmp_path / tables[0] / "analysis"))
        for table in tables:
            for path in files_of(folder, table):
                other_columns(path, COLUMNS[kind])
        may_fail = tables == ("queues",)
        with ending():
            status, text, said = report(anywhere, folder)
            assert status in (0, 1) or may_fail, (tables, said)
            assert not any(sign in text for sign in ("\x1b", "\u202e", "\x00"))
            shown = load(folder)
        assert shown.failure is None or may_fail, (tables, shown.failure)


@pytest.mark.parametrize("seed", range(15))
def test_flipped_bytes_of_an_analysis(anywhere: Command, analysis: Path, seed: int) -> None:
    flip(analysis, seed)
    with ending():
        report(anywhere, analysis)
        load(analysis)


def flip(folder: Path, seed: int) -> None:
    """Change some bytes of some files, or cut these."""
    random = Random(seed)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in random.sample(paths, min(len(paths), 3)):
        content = bytearray(path.read_bytes())
        for _ in range(random.randint(1, 20)):
            content[random.randrange(len(content))] = random.randrange(256)
        if random.random() < 0.3:
            del content[random.randrange(len(content)) :]
        path.write_bytes(content)


@pytest.mark.parametrize("name", NOT_JSON)
def test_no_schema_makes_more_than_a_sentence(anywhere: Command, history: Path, name: str) -> None:
    (history / SCHEMA_FILE).write_text(NOT_JSON[name])
    with ending():
        done = anywhere("replay", str(history))
    assert done.status == 2
    assert "is not a history" in done.err


@pytest.mark.parametrize("what", INSTEAD)
def test_whatever_lies_in_the_place_of_a_schema(anywhere: Command, history: Path, what: str) -> None:
    put_instead(history / SCHEMA_FILE, what)
    with ending():
        done = anywhere("replay", str(history))
    assert done.status == 2
    assert str(history) in done.err


@pytest.mark.parametrize(
    ("table", "what"), [*(("samples", what) for what in INSTEAD), ("messages", "a folder"), ("messages", "zeros")]
)
def test_whatever_lies_in_the_place_of_a_file_the_rest_is_played(history: Path, table: str, what: str) -> None:
    path = files_of(history, table)[0]
    put_instead(path, what)
    with ending():
        said, most = use(history)
    assert most == 2
    assert path.name in said


@pytest.mark.parametrize("what", ["a pipe", "a link to itself", "nothing in it"])
def test_whatever_lies_in_the_place_of_a_day_the_rest_is_played(history: Path, what: str) -> None:
    day = history / "samples" / "day=2024-10-05"
    INSTEAD[what](day)
    with ending():
        said, most = use(history)
    assert most == 2
    assert day.name in said


@pytest.mark.parametrize("kind", COLUMNS)
def test_whatever_is_in_the_columns_of_a_history(history: Path, kind: str) -> None:
    change_columns_of_history(history, kind)
    with ending():
        _, most = use(history)
    assert most >= 2


def change_columns_of_history(history: Path, kind: str) -> None:
    """Change the columns of all files but the last of each table."""
    for table in ("samples", "messages"):
        paths = files_of(history, table)
        for path in paths[: max(1, len(paths) - 1)]:
            other_columns(path, COLUMNS[kind])


@pytest.mark.parametrize("seed", range(15))
def test_flipped_bytes_of_a_history(history: Path, seed: int) -> None:
    flip(history, seed)
    with ending():
        use(history)


@pytest.mark.parametrize("day", ["1970-01-01", "2970-06-01", "0001-01-01", "9999-12-31", "2024-02-31", "0000-00-00"])
def test_days_of_any_year(history: Path, day: str) -> None:
    """A day whose files tell of another one is left out; one that is far away is played."""
    there = files_of(history, "samples")[0]
    far = history / "samples" / f"day={day}" / there.name
    far.parent.mkdir()
    shutil.copyfile(there, far)
    with ending():
        said, most = use(history)
    assert most == 2
    assert f"day={day}" in said


@pytest.mark.parametrize("year", [1970, 2970, 1, 9999])
def test_recordings_of_any_year(history: Path, year: int) -> None:
    at_ms = round(datetime(year, 1, 2, tzinfo=UTC).timestamp() * 1000)
    tape = Tape(history, "b" * 12, Place(TEXT, TEXT, TEXT))
    for poll in range(5):
        tape.poll(at_ms + poll * STEP_MS, said_of("ok", TEXT, created_ms=2**62, problems=(TEXT,)))
    tape.seal()
    with ending():
        _, most = use(history)
    assert most >= 2


@pytest.mark.parametrize("kind", SHOWN)
async def test_the_screens_of_a_replay(history: Path, kind: str) -> None:
    change_columns_of_history(history, kind)
    async with replayed(history, NOON_MS + (POLLS - 5) * STEP_MS) as pilot:
        for keys in ("t", "right_curly_bracket", "left_curly_bracket", "m comma D escape"):
            await look(pilot, *keys.split())
        for keys in ("j enter", "enter", "h", "escape", "escape"):
            await look(pilot, *keys.split())


@pytest.mark.parametrize(
    "kind", ["texts", "highest", "lowest", "times of 2970", "times outside the calendar", "nulls in places"]
)
async def test_the_screen_of_the_past(analysis: Path, kind: str) -> None:
    for table in TABLES:
        for path in files_of(analysis, table):
            other_columns(path, COLUMNS[kind])
    async with past_of(analysis) as pilot:
        for key in ("l", "l", "l", "l", "l", "l", "m", "minus", "plus", "W", "t", "enter"):
            await press(pilot, key)
            assert not any(sign in text_of(app_of(pilot)) for sign in ("\x1b", "\u202e", "\x00"))


async def test_the_screen_of_a_past_whose_manifest_is_hostile(analysis: Path) -> None:
    printed = json.loads((analysis / MANIFEST_FILE).read_text())
    printed |= {"history": TEXT, "problems": [TEXT], "made_ms": 253_402_300_799_999}
    printed["tables"]["poison"] = {"": [TEXT, "../../x", "/dev/zero"]}
    (analysis / MANIFEST_FILE).write_text(json.dumps(printed))
    async with past_of(analysis) as pilot:
        for key in ("l", "l", "l", "question_mark", "escape"):
            await press(pilot, key)
            assert not any(sign in text_of(app_of(pilot)) for sign in ("\x1b", "\u202e", "\x00"))


@pytest.mark.parametrize("what", INSTEAD)
def test_the_pipeline_names_what_it_leaves_out(history: Path, what: str) -> None:
    first, *others = files_of(history, "samples")
    put_instead(first, what)
    store, _ = open_store(str(history), history)
    names = [file.name for file in store.files("samples")]
    with ending():
        damaged = damage_in(store, names)
    # A link to nothing is a file whose day was removed meanwhile.
    expected = set() if what == "a link to nothing" else {first.relative_to(history).as_posix()}
    assert damaged.keys() == expected
    assert len(names) == len(others) + 1


async def look(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await settled(pilot)
    assert not any(sign in text_of(app_of(pilot)) for sign in ("\x1b", "\u202e", "\x00"))
