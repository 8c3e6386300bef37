"""README and the pages: their commands are run as they are written, their code too, and nothing that they name is gone.

A command runs in a folder with a history and an analysis, on a server with queues of both kinds, which is also what the
profiles name: in a shell if it needs one, and else in this process, the dashboard without a terminal. Only what
installs something and what starts Spark is not run.
"""

import asyncio
import json
import os
import re
import shlex
import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest
from redis import Redis

from rsmq_tui import __version__
from rsmq_tui.cli.commands import command as root
from rsmq_tui.cli.main import main
from rsmq_tui.cli.parsing import LazyCommand
from rsmq_tui.cli.rsmqctl.main import main as rsmqctl_main
from rsmq_tui.docs import page, topics
from rsmq_tui.listserver import ListServer
from rsmq_tui.monitor import Verdict
from rsmq_tui.profiles.config import read_config
from rsmq_tui.protocol import ListQueue, Rsmq
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.theme import SIGNS, read_theme
from tests.cli.conftest import Command
from tests.cli.running import call_until, environment, line_of, parsed, started, status_of
from tests.history.analysis.made import scripted
from tests.history.replayed import Tape, said
from tests.hostile.terminal import COLUMNS, LINES
from tests.tui.driving import until
from tests.tui.reading import text_of
from tests.waiting import SECONDS_MAX

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "rsmq_tui" / "docs"
_FILES = (_ROOT / "README.md", *sorted(_FOLDER.glob("*.md")))
# pip and its like install from the network or a checkout, and ssh connects to another machine; the rules of users are
# tried where read-only is tested.
_NOT_RUN = {"python3", "python", "pip", "pipx", "uv", "redis-cli", "ssh"}
_OURS = {"rsmq-tui": main, "rsmqctl": rsmqctl_main}
# What else than 0 a command may end with on these queues: a finding is none of its failures, nor is a preview.
# A channel may need what is not there.
_STATUSES = {"check": {1, 2}, "audit": {1, 3}, "watch": {1}, "who": {3}, "slo": {1}}
_OBJECTIVES = '[[defaults.slo]]\ntarget = "answering"\nobjective = 99.9\n'
_RECORDED_MS = int(datetime(2031, 5, 17, 21, 45, tzinfo=UTC).timestamp() * 1000)
_LONGEST_CODE = 78


