"""Users, passwords from everywhere, unix sockets: profiles read from a file and used on real servers."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.profiles import Profile
from rsmq_tui.profiles.config import read_config
from rsmq_tui.protocol import (
    REPLY_ERRORS,
    SERVER_ERRORS,
    Address,
    ExplainedError,
    RsmqReader,
    connect,
    connect_async,
    failure_of,
)
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit, EditKind, MessageBatch
from rsmq_tui.protocol.rsmq.operations import RawMessage
from tests.servers.whole import whole_walk
from tests.waiting import SECONDS_MAX, wait_until

PASSWORD = 'p@ss/w#rd "é'
Configured = Callable[..., Profile]


@pytest.fixture
def bob(client: Redis) -> None:
    client.acl_setuser("bob", enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], channels=["*"], commands=["+@all"])


@pytest.fixture
def configured(tmp_path: Path, redis_url: str) -> Configured:
    """Makes the profile of a file that says these lines of the test's server."""
    port = redis_url.removesuffix("/0").rpartition(":")[2]

    def read(*lines: str) -> Profile:
        path = tmp_path / "config.toml"
        path.write_text("\n".join(["[profiles.a]", 'host = "127.0.0.1"', f"port = {port}", *lines]))
        path.chmod(0o600)
        return read_config(path).profiles["a"]

    return read


def keep(folder: Path, password: str) -> None:
    """Keep a password in the file that profiles name here."""
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text(password)


