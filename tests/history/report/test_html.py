"""The HTML page: what it tells, for eyes and for ears, and that no name can break out of it."""

import xml.etree.ElementTree as ET
from importlib.resources import files
from pathlib import Path

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import QueueRef, TimeRange
from rsmq_tui.history.report.facts import Report, gather
from rsmq_tui.history.report.html import as_html
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from tests.history.analysis.made import Made, bucket, episode, named
from tests.history.analysis.queues import END_MS, ORDERS, PROD, START_MS, WEBHOOKS
from tests.history.report.reading import parsed, rows_of, section_of, text_of

pytestmark = pytest.mark.slow

EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>]]>&amp;--><!--\u202e\u2066\x1b[2J\x02\x03\x00\n|`@all`"
)
DAY = TimeRange(START_MS, START_MS + DAY_MS)


def figures_of(root: ET.Element) -> dict[str, list[str]]:
    """The figures of the first page: by what they are, the value and the notes."""
    tiles = [element for element in section_of(root, "figures").iter("div") if element.attrib.get("class") == "figure"]
    known = [[text_of(line) for line in tile] for tile in tiles]
    return {what: rest for what, *rest in known}


def test_the_first_page_has_five_figures_and_those_of_the_time_before(report: Report) -> None:
    assert figures_of(parsed(as_html(report))) == {
        "Availability": ["99.30 %", "of servers; 1 outage, 20m", "before: 100 %"],
        "Incidents": ["5", "3 of 4 queues had one", "before: 1"],
        "Time in trouble": ["7h 49m", "32.6 % of the time, at least one queue", "before: 1h 0m"],
        "Time to recovery": ["30m / 4h 30m", "median and 95th percentile of 4", "before: –"],
        "Messages late": ["60,058", "about; waited longer than 10m", "before: 0"],
    }


def test_a_sentence_for_each_of_the_worst_three_says_what_when_how_bad_and_whether_it_is_over(report: Report) -> None:
    known = [text_of(item) for item in section_of(parsed(as_html(report)), "worst").iter("li")]
    assert known == [
        "all of prod was down for 20m, from 2031-05-17 10:00:00 to 2031-05-17 10:20:00: connection refused. Then it "
        "was ok again.",
        "emails · prod was stalled for 1h 0m, from 2031-05-17 20:00:00 to 2031-05-17 21:00:00: 3,020 messages were "
        "ready, and nobody received any for 1h 0m. Its depth reached 276 messages. 216 messages were affected. Then "
        "it was ok again.",
        "orders · prod was growing for 4h 0m, from 2031-05-17 14:00:00 to 2031-05-17 18:00:00: arrivals exceeded "
        "deletes by 2.6/s for 4h 0m. Its depth reached 38,400 messages. At least 151,200 messages were affected. It "
        "was ok again 30m later.",
    ]