def _blocks(file: Path, language: str) -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```", file.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [block for named, block in fences if named == language]


def _commands(file: Path) -> Iterator[str]:
    """The commands of ours that a document shows, a line each, and others that a shell runs."""
    for block in _blocks(file, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in line.split(" && "):
                words = shlex.split(part, comments=True)
                program = next((Path(word).name for word in words if "=" not in word), "")
                if program and program not in _NOT_RUN:
                    yield part.replace(".venv/bin/", "")


with_commands = pytest.mark.parametrize(
    "file", [file for file in _FILES if any(_commands(file))], ids=lambda file: file.stem
)
each = pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)


class Shell:
    """A folder in which commands are typed, with the programs on its PATH."""

    def __init__(self, folder: Path, url: str, captured: pytest.CaptureFixture[str]) -> None:
        self.folder, self._url, self._captured = folder, url, captured
        self._home = folder / "home"
        self._programs = folder / "bin"
        for path in (self._home / ".config" / "rsmq-tui", self._programs):
            path.mkdir(parents=True)
        for name, called in _OURS.items():
            program = self._programs / name
            program.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" -c "from {called.__module__} import main; exit(main())" "$@"\n'
            )
            program.chmod(0o755)
        (folder / "mine.toml").write_text(_blocks(_FOLDER / "themes.md", "toml")[0])
        self._said = ""

    def run(self, command: str) -> None:
        """Run one command as it is written, until it ends or, where it goes on, until it has begun."""
        profiles = "".join(f'[profiles.{name}]\nurl = "{self._url}"\n' for name in ("prod", "staging", "production"))
        profiles += '[[alerts]]\nwhen = "trouble"\n[channels.oncall]\ncommand = ["cat"]\n'
        (self._home / ".config" / "rsmq-tui" / "config.toml").write_text(profiles + _OBJECTIVES)
        # The second one is at the end of a tunnel.
        command = re.sub("redis://(host:6379|localhost:6380)/0", self._url, command)
        words = shlex.split(command, comments=True)
        wants_shell = "=" in words[0] or words[0] not in _OURS or bool({">", "|"} & set(words))
        if "=" in words[0]:
            words = words[1:]
        if words[0] == "rsmqctl" and "ID" in words:
            words[words.index("ID")] = json.loads(self._said)["id"]
        elif words[0] == "rsmq-tui":
            called = parsed(*words[1 : words.index(">") if ">" in words else None]).words[1:]
            if "--plain" in words:
                self._begin(words, command)
                return
            if not called or called[0] in ("history", "replay") or (called == ["demo"] and "--list" not in words):
                self._look(words)
                return
            if called[0] == "pipeline":
                self._generate(words, called[1])
                return
            if (
                called[0] in ("record", "listserver", "serve")
                or "--follow" in words
                or (called[0] == "watch" and not {"--once", "--test"} & set(words))
                or (called[0] == "exporter" and ">" not in words)
            ):
                self._begin(words, command)
                return
        if wants_shell:
            with started("bash", "-c", command, cwd=self.folder, env=self._environment) as process:
                self._said, err = process.communicate(timeout=SECONDS_MAX)
            status = process.returncode
        else:
            status, self._said, err = self._call(words)
        expected = {0} | _STATUSES.get(next((word for word in words if word in _STATUSES), ""), set())
        assert status in expected, (command, self._said, err)
        assert "Usage:" not in err, (command, err)

    def _call(self, words: list[str]) -> tuple[int, str, str]:
        """Run a command of ours in this process; returns its exit status, and what it printed."""
        with self._at_home():
            status = status_of(_OURS[words[0]], words[1:])
        return status, *self._captured.readouterr()

    @contextmanager
    def _at_home(self) -> Iterator[None]:
        """Give this process the folder and the environment of the commands."""
        with patch.dict(os.environ, self._environment, clear=True), chdir(self.folder):
            yield

    def _look(self, words: list[str]) -> None:
        """Open the dashboard in this process, and leave it."""

        async def opened(app: RsmqApp) -> None:
            async with app.run_test(size=(COLUMNS, LINES)) as pilot:
                await until(pilot, lambda: "? help" in text_of(app), "the hints are shown")
                await pilot.press("q")
                await until(pilot, lambda: not app.is_running, "it ends")

        with ExitStack() as patched:
            for stream in (sys.stdin, sys.stdout):
                patched.enter_context(patch.object(stream, "isatty", lambda: True))
            patched.enter_context(patch.object(RsmqApp, "run", lambda app: asyncio.run(opened(app))))
            status, out, err = self._call(words)
        assert (status, out) == (0, ""), (words, err)

    def _begin(self, words: list[str], command: str) -> None:
        """Start what goes on until Ctrl+C, on any free port: in a shell if its output goes to a file."""
        begins = r"^rsmq-tui: (recording|listening|following|watching|serving)"
        if ">" in words:
            with started("bash", "-c", f"exec {command}", cwd=self.folder, env=self._environment) as process:
                assert re.match(begins, line := line_of(process.stderr)), (command, line)
                process.send_signal(signal.SIGINT)
                assert process.wait(SECONDS_MAX) == 130, command
            return
        for name in {"exporter", "listserver", "serve"} & ({*words} if "--unixsocket" not in words else set()):
            at = words.index(name) + 1
            words[at:at] = ["--port", "0"]
        with self._at_home():
            done = call_until(begins, *words[1:], env=self._ours)
        assert done.returncode == 130, (command, done.stderr)

    def _generate(self, words: list[str], action: str) -> None:
        """Generate a short history in a folder of its own; a run would start Spark."""
        if action == "generate":
            small = self.folder / "generated"
            small.mkdir()
            words[words.index("history")] = str(small)
            status, _, err = self._call([*words, "--days", "0.05", "--queues", "3"])
            assert status == 0, err
            assert (small / "_schema.json").exists()

    @property
    def _ours(self) -> dict[str, str]:
        return {"HOME": str(self._home), "REDIS_URL": self._url}

    @property
    def _environment(self) -> dict[str, str]:
        values = environment(**self._ours, PATH=f"{self._programs}{os.pathsep}{os.environ['PATH']}")
        return {name: value for name, value in values.items() if not name.startswith(("XDG_", "RSMQ_TUI_"))}


@pytest.fixture
def shell(tmp_path: Path, client: Redis, redis_url: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder and queues in which every command of the documents has something to do."""
    rsmq = Rsmq(client)
    for name in ("orders", "orders-dlq", "parked"):
        rsmq.create_queue(name, vt=0)
    rsmq.send_message("orders", '{"type": "poison"}')
    for _ in range(6):
        rsmq.receive_message("orders")
    rsmq.send_messages("orders", ['{"type": "test"}', '{"type": "refund"}', "plain"])
    rsmq.send_message("orders", '{"type": "later"}', delay=600)
    rsmq.send_message("orders-dlq", '{"type": "dead"}')
    jobs = ListQueue(client, "orders")
    jobs.push(*map(str, range(20)))
    assert jobs.take(vt_ms=1) is not None
    (tmp_path / "secret.txt").write_text("secret\n")
    (tmp_path / "body.bin").write_bytes(b"\xff\x00")
    (tmp_path / "bodies.txt").write_text("one\ntwo\n")
    tape = Tape(tmp_path / "history")
    for minute in range(60):
        tape.poll(_RECORDED_MS + minute * 60_000, said("ok", depth=minute))
    tape.seal()
    scripted(tmp_path / "analysis", str(tmp_path / "history"))
    return Shell(tmp_path, redis_url, capsys)


@pytest.mark.slow
@with_commands
def test_every_command_runs_as_it_is_written(shell: Shell, client: Redis, file: Path) -> None:
    # The command of rsmqctl makes its queue itself.
    if file.stem == "rsmqctl":
        client.flushall()
    for command in _commands(file):
        shell.run(command)


@each
def test_what_is_not_run_is_known(file: Path) -> None:
    programs = {Path(shlex.split(command)[0]).name for command in _commands(file)}
    assert {program for program in programs if "=" not in program} <= {*_OURS, "mkdir"}


@each
def test_commands_and_pages_named_in_a_sentence_are_there(anywhere: Command, file: Path) -> None:
    text = file.read_text("utf-8")
    for name in set(re.findall(r"`rsmq-tui ([a-z]+)", text)):
        assert anywhere(name, "--help").status == 0, name
    assert set(re.findall(r"rsmq-tui help ([a-z][\w-]*)", text)) <= set(topics())


