"""Where passwords come from, and that nothing of them is ever told."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rsmq_tui.profiles import passwords
from rsmq_tui.protocol import ExplainedError, Password

Keep = Callable[[bytes], Password]

PRINT = "import sys; sys.stdout.buffer.write({!r}.encode('latin-1'))"


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


@pytest.fixture(params=["variable", "file", "command"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keep:
    """Keeps bytes in one of the three places, and returns what reads them."""

    def keep(content: bytes) -> Password:
        if request.param == "variable":
            monkeypatch.setitem(os.environ, "SECRET", os.fsdecode(content))
            return passwords.from_variable("SECRET")
        if request.param == "file":
            (tmp_path / "secret").touch(0o600)
            (tmp_path / "secret").write_bytes(content)
            return passwords.from_file(tmp_path / "secret")
        return passwords.from_command(python(PRINT.format(content.decode("latin-1"))))

    return keep


@pytest.mark.parametrize(
    "content", [b"hunter2", b"hunter2\n", b"hunter2\r\n", b"hunter2\nuser: bob\n"], ids=["bare", "lf", "crlf", "more"]
)
def test_it_is_the_first_line(kept: Keep, content: bytes) -> None:
    assert kept(content)() == "hunter2"


def test_spaces_and_other_letters_belong_to_it(kept: Keep) -> None:
    assert kept(" h\u00fc\t ".encode())() == " h\u00fc\t "


@pytest.mark.parametrize("content", [b"", b"\n", b"\nhunter2", b"hunter2\xff"], ids=["empty", "lf", "late", "no text"])
def test_without_a_text_on_it_it_is_none_and_nothing_is_repeated(kept: Keep, content: bytes) -> None:
    with pytest.raises(ExplainedError, match="has no password on its first line") as refused:
        kept(content)()

    assert refused.value.failure.kind == "password"
    assert "hunter2" not in str(refused.value.failure)


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET", raising=False)

    with pytest.raises(ExplainedError, match="the environment variable SECRET is not set"):
        passwords.from_variable("SECRET")()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExplainedError, match=f"{tmp_path}/x cannot be read: No such file or directory"):
        passwords.from_file(tmp_path / "x")()


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o444, 0o664])
def test_a_file_that_others_may_read_is_refused_and_not_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_text("hunter2")
    path.chmod(mode)

    with pytest.raises(ExplainedError, match=f"other users can read the password file {path}") as refused:
        passwords.from_file(path)()

    assert f"chmod o= {path}" in refused.value.failure.hint
    assert "hunter2" not in str(refused.value.failure)
    path.chmod(mode & ~0o007)
    assert passwords.from_file(path)() == "hunter2"


def test_a_file_on_a_read_only_mount_is_as_whoever_mounted_it_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret"
    path.write_text("hunter2")
    path.chmod(0o444)
    mounted = os.statvfs(path)
    monkeypatch.setattr(
        os, "fstatvfs", lambda _: os.statvfs_result((*mounted[:8], mounted.f_flag | os.ST_RDONLY, mounted.f_namemax))
    )

    assert passwords.from_file(path)() == "hunter2"


@pytest.mark.parametrize("missing", ["no-such-command-here", "/no/such/command"])
def test_a_command_that_is_not_there_is_named(missing: str) -> None:
    with pytest.raises(ExplainedError, match=f"command {missing} cannot be run: No such file or directory"):
        passwords.from_command((missing,))()


def test_a_command_that_fails_says_what_it_said_but_not_what_it_printed() -> None:
    code = "import sys; print('hunter2'); print('is\\n locked', file=sys.stderr); sys.exit(3)"
    with pytest.raises(ExplainedError) as refused:
        passwords.from_command(python(code))()

    assert refused.value.failure.sentence == f"the password command {sys.executable} failed with status 3: is locked"
    assert "hunter2" not in str(refused.value.failure)


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("no such entry: Tr0ub4dor&3", "no such entry: ***"),
        ("cannot log in with password=Tr0ub4dor&3 here", "cannot log in with password=*** here"),
        ("password: 'Tr0ub4dor&3 and more' is wrong", "password: *** is wrong"),
        ("GET https://bob:Tr0ub4dor&3@vault.example/v1 failed", "GET https://***@vault.example/v1 failed"),
        ("Authorization: Bearer Tr0ub4dor&3 was refused", "Authorization: Bearer *** was refused"),
        ("expired s.Xk29fhQw0aLmZ8rT5vYc1b", "expired ***"),
        ("expired hvsXk29fhQw0aLmZ8rT5vYc1b", "expired ***"),
        ("the agent at /usr/lib/python3.11/site-packages/agent.py is locked",) * 2,
    ],
)
def test_what_a_failing_command_repeats_is_struck_out(complaint: str, words: str) -> None:
    code = f"import sys; print('Tr0ub4dor&3'); print({complaint!r}, file=sys.stderr); sys.exit(1)"
    with pytest.raises(ExplainedError) as refused:
        passwords.from_command(python(code))()
    assert refused.value.failure.sentence.partition(" failed with status 1: ")[2] == words
    assert "Tr0ub4dor" not in str(refused.value.failure)


def test_nor_is_a_secret_of_the_environment_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "VAULT_TOKEN", "Tr0ub4dor")
    code = "import os, sys; sys.exit('bad ' + os.environ['VAULT_TOKEN'])"
    with pytest.raises(ExplainedError) as refused:
        passwords.from_command(python(code))()
    assert refused.value.failure.sentence.endswith("status 1: bad ***")


@contextmanager
def children_are_ended(folder: Path) -> Iterator[Path]:
    """A pipe that the children of a command hold open, into which they have written "x"; check that they end."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield pipe
        assert os.read(reading, 10) == b"x\n"
        # Whoever writes to a pipe and is gone leaves it at its end.
        deadline_s = time.monotonic() + 100
        while (left := _left(reading)) is None and time.monotonic() < deadline_s:
            time.sleep(0.005)
        assert left == b""
    finally:
        os.close(reading)