def test_no_label_of_a_time_leaves_its_picture(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for minute in range(2):
        made.add("rollup_1m", bucket(ORDERS, START_MS + minute * 60_000, 60_000, depth=10.0))
    made.publish()
    root = parsed(as_html(gather(Analysis(tmp_path), TimeRange(START_MS, START_MS + 120_000))))
    ends = [
        (float(picture.attrib["viewBox"].split()[2]), float(tick.attrib["x"]) + 3 * len(tick.text or ""))
        for picture in root.iter("svg")
        for tick in picture.iter("text")
        if tick.attrib.get("class") == "tick"
    ]
    assert ends
    assert all(end <= width for width, end in ends)


def test_the_timeline_has_a_row_for_each_queue_and_a_letter_for_each_verdict(report: Report) -> None:
    section = section_of(parsed(as_html(report)), "timeline")
    (picture,) = section.iter("svg")
    bars = [bar for bar in picture.iter("rect") if "bar" in bar.attrib["class"]]
    assert sorted(bar.attrib["class"] for bar in bars) == [
        "bar v-aged", "bar v-down", "bar v-growing", "bar v-poisoned", "bar v-stalled",
    ]  # fmt: skip
    growing = next(bar for bar in bars if "growing" in bar.attrib["class"])
    assert growing.findtext("title") == "G growing 2031-05-17 14:00:00, 4h 0m"
    assert float(growing.attrib["width"]) == pytest.approx((960 - 236 - 124) * 4 / 24, abs=0.2)
    texts = [text.text for text in picture.iter("text") if text.attrib.get("class") != "tick"]
    assert texts == [
        "prod", "the server", "20m · D", "emails", "A", "S", "1h 30m · S A", "orders", "G", "4h 0m · G",
        "invoices", "P", "1h 59m · P",
    ]  # fmt: skip
    assert [text_of(key) for key in section.iter("span")] == ["Ddown", "Sstalled", "Ggrowing", "Ppoisoned", "Aaged"]


def test_each_queue_in_trouble_has_a_card_the_worst_first(report: Report) -> None:
    root = parsed(as_html(report))
    cards = [section for section in root.iter("section") if section.attrib["id"].startswith("queue-")]
    assert [(text_of(card[0]), text_of(card[1])) for card in cards] == [
        ("emails · prod", "S stalled, A aged: 1h 30m · depth up to 109"),
        ("orders · prod", "G growing: 4h 0m · depth up to 50,128"),
        ("invoices · prod", "P poisoned: 1h 59m · depth up to 31"),
    ]
    (picture,) = cards[1].iter("svg")
    labels = [text.text for text in picture.iter("text") if text.attrib.get("class") == "label"]
    assert labels == ["messages stored", "oldest ready, min", "messages a second"]
    described = picture.findtext("desc") or ""
    assert "Mean depth between 160 and 38,560, highest at 2031-05-17 16:00, 160 at the end. There is 1 gap" in described
    assert "Arrivals between 4.0/s and 27.0/s, highest at 2031-05-17 23:00" in described


def test_a_gap_is_no_line_in_the_picture(report: Report) -> None:
    orders = section_of(parsed(as_html(report)), "queue-2")
    lines = [line for line in next(orders.iter("svg")).iter("path") if line.attrib["class"] == "line s1"]
    assert lines[0].attrib["d"].count("M") == 2


def test_the_tables_tell_incidents_queues_poison_advice_forecasts_and_unusual_hours(report: Report) -> None:
    root = parsed(as_html(report))
    assert rows_of(section_of(root, "incidents"))[3] == [
        "05-17 14:00:00", "orders · prod", "G growing", "4h 0m", "05-17 18:30:00", "38,400", "151,200 or more",
        "arrivals exceeded deletes by 2.6/s for 4h 0m",
    ]  # fmt: skip
    assert rows_of(section_of(root, "incidents"))[5][3:5] == ["1h 59m or more", "ongoing"]
    assert rows_of(section_of(root, "queues"))[1] == [
        "orders · prod", "1", "4h 0m", "3,568", "50,128", "16m", "15.5", "14.5", "60,058",
    ]  # fmt: skip
    assert rows_of(section_of(root, "poison"))[1] == [
        "invoices · prod", "hocx8qopw1aQ0zR7cK2mV5nB8xL4jD2g", "11 times", "05-17 22:00:00", "05-17 19:00:00",
        "214 B", "gone",
    ]  # fmt: skip
    assert rows_of(section_of(root, "advice"))[1][:6] == ["invoices · prod", "30 s", "90 s", "410", "98", "23.9 %"]
    assert rows_of(section_of(root, "forecasts"))[1:] == [
        [
            "orders · prod",
            "depth",
            "05-17 23:00",
            "1,400",
            "10,000",
            "05-18 07:00",
            "at +0.3/s it reaches 10,000 in 8h 0m",
        ]
    ]
    assert [row[5] for row in rows_of(section_of(root, "unusual"))[1:]] == ["+21.0", "+9.5", "-7.1"]
    assert "The total depth reached between 50,128 and 50,323 messages at 2031-05-17 16:00." in text_of(root)
    assert "3 messages of 1 queue were received too often; 2 of them were still there" in text_of(root)
    assert "/var/lib/history" in text_of(section_of(root, "about"))


def test_some_queues_alone_can_be_told_of(analysis_folder: Path) -> None:
    known = gather(Analysis(analysis_folder), TimeRange(START_MS, END_MS), [WEBHOOKS], title="A quiet <week>")
    root = parsed(as_html(known))
    assert root.findtext("head/title") == "A quiet <week>"
    assert text_of(section_of(root, "queue-1")) == "webhooksno trouble · depth up to 55"
    assert "No queue was in trouble in this time range." in text_of(section_of(root, "timeline"))
    assert "orders" not in text_of(root)


def test_long_names_are_told_in_full_and_broken_at_separators_only(tmp_path: Path) -> None:
    names = ["tenant-4711.orders.eu-central-1:invoices-and-refunds", "x" * 160]
    made = Made(tmp_path)
    for name in names:
        ref = QueueRef(*PROD, name)
        made.add("queues", {**named(ref), "first_ms": START_MS, "last_ms": START_MS + DAY_MS})
        made.add("episodes", episode(PROD, name, "aged", START_MS, START_MS + HOUR_MS))
    made.publish()
    root = parsed(as_html(gather(Analysis(tmp_path), DAY)))
    drawn = {text.text: text for text in root.iter("text") if text.attrib.get("class") == "name"}
    assert set(drawn) == set(names)
    # In narrower letters, but whole.
    assert "textLength" in drawn[names[1]].attrib
    # A sentence may be broken anywhere.
    in_sentences = {name for item in root.iter("li") for name in item.iter("code")}
    cells = [cell for cell in root.iter("code") if text_of(cell) == names[0] and cell not in in_sentences]
    assert len(cells) == 3
    assert [(cell.text, cell[0].tail) for cell in cells] == [("tenant-", "4711.")] * 3


def test_a_page_needs_nothing_from_anywhere_and_runs_nothing(report: Report) -> None:
    html = as_html(report)
    root = parsed(html)
    policy = next(meta for meta in root.iter("meta") if meta.attrib.get("http-equiv"))
    assert policy.attrib["content"].startswith("default-src 'none'")
    assert "http" not in html.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_no_page_break_is_within_a_chart_or_a_legend() -> None:
    style = files("rsmq_tui.history.report").joinpath("report.css").read_text("utf-8")
    (rule,) = [line for line in style.splitlines() if "break-inside: avoid" in line]
    # Half a legend on the page before its charts leaves the heading there too.
    assert {"figure", ".card", ".note", "tr"} <= {each.strip() for each in rule.split("{")[0].split(",")}


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
    known = text_of(root)
    assert "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>]]>&amp;--><!--" in known
    assert not any(character in html for character in "\u202e\u2066\x1b\x02\x03\x00")
    assert "\\u202e\\u2066␛[2J␂␃" in known


def test_damaged_numbers_do_not_keep_a_report_from_being_written(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add("queues", {**named(ORDERS), "first_ms": -5, "last_ms": 2**62, "peak_depth": -1})
    made.add("rollup_1h", bucket(ORDERS, START_MS, HOUR_MS, depth=float("inf"), oldest_ready_age_ms=1e300),
             bucket(ORDERS, START_MS + HOUR_MS, HOUR_MS, depth=float("nan"), arrivals_s=1e15))  # fmt: skip
    made.add("episodes", episode(PROD, "orders", "aged", -(2**60), 2**62, peak_age_ms=2**62, affected=-3))
    made.add(
        "advice",
        {**named(ORDERS), "vt_s": float("nan"), "advised_vt_s": float("-inf"), "receives": 0, "redeliveries": 1 << 62},
    )
    made.publish()
    analysis = Analysis(tmp_path)
    parsed(as_html(gather(analysis, DAY)))
    whole = analysis.span()
    assert whole is not None
    parsed(as_html(gather(analysis, whole)))


def test_an_empty_analysis_makes_a_page_that_says_so(tmp_path: Path) -> None:
    Made(tmp_path).publish()
    root = parsed(as_html(gather(Analysis(tmp_path), DAY)))
    assert "The analysis contains no queues." in text_of(section_of(root, "timeline"))


def test_what_is_too_much_is_counted(tmp_path: Path) -> None:
    made = Made(tmp_path)
    refs = [QueueRef(*PROD, f"q{number:03d}") for number in range(30)]
    for ref in refs:
        made.add("queues", {**named(ref), "first_ms": START_MS, "last_ms": START_MS + DAY_MS})
        made.add("episodes", *(episode(PROD, ref.queue, "aged", START_MS + n, START_MS + n + 1) for n in range(9)))
    made.publish()
    root = parsed(as_html(gather(Analysis(tmp_path), DAY)))
    known = text_of(root)
    assert "10 more queues in trouble" in known
    assert "6 more queues in the table of incidents." in known
    assert len([section for section in root.iter("section") if section.attrib["id"].startswith("queue-")]) == 20
