"""One scripted analysis for all tests that only read it."""

from pathlib import Path

import pytest

from rsmq_tui.history.analysis.reading import Analysis
from tests.history.analysis.made import scripted


@pytest.fixture(scope="session")
def analysis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the scripted analysis."""
    out = tmp_path_factory.mktemp("analysis")
    scripted(out)
    return out


@pytest.fixture
def analysis(analysis_folder: Path) -> Analysis:
    return Analysis(analysis_folder)
