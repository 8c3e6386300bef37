"""One scripted analysis for all tests that only read it."""

from pathlib import Path

import pytest

from rsmq_tui.history.analysis.reading import Analysis


@pytest.fixture
def analysis(analysis_folder: Path) -> Analysis:
    return Analysis(analysis_folder)
