"""What the commands take, and how they refuse the rest."""

import subprocess
import sys

import pytest

from rsmq_tui import __version__
from rsmq_tui.cli.main import main
from tests.cli.running import environment, parsed, run


@pytest.mark.parametrize(
    "arguments",
    [["no-such-command"], ["--no-such-option"], ["snapshot", "--headless"], ["snapshot", "--interval", "1"],
     ["-r"], ["--ns"],
     ["--interval", "0"], ["--interval", "-1"], ["--interval", "soon"], ["--interval", "nan"], ["--interval", "inf"],
     ["demo", "--seconds", "0"], ["demo", "--seconds", "ever"], ["demo", "extra"], ["snapshot", "extra"]],
    ids=" ".join,
)  # fmt: skip
def test_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "Error: " in told.err


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


@pytest.mark.parametrize("arguments", [["-r", "redis://u:hunter2@host", "demo"], ["demo", "-r", "redis://u:hunter2@host"],
                                       ["demo", "--headless", "--redis-url=redis://u:hunter2@host"]])  # fmt: skip
def test_a_demo_on_a_server_of_ones_own_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    *_, sentence = capsys.readouterr().err.splitlines()
    assert sentence.startswith("rsmq-tui: demo starts its own server")
    assert "hunter2" not in sentence


def test_a_defect_is_called_one_and_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quoted = "redis://ann:hunter2@host"

    def fail(_: object) -> None:
        raise ValueError(quoted)

    monkeypatch.setattr("rsmq_tui.cli.commands.snapshot.profile_of", fail)
    assert main(["snapshot"]) == 70
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1].startswith("rsmq-tui: a defect in rsmq-tui: ValueError in cli")
    # What an error says may be a password, or come from a server.
    assert "hunter2" not in told.err


def test_version_and_help() -> None:
    assert run("--version").stdout == f"rsmq-tui {__version__}\n"
    told = run("--help")
    assert told.returncode == 0
    for word in ("demo", "snapshot", "--redis-url", "REDIS_URL", "--ns", "RSMQ_NS", "--interval", "--theme", "--ascii"):
        assert word in told.stdout


def test_a_usage_error_is_exit_status_2() -> None:
    refused = run("snapshot", "--no-such-option")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(("arguments", "unwanted"), [
    (["snapshot"], ["textual", "rich", "plotext"]),
    (["demo", "--headless", "--seconds", "0.1"], ["textual", "rich", "plotext"]),
])  # fmt: skip
def test_what_draws_nothing_loads_nothing_that_draws(arguments: list[str], unwanted: list[str]) -> None:
    script = (
        "import sys; from rsmq_tui.cli.main import main; main(sys.argv[1:]); "
        f"sys.exit(sorted(set({unwanted!r}) & sys.modules.keys()) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**environment(), "REDIS_URL": "redis://127.0.0.1:1"},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