@each
def test_configurations_can_be_used(file: Path, tmp_path: Path) -> None:
    for block in _blocks(file, "toml"):
        if file.stem == "themes":
            (tmp_path / "mine.toml").write_text(block)
            assert read_theme(tmp_path / "mine.toml").theme.name == "mine"
            continue
        config = tmp_path / "config.toml"
        config.write_text(block)
        config.chmod(0o600)
        found = read_config(config)
        assert set(found.profiles) == set(tomllib.loads(block).get("profiles", {}))
        assert found.alerts.problems == ()


@each
def test_json_is_json(file: Path) -> None:
    for block in _blocks(file, "json"):
        assert json.loads(block)


@each
def test_python_runs_where_it_needs_no_spark(
    file: Path, client: Redis, redis_url: str, list_server: ListServer
) -> None:
    for block in _blocks(file, "python"):
        code = compile(block.replace("Redis()", f"Redis.from_url({redis_url!r})"), file.name, "exec")
        if "spark" not in block:
            names: dict[str, Any] = {}
            exec(code, names)
            for test in [made for name, made in names.items() if name.startswith("test_")]:
                test(list_server)
            # A block ends with what it shows.
            assert {"message", "lease", "client", "test_a_worker_acknowledges"} & set(names)


@each
def test_names_of_ours_can_be_imported(file: Path) -> None:
    text = file.read_text("utf-8")
    for module, names in re.findall(r"from (rsmq_tui[\w.]*) import ([\w, ]+)", text):
        assert all(hasattr(import_module(module), name) for name in names.strip().split(", "))
    for module in re.findall(r"`(rsmq_tui\.[\w.]+)`", text):
        import_module(module)


