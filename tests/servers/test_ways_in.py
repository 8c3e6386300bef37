"""Users, passwords from everywhere, unix sockets: profiles read from a file and used on real servers."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.embedded import EmbeddedServer
from rsmq_tui.profiles import Profile
from rsmq_tui.profiles.config import read_config
from rsmq_tui.protocol import (
    REPLY_ERRORS,
    SERVER_ERRORS,
    Address,
    ExplainedError,
    QueueReader,
    connect,
    connect_async,
    failure_of,
)
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.edits import Edit, EditKind, MessageBatch
from rsmq_tui.protocol.messages import RawMessage
from tests.servers.whole import whole_walk

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
    (tmp_path / "secret").write_text(f"{PASSWORD}\n")
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
    (tmp_path / "secret").write_text("wrong-hunter2")
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
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    async with connect_async(configured('user = "bob"', 'password_file = "secret"').address) as aclient:
        assert await aclient.ping()
        client.acl_setuser("bob", enabled=True, passwords=["+other", f"-{PASSWORD}"])
        client.client_kill_filter(user="bob")
        secret.write_text("other")
        # Whether it is seen before the next command or by it, that the connection is gone: the next one is another.
        with suppress(*SERVER_ERRORS):
            await aclient.ping()
        assert await aclient.ping()


async def test_a_password_that_cannot_be_had_is_a_failure_of_the_poll(configured: Configured) -> None:
    reader = QueueReader(configured('password_env = "NO_SUCH_SECRET"').address)
    try:
        with pytest.raises(ExplainedError, match="NO_SUCH_SECRET is not set"):
            await reader.rows.index()
    finally:
        await reader.aclose()


async def test_without_a_password_it_is_known_that_nothing_was_changed(configured: Configured) -> None:
    editor = QueueEditor(configured('password_env = "NO_SUCH_SECRET"').address)
    message = RawMessage(b"0" * 32, b"5", None, None, 1, b"x")
    try:
        with pytest.raises(REPLY_ERRORS, match="NO_SUCH_SECRET is not set"):
            await editor.apply(MessageBatch(EditKind.PUT, "a", (Edit(None, message),)), "token")
    finally:
        await editor.aclose()


async def test_nothing_of_a_password_stays_with_a_connection(bob: None, configured: Configured, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(PASSWORD)
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