WAYS = {
    "a variable": 'password_env = "SECRET"',
    "a file": 'password_file = "secret"',
    "a command": "password_command = "
    + json.dumps([sys.executable, "-S", "-c", "print(open('{folder}/secret').read())"]),
    "a command in one text": "password_command = \"cat '{folder}/secret'\"",
    "the file itself": f"password = '{PASSWORD}'",
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_user_gets_in_with_a_password_from(
    bob: None, configured: Configured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    monkeypatch.setenv("SECRET", PASSWORD)
    keep(tmp_path, f"{PASSWORD}\n")
    profile = configured('user = "bob"', WAYS[way].replace("{folder}", str(tmp_path)))
    assert PASSWORD not in f"{profile!r} {profile.address.label}"

    await whole_walk(profile.address, profile.ns, tmp_path / "state")

    with connect(profile.address) as client:
        assert client.acl_whoami() == "bob"


async def test_without_a_user_it_is_the_default_users(
    client: Redis, configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    client.config_set("requirepass", "hunter2")
    try:
        async with connect_async(configured('password_env = "SECRET"').address) as aclient:
            assert await aclient.acl_whoami() == "default"
    finally:
        client.config_set("requirepass", "")


async def test_a_user_without_a_password_gets_in(client: Redis, configured: Configured) -> None:
    client.acl_setuser("eve", enabled=True, nopass=True, keys=["*"], commands=["+@all"])
    async with connect_async(configured('user = "eve"').address) as aclient:
        assert await aclient.acl_whoami() == "eve"


async def test_a_wrong_password_is_told_and_never_repeated(bob: None, configured: Configured, tmp_path: Path) -> None:
    keep(tmp_path, "wrong-hunter2")
    address = configured('user = "bob"', 'password_file = "secret"').address
    async with connect_async(address) as aclient:
        with pytest.raises(SERVER_ERRORS) as refused:
            await aclient.ping()
    with connect(address) as sync_client, pytest.raises(SERVER_ERRORS) as again:
        sync_client.ping()

    for error in (refused.value, again.value):
        failure = failure_of(error)
        assert (failure.kind, failure.sentence) == ("noauth", "the server refused the user name or password")
        assert "hunter2" not in f"{failure} {error}"


async def test_a_password_that_changes_is_fetched_for_the_next_connection(
    bob: None, client: Redis, configured: Configured, tmp_path: Path
) -> None:
    keep(tmp_path, PASSWORD)
    async with connect_async(configured('user = "bob"', 'password_file = "secret"').address) as aclient:
        assert await aclient.ping()
        client.acl_setuser("bob", enabled=True, passwords=["+other", f"-{PASSWORD}"])
        client.client_kill_filter(user="bob")
        keep(tmp_path, "other")
        # Whether it is seen before the next command or by it, that the connection is gone: the next one is another.
        with suppress(*SERVER_ERRORS):
            await aclient.ping()
        assert await aclient.ping()


async def test_a_password_that_cannot_be_had_is_a_failure_of_the_poll(configured: Configured) -> None:
    reader = RsmqReader(configured('password_env = "NO_SUCH_SECRET"').address)
    try:
        with pytest.raises(ExplainedError, match="NO_SUCH_SECRET is not set"):
            await reader.rows.index()
    finally:
        await reader.aclose()


async def test_without_a_password_it_is_known_that_nothing_was_changed(configured: Configured) -> None:
    editor = RsmqEditor(configured('password_env = "NO_SUCH_SECRET"').address)
    message = RawMessage(b"0" * 32, b"5", None, None, 1, b"x")
    try:
        with pytest.raises(REPLY_ERRORS, match="NO_SUCH_SECRET is not set"):
            await editor.apply(MessageBatch(EditKind.PUT, "a", (Edit(None, message),)), "token")
    finally:
        await editor.aclose()


async def test_nothing_of_a_password_stays_with_a_connection(bob: None, configured: Configured, tmp_path: Path) -> None:
    keep(tmp_path, PASSWORD)
    async with connect_async(configured('user = "bob"', 'password_file = "secret"').address) as aclient:
        connection = await aclient.connection_pool.get_connection()
        kept = [
            value
            for cls in type(connection).__mro__
            for name in getattr(cls, "__slots__", ())
            if (value := getattr(connection, name, None)) is not None
        ]
        assert PASSWORD not in repr([kept, vars(connection), aclient.connection_pool.connection_kwargs])
        assert connection.credential_provider is None
        await aclient.connection_pool.release(connection)


async def test_a_unix_socket_with_a_user_works(tmp_path: Path) -> None:
    with EmbeddedServer(unix_socket=True) as server:
        with Redis.from_url(server.url) as admin:
            admin.acl_setuser(
                "bob", enabled=True, passwords=["+hunter2"], keys=["*"], channels=["*"], commands=["+@all"]
            )
        socket = server.url.removeprefix("unix://").removesuffix("?db=0")
        path = tmp_path / "config.toml"
        path.write_text(f'[profiles.a]\nsocket = "{socket}"\ndb = 2\nuser = "bob"\npassword_command = "echo hunter2"\n')
        address = read_config(path).profiles["a"].address

        assert address.label == f"unix://{socket} db 2"
        await whole_walk(address, "rsmq", tmp_path / "state")
        with connect(address) as client:
            assert client.acl_whoami() == "bob"
        with (
            connect(Address(server.url, user="bob", password=lambda: "wrong")) as wrong,
            pytest.raises(SERVER_ERRORS) as refused,
        ):
            wrong.ping()
        assert failure_of(refused.value).kind == "noauth"


async def test_a_password_file_that_others_may_read_is_a_failure_of_the_poll(
    configured: Configured, tmp_path: Path
) -> None:
    keep(tmp_path, PASSWORD)
    (tmp_path / "secret").chmod(0o644)
    reader = RsmqReader(configured('password_file = "secret"').address)
    try:
        with pytest.raises(ExplainedError, match="other users can read the password file") as refused:
            await reader.rows.index()
    finally:
        await reader.aclose()
    assert refused.value.failure.hint == f"run `chmod o= {tmp_path}/secret`, and change the password"


async def test_commands_that_hang_hold_nothing_else_up(
    bob: None, redis_url: str, configured: Configured, tmp_path: Path
) -> None:
    # As many as there are threads in asyncio's own executor, or more: DNS and the journal are in need of them.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    pollers: list[RsmqPoller] = []
    pipes: list[int] = []
    for number in range(3):
        pipe = tmp_path / f"pipe{number}"
        os.mkfifo(pipe)
        pipes.append(os.open(pipe, os.O_RDWR))
        profile = configured('user = "bob"', f'password_command = ["head", "-n", "1", "{pipe}"]')
        pollers.append(RsmqPoller(RsmqReader(profile.address)))
    polls = [asyncio.create_task(poller.poll()) for poller in pollers]
    try:
        async with asyncio.timeout(SECONDS_MAX):
            assert await asyncio.to_thread(str, 1) == "1"
            async with connect_async(redis_url.replace("127.0.0.1", "localhost")) as aclient:
                assert await aclient.ping()
        assert not any(poll.done() for poll in polls)
        for descriptor in pipes:
            os.write(descriptor, f"{PASSWORD}\n".encode())
        assert [(await poll).connection.failure for poll in polls] == [None] * 3
    finally:
        for poller, descriptor in zip(pollers, pipes, strict=True):
            await poller.aclose()
            os.close(descriptor)


async def test_connections_that_are_made_at_once_ask_for_the_password_once(bob: None, redis_url: str) -> None:
    asked: list[str] = []
    may_go_on = threading.Event()

    def password() -> str:
        asked.append(threading.current_thread().name)
        assert may_go_on.wait(SECONDS_MAX)
        return PASSWORD

    address = Address(redis_url, user="bob", password=password)
    async with connect_async(address) as one, connect_async(address) as two, connect_async(address) as three:
        first = asyncio.ensure_future(one.ping())
        others = [asyncio.ensure_future(client.ping()) for client in (two, three)]
        await asyncio.sleep(0)
        # Whoever does not wait any longer takes it from nobody.
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        may_go_on.set()
        assert await asyncio.gather(*others) == [True, True]
        assert asked == ["password"]
        assert await one.ping()
        assert asked == ["password"] * 2


_LEFT = """
import asyncio, os, sys
from rsmq_tui.profiles.passwords import from_command
from rsmq_tui.protocol import Address, connect_async

async def main():
    command = ("sh", "-c", f"exec 9> {sys.argv[1]}; echo x >&9; sleep 600")
    async with connect_async(Address("redis://127.0.0.1:1", password=from_command(command, timeout_s=600))) as client:
        ping = asyncio.create_task(client.ping())
        reading = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
        while True:
            try:
                if os.read(reading, 10):
                    break
            except BlockingIOError:
                pass
            await asyncio.sleep(0.005)
        ping.cancel()

asyncio.run(main())
"""


def test_a_program_that_ends_waits_for_no_command_and_leaves_none_behind(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        program = [sys.executable, "-c", _LEFT, str(pipe)]
        done = subprocess.run(program, timeout=SECONDS_MAX, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        wait_until(lambda: _is_at_its_end(reading), what="the command to be gone")
    finally:
        os.close(reading)


def _is_at_its_end(reading: int) -> bool:
    """Whether nobody can write to a pipe any more."""
    try:
        return os.read(reading, 10) == b""
    except BlockingIOError:
        return False
