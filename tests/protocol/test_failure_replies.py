"""What each error line of a server means, whatever else it does; the server here is one that says only that line."""

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.protocol import SERVER_ERRORS, AsyncRsmq, Failure, Rsmq, RsmqError, connect, connect_async, failure_of
from tests.protocol.responder import Responder

PASSWORD = "hunter2"
LINES = [
    ("LOADING Redis is loading the dataset in memory", "loading"),
    ("LOADING Valkey is loading the dataset in memory", "loading"),
    ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "busy"),
    ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "masterdown"),
    ("READONLY You can't write against a read only replica.", "readonly"),
    ("OOM command not allowed when used memory > 'maxmemory'.", "oom"),
    ("NOAUTH Authentication required.", "noauth"),
    ("ERR Protocol error: unauthenticated multibulk length", "noauth"),
    ("ERR Protocol error: unauthenticated bulk length", "noauth"),
    ("WRONGPASS invalid username-password pair or user is disabled.", "noauth"),
    ("ERR invalid password", "noauth"),
    ("NOPERM this user has no permissions to run the 'smembers' command", "noperm"),
    ("NOPERM this user has no permissions to access one of the keys used as arguments", "noperm"),
    ("NOPERM No permissions to access a key", "noperm"),
    ("ERR ACL failure in script: User bob has no permissions to run the 'time' command script: on x:2.", "noperm"),
    ("ERR The user executing the script can't run this command or subcommand script: 0c", "noperm"),
    ("ERR Error running script (call to f_0c): @user_script:3: The user executing the script can't run", "noperm"),
    ("ERR The user executing the script can't access at least one of the keys mentioned in the command", "noperm"),
    ("ERR ACL failure in script: No permissions to access the 'x' key script: 0c, on @user_script:2.", "noperm"),
    ("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", "misconf"),
    ("CLUSTERDOWN The cluster is down", "clusterdown"),
    ("CLUSTERDOWN Hash slot not served", "clusterdown"),
    ("CROSSSLOT Keys in request don't hash to the same slot", "crossslot"),
    ("MOVED 3999 127.0.0.1:6381", "moved"),
    ("ERR max number of clients reached", "busy"),
    ("ERR something new", "error"),
    ("NEWCODE something new", "error"),
]


@pytest.mark.parametrize(("line", "kind"), LINES)
def test_a_line_means_the_same_to_the_synchronous_client(line: str, kind: str) -> None:
    with (
        Responder(b"-" + line.encode()) as responder,
        connect(responder.url) as connected,
        pytest.raises(SERVER_ERRORS) as failed,
    ):
        Rsmq(connected).list_queues()

    assert failure_of(failed.value).kind == kind


@pytest.mark.parametrize(("line", "kind"), LINES)
async def test_a_line_means_the_same_to_the_asyncio_client(line: str, kind: str) -> None:
    with Responder(b"-" + line.encode()) as responder:
        async with connect_async(responder.url) as connected:
            with pytest.raises(SERVER_ERRORS) as failed:
                await AsyncRsmq(connected).list_queues()

    assert failure_of(failed.value).kind == kind


@pytest.mark.parametrize("line", [b"HTTP/1.1 400 Bad Request", b"SSH-2.0-OpenSSH_9.2", b"\x15\x03\x01\x00\x02\x02\x46"])
async def test_a_server_of_another_kind_is_an_error_too(line: bytes) -> None:
    with Responder(line) as responder:
        async with connect_async(responder.url) as connected:
            with pytest.raises(SERVER_ERRORS) as failed:
                await AsyncRsmq(connected).list_queues()

    assert failure_of(failed.value).kind == "error"


@pytest.mark.parametrize(
    "line",
    [
        f"ERR unknown command 'AUTH', with args beginning with: 'bob' '{PASSWORD}' ",
        f"ERR unknown command `AUTH`, with args beginning with: `{PASSWORD}`, ",
        f"ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'bob' '{PASSWORD}'",
    ],
)
def test_a_line_that_repeats_a_password_is_cut(line: str) -> None:
    with (
        Responder(b"-" + line.encode()) as responder,
        connect(responder.url.replace("redis://", f"redis://bob:{PASSWORD}@")) as connected,
        pytest.raises(SERVER_ERRORS) as failed,
    ):
        Rsmq(connected).list_queues()

    failure = failure_of(failed.value)
    assert PASSWORD not in f"{failure}"
    assert "unknown command" in failure.sentence


@pytest.mark.parametrize("error_type", [*SERVER_ERRORS, ConnectionResetError, redis.exceptions.InvalidResponse])
def test_an_error_without_words_has_a_sentence(error_type: type[Exception]) -> None:
    failure = failure_of(error_type())

    assert all((failure.kind, failure.sentence, failure.hint))


@given(text=st.text(max_size=60))
def test_any_words_make_one_line(text: str) -> None:
    for error in (redis.ResponseError(text), redis.ConnectionError(text), OSError(text)):
        failure = failure_of(error)
        assert isinstance(failure, Failure)
        assert len(failure.sentence.splitlines()) == 1


def test_a_refusal_of_the_protocol_is_not_an_error_of_the_server() -> None:
    assert not issubclass(RsmqError, SERVER_ERRORS)