@each
def test_links_and_pictures_are_there(file: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", file.read_text("utf-8")):
        assert target.startswith("https://") or (file.parent / target).exists(), target


@pytest.mark.parametrize("topic", topics())
def test_a_page_begins_with_a_sentence_and_fits_a_terminal_of_eighty_columns(topic: str) -> None:
    title, sentence, rest = page(topic).split("\n\n", 2)
    assert re.fullmatch(r"# [^\n]+", title)
    assert re.fullmatch(r"[A-Z][^\n.]*\.", sentence)
    assert rest
    for language in ("sh", "toml", "json", "python", ""):
        for block in _blocks(_FOLDER / f"{topic}.md", language):
            assert all(len(line) <= _LONGEST_CODE for line in block.splitlines()), block


def test_readme_is_short_and_leads_to_every_page() -> None:
    readme = (_ROOT / "README.md").read_text("utf-8")
    assert readme.count("\n") <= 200
    assert set(re.findall(r"^\| \[[\w-]+\]\(rsmq_tui/docs/([\w-]+)\.md\) \|", readme, re.MULTILINE)) == set(topics())


def _commands_of(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands of a group, and of its groups, with their names."""
    for name, member in group.commands.items():
        found = member.loaded() if isinstance(member, LazyCommand) else member
        yield path + name, found
        if isinstance(found, click.Group):
            yield from _commands_of(found, f"{path}{name} ")


def test_each_command_is_on_a_page() -> None:
    pages = "".join(file.read_text("utf-8") for file in _FILES)
    missing = [name for name, _ in _commands_of(root) if f"rsmq-tui {name}" not in pages and f"`{name}" not in pages]

    assert not missing, f"show them on the pages where they belong: {', '.join(missing)}"


def test_each_command_that_prints_json_is_on_the_page_about_it() -> None:
    missing = []
    for name, command in _commands_of(root):
        options = {option for parameter in command.params for option in parameter.opts}
        # A group without a command lists; changes print a preview or a report.
        names = {name, name.removesuffix(" list"), name.rpartition(" ")[2]}
        if "--json" in options and "--yes" not in options and not any(f"`{each}" in page("output") for each in names):
            missing.append(name)

    assert not missing, f"say which keys they print: {', '.join(missing)}"


def test_readme_and_pages_say_the_same_of_all_verdicts() -> None:
    tables = [
        re.findall(r"^\| sign \| verdict.*\n(?:\|.*\n)+", text, re.MULTILINE)
        for text in ((_ROOT / "README.md").read_text("utf-8"), page("verdicts"))
    ]
    assert len(tables[0]) == 1
    assert tables[0] == tables[1]
    assert re.findall(r"^\| `(.)` \| (\w+)", tables[0][0], re.MULTILINE) == [(SIGNS[each], each) for each in Verdict]


def test_the_wheel_takes_pages_and_themes_along() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))
    # Of the package everything is taken that git does not ignore.
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {
        "packages": ["rsmq_tui"],
        "force-include": {"themes": "rsmq_tui/themes"},
    }
    assert not re.search(r"md|docs|toml", (_ROOT / ".gitignore").read_text("utf-8"))


def test_the_changelog_has_this_version() -> None:
    changelog = (_ROOT / ".github" / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[(.*)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert headings[0] == project["version"] == __version__
