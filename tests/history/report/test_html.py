"""The HTML page: what it tells, for eyes and for ears, and that no name can break out of it."""

from pathlib import Path

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.report.html import as_html
from rsmq_tui.history.report.words import Report, gather
from tests.history.analysis.made import (
    DAY_MS,
    END_MS,
    HOUR_MS,
    ORDERS,
    PROD,
    START_MS,
    WEBHOOKS,
    Made,
    bucket,
    episode,
    named,
)
from tests.history.report.reading import parsed, rows_of, section_of, text_of

pytestmark = pytest.mark.slow

EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>]]>&amp;--><!--\u202e\u2066\x1b[2J\x02\x03\x00\n|`@all`"
)
DAY = TimeRange(START_MS, START_MS + DAY_MS)


def test_the_summary_says_what_when_how_long_how_bad_and_whether_it_is_over(report: Report) -> None:
    told = text_of(section_of(parsed(as_html(report)), "summary"))
    assert "3 of 4 queues were in trouble, in 4 episodes; 1 outage of a server lasted 20m in total" in told
    assert "The total depth peaked at 2031-05-17 16:00: between 50,128 and 50,323 messages." in told
    assert (
        "orders · prod rsmq was growing for 4h 0m, from 2031-05-17 14:00 to 2031-05-17 18:00: arrivals exceeded "
        "deletes by 2.6/s for 4h 0m. Its depth reached 38,400 messages, 37,900 of them ready (2031-05-17 16:00). "
        "The oldest ready message was 2h 14m old. 151,200 messages were affected. It was ok again 30m later."
    ) in told
    assert "invoices · prod rsmq was poisoned since 2031-05-17 22:00, and still was at the end of the history" in told
    assert "all of prod rsmq was down for 20m" in told
    assert "3 messages of 1 queue were received too often; 2 of them were still there" in told
    # The worst first.
    assert told.index("was down") < told.index("was stalled") < told.index("was growing") < told.index("was aged")


def test_the_timeline_has_a_bar_and_a_row_for_each_episode(report: Report) -> None:
    section = section_of(parsed(as_html(report)), "timeline")
    (picture,) = section.iter("svg")
    bars = [bar for bar in picture.iter("rect") if "bar" in bar.attrib["class"]]
    assert sorted(bar.attrib["class"] for bar in bars) == [
        "bar v-aged", "bar v-down", "bar v-growing", "bar v-poisoned", "bar v-stalled",
    ]  # fmt: skip
    growing = next(bar for bar in bars if "growing" in bar.attrib["class"])
    assert growing.findtext("title") == "▲ growing 2031-05-17 14:00, 4h 0m"
    width = (760 - 22 - 180) * 4 / 24
    assert float(growing.attrib["width"]) == pytest.approx(width, abs=0.2)
    titles, *rows = rows_of(section)
    assert titles[:4] == ["Began", "What", "Verdict", "Lasted"]
    assert [row[2] for row in rows] == ["◷ aged", "✗ down", "▲ growing", "■ stalled", "☣ poisoned"]
    assert rows[2] == [
        "2031-05-17 14:00", "orders · prod rsmq", "▲ growing", "4h 0m", "2031-05-17 18:30", "38,400", "2h 14m",
        "151,200", "arrivals exceeded deletes by 2.6/s for 4h 0m",
    ]  # fmt: skip
    assert rows[4][3:5] == ["more than 1h 59m", "ongoing"]


def test_each_queue_in_trouble_has_its_section_the_worst_first(report: Report) -> None:
    root = parsed(as_html(report))
    heads = [text_of(section[0]) for section in root.iter("section") if section.attrib["id"].startswith("queue-")]
    assert heads == ["Queue emails · prod rsmq", "Queue orders · prod rsmq", "Queue invoices · prod rsmq"]
    orders = section_of(root, "queue-2")
    titles = [picture.findtext("title") for picture in orders.iter("svg")]
    assert titles == ["Depth of orders · prod rsmq", "Age of the oldest ready message", "Messages a second"]
    described = next(orders.iter("svg")).findtext("desc") or ""
    assert "Depth between 160 and 38,560, highest at 2031-05-17 16:00, 160 at the end. There is 1 gap" in described
    facts = {row[0]: row[1:] for row in rows_of(orders)}
    assert facts["Depth"] == ["160", "3,568", "38,560", "160", "2031-05-17 16:00"]
    assert facts["Arrivals"] == ["4.0/s", "15.5/s", "27.0/s", "27.0/s", "2031-05-17 23:00"]


def test_a_gap_is_no_line_in_the_picture(report: Report) -> None:
    orders = section_of(parsed(as_html(report)), "queue-2")
    (mean,) = (line for line in next(orders.iter("svg")).iter("path") if line.attrib["class"] == "line s1")
    assert mean.attrib["d"].count("M") == 2


def test_the_tables_tell_poison_advice_forecasts_and_unusual_hours(report: Report) -> None:
    root = parsed(as_html(report))
    assert rows_of(section_of(root, "poison"))[1] == [
        "invoices · prod rsmq", "hocx8qopw1aQ0zR7cK2mV5nB8xL4jD2g", "11 times", "2031-05-17 19:00",
        "2031-05-17 20:00", "2031-05-17 22:00", "214 B", "gone",
    ]  # fmt: skip
    assert rows_of(section_of(root, "advice"))[1][:6] == [
        "invoices · prod rsmq", "30 s", "90 s", "24.0 %", "1m 24s", "410",
    ]  # fmt: skip
    assert rows_of(section_of(root, "forecasts"))[1][1:6] == [
        "depth", "2031-05-17 23:00", "1,400", "10,000", "2031-05-18 07:00",
    ]  # fmt: skip
    assert "not of the time of this report" not in text_of(root)
    assert [row[5] for row in rows_of(section_of(root, "unusual"))[1:]] == ["+21.0", "+9.5", "-7.1"]
    assert "/var/lib/history" in text_of(section_of(root, "about"))


