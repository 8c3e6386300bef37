"""An analysis of release 0.1 is reported, and shown in the dashboard."""

from collections import Counter
from pathlib import Path

from tests.cli.conftest import Command
from tests.history.report.reading import parsed, section_of, text_of
from tests.tui.test_history import past_of, press, rows_of

VERDICTS = Counter(stalled=6, poisoned=2, growing=2, down=2)
INCIDENTS = Counter(stalled=4, poisoned=1, growing=2, down=1)


def test_it_is_reported(anywhere: Command, analysis: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    assert anywhere("report", "--analysis", str(analysis), "--out", str(out)).status == 0
    text = out.read_text("utf-8")
    assert "4m 59s · 8 queues" in text
    assert "between 1,256 and 1,264 messages" in text
    rows = text.split("## Incidents")[1].split("## ")[0].splitlines()[4:]
    # Its episodes make the incidents, of which it has no table.
    assert Counter(row.split(" | ")[2].split()[-1] for row in rows if row) == INCIDENTS


def test_a_page_is_made_of_it(anywhere: Command, analysis: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert anywhere("report", "--analysis", str(analysis), "--out", str(out)).status == 0
    figures = text_of(section_of(parsed(out.read_text("utf-8")), "figures"))
    assert "6 of 8 queues had one" in figures


async def test_the_dashboard_shows_it(analysis: Path) -> None:
    async with past_of(analysis, size=(160, 40)) as pilot:
        assert len(rows_of(pilot)) == 8
        # Its episodes make the incidents, of which it has no table.
        await press(pilot, "l", "l")
        assert Counter(row.split()[1] for row in rows_of(pilot)) == INCIDENTS
        await press(pilot, "l")
        assert Counter(row.split()[1] for row in rows_of(pilot)) == VERDICTS
