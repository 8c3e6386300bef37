"""`rsmq-tui completion`: scripts that hold every command and option, typed into the shells that are there.

A shell that is not installed cannot be typed into; CI installs all three.
"""

import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.commands.completion import script
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.cli.running import environment, printed
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.slow

SHELLS = ("bash", "zsh", "fish")
INSTALLED = [shell for shell in SHELLS if shutil.which(shell)]
_START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {}"),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -D -u; eval "$(cat {})"'),
    "fish": (["fish", "--no-config", "-i"], "source {}"),
}
# What is said to a terminal and is no text: modes, colours, titles, places of the cursor.
_TERMINALS_OWN = re.compile(r"\x1b(\[[0-9;?=>]*[a-zA-Z]|[()][0-9A-B]|\][^\x07\x1b]*(\x07|\x1b\\)|.)")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs: rsmq-tui and rsmqctl print what they were called with, and complete as they do."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, module in (("rsmq-tui", "rsmq_tui"), ("rsmqctl", "rsmq_tui.cli.rsmqctl.main")):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\n[ "$_RSMQ_TUI_COMPLETE$_RSMQCTL_COMPLETE" ] && exec "{sys.executable}" -m {module} "$@"\n'
            "printf 'RAN<%s' \"${0##*/}\"; printf '|%s' \"$@\"; printf '>\\n'\n"
        )
        program.chmod(0o755)
    return folder


class Typed:
    """A shell in a terminal, into which lines are typed."""

    def __init__(self, shell: str, descriptor: int) -> None:
        self._descriptor = descriptor
        self._output = ""
        self._shell = shell

    def ran(self, line: str) -> list[str]:
        """Type a line, with tabs in it, and return the words of the command that it became."""
        seen = len(self._output)
        os.write(self._descriptor, f"{line}\r".encode())
        found = self._until(r"RAN<([^>]*)>", seen)
        return found[1].split("|")[1:]

    def prepare(self, line: str) -> None:
        """Type a line that prints nothing, and wait until it was read."""
        seen = len(self._output)
        os.write(self._descriptor, f"{line}; echo rea''dy\r".encode())
        self._until(r"[\r\n]ready\r?\n", seen)

    def _until(self, pattern: str, start: int) -> re.Match[str]:
        ends_s = time.monotonic() + SECONDS_MAX
        while True:
            # What is before was typed or printed for another line.
            text = _TERMINALS_OWN.sub("", self._output[start:])
            if found := re.search(pattern, text):
                return found
            left_s = ends_s - time.monotonic()
            assert left_s > 0, f"{self._shell} said only {self._output[start:]!r}"
            if select.select([self._descriptor], [], [], left_s)[0]:
                self._output += os.read(self._descriptor, 65_536).decode(errors="replace")


@contextmanager
def typing(shell: str, programs: Path, **values: str) -> Iterator[Typed]:
    """Start a shell with the completion loaded, in an empty folder."""
    arguments, load = _START[shell]
    home = programs.parent / "home"
    home.mkdir(exist_ok=True)
    text = "\n".join(script(program, shell) for program in ("rsmq-tui", "rsmqctl"))
    (programs.parent / "script").write_text(text)
    ours = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "TERM": "xterm", "PS1": "$ "}
    ours |= {"PYTHONPATH": str(Path(__file__).parents[2]), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)}
    ours |= {"INPUTRC": "/dev/null"}
    master, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    process = subprocess.Popen(
        arguments,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(**ours, **values),
        cwd=home,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it takes no lock
    )
    os.close(terminal)
    try:
        typed = Typed(shell, master)
        typed.prepare(load.format(programs.parent / "script"))
        yield typed
    finally:
        process.kill()
        process.wait()
        with suppress(OSError):
            os.close(master)


@pytest.mark.parametrize("shell", INSTALLED)
def test_commands_options_and_names_are_completed(shell: str, programs: Path, client: Redis, redis_url: str) -> None:
    rsmq = Rsmq(client)
    for name in ("orders", "mail-in", "mail-out"):
        rsmq.create_queue(name)
    Rsmq(client, ns="jobs").create_queue("of-jobs")
    with typing(shell, programs, REDIS_URL=redis_url) as typed:
        assert typed.ran("rsmq-tui sna\t") == ["snapshot"]
        assert typed.ran("rsmq-tui queues dele\tord\t--y\t") == ["queues", "delete", "orders", "--yes"]
        assert typed.ran("rsmq-tui --ns jobs queues purge of\t") == ["--ns", "jobs", "queues", "purge", "of-jobs"]
        assert typed.ran("rsmqctl queue desc\t-n ord\t") == ["queue", "describe", "-n", "orders"]


@pytest.mark.parametrize("shell", INSTALLED)
def test_names_come_from_the_server_that_the_line_names(
    shell: str, programs: Path, client: Redis, redis_url: str
) -> None:
    Rsmq(client).create_queue("orders")
    with typing(shell, programs, REDIS_URL="redis://127.0.0.1:1") as typed:
        assert typed.ran("rsmq-tui queues purge ord\t") == ["queues", "purge", "ord"]
        for line in (f"rsmq-tui -r '{redis_url}'", f"true; rsmq-tui -r {redis_url}"):
            assert typed.ran(f"{line} queues purge ord\t") == ["-r", redis_url, "queues", "purge", "orders"]