def test_some_queues_alone_can_be_told_of(analysis_folder: Path) -> None:
    told = gather(Analysis(analysis_folder), TimeRange(START_MS, END_MS), [WEBHOOKS], title="A quiet <week>")
    root = parsed(as_html(told))
    assert root.findtext("head/title") == "A quiet <week>"
    assert "none of 1 queue was in trouble" in text_of(section_of(root, "summary"))
    assert text_of(section_of(root, "queue-1")[0]) == "Queue webhooks"
    assert "This queue had no problems" in text_of(section_of(root, "queue-1"))
    assert "orders" not in text_of(root)


def test_a_page_needs_nothing_from_anywhere_and_runs_nothing(report: Report) -> None:
    html = as_html(report)
    root = parsed(html)
    policy = next(meta for meta in root.iter("meta") if meta.attrib.get("http-equiv"))
    assert policy.attrib["content"].startswith("default-src 'none'")
    assert "http" not in html.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def _hostile(out: Path) -> Analysis:
    place = PROD._replace(profile=EVIL, ns=EVIL, server=f"redis://{EVIL}".replace("\x00", ""))
    ref = QueueRef(*place, EVIL)
    made = Made(out, history=EVIL)
    made.add("queues", {**named(ref), "first_ms": START_MS, "last_ms": START_MS + DAY_MS, "samples": 1})
    made.add("rollup_1h", bucket(ref, START_MS, HOUR_MS, depth=5.0, arrivals_s=1.0))
    made.add("episodes", episode(place, EVIL, EVIL, START_MS, START_MS + 1, cause=EVIL, ended=EVIL),
             episode(place, EVIL, "growing", START_MS, START_MS + 1, cause=EVIL),
             episode(place, None, "down", START_MS, START_MS + 1, cause=EVIL))  # fmt: skip
    made.add("poison", {**named(ref), "id": EVIL, "rc": 7, "first_seen_ms": START_MS, "last_seen_ms": START_MS})
    made.add("advice", {**named(ref), "told": EVIL})
    made.add("forecast", {**named(ref), "metric": EVIL, "at_ms": START_MS, "told": EVIL})
    made.add("anomalies", {**named(ref), "bucket_ms": START_MS, "metric": EVIL, "value": 1.0, "median": 1.0,
                           "mad": 1.0, "score": 9.0})  # fmt: skip
    made.publish(problems=[EVIL])
    return Analysis(out)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    html = as_html(gather(_hostile(tmp_path), DAY, title=EVIL))
    # Nothing but known tags and attributes, which `parsed` checks.
    root = parsed(html)
    told = text_of(root)
    assert "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>]]>&amp;--><!--" in told
    assert not any(character in html for character in "\u202e\u2066\x1b\x02\x03\x00")
    assert "\\u202e\\u2066␛[2J␂␃" in told


def test_damaged_numbers_do_not_keep_a_report_from_being_written(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add("queues", {**named(ORDERS), "first_ms": -5, "last_ms": 2**62, "peak_depth": -1})
    made.add("rollup_1h", bucket(ORDERS, START_MS, HOUR_MS, depth=float("inf"), oldest_ready_age_ms=1e300),
             bucket(ORDERS, START_MS + HOUR_MS, HOUR_MS, depth=float("nan"), arrivals_s=1e15))  # fmt: skip
    made.add("episodes", episode(PROD, "orders", "aged", -(2**60), 2**62, peak_age_ms=2**62, affected=-3))
    made.add("advice", {**named(ORDERS), "vt_s": float("nan"), "advised_vt_s": float("-inf"), "expired_share": 1e300})
    made.publish()
    analysis = Analysis(tmp_path)
    parsed(as_html(gather(analysis, DAY)))
    whole = analysis.span()
    assert whole is not None
    parsed(as_html(gather(analysis, whole)))


def test_an_empty_analysis_makes_a_page_that_says_so(tmp_path: Path) -> None:
    Made(tmp_path).publish()
    root = parsed(as_html(gather(Analysis(tmp_path), DAY)))
    assert "The analysis contains no queues." in text_of(section_of(root, "summary"))
    assert "No queue was in trouble" in text_of(section_of(root, "timeline"))


def test_what_is_too_much_is_counted(tmp_path: Path) -> None:
    made = Made(tmp_path)
    refs = [QueueRef(*PROD, f"q{number:03d}") for number in range(30)]
    for ref in refs:
        made.add("queues", {**named(ref), "first_ms": START_MS, "last_ms": START_MS + DAY_MS})
        made.add("episodes", *(episode(PROD, ref.queue, "aged", START_MS + n, START_MS + n + 1) for n in range(9)))
    made.publish()
    root = parsed(as_html(gather(Analysis(tmp_path), DAY)))
    told = text_of(root)
    assert "10 more queues in trouble" in told
    assert "258 more episodes are in the timeline." in told
    assert "70 more rows left out." in told
    assert len([section for section in root.iter("section") if section.attrib["id"].startswith("queue-")]) == 20
