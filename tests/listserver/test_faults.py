"""The clock and the faults that a tester orders, and what the server tells of those who wait."""

from collections.abc import Callable, Iterator

import pytest
import redis

from rsmq_tui.listserver import ListServer
from rsmq_tui.listserver.faults import Fault
from tests.listserver.peers import Connection

Connect = Callable[[], Connection]


@pytest.fixture
def server() -> Iterator[ListServer]:
    """A server of the test's own: its clock and its faults are the test's."""
    with ListServer() as running:
        yield running


@pytest.fixture
def connect(server: ListServer) -> Iterator[Connect]:
    opened: list[Connection] = []

    def connection() -> Connection:
        opened.append(Connection(server.port))
        return opened[-1]

    yield connection
    for each in opened:
        each.close()


def test_while_the_clock_stands_no_wait_ends_and_an_advance_ends_those_that_are_due(
    server: ListServer, connect: Connect
) -> None:
    server.stop_clock()
    short, long, forever = connect(), connect(), connect()
    for client, timeout in ((short, 10), (long, 20), (forever, 0)):
        client.call("ECHO", "connected")
        client.send("BLPOP", "queue", timeout)
    admin = connect()
    while admin.call("INFO", "clients").count(b"blocked_clients:3") == 0:
        pass
    server.advance_clock(9.999)
    assert [client.has_reply() for client in (short, long, forever)] == [False, False, False]
    server.advance_clock(0.001)
    assert short.read() is None
    server.advance_clock(3600)
    assert long.read() is None
    assert not forever.has_reply()
    assert admin.call("RPUSH", "queue", "a") == 1
    assert forever.read() == [b"queue", b"a"]


def test_keys_end_and_time_passes_by_the_clock(server: ListServer, connect: Connect) -> None:
    client = connect()
    server.stop_clock()
    before = client.call("TIME")
    client.call("SET", "key", "value", "PX", 1500)
    assert client.call("TIME") == before
    server.advance_clock(1.499)
    assert client.call("PTTL", "key") == 1
    server.advance_clock(0.001)
    assert client.call("GET", "key") is None
    assert int(client.call("TIME")[0]) - int(before[0]) in (1, 2)
    server.start_clock()
    assert client.call("BLPOP", "queue", "0.001") is None


def test_debug_sleep_moves_a_clock_that_stands(server: ListServer, connect: Connect) -> None:
    server.stop_clock()
    client = connect()
    client.call("SET", "key", "value", "EX", 3600)
    assert client.call("DEBUG", "SLEEP", 3600) == b"OK"
    assert client.call("EXISTS", "key") == 0


@pytest.mark.parametrize(
    ("kind", "starts"),
    [("LOADING", "LOADING "), ("READONLY", "READONLY "), ("OOM", "OOM "), ("NOAUTH", "NOAUTH ")],
)
def test_an_error_stands_in_for_a_write_as_often_as_ordered(
    server: ListServer, connect: Connect, kind: str, starts: str
) -> None:
    client = connect()
    with server.fault(kind, times=2, commands=["lpush"]) as fault:
        replies = [client.call("LPUSH", "queue", "a") for _ in range(3)]
        assert [str(reply).startswith(starts) for reply in replies] == [True, True, False]
        assert fault.happened == 2
    assert client.call("LLEN", "queue") == 1


def test_reads_go_on_where_only_writes_are_refused(server: ListServer, connect: Connect) -> None:
    with server.fault("OOM"):
        assert connect().call("LLEN", "queue") == 0


@pytest.mark.parametrize(("kind", "length"), [("drop-before", 0), ("drop-after", 1), ("cut", 1)])
def test_a_connection_ends_before_or_after_the_command_took_effect(
    server: ListServer, connect: Connect, kind: str, length: int
) -> None:
    with server.fault(kind, commands=["LPUSH"]):
        client = connect()
        with pytest.raises((ConnectionError, OSError)):
            client.call("LPUSH", "queue", "a" * 100)
    assert connect().call("LLEN", "queue") == length


def test_half_of_a_reply_comes_before_the_end(server: ListServer, connect: Connect) -> None:
    client = connect()
    client.call("RPUSH", "queue", "0123456789")
    with server.fault("cut"):
        client.send("LRANGE", "queue", 0, -1)
        received = b""
        while data := client.socket.recv(100):
            received += data
    assert received == b"*1\r\n$10\r\n0"


