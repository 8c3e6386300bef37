"""What the commands take, and how they refuse the rest."""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import pytest

from rsmq_tui import __version__
from rsmq_tui.cli.commands import command
from rsmq_tui.cli.errors import UsageError
from rsmq_tui.cli.main import main
from rsmq_tui.cli.servers import zones_of
from tests.cli.running import call, parsed, python, run


@pytest.mark.parametrize(
    "arguments",
    [["no-such-command"], ["--no-such-option"], ["snapshot", "--headless"], ["snapshot", "--interval", "1"],
     ["-r"], ["--ns"],
     ["--interval", "0"], ["--interval", "-1"], ["--interval", "soon"], ["--interval", "nan"], ["--interval", "inf"],
     ["pipeline", "run", "--history", "h", "--out", "o", "--zone", "Mars/Base"],
     ["demo", "--seconds", "0"], ["demo", "--seconds", "ever"], ["demo", "extra"], ["snapshot", "extra"]],
    ids=" ".join,
)  # fmt: skip
def test_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Error: " in printed.err


@pytest.mark.parametrize(
    "arguments",
    [[], ["--interval", "0.1"], ["--ascii", "--theme", "rsmq-light"], ["demo", "--ascii", "--interval=2.5"],
     ["demo", "--headless", "--seconds", "2"], ["--ns", "", "snapshot"], ["snapshot", "--ns", "{a}"]],
    ids=" ".join,
)  # fmt: skip
def test_taken(arguments: list[str]) -> None:
    assert parsed(*arguments)


