"""The pictures in screenshots/ are what the program shows today."""

from pathlib import Path

import pytest

from tests.screenshots.__main__ import FOLDER, PICTURES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", PICTURES)
async def test_picture_is_up_to_date(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    expected = (FOLDER / f"{name}.svg").read_text()
    assert await PICTURES[name]() == expected, "run `python -m tests.screenshots` and look at what changed"


def test_every_picture_is_made() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == PICTURES.keys()


def test_the_picture_of_all_themes_is_small() -> None:
    assert (FOLDER / "themes.svg").stat().st_size < 200_000
