"""The pictures in screenshots/ are what the program shows today."""

import re
from html import escape
from pathlib import Path

import pytest

from tests.screenshots.__main__ import FOLDER, PICTURES
from tests.screenshots.scenes import SCENES

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


def test_the_moving_picture_is_small_and_asks_nobody() -> None:
    svg = (FOLDER / "tour.svg").read_text()
    assert len(svg) < 500_000
    assert [link for link in re.findall(r"https?://[^\"' )]+", svg) if link != "http://www.w3.org/2000/svg"] == []


def test_without_animation_it_is_its_first_picture() -> None:
    svg = (FOLDER / "tour.svg").read_text()
    before_animation, _, _ = svg.partition("@media (prefers-reduced-motion: no-preference)")
    hidden = set(re.findall(r"\.(s\d+) \{ visibility: hidden \}", before_animation))
    groups = dict(re.findall(r'<g class="(s\d+)">(.*)</g>', svg))
    still = "".join(group for name, group in groups.items() if name not in hidden)
    captions = [escape(step.caption) for scene in SCENES for step in scene.steps]
    assert [caption for caption in captions if f">{caption}</text>" in still] == captions[:1]
    assert "stalled" in still