def test_an_option_before_the_command_is_not_forgotten_behind_it() -> None:
    options = parsed("--interval", "2", "--theme", "x", "--ascii", "--ns", "a", "demo")
    assert (options.interval, options.theme, options.ascii, options.ns) == (2.0, "x", True, "a")
    options = parsed("--ns", "a", "demo", "--ns", "b")
    assert options.ns == "b"


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        (["messages", "list", "q", "--filter", "-5"], "filter", "-5"),
        (["messages", "list", "q", "--filter=-x"], "filter", "-x"),
        (["messages", "list", "q", "--filter", "- a"], "filter", "- a"),
        (["replay", "h", "--from", "-2h"], "from_text", "-2h"),
        (["messages", "send", "q", "-1", "b", "--yes"], "bodies", ("-1", "b")),
        (["messages", "send", "q", "-x y", "-"], "bodies", ("-x y", "-")),
        (["messages", "send", "q", "--yes", "--", "--yes"], "bodies", ("--yes",)),
        (["messages", "delete", "q", "--id", "a", "b", "--id", "c", "--yes"], "ids", ("a", "b", "c")),
        (["messages", "delete", "--id", "a", "b", "--", "q"], "ids", ("a", "b")),
        (["messages", "delete", "--id=a", "q"], "ids", ("a",)),
        (["messages", "export", "q", "-ofile"], "output", "file"),
        (["journal", "--limit", "5", "list"], "limit", 5),
        (["journal", "--limit", "5", "list", "--limit", "6"], "limit", 6),
        (["--read-only", "queues", "list"], "read_only", True),
        (["queues", "list"], "read_only", False),
        (["demo", "--tz", "Europe/Berlin"], "tz", ZoneInfo("Europe/Berlin")),
        (["replay", "h"], "tz", None),
    ],
    ids=str,
)
def test_which_value_an_option_has(given: list[str], name: str, value: object) -> None:
    assert getattr(parsed(*given), name) == value


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["messages", "list", "q", "--filter", "--limit"], "Option '--filter' requires an argument."),
        (["messages", "move", "q", "--to", "--all", "--yes"], "Option '--to' requires an argument."),
        (["messages", "delete", "q", "--id", "--yes"], "Option '--id' requires an argument."),
        (["-r", "--ns", "x"], "Option '-r' requires an argument."),
        (["--tz", "Nowhere/There"], "'Nowhere/There' is not a time zone that is known here, such as Europe/Berlin"),
        (["messages", "delete", "q"], "One of --filter, --id, --all is required."),
        (["messages", "delete", "q", "--all", "--id", "a"], "--id and --all cannot be combined."),
        (["undo", "--yes", "--dry-run"], "--yes and --dry-run cannot be combined."),
        (["messages", "list", "q", "--filter", "a", "--filter", "b"], "combine both in one, separated by a space"),
    ],
    ids=str,
)
def test_what_was_left_out_or_is_too_much(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err


def _commands(group: click.Group = command, *before: str) -> Iterator[tuple[str, ...]]:
    yield before
    with group.make_context(group.name, ["--help"] if not before else [], resilient_parsing=True) as ctx:
        for name in group.list_commands(ctx):
            with group.commands[name].make_context(name, [], parent=ctx, resilient_parsing=True) as own:
                if isinstance(own.command, click.Group):
                    yield from _commands(own.command, *before, name)
                else:
                    yield (*before, name)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_fits_the_terminal_and_has_no_colours(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("gc.freeze", lambda: None)
    commands = list(_commands())
    assert len(commands) > 40
    for words in commands:
        assert main([*words, "--help"]) == 0
        printed = capsys.readouterr().out
        assert "\x1b" not in printed
        # Lines that are to be copied stay whole.
        lines = re.sub(
            r"(?m)^(?:Examples|Filters|For every new shell|As files.*):\n(?:  .*\n)+", "", printed
        ).splitlines()
        assert [line for line in lines if len(line) > min(columns, 120)] == []
        assert printed.startswith(" ".join(("Usage: rsmq-tui", *words)))


@pytest.mark.parametrize("arguments", [["-r", "redis://u:hunter2@host", "demo"], ["demo", "-r", "redis://u:hunter2@host"],
                                       ["demo", "--headless", "--redis-url=redis://u:hunter2@host"]])  # fmt: skip
def test_a_demo_on_a_server_of_ones_own_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    *_, sentence = capsys.readouterr().err.splitlines()
    assert sentence.startswith("rsmq-tui: demo starts its own server")
    assert "hunter2" not in sentence


@pytest.mark.parametrize("kind", [ValueError, PermissionError])
def test_a_defect_is_called_one_and_says_where(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quoted = "redis://ann:hunter2@host"

    def fail(_: object) -> None:
        raise kind(quoted)

    monkeypatch.setattr("rsmq_tui.cli.commands.snapshot.profile_of", fail)
    assert main(["snapshot"]) == 70
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1].startswith(f"rsmq-tui: a defect in rsmq-tui: {kind.__name__} in cli")
    # What an error says may be a password, or come from a server.
    assert "hunter2" not in printed.err


def test_a_usage_error_is_printable_line_by_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: object) -> None:
        raise UsageError("no queue \x1b]0;hunted\x07: say\n  where")

    monkeypatch.setattr("rsmq_tui.cli.commands.snapshot.profile_of", refuse)
    assert main(["snapshot"]) == 2
    assert capsys.readouterr().err == "rsmq-tui: no queue ␛]0;hunted␇: say\n  where\n"


def test_a_configuration_file_in_a_folder_of_another_user_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusing(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, *arguments: Any, **options: Any) -> Any:
            if path.name == "config.toml":
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return method(path, *arguments, **options)

        return call

    monkeypatch.delenv("RSMQ_TUI_CONFIG", raising=False)
    for name in ("stat", "open"):
        monkeypatch.setattr(Path, name, refusing(getattr(Path, name)))
    assert main(["profiles"]) == 2
    assert capsys.readouterr().err.endswith("config.toml cannot be read: Permission denied\n")


def test_version_and_help() -> None:
    assert run("--version").stdout == f"rsmq-tui {__version__}\n"
    printed = call("--help")
    assert printed.returncode == 0
    for word in ("demo", "snapshot", "--redis-url", "REDIS_URL", "--ns", "RSMQ_NS", "--interval", "--theme", "--ascii"):
        assert word in printed.stdout


def test_a_usage_error_is_exit_status_2() -> None:
    refused = call("snapshot", "--no-such-option")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(("arguments", "unwanted"), [
    (["snapshot"], ["textual", "rich", "plotext"]),
    (["demo", "--headless", "--seconds", "0.1", "--scenario", "healthy"], ["textual", "rich", "plotext"]),
])  # fmt: skip
def test_what_draws_nothing_loads_nothing_that_draws(arguments: list[str], unwanted: list[str]) -> None:
    script = (
        "import sys; from rsmq_tui.cli.main import main; main(sys.argv[1:]); "
        f"sys.exit(sorted(set({unwanted!r}) & sys.modules.keys()) or 0)"
    )
    done = python(script, *arguments, env={"REDIS_URL": "redis://127.0.0.1:1"})
    assert done.returncode == 0, done.stderr


def test_time_zones_are_those_of_the_profiles(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[defaults]\nzone = "Europe/Berlin"\n[profiles.a]\n[profiles.b]\nzone = "Asia/Kolkata"')
    run_it = ("pipeline", "run", "--history", "h", "--out", "o", "--config", str(path))

    assert zones_of(parsed(*run_it)) == {"": "Europe/Berlin", "a": "Europe/Berlin", "b": "Asia/Kolkata"}
    assert parsed(*run_it, "--zone", "Asia/Tokyo").zone == "Asia/Tokyo"
