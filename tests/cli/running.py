"""Running the commands, with nothing of ours in the environment: as processes, as a person does, or in this process."""

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import IO, TypeAlias
from unittest.mock import patch

import click

from rsmq_tui.cli import commands, parsing
from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.cli.main import main
from rsmq_tui.listserver import ListServer
from tests.killing import ROOT
from tests.waiting import SECONDS_MAX

_OURS = ("REDIS_URL", "RSMQ_NS", "RSMQ_TUI_READ_ONLY", "NO_COLOR")
PROGRAM = (sys.executable, "-m", "rsmq_tui")
Running: TypeAlias = "subprocess.Popen[str]"


def environment(**values: str) -> dict[str, str]:
    """The environment of a command: this process's, without variables that would affect it, and with these."""
    return {name: value for name, value in os.environ.items() if name not in _OURS} | values


def run(
    *arguments: str, module: str = "rsmq_tui", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` to its end."""
    return _run("-m", module, *arguments, env=env)


def python(code: str, *arguments: object, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, to its end."""
    return _run("-c", code, *map(str, arguments), env=env, cwd=ROOT)


def printed(code: str, *arguments: object, env: Mapping[str, str] | None = None) -> str:
    """What code prints in a process of its own, which must end without an error or a warning."""
    done = python(code, *arguments, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _run(*arguments: str, env: Mapping[str, str] | None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def call(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, without the third of a second of processor time that a process takes to start."""
    return _called(main, _Printed(), _Printed(), arguments, env)


def call_until(begun: str, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that goes on in this process, and press Ctrl+C as soon as stderr has what this regex matches."""
    err = _Printed(begun, lambda: os.kill(os.getpid(), signal.SIGINT))
    return _called(main, _Printed(), err, arguments, env)


def call_waiting(
    server: EmbeddedServer, words: str, *arguments: str, main: Callable[[Sequence[str]], int] = main
) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, as in a terminal, on a stopped server that goes on once stderr has these words."""
    err = _Printed(re.escape(words), lambda: os.kill(server.pid, signal.SIGCONT), is_terminal=True)
    return _called(main, _Printed(is_terminal=True), err, ("-r", server.url, *arguments), None)


def _called(
    main: Callable[[Sequence[str]], int],
    out: "_Printed",
    err: "_Printed",
    arguments: Sequence[str],
    env: Mapping[str, str] | None,
) -> subprocess.CompletedProcess[str]:
    with patch.dict(os.environ, environment(**(env or {})), clear=True), redirect_stdout(out), redirect_stderr(err):
        status = status_of(main, arguments)
    return subprocess.CompletedProcess(arguments, status, out.text, err.text)


class _Printed(io.TextIOWrapper):
    """Keeps what is printed, and calls ``then`` once, when it matches ``awaited``."""

    def __init__(
        self, awaited: str | None = None, then: Callable[[], None] = lambda: None, *, is_terminal: bool = False
    ) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, "utf-8", write_through=True)
        self._awaited, self._then, self._is_terminal = awaited, then, is_terminal

    @property
    def text(self) -> str:
        """What was printed so far."""
        return self._bytes.getvalue().decode()

    def write(self, text: str) -> int:
        """Keep a text."""
        written = super().write(text)
        if self._awaited is not None and re.search(self._awaited, self.text, re.MULTILINE):
            self._awaited = None
            self._then()
        return written

    def isatty(self) -> bool:
        """Tell whether it takes the place of a terminal."""
        return self._is_terminal


@contextmanager
def started(*command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Iterator[Running]:
    """Start a command, and kill it at the end if it still runs."""
    with subprocess.Popen(
        command,
        env=environment() if env is None else env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def status_of(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Call a command in this process; returns its exit status."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def line_of(stream: IO[str] | None) -> str:
    """The next line that a command prints to that stream."""
    assert stream is not None
    return stream.readline()


def check_closed_pipe(beginning: str, *arguments: str) -> None:
    """Close the pipe that a command prints to, once it has begun: it must end without a message."""
    with started(*PROGRAM, *arguments) as process:
        assert line_of(process.stdout).startswith(beginning)
        assert process.stdout is not None
        process.stdout.close()
        assert line_of(process.stderr) == ""
        assert process.wait(SECONDS_MAX) == 141


def check_ctrl_c(server: ListServer, *arguments: str, env: Mapping[str, str]) -> str:
    """Press Ctrl+C while a command waits for a silent server: it must end at once; returns its output."""
    with (
        server.fault("stall") as fault,
        started(*PROGRAM, "-r", server.url, *arguments, env=environment(**env)) as process,
    ):
        while not fault.happened:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, err) == (130, "")
    return out


class _StopError(Exception):
    def __init__(self, options: parsing.Options) -> None:
        self.options = options


def parsed(*arguments: str, program: click.Group = commands.command) -> parsing.Options:
    """Return the parsed options of a command; ``words`` are the program and its commands."""
    options_of = parsing.options_of
    # What imports it by its name must not have the one of this test for good.
    import_module("rsmq_tui.cli.commands.serve")

    def stop(ctx: click.Context) -> None:
        raise _StopError(parsing.Options(**vars(options_of(ctx)), words=ctx.command_path.split()))

    with patch.object(parsing, "options_of", stop):
        try:
            with program.make_context(program.name, list(arguments)) as ctx:
                program.invoke(ctx)
        except _StopError as found:
            return found.options
    raise AssertionError(arguments)