@pytest.mark.parametrize("output", ["stdout", "stderr"])
def test_a_command_that_prints_for_ever_is_ended_with_its_children(output: str, tmp_path: Path) -> None:
    with children_are_ended(tmp_path) as pipe:
        code = f"import sys\nwhile True: sys.{output}.write('y' * 1000)"
        script = f'(exec 9> {pipe}; echo x >&9; {sys.executable} -S -c "{code}") & wait'
        with pytest.raises(ExplainedError, match="command sh printed more than 65,536 bytes"):
            passwords.from_command(("sh", "-c", script), timeout_s=60)()


def test_a_command_that_prints_slowly_for_ever_ends_with_its_time() -> None:
    code = "import sys, time\nwhile True: sys.stdout.write('y'); sys.stdout.flush(); time.sleep(0.01)"
    with pytest.raises(ExplainedError, match=r"took longer than 0\.3 s"):
        passwords.from_command(python(code), timeout_s=0.3)()


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    sentence = pytest.raises(ExplainedError, match=r"command sh took longer than 0\.5 s")
    with children_are_ended(tmp_path) as pipe, sentence:
        passwords.from_command(("sh", "-c", f"(exec 9> {pipe}; echo x >&9; sleep 600) & wait"), timeout_s=0.5)()


def _left(reading: int) -> bytes | None:
    """What is left in a pipe: nothing at its end, None while somebody could write to it."""
    try:
        return os.read(reading, 10)
    except BlockingIOError:
        return None


def test_a_command_has_no_terminal_and_nothing_to_read() -> None:
    code = (
        "import os, sys\n"
        "assert sys.stdin.read() == ''\n"
        "try: os.open('/dev/tty', os.O_RDWR)\n"
        "except OSError: print('none')\n"
    )

    assert passwords.from_command(python(code))() == "none"


def test_a_command_is_not_run_by_a_shell(tmp_path: Path) -> None:
    assert passwords.from_command(("echo", "$HOME; *"))() == "$HOME; *"


def test_what_a_command_printed_serves_the_next_half_minute(tmp_path: Path) -> None:
    log, now_s = tmp_path / "log", [100.0]
    command = ("sh", "-c", f"echo x >> {log}; wc -l < {log}")
    read = passwords.from_command(command, clock=lambda: now_s[0])

    threads = [threading.Thread(target=read) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read().strip() == "1"
    now_s[0] += 29
    assert read().strip() == "1"
    now_s[0] += 2
    assert read().strip() == "2"


def test_a_variable_and_a_file_are_read_anew_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").touch(0o600)
    variable, file = passwords.from_variable("SECRET"), passwords.from_file(tmp_path / "secret")
    for password in ("one", "two"):
        monkeypatch.setenv("SECRET", password)
        (tmp_path / "secret").write_text(password)
        assert (variable(), file()) == (password, password)
