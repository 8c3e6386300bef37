"""Fixtures of the command line and of the dashboard, and copies of the files: opening them may write to them."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import anywhere, command, state
from tests.earlier import FOLDER
from tests.quick_apps import exact_idleness
from tests.tui.conftest import own_configuration

__all__ = ["anywhere", "command", "exact_idleness", "own_configuration", "state"]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER / "history", tmp_path / "history"))


@pytest.fixture
def analysis(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER / "analysis", tmp_path / "analysis"))