@pytest.mark.parametrize("shell", INSTALLED)
def test_a_name_is_never_obeyed_by_a_shell(shell: str, programs: Path, client: Redis, redis_url: str) -> None:
    client.sadd(
        "rsmq:QUEUES",
        "evil$(touch pwned)",
        "evil`touch pwned`",
        "evil;touch pwned",
        "evil\ntouch pwned\n",
        "evil\x1b[2J",
    )
    with typing(shell, programs, REDIS_URL=redis_url) as typed:
        assert typed.ran("rsmq-tui queues purge evi\t") == ["queues", "purge", "evi"]
        client.sadd("rsmq:QUEUES", "evil-plain")
        assert typed.ran("rsmq-tui queues purge evi\t") == ["queues", "purge", "evil-plain"]
    assert not list(programs.parent.rglob("pwned"))


@pytest.mark.parametrize("shell", INSTALLED)
def test_files_and_profiles(shell: str, programs: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[profiles.production]\nurl = "redis://127.0.0.1:1"\n')
    with typing(shell, programs, RSMQ_TUI_CONFIG=str(config)) as typed:
        (tmp_path / "home" / "bodies.jsonl").write_text("")
        words = typed.ran("rsmq-tui messages import orders bod\t")
        assert words == ["messages", "import", "orders", "bodies.jsonl"]
        assert typed.ran("rsmq-tui snapshot --profile prod\t") == ["snapshot", "--profile", "production"]


@pytest.fixture
def completed(anywhere: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """What the line could go on with; it is completed as for zsh, whose words are those of the line."""

    def complete(line: str) -> list[str]:
        words = line.split(" ")
        with monkeypatch.context() as patched:
            patched.setenv("_RSMQ_TUI_COMPLETE", "zsh_complete")
            patched.setenv("COMP_WORDS", line)
            patched.setenv("COMP_CWORD", str(len(words) - 1))
            done = anywhere()
        assert (done.status, done.err) == (0, "")
        return done.text.splitlines()[1::3]

    return complete


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rsmq-tui mess", "messages"),
        ("rsmq-tui messages red", "redrive"),
        ("rsmq-tui messages list --group", "--group-by"),
        ("rsmq-tui journal re", "restore"),
        ("rsmq-tui check --st", "--stalled"),
        ("rsmq-tui help lib", "library"),
        ("rsmq-tui profiles ex", "example"),
        ("rsmq-tui audit --kind ghos", "ghost"),
        ("rsmq-tui demo --redis", ""),
    ],
)
def test_commands_options_and_choices(completed: Callable[[str], list[str]], line: str, words: str) -> None:
    assert completed(line) == words.split()


def test_the_commands_are_listed_without_importing_them() -> None:
    code = (
        "import sys; from rsmq_tui.cli.main import main; main([]); "
        "sys.exit(sorted(name for name in sys.modules if name.startswith('rsmq_tui.cli.commands.')) != "
        "['rsmq_tui.cli.commands.completion'])"
    )
    values = {"_RSMQ_TUI_COMPLETE": "zsh_complete", "COMP_WORDS": "rsmq-tui ", "COMP_CWORD": "1"}
    assert {"messages", "audit", "help"} <= set(printed(code, env=values).split())


@pytest.mark.parametrize("shell", SHELLS)
def test_both_programs_or_one(anywhere: Command, shell: str) -> None:
    both = anywhere("completion", shell)
    assert (both.status, both.err) == (0, "")
    assert both.text == "".join(f"{script(program, shell)}\n" for program in ("rsmq-tui", "rsmqctl"))
    assert anywhere("completion", shell, "--program", "rsmqctl").text == f"{script('rsmqctl', shell)}\n"


@pytest.mark.parametrize("shell", INSTALLED)
def test_a_script_is_one_to_its_shell(shell: str, tmp_path: Path) -> None:
    for program in ("rsmq-tui", "rsmqctl"):
        file = tmp_path / program
        file.write_text(script(program, shell))
        checked = subprocess.run([shell, "-n", str(file)], capture_output=True, timeout=100, check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [[], ["tcsh"], ["bash", "--program", "ls"], ["bash", "zsh"]], ids=str)
def test_usage_errors(anywhere: Command, arguments: list[str]) -> None:
    assert anywhere("completion", *arguments).status == 2


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("rsmq-tui queues delete ", ["mail", "orders"]),
        ("rsmq-tui queues delete o", ["orders"]),
        ("rsmq-tui queues delete 'o", ["orders"]),
        ("rsmq-tui --ns jobs queues delete ", ["of-jobs"]),
        ("rsmq-tui --ns=jobs queues delete ", ["of-jobs"]),
        ("rsmq-tui queues delete --ns jobs ", ["of-jobs"]),
        ("rsmq-tui messages move orders --to ", ["mail", "orders"]),
        ("rsmq-tui messages move orders --to=m", ["mail"]),
        ("rsmq-tui audit --queue m", ["mail"]),
        ("rsmq-tui -r redis://127.0.0.1:1 queues delete ", []),
        ("rsmq-tui -r nonsense queues delete ", []),
        ("rsmq-tui --profile nobody queues delete ", []),
        ("rsmq-tui --config /no/such queues delete ", []),
        ("rsmq-tui --interval x queues delete ", ["mail", "orders"]),
    ],
)
def test_names(
    completed: Callable[[str], list[str]],
    redis_url: str,
    client: Redis,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    names: list[str],
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    for name in ("orders", "mail"):
        Rsmq(client).create_queue(name)
    Rsmq(client, ns="jobs").create_queue("of-jobs")
    assert completed(line) == names


@pytest.mark.parametrize("name", ["$(id)", "`id`", "a b", "a;b", "a|b", "-x", "*", "~", "ä", "a\nb", "\x1b[2J", ""])
def test_names_that_a_shell_could_act_on_are_left_out(
    completed: Callable[[str], list[str]],
    redis_url: str,
    client: Redis,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    client.sadd("rsmq:QUEUES", name, "plain")
    assert completed("rsmq-tui queues delete ") == ["plain"]