def test_a_stall_concerns_one_client_and_its_request_is_carried_out_at_the_end(
    server: ListServer, connect: Connect
) -> None:
    slow, other = connect(), connect()
    slow.call("CLIENT", "SETNAME", "slow")
    with server.fault("stall", client="slow") as fault:
        slow.send("RPUSH", "queue", "a")
        slow.send("RPUSH", "queue", "b")
        while server.do(lambda: fault.happened) == 0:
            pass
        assert other.call("LLEN", "queue") == 0
    assert (slow.read(), slow.read()) == (1, 2)


def test_a_late_reply_is_late_and_whole(server: ListServer, connect: Connect) -> None:
    client = connect()
    with server.fault("latency", seconds=0.01, times=1) as fault:
        client.send("RPUSH", "queue", "a")
        client.send("LLEN", "queue")
        assert (client.read(), client.read()) == (1, 1)
        assert fault.happened == 1


def test_faults_and_the_clock_can_be_ordered_by_commands(server: ListServer, connect: Connect) -> None:
    admin, client = connect(), connect()
    assert admin.call("DEBUG", "FAULT", "LOADING", "COMMAND", "GET", "TIMES", 1) == b"OK"
    assert client.call("GET", "key").startswith("LOADING")
    assert client.call("GET", "key") is None
    assert admin.call("DEBUG", "FAULT", "stall", "COMMAND", "GET") == b"OK"
    client.send("GET", "key")
    assert admin.call("DEBUG", "FAULT", "CLEAR") == b"OK"
    assert client.read() is None
    assert admin.call("DEBUG", "CLOCK", "STOP") == b"OK"
    client.call("SET", "key", "value", "EX", 10)
    assert admin.call("DEBUG", "CLOCK", "ADVANCE", 10) == b"OK"
    assert client.call("GET", "key") is None
    assert admin.call("DEBUG", "CLOCK", "START") == b"OK"
    assert admin.call("DEBUG", "FAULT", "nix").startswith("ERR syntax error")


def test_an_unknown_fault_names_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="drop-before"):
        Fault("flood")


def test_the_server_tells_who_waits_for_which_list_since_when(server: ListServer, connect: Connect) -> None:
    server.stop_clock()
    for timeout in (0, 60):
        client = connect()
        number = client.call("CLIENT", "ID")
        client.send("BLPOP", "queue:mail list", "other", timeout)
        admin = connect()
        while b"flags=b" not in admin.call("CLIENT", "LIST", "ID", number):
            pass
        server.advance_clock(41)
    with redis.Redis(port=server.port) as reader:
        info = reader.info("waiting")
        assert (info["waiting_clients"], info["waiting_lists"]) == (2, 2)
        assert info["waiting0"] == {"key": "queue%3Amail%20list", "db": 0, "clients": 2, "first_ms": 82_000}
        (_, second) = [line for line in reader.client_list() if line.get("wait-keys")]
        assert second["wait-keys"] == "queue%3Amail%20list,other"
        assert second["wait-places"] == "2,2"
        assert second["wait-ms"] == "41000"


def test_an_address_of_other_machines_wants_a_password() -> None:
    with pytest.raises(ValueError, match="set a password"):
        ListServer(host="0.0.0.0")


def test_a_password_is_wanted_before_anything_else() -> None:
    with ListServer(password="secret") as server:
        client = Connection(server.port)
        assert client.call("LLEN", "queue").startswith("NOAUTH")
        assert client.call("AUTH", "wrong").startswith("WRONGPASS")
        assert client.call("HELLO", 3).startswith("NOAUTH")
        assert client.call("AUTH", "secret") == b"OK"
        assert client.call("LLEN", "queue") == 0
        many = Connection(server.port)
        many.socket.sendall(b"*11\r\n")
        assert many.read() == "ERR Protocol error: unauthenticated multibulk length"
        client.close()
        many.close()


def test_it_listens_on_a_unix_socket_and_removes_it(tmp_path: "pytest.TempPathFactory") -> None:
    path = f"{tmp_path}/s"
    with ListServer(port=None, path=path), redis.Redis(unix_socket_path=path) as client:
        assert client.ping()
    with pytest.raises(redis.ConnectionError):
        redis.Redis(unix_socket_path=path).ping()


def test_an_address_in_use_is_an_error_where_it_is_started(server: ListServer) -> None:
    with pytest.raises(OSError, match="in use"):
        ListServer(port=server.port).start()
