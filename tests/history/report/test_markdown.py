"""The Markdown: what any renderer makes of it."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from rsmq_tui.history.report.facts import Report, gather
from rsmq_tui.history.report.markdown import as_markdown, code, escaped
from tests.history.report.test_html import DAY, _hostile

HOSTILE = (
    "<script>alert(1)</script>", "a|b", "`x`", "``", " x ", "|", "\\|", "\\", "a\\", "*b*", "_c_", "[l](http://x)",
    "![i](x)", "# head", "- item", "+ item", "1. one", "12) two", "> quote", "~~~", "```", "---", "===", "&lt;",
    "&amp;", "@all", "#12", "http://x.y", "www.x.y", "<!-- c -->", "$x$", "^", "$ | $", "`|`",
    "\\`|\\`", "<b", "a  ", "a&b;",
)  # fmt: skip


def _rendered(markdown: str) -> ET.Element:
    html = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown)
    # Comments are all the HTML that there may be, and stand between a sign and what it would mention.
    return ET.fromstring(f"<div>{re.sub('<!-- -->', '', html)}</div>")


def _tags(root: ET.Element) -> set[str]:
    return {element.tag for element in root.iter()}


def _text(element: ET.Element) -> str:
    return "".join(element.itertext())


def test_it_tells_what_the_page_tells(report: Report) -> None:
    root = _rendered(as_markdown(report))
    assert _tags(root) == {
        "div", "h1", "h2", "p", "ul", "li", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "strong",
    }  # fmt: skip
    assert [_text(head) for head in root.iter("h2")] == [
        "The worst incidents", "All queues together", "Queue emails · prod", "Queue orders · prod",
        "Queue invoices · prod", "Incidents", "Queues", "Poison messages", "Visibility timeouts", "Forecasts",
        "Unusual hours", "About this report",
    ]  # fmt: skip
    known = _text(root)
    assert "orders · prod was growing for 4h 0m, from 2031-05-17 14:00:00 to 2031-05-17 18:00:00" in known
    figures, incidents, *_ = root.iter("table")
    assert [_text(row[0]) for row in figures.iter("tr")][1:] == ["99.30 %", "5", "7h 49m", "30m / 4h 30m", "60,058"]
    assert [_text(row[2]) for row in incidents.iter("tr")][1:] == [
        "A aged", "D down", "G growing", "S stalled", "P poisoned",
    ]  # fmt: skip


def test_charts_are_lines_of_text_of_one_width(report: Report) -> None:
    charts = [_text(chart).splitlines() for chart in _rendered(as_markdown(report)).iter("pre")]
    assert len(charts) == 4
    for rows in charts:
        assert {len(row.split(" most: ")[0]) for row in rows} == {13 + 64}
    orders = charts[2]
    assert orders[0].startswith("mean depth   ▂▂")
    # As in the table of queues: the line consists of means, of which the highest is 38,560.
    assert orders[0].endswith("most: 50,128")
    assert orders[2].endswith("most: 27.0/s over 1m")
    # As the sentence below it.
    assert charts[0][0].endswith("most: 50,128 to 50,323")
    assert "▇" in orders[0]
    assert orders[-1].startswith("UTC          2031-05-17 00:00")
    assert orders[-1].endswith("2031-05-18 00:00")


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    for markdown in (
        escaped(text),
        f"- {escaped(text)}",
        f"# {escaped(text)}",
        f"| a | b |\n| --- | --- |\n| {escaped(text)} | z |",
    ):
        root = _rendered(markdown)
        assert _tags(root) <= {"div", "p", "ul", "li", "h1", "table", "thead", "tbody", "tr", "th", "td"}, markdown
        assert text.strip() in _text(root), markdown
    assert not re.search(r"[@#]\w", escaped(text))
    assert not re.search(r"(?<!\\)://|www\.", escaped(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_code_is_shown_as_it_is_in_a_line_and_in_a_table(text: str) -> None:
    (line,) = _rendered(f"see {code(text)} there").iter("code")
    assert (line.text or "").strip() == text.strip()
    rows = _rendered(f"| a | b |\n| --- | --- |\n| {code(text, in_table=True)} | z |")
    cells = list(rows.iter("td"))
    assert [_text(cell).strip() for cell in cells] == [text.strip(), "z"]
    assert [child.tag for child in cells[0]] == ["code"]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    markdown = as_markdown(gather(_hostile(tmp_path), DAY, title="<b>| # @all"))
    assert "<b>| # @all" in _text(_rendered(markdown))
    assert not any(character in markdown for character in "\u202e\u2066\x1b\x02\x03\x00")
    root = _rendered(markdown)
    assert _tags(root) <= {
        "div", "h1", "h2", "p", "ul", "li", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "strong",
    }  # fmt: skip
    for table in root.iter("table"):
        assert len({len(list(row)) for row in table.iter("tr")}) == 1
