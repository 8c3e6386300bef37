"""A user's own themes: used where they are right, told about in one warning where they are not."""

from pathlib import Path

import pytest

from rsmq_tui.tui.theme import TOKENS, ThemeError, load_themes, read_theme
from tests.tui.driving import app_of, opened, play, press, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import one_of_each, poll_of

pytestmark = pytest.mark.slow


@pytest.fixture
def themes(own_configuration: Path) -> Path:
    folder = own_configuration / "rsmq-tui" / "themes"
    folder.mkdir(parents=True)
    return folder


BAD = {
    "no-primary": ('background = "#000000"', "it has no primary colour"),
    "unknown-key": ('primary = "red"\ncolour = "red"', "unknown: colour; allowed are name, dark, ansi, primary"),
    "unknown-token": ('primary = "red"\n[variables]\nverdict-fine = "red"', "unknown variables: verdict-fine; allowed"),
    "bad-colour": ('primary = "#12345"', "primary is not a colour: #12345"),
    "bad-variable": ('primary = "red"\n[variables]\nquiet = "grayish"', "quiet is not a colour: grayish"),
    "markup": ('primary = "[/red]"', "primary is not a colour: [/red]"),
    "reference": ('primary = "red"\nbackground = "$primary"', "background is not a colour: $primary"),
    "number": ("primary = 5", "primary must be a colour in quotes"),
    "list": ('primary = "red"\n[variables]\nquiet = ["red"]', "quiet must be a colour in quotes"),
    "not-a-table": ('primary = "red"\nvariables = 3', "variables must be a table"),
    "flag": ('primary = "red"\ndark = "yes"', "dark must be true or false"),
    "number-name": ('primary = "red"\nname = 7', "its name must be made of letters"),
    "odd-name": ('primary = "red"\nname = "[/x]"', "its name must be made of letters"),
    "empty-name": ('primary = "red"\nname = ""', "its name must be made of letters"),
    "syntax": ("primary = = 1", "Invalid value"),
    "empty": ("", "it has no primary colour"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said(themes: Path, name: str) -> None:
    path = themes / f"{name}.toml"
    path.write_text(BAD[name][0])
    with pytest.raises(ThemeError) as caught:
        read_theme(path)
    assert str(caught.value).startswith(BAD[name][1])


def test_what_is_no_text_or_no_file_is_said(themes: Path) -> None:
    (themes / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (themes / "folder.toml").mkdir()
    (themes / "dangling.toml").symlink_to(themes / "nowhere")
    problems = load_themes().problems
    assert [problem.split(":")[0] for problem in problems] == ["binary.toml", "dangling.toml", "folder.toml"]


async def test_bad_themes_give_one_warning_and_the_app_starts(themes: Path, source: ScriptedSource) -> None:
    for name, (text, _) in BAD.items():
        (themes / f"{name}.toml").write_text(text)
    (themes / "mine.toml").write_text('primary = "#ff00ff"')
    async with opened(source, theme="mine", notifications=True, size=(120, 60)) as pilot:
        app = app_of(pilot)
        await play(pilot, source, poll_of(source, one_of_each()))
        assert app.theme == "mine"
        (warning,) = app._notifications
        assert warning.severity == "warning"
        for name, (_, reason) in BAD.items():
            assert f"{name}.toml: {reason}" in warning.message
        assert "no-primary.toml" in text_of(app)
        assert "invoices" in text_of(app)
        assert set(load_themes().themes) == {"rsmq-ansi", "rsmq-dark", "rsmq-light", "mine"}


@pytest.mark.parametrize(
    "text",
    [
        'primary = "ansi_red"\n[variables]\nseries-first = "ansi_blue"\nquiet = "ansi_green"',
        'primary = "rgba(1, 2, 3, 0.5)"\n[variables]\nseries-first = "rgba(9, 9, 9, 0.4)"\ncursor = "red"',
        'primary = "hsl(10, 20%, 30%)"\nbackground = "transparent"\n[variables]\nseries-first = "transparent"',
        'ansi = true\nprimary = "red"',
        'ansi = true\ndark = false\nprimary = "ansi_blue"\n[variables]\nquiet = "ansi_blue"',
        'dark = false\nprimary = "#abc"\nname = "Größe_1.2-x"',
    ],
)
async def test_a_theme_that_is_accepted_can_be_drawn(themes: Path, source: ScriptedSource, text: str) -> None:
    (themes / "mine.toml").write_text(text, encoding="utf-8")
    (name,) = set(load_themes().themes) - {"rsmq-ansi", "rsmq-dark", "rsmq-light"}
    async with opened(source, theme=name) as pilot:
        for second in range(3):
            await play(pilot, source, poll_of(source, one_of_each(), 1_795_000_000_000 + second * 60_000))
        await press(pilot, "enter", "question_mark", "escape", "escape", "n", "escape")
        assert app_of(pilot).theme == name
        await press(pilot, "T")
        assert app_of(pilot).theme == "rsmq-ansi"


def test_a_theme_says_only_what_it_wants_to_change(themes: Path) -> None:
    (themes / "mine.toml").write_text('primary = "red"\n[variables]\nquiet = "#ffffff"')
    mine = load_themes().themes["mine"]
    assert mine.variables == {"quiet": "#ffffff"}
    assert mine.name == "mine"


async def test_a_users_theme_replaces_a_shipped_one_of_the_same_name(themes: Path, source: ScriptedSource) -> None:
    (themes / "x.toml").write_text('name = "rsmq-dark"\nprimary = "#010203"\n[variables]\nverdict-ok = "#040506"')
    async with opened(source) as pilot:
        assert app_of(pilot).theme == "rsmq-dark"
        assert app_of(pilot).theme_variables["primary"] == "#010203"
        assert app_of(pilot).theme_variables["verdict-ok"] == "#040506"
        assert app_of(pilot).theme_variables["verdict-aged"] == TOKENS["verdict-aged"]


def test_no_folder_of_the_user_is_fine(own_configuration: Path) -> None:
    assert not (own_configuration / "rsmq-tui").exists()
    assert load_themes().problems == ()
