"""The pictures in screenshots/ are what the program shows today."""

from pathlib import Path

import pytest

from tests.screenshots.__main__ import FOLDER
from tests.screenshots.scenes import SCENES, Scene, picture

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_picture_is_up_to_date(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    expected = (FOLDER / f"{scene.name}.svg").read_text()
    assert await picture(scene) == expected, "run `python -m tests.screenshots` and look at what changed"


def test_every_picture_has_a_scene() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == {scene.name for scene in SCENES}
