"""The report of the scripted analysis' last day, and one of hostile names."""

from pathlib import Path

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.values import TimeRange
from rsmq_tui.history.report.facts import Report, gather
from rsmq_tui.monitor.moments import DAY_MS
from tests.history.analysis.queues import END_MS


@pytest.fixture(scope="session")
def report(analysis_folder: Path) -> Report:
    return gather(Analysis(analysis_folder), TimeRange(END_MS - DAY_MS, END_MS))
