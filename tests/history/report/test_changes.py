"""A report says what was changed with rsmq-tui, during which incidents, and which of its figures contain that."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import VERDICT_RUNS
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.changes import COUNTED_MAX, changes_of, counted_of
from rsmq_tui.history.report.facts import Report, gather
from rsmq_tui.history.report.html import as_html
from rsmq_tui.history.report.markdown import as_markdown
from rsmq_tui.history.report.words import END, NAME, counted, worst
from rsmq_tui.monitor.changes import ON_REQUEST, AuditedChange, read_changes
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS, MINUTE_MS
from rsmq_tui.monitor.text import date_clock
from tests.history.analysis.made import scripted
from tests.history.analysis.queues import EMAILS, END_MS, GAP, PROD, START_MS
from tests.history.report.reading import parsed, rows_of, section_of, text_of
from tests.history.report.test_html import EVIL
from tests.monitor.test_changes import change, log, undo

LAST_DAY = TimeRange(END_MS - DAY_MS, END_MS)
# Orders grow for four hours.
GREW_MS = START_MS + 3 * DAY_MS + 14 * HOUR_MS
PURGE = change(
    7, server=PROD.server, at_ms=GREW_MS + 30 * MINUTE_MS + 10_000, action="purge", planned=200, done=200,
    filter="secret-of-customer", host="laptop-of-ada",
)  # fmt: skip
UNDO = undo(8, 7, server=PROD.server, at_ms=GREW_MS + 35 * MINUTE_MS, planned=200, done=150, skipped=50)
MOVE = replace(PURGE, change=9, at_ms=GREW_MS + 2 * HOUR_MS, action="move", past="moved", target="emails", done=20,
               ended=ON_REQUEST)  # fmt: skip
SENT = replace(PURGE, change=10, at_ms=GREW_MS + 9 * HOUR_MS, action="send", past="sent", queue="emails", planned=3,
               done=3)  # fmt: skip

Reporting = Callable[..., Report]


@pytest.fixture
def reporting(analysis_folder: Path, tmp_path: Path) -> Reporting:
    """Return the report of the last day with these lines in the audit log."""

    def report_of(
        *lines: AuditedChange | str, span: TimeRange = LAST_DAY, queues: list[QueueRef] | None = None
    ) -> Report:
        audited = read_changes([log(tmp_path / "audit.jsonl", *lines)])
        return gather(Analysis(analysis_folder), span, queues, audited=audited)

    return report_of


def sentences(report: Report) -> list[str]:
    return [sentence.replace(NAME, "").replace(END, "") for sentence in counted(report)]


def test_a_table_says_what_was_done_by_whom_and_in_which_incident(reporting: Reporting) -> None:
    report = reporting(PURGE, UNDO, MOVE, SENT)
    assert rows_of(section_of(parsed(as_html(report)), "changes")) == [
        ["When", "Queue", "What was done", "By", "Undone", "Incident"],
        ["05-17 14:30:10", "orders · prod", "purge: deleted 200 of 200 messages", "ada", "150 at 05-17 14:35:00",
         "G growing, over 3h 29m later"],
        ["05-17 14:35:00", "orders · prod",
         "undo: put back 150 of 200 messages, 50 skipped (of the change of 05-17 14:30:10)", "ada", "",
         "G growing, over 3h 25m later"],
        ["05-17 16:00:00", "orders · prod", "move: moved 20 of 200 messages to emails, ended early", "ada", "",
         "G growing, over 2h 0m later"],
        ["05-17 23:00:00", "emails · prod", "send: sent 3 of 3 messages", "ada", "", ""],
    ]  # fmt: skip
    text = as_markdown(report)
    assert "## Changes made with rsmq-tui" in text
    assert "| 05-17 23:00:00 | `emails · prod` | send: sent 3 of 3 messages | ada |  |  |" in text


def test_a_change_of_no_queue_is_named_without_one(reporting: Reporting) -> None:
    whole = TimeRange(START_MS, END_MS)
    outage = next(one for one in reporting(span=whole).incidents if one.is_outage)
    at_ms = outage.start_ms + 1_000
    fix = replace(PURGE, at_ms=at_ms, queue="", action="fix", past="fixed")
    span = TimeRange(outage.start_ms - MINUTE_MS, outage.end_ms + MINUTE_MS)
    found = [sentence for sentence in worst(reporting(fix, span=span)) if "Changes made during it" in sentence]
    assert found
    assert all(f"at {date_clock(at_ms)}, fix: fixed 200 of 200 queues" in sentence for sentence in found)


def test_the_sentence_of_an_incident_has_the_changes_that_were_made_during_it(reporting: Reporting) -> None:
    report = reporting(PURGE, UNDO, MOVE, replace(MOVE, change=11), SENT)
    emails, orders = [text_of(item) for item in section_of(parsed(as_html(report)), "worst").iter("li")][1:]
    assert "Changes" not in emails
    assert orders.endswith(
        "It was ok again 30m later. Changes made during it: at 2031-05-17 14:30:10 in orders · prod, purge: deleted 200"
        " of 200 messages; at 2031-05-17 14:35:00 in orders · prod, undo: put back 150 of 200 messages, 50 skipped (of"
        " the change of 05-17 14:30:10); at 2031-05-17 16:00:00 in orders · prod, move: moved 20 of 200 messages to"
        " emails, ended early; and 1 more."
    )


def test_pictures_show_when_a_queue_was_changed(reporting: Reporting) -> None:
    report = reporting(PURGE, UNDO, MOVE)
    root = parsed(as_html(report))
    timeline = section_of(root, "timeline")
    diamonds = [path for path in timeline.iter("path") if path.attrib["class"] == "diamond"]
    # The first two of orders are too near each other to be told apart; the messages were moved to emails.
    assert [diamond.findtext("title") for diamond in diamonds] == [
        "2031-05-17 16:00:00 move: moved 20 of 200 messages to emails, ended early",
        "2031-05-17 14:30:10 purge: deleted 200 of 200 messages\n2031-05-17 14:35:00 undo: put back 150 of 200 messages"
        ", 50 skipped (of the change of 05-17 14:30:10)",
        "2031-05-17 16:00:00 move: moved 20 of 200 messages to emails, ended early",
    ]
    assert "◆change made with rsmq-tui" in [text_of(key) for key in timeline.iter("span")]
    lines = {
        section.attrib["id"]: sum(path.attrib["class"] == "change" for path in section.iter("path"))
        for section in root.iter("section")
        if section.attrib["id"] == "together" or section.attrib["id"].startswith("queue-")
    }
    assert lines == {"together": 2, "queue-1": 1, "queue-2": 2, "queue-3": 0}
    charts = [line for line in as_markdown(report).splitlines() if line.startswith("changes ")]
    assert [line.count("◆") for line in charts] == [2, 1, 2]
    assert {line.index("made") for line in charts} == {78}


def test_without_changes_nothing_is_said_of_them(reporting: Reporting) -> None:
    elsewhere = (replace(PURGE, at_ms=LAST_DAY.from_ms - 1), replace(PURGE, server="other:6379"),
                 replace(PURGE, ns="jobs"))  # fmt: skip
    for lines in ((), elsewhere):
        report = reporting(*lines)
        assert report.changes == ()
        for text in (as_html(report), as_markdown(report)):
            assert "made with rsmq-tui" not in text


def test_changes_of_other_queues_are_left_out_if_some_were_chosen(reporting: Reporting) -> None:
    gone = replace(PURGE, change=12, queue="no longer there")
    of_all, of_emails = reporting(PURGE, MOVE, gone), reporting(PURGE, MOVE, gone, queues=[EMAILS])
    assert [one.change for one in of_all.changes] == [7, 12, 9]
    assert [one.change for one in of_emails.changes] == [9]


def test_figures_that_contain_changes_are_named(reporting: Reporting) -> None:
    assert sentences(reporting(PURGE, UNDO, MOVE, SENT)) == [
        "Of the 2,040 deletes of orders · prod from 2031-05-17 14:30 to 14:32 UTC, 200 are of the change of 2031-05-17 "
        "14:30:10 (purge), which deleted them.",
        "Up to 150 deletes of consumers of orders · prod from 2031-05-17 14:35 to 14:37 UTC are not counted, because "
        "of the change of 2031-05-17 14:35:00 (undo): it put messages there.",
        "Up to 20 deletes of consumers of emails · prod from 2031-05-17 16:00 to 16:02 UTC are not counted, because of "
        "the change of 2031-05-17 16:00:00 (move): it put messages there.",
        "Of the 2,280 deletes of orders · prod from 2031-05-17 16:00 to 16:02 UTC, 20 are of the change of 2031-05-17 "
        "16:00:00 (move), which moved them.",
        "Of the 3,240 arrivals of emails · prod from 2031-05-17 23:00 to 23:02 UTC, 3 are of the change of 2031-05-17 "
        "23:00:00 (send), which sent them.",
    ]


def test_a_change_that_took_minutes_is_in_all_of_them(reporting: Reporting) -> None:
    (sentence,) = sentences(reporting(replace(PURGE, lasted_ms=3 * MINUTE_MS)))
    assert sentence.startswith("Of the 5,100 deletes of orders · prod from 2031-05-17 14:30 to 14:35 UTC, 200 are of")


@pytest.mark.parametrize(
    "told",
    [
        replace(PURGE, lasted_ms=None),
        replace(PURGE, lasted_ms=1 << 52),
        replace(PURGE, done=1_000_000),
        replace(PURGE, ended="connection lost"),
        replace(PURGE, ended="interrupted"),
        # Nobody recorded when it began, or when it ended.
        replace(PURGE, at_ms=GAP[0] + 60_000),
        replace(PURGE, at_ms=GAP[0] - 60_000, lasted_ms=120_000),
        replace(PURGE, at_ms=GAP[1] - 60_000, lasted_ms=120_000),
        replace(PURGE, at_ms=END_MS - 1_000),
        replace(PURGE, queue="webhooks"),
        replace(PURGE, action="delete-queue"),
        replace(PURGE, action="hide"),
        undo(8, 6, server=PROD.server, at_ms=PURGE.at_ms),
    ],
)
def test_what_is_not_certain_is_not_said_of_figures(analysis_folder: Path, tmp_path: Path, told: AuditedChange) -> None:
    analysis = Analysis(analysis_folder)
    refs = [facts.ref for facts in analysis.queues()]
    audited = read_changes([log(tmp_path / "audit.jsonl", told)])
    changes = changes_of(audited.changes, TimeRange(START_MS, END_MS), refs, is_chosen=False)
    assert len(changes) == 1
    assert not counted_of(analysis, changes, refs)


def test_a_break_of_the_recording_around_a_change_is_seen(tmp_path: Path) -> None:
    made = scripted(tmp_path / "out")
    (run,) = (
        row for part in made.rows[VERDICT_RUNS]["2031-05-17"] for row in part.to_pylist()
        if row["queue"] == "orders" and row["first_ms"] == GREW_MS
    )  # fmt: skip
    broken = {**run, "first_ms": PURGE.at_ms + 5_000, "continues": False}
    made.add(VERDICT_RUNS, broken)
    made.publish("run-2")
    audited = read_changes([log(tmp_path / "audit.jsonl", PURGE)])
    assert sentences(gather(Analysis(tmp_path / "out"), LAST_DAY, audited=audited)) == []


def test_what_selected_messages_and_why_a_change_ended_stays_out_of_a_report(reporting: Reporting) -> None:
    report = reporting(PURGE, UNDO, replace(MOVE, ended="a secret reason"), SENT)
    for text in (as_html(report), as_markdown(report)):
        assert "move: moved 20 of 200 messages to emails, ended early" in text
        assert "secret" not in text
        assert "laptop" not in text


def test_hostile_text_in_a_log_stays_text(reporting: Reporting) -> None:
    evil = replace(PURGE, action=EVIL, who=EVIL, past=EVIL, target=EVIL, ended=EVIL)
    report = reporting(evil, replace(evil, change=8, queue=EVIL), "\x1b[2J", EVIL)
    root = parsed(as_html(report))
    assert len(rows_of(section_of(root, "changes"))) == 3
    missing = [text_of(item) for item in section_of(root, "about").iter("li")][-1]
    assert (
        missing == "Missing: 3 lines of the audit log audit.jsonl were left out: no change that this version can read"
    )
    for text in (as_html(report), as_markdown(report)):
        assert "<script>" not in text.replace("``<script>", "")
        assert "\x1b" not in text


def test_what_is_too_much_is_counted(reporting: Reporting) -> None:
    many = [replace(PURGE, change=number, at_ms=GREW_MS + number * 100, done=number) for number in range(1, 2_001)]
    report = reporting(*many)
    root = parsed(as_html(report))
    section = section_of(root, "changes")
    assert len(rows_of(section)) == 101
    assert "1,900 more rows left out." in text_of(section)
    assert len(report.counted) == COUNTED_MAX
    assert min(one.number for one in report.counted) > 1_900
    diamonds = [path for path in section_of(root, "timeline").iter("path") if path.attrib["class"] == "diamond"]
    assert len(diamonds) == 1
    assert (diamonds[0].findtext("title") or "").endswith("1,995 more changes")
