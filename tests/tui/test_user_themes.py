"""A user's own themes: used where they are right, told about in one warning where they are not."""

from pathlib import Path

import pytest
from textual.widget import Widget

from rsmq_tui.tui.theme import VARIABLES, ThemeError, load_themes, read_theme, shipped_themes
from rsmq_tui.tui.widgets.charts import ChartPanel
from tests.tui.driving import opened, play, press, until
from tests.tui.reading import app_of, notes_of, text_of
from tests.tui.scripted import ScriptedSource
from tests.tui.states import one_of_each, poll_of

pytestmark = pytest.mark.slow

SHIPPED = {path.stem for path in shipped_themes().glob("*.toml")}


@pytest.fixture
def themes(own_configuration: Path) -> Path:
    folder = own_configuration / "rsmq-tui" / "themes"
    folder.mkdir(parents=True)
    return folder


# What is in the file, its first mistake, and the line of that.
BAD = {
    "no-primary": ('background = "#000000"', "it has no primary colour", None),
    "unknown-key": (
        'primary = "red"\ncolour = "red"',
        "unknown: colour; allowed are name, description, dark, ansi, primary",
        2,
    ),
    "unknown-token": (
        'primary = "red"\n[variables]\nverdict-fine = "red"',
        "unknown variable: verdict-fine; allowed",
        3,
    ),
    "bad-colour": ('# primary = "x"\n\nprimary = "#12345"', "primary is not a colour: #12345", 3),
    "bad-variable": ('primary = "red"\n[variables]\nquiet = "grayish"', "quiet is not a colour: grayish", 3),
    "dotted": ('primary = "red"\nvariables.quiet = "grayish"', "quiet is not a colour: grayish", 2),
    "inline": ('primary = "red"\nvariables = { rule = "red", quiet = "?" }', "quiet is not a colour: ?", 2),
    "quoted": ('"primary" = "?"', "primary is not a colour: ?", 1),
    "of-the-table": (
        'primary = "red"\nerror = "red"\n[variables]\nerror = "red"',
        "unknown variable: error; allowed",
        4,
    ),
    "of-another-table": ('primary = "red"\n[colours]\nprimary = "red"', "unknown: colours; allowed", 2),
    "markup": ('primary = "[/red]"', "primary is not a colour: [/red]", 1),
    "reference": ('primary = "red"\nbackground = "$primary"', "background is not a colour: $primary", 2),
    "number": ("primary = 5", "primary must be a colour in quotes", 1),
    "list": ('primary = "red"\n[variables]\nquiet = ["red"]', "quiet must be a colour in quotes", 3),
    "not-a-table": ('primary = "red"\nvariables = 3', "variables must be a table", 2),
    "flag": ('primary = "red"\ndark = "yes"', "dark must be true or false", 2),
    "description": ('primary = "red"\ndescription = "a\\u001bb"', "description must be one line of text", 2),
    "number-name": ('primary = "red"\nname = 7', "its name must be made of letters", 2),
    "odd-name": ('primary = "red"\nname = "[/x]"', "its name must be made of letters", 2),
    "empty-name": ('primary = "red"\nname = ""', "its name must be made of letters", 2),
    "[of the file]": ('primary = "red"', "its name must be made of letters", None),
    "syntax": ("primary = = 1", "Invalid value", 1),
    "unended": ('primary = "red"\nquiet = [\n\n', "Invalid value (at end of document)", 2),
    "empty": ("", "it has no primary colour", None),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_with_its_line(themes: Path, name: str) -> None:
    text, reason, line = BAD[name]
    path = themes / f"{name}.toml"
    path.write_text(text)
    with pytest.raises(ThemeError) as caught:
        read_theme(path)
    assert str(caught.value).startswith(reason)
    assert [at for at, _ in caught.value.mistakes] == [line]


def test_all_mistakes_are_said_in_the_order_of_lines(themes: Path) -> None:
    path = themes / "mine.toml"
    path.write_text('error = "?"\nshade = 1\n[variables]\nrule = "?"\nloud = "red"')
    with pytest.raises(ThemeError) as caught:
        read_theme(path)
    assert [sentence.split(";")[0] for sentence in caught.value.sentences("mine.toml")] == [
        "mine.toml: it has no primary colour",
        "mine.toml:1: error is not a colour: ?",
        "mine.toml:2: unknown: shade",
        "mine.toml:4: rule is not a colour: ?",
        "mine.toml:5: unknown variable: loud",
    ]


def test_what_is_no_text_or_no_file_is_said(themes: Path) -> None:
    (themes / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (themes / "folder.toml").mkdir()
    (themes / "dangling.toml").symlink_to(themes / "nowhere")
    problems = load_themes().problems
    assert [problem.split(":")[0] for problem in problems] == ["binary.toml", "dangling.toml", "folder.toml"]


async def test_bad_themes_give_one_warning_and_the_app_starts(themes: Path, source: ScriptedSource) -> None:
    for name, (text, *_) in BAD.items():
        (themes / f"{name}.toml").write_text(text)
    (themes / "mine.toml").write_text('primary = "#ff00ff"')
    async with opened(source, theme="mine", notifications=True, size=(120, 60)) as pilot:
        app = app_of(pilot)
        await play(pilot, source, poll_of(source, one_of_each()))
        assert app.theme == "mine"
        (warning,) = notes_of(app)
        assert warning.severity == "warning"
        for name, (_, reason, line) in BAD.items():
            assert f"{name}.toml{f':{line}' if line else ''}: {reason}" in warning.message
        assert "no-primary.toml" in text_of(app)
        assert "invoices" in text_of(app)
        assert set(load_themes().themes) == {*SHIPPED, "mine"}


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
    (name,) = set(load_themes().themes) - SHIPPED
    async with opened(source, theme=name) as pilot:
        for second in range(3):
            await play(pilot, source, poll_of(source, one_of_each(), 1_795_000_000_000 + second * 60_000))
        await press(pilot, "enter", "question_mark", "escape", "escape", "n", "escape")
        assert app_of(pilot).theme == name
        await press(pilot, "T")
        assert app_of(pilot).theme != name


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
        assert app_of(pilot).theme_variables["verdict-aged"] == VARIABLES["verdict-aged"]


def test_no_folder_of_the_user_is_fine(own_configuration: Path) -> None:
    assert not (own_configuration / "rsmq-tui").exists()
    assert load_themes().problems == ()


async def test_a_theme_that_is_edited_is_shown_at_once(themes: Path, source: ScriptedSource) -> None:
    path = themes / "mine.toml"
    path.write_text('primary = "#ff00ff"\n[variables]\nseries-first = "#010203"\nverdict-stalled = "#010203"')
    async with opened(source, theme="mine", notifications=True) as pilot:
        app = app_of(pilot)
        await play(pilot, source, poll_of(source, one_of_each()))
        path.write_text('primary = "#ff00ff"\n[variables]\nseries-first = "#aabbcc"\nverdict-stalled = "#abcdef"')
        app.themes.follow_file()
        table = app.screen.query_one("#queues")
        await until(pilot, lambda: "#abcdef" in colours_in(table), "the table has the new colour")
        assert app.screen.query_one(ChartPanel).palette(("series-first",)).series == ("#aabbcc",)
        # A mistake is told once, and the last colours stay.
        path.write_text('primary = "#ff00ff"\n[variables]\nverdict-stalled = "#abcde"')
        app.themes.follow_file()
        app.themes.follow_file()
        await pilot.pause()
        (note,) = notes_of(app)
        assert note.message == "mine.toml:3: verdict-stalled is not a colour: #abcde"
        assert "#abcdef" in colours_in(table)
        # Nor does a file that is empty or missing, as editors leave it for a moment, change them.
        for leave in (lambda: path.write_text(""), path.unlink):
            leave()
            app.themes.follow_file()
            await pilot.pause()
            assert len(notes_of(app)) == 1
        path.write_text('name = "other"\nprimary = "#ff00ff"\n[variables]\nverdict-stalled = "#fedcba"')
        app.themes.follow_file()
        await until(pilot, lambda: "#fedcba" in colours_in(table), "the table has the colour of the other name")
        assert app.theme == "other"


async def test_the_file_of_the_theme_is_looked_at_again_and_again(
    themes: Path, source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsmq_tui.tui.theme._LOOK_S", 0.01)
    path = themes / "mine.toml"
    path.write_text('primary = "#ff00ff"')
    async with opened(source, theme="mine") as pilot:
        path.write_text('primary = "#00ff00"\n')
        await until(pilot, lambda: app_of(pilot).theme_variables["primary"].lower() == "#00ff00", "the edit is found")


async def test_a_theme_file_that_is_new_can_be_chosen(themes: Path, source: ScriptedSource) -> None:
    async with opened(source, theme="tokyo-night", notifications=True) as pilot:
        app = app_of(pilot)
        (themes / "mine.toml").write_text('primary = "red"\ndescription = "a [/red] one"')
        (themes / "bad.toml").write_text('primary = "reddish"')
        await press(pilot, "T")
        assert app.theme == "mine"
        assert [note.message for note in notes_of(app)] == [
            "bad.toml:1: primary is not a colour: reddish",
            "a [/red] one",
        ]
        (themes / "yours.toml").write_text('primary = "blue"')
        await press(pilot, "colon", *"yours", "enter")
        assert app.theme == "yours"


def colours_in(widget: Widget) -> set[str]:
    return {
        str(segment.style.color.name)
        for y in range(widget.size.height)
        for segment in widget.render_line(y)
        if segment.style and segment.style.color
    }
