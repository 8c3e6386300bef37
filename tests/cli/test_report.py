"""`rsmq-tui report` and `rsmq-tui history` as they are called."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from rsmq_tui.monitor.changes import AuditedChange
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from tests.cli.conftest import Command
from tests.cli.running import python
from tests.history.analysis.made import Made, scripted
from tests.history.analysis.queues import PROD, START_MS
from tests.history.report.reading import parsed, section_of, text_of
from tests.monitor.test_changes import change, log

pytestmark = pytest.mark.slow


def test_it_writes_a_page_of_a_range(anywhere: Command, analysis_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "night.html"
    done = anywhere(
        "report", "--analysis", str(analysis_folder), "--out", str(out), "--from", "2031-05-17 13:00", "--to", "19:00",
        "--queue", "orders", "--queue", "emails", "--title", "The night",
    )  # fmt: skip
    assert (done.status, done.out) == (0, b"")
    assert done.err.startswith(f"rsmq-tui: {out}: 1 incident of 2 queues, ")
    root = parsed(out.read_text("utf-8"))
    assert root.findtext("head/title") == "The night"
    assert "2031-05-17 13:00 to 19:00 UTC · 6h 0m · 2 queues · prod" in text_of(root)
    assert "orders was growing for 4h 0m" in text_of(section_of(root, "worst"))
    assert {path.name for path in tmp_path.iterdir()} == {"home", "night.html"}


@pytest.mark.parametrize(
    ("range_", "words"),
    [
        ((), "2031-05-16 23:59 to 2031-05-17 23:59"),
        (("--from=-2h",), "2031-05-17 21:59 to 23:59"),
        (("--to", "2031-05-15"), "2031-05-14 00:00 to 2031-05-15 00:00"),
        (("--from", "2031-05-15", "--to", "-1d"), "2031-05-15 00:00 to 2031-05-16 23:59"),
        (("--from", "23:00", "--to", "00:30"), "2031-05-17 23:00 to 2031-05-18 00:30"),
    ],
)
def test_a_range_is_given_in_words(
    anywhere: Command, analysis_folder: Path, tmp_path: Path, range_: tuple[str, ...], words: str
) -> None:
    out = tmp_path / "night.md"
    assert anywhere("report", "--analysis", str(analysis_folder), "--out", str(out), *range_).status == 0
    assert out.read_text("utf-8").startswith(f"# Queues from {words} UTC\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "x.txt"), "x.txt must end in .html or .md"),
        (("--from", "soon"), "'soon' is not a time"),
        (("--from", "2031-05-17", "--to", "2031-05-16"), "the range ends before it begins"),
        (("--from", "2040-01-01", "--to", "2040-01-02"), "no data for that time: the analysis covers"),
        (("--queue", "\x1b[2J"), "has no queue ␛[2J; it has emails, invoices, orders, webhooks"),
        (("--analysis", "/nowhere"), "/nowhere is not an analysis: rsmq-tui pipeline run --history DIR --out /nowhere"),
        (("--analysis", ""), "no analysis given: --analysis OUT names one, or RSMQ_TUI_ANALYSIS; "),
        (("--out", "/nowhere/x.html"), "/nowhere/x.html cannot be written: No such file or directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_sentence(
    anywhere: Command, analysis_folder: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    usual = ("--analysis", str(analysis_folder), "--out", str(tmp_path / "x.html"))
    done = anywhere("report", *usual, *arguments)
    assert done.status == 2
    assert done.err.startswith("rsmq-tui: ")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "x.html").exists()


def test_an_empty_analysis_is_a_sentence(anywhere: Command, tmp_path: Path) -> None:
    Made(tmp_path / "empty").publish()
    done = anywhere("report", "--analysis", str(tmp_path / "empty"), "--out", str(tmp_path / "x.md"))
    assert done.status == 2
    assert "record a history, then run the pipeline" in done.err


def test_the_environment_can_name_the_analysis(
    anywhere: Command, analysis_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSMQ_TUI_ANALYSIS", str(analysis_folder))
    assert anywhere("report", "--out", str(tmp_path / "x.md")).status == 0


def test_files_that_cannot_be_read_are_named_and_the_status_says_so(anywhere: Command, tmp_path: Path) -> None:
    scripted(tmp_path / "damaged")
    for path in (tmp_path / "damaged").glob("runs/*/rollup_1m/day=2031-05-17/*"):
        path.write_bytes(b"no parquet")
    done = anywhere("report", "--analysis", str(tmp_path / "damaged"), "--out", str(tmp_path / "x.html"))
    assert done.status == 1
    assert "day=2031-05-17/part-0.parquet was left out" in done.err
    assert "was left out" in text_of(section_of(parsed((tmp_path / "x.html").read_text("utf-8")), "about"))


def test_a_file_is_replaced_whole_and_is_as_readable_as_any_other(
    anywhere: Command, analysis_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x.html"
    out.write_text("before")
    before = os.umask(0o022)
    try:
        assert anywhere("report", "--analysis", str(analysis_folder), "--out", str(out)).status == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o644
    assert out.read_bytes().startswith(b"<!DOCTYPE html>")
    assert list(tmp_path.glob(".x.html*")) == []


def test_the_history_screen_needs_a_terminal_and_an_analysis(anywhere: Command, analysis_folder: Path) -> None:
    done = anywhere("history", str(analysis_folder))
    assert done.status == 2
    assert done.err == "rsmq-tui: the history screen needs a terminal; `rsmq-tui report` writes a file\n"
    assert "no analysis given: rsmq-tui history OUT names one, or " in anywhere("history").err


def test_the_history_screen_says_where_there_is_no_analysis(anywhere: Command, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    done = anywhere("history", str(gone))
    assert (done.status, done.out) == (2, b"")
    assert f"{gone} is not an analysis: rsmq-tui pipeline run --history DIR --out {gone} creates one" in done.err
    long = tmp_path / ("x" * 256)
    done = anywhere("history", str(long))
    assert (done.status, done.err) == (2, f"rsmq-tui: {long}: File name too long\n")


def test_without_its_packages_a_report_says_how_to_get_them(analysis_folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from rsmq_tui.cli.main import main\n"
        f"sys.exit(main(['report', '--analysis', {str(analysis_folder)!r}, '--out', {str(tmp_path / 'x.md')!r}]))"
    )
    done = python(code)
    assert done.returncode == 2
    assert (
        done.stderr == "rsmq-tui: a report needs the packages of the extra `history`: pip install 'rsmq-tui[history]'\n"
    )


def _changed(queue: str, **fields: Any) -> AuditedChange:
    at_ms = START_MS + 3 * DAY_MS + 15 * HOUR_MS
    return change(5, server=PROD.server, at_ms=at_ms, queue=queue, action="purge", **fields)


def test_it_says_what_was_changed_from_this_machine(
    anywhere: Command, analysis_folder: Path, tmp_path: Path, state: Path
) -> None:
    own = state / "rsmq-tui" / "audit.jsonl"
    own.parent.mkdir()
    log(own, _changed("orders"), "junk")
    out = tmp_path / "night.md"
    report = ("report", "--analysis", str(analysis_folder), "--out", str(out))
    done = anywhere(*report)
    assert done.status == 0
    first, second = done.err.splitlines()
    assert first.startswith(f"rsmq-tui: {out}: 5 incidents of 4 queues, 1 change, ")
    assert second == "rsmq-tui: 1 line of the audit log audit.jsonl was left out: no change that this version can read"
    assert "| `orders · prod` | purge: deleted 10 of 10 messages | ada |" in out.read_text("utf-8")

    # Those of a team, instead of the own one.
    logs = [log(tmp_path / name, _changed(name, host=name)) for name in ("emails", "invoices")]
    done = anywhere(*report, *(f"--changes={log}" for log in logs))
    assert (done.status, "2 changes" in done.err) == (0, True)
    text = out.read_text("utf-8")
    assert "`orders · prod` | purge" not in text
    assert "`emails · prod` | purge: deleted" in text
    assert "`invoices · prod` | purge: deleted" in text


@pytest.mark.parametrize(("name", "why"), [("none", "No such file or directory"), (".", "it is not a regular file")])
def test_a_log_that_is_none_is_refused(
    anywhere: Command, analysis_folder: Path, tmp_path: Path, name: str, why: str
) -> None:
    for command in (
        ("report", "--analysis", str(analysis_folder), "--out", str(tmp_path / "x.md")),
        ("history", str(analysis_folder)),
        ("replay", str(tmp_path)),
    ):
        done = anywhere(*command, "--changes", str(tmp_path / name))
        assert done.status == 2, command
        assert f"--changes: {tmp_path / name} cannot be read: {why}" in done.err.replace("/.", ""), command
