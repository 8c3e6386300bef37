import os
import shutil
import socket
import stat
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedError, EmbeddedServer, ServerStartError, server
from tests.cli.demo.processes import is_alive, wait_until_gone
from tests.waiting import wait_until


@pytest.mark.parametrize("unix_socket", [False, True])
def test_serves_on_its_url_and_is_gone_afterwards(unix_socket: bool) -> None:
    with EmbeddedServer(unix_socket=unix_socket) as running, redis.Redis.from_url(running.url) as client:
        assert running.is_running
        assert client.set("key", "value")
        assert client.info("server")["process_id"] == running.pid
        folder = Path(client.config_get("dir")["dir"])
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        pid = running.pid
    assert not running.is_running
    assert not is_alive(pid)
    assert not folder.exists()


def test_listens_on_loopback_only() -> None:
    with EmbeddedServer() as running, redis.Redis.from_url(running.url) as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        assert client.config_get("port") == {"port": str(running.port)}
        assert urlsplit(running.url).hostname == "127.0.0.1"


def test_on_a_unix_socket_it_has_no_port_and_others_may_not_connect() -> None:
    with EmbeddedServer(unix_socket=True) as running, redis.Redis.from_url(running.url) as client:
        assert running.port == 0
        assert client.config_get("port") == {"port": "0"}
        assert stat.S_IMODE(Path(urlsplit(running.url).path).stat().st_mode) == 0o700


def test_saves_nothing_and_reads_no_configuration() -> None:
    with EmbeddedServer() as running, redis.Redis.from_url(running.url) as client:
        assert client.config_get("save", "appendonly") == {"save": "", "appendonly": "no"}
        assert not client.info("server")["config_file"]


def test_extra_options_add_and_do_not_override() -> None:
    extra = ("--maxmemory", "64mb", "--bind", "0.0.0.0", "--save", "1 1", "--requirepass", "secret")
    with (
        EmbeddedServer(extra=extra) as running,
        redis.Redis.from_url(running.url, password="secret") as client,
    ):
        assert client.config_get("maxmemory") == {"maxmemory": str(64 * 1024 * 1024)}
        assert client.config_get("bind", "save") == {"bind": "127.0.0.1", "save": ""}


def test_a_configuration_file_is_refused() -> None:
    with pytest.raises(ValueError, match="configuration file"):
        EmbeddedServer(extra=("/etc/redis/redis.conf",))


def test_stop_is_idempotent_and_it_can_be_started_again() -> None:
    embedded = EmbeddedServer()
    embedded.stop()
    embedded.start()
    first = embedded.pid
    embedded.start()
    assert embedded.pid == first
    embedded.stop()
    embedded.stop()
    embedded.start()
    try:
        assert embedded.is_running
        assert embedded.pid != first
    finally:
        embedded.stop()


def test_has_no_url_before_it_was_started() -> None:
    embedded = EmbeddedServer()
    assert not embedded.is_running
    for name in ("url", "port", "pid"):
        with pytest.raises(EmbeddedError, match="not running"):
            getattr(embedded, name)


def test_two_at_once() -> None:
    with EmbeddedServer() as one, EmbeddedServer() as other:
        assert one.port != other.port
        assert one.pid != other.pid
        with redis.Redis.from_url(one.url) as client:
            client.set("key", "value")
        with redis.Redis.from_url(other.url) as client:
            assert client.dbsize() == 0
        one.stop()
        assert other.is_running


def test_started_and_stopped_from_many_threads() -> None:
    embedded = EmbeddedServer()
    pids: list[int] = []

    def start() -> None:
        embedded.start()
        pids.append(embedded.pid)

    for action in (start, embedded.stop):
        threads = [threading.Thread(target=action) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(pids) == 8
    assert len(set(pids)) == 1
    assert not embedded.is_running
    wait_until_gone(pids[0])


def test_takes_another_port_when_somebody_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer() as faster:
        ports = [faster.port, faster.port]
        free_port = server._free_port
        monkeypatch.setattr(server, "_free_port", lambda: ports.pop() if ports else free_port())
        with EmbeddedServer() as running, redis.Redis.from_url(running.url) as client:
            assert not ports
            assert running.port != faster.port
            assert client.info("server")["process_id"] == running.pid


def test_the_port_asked_for() -> None:
    with EmbeddedServer(port=server._free_port()) as running, redis.Redis.from_url(running.url) as client:
        assert running.port == running._wanted_port
        assert client.ping()


def test_says_that_the_port_asked_for_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        embedded = EmbeddedServer(port=taken.getsockname()[1])
        with pytest.raises(ServerStartError, match="in use"):
            embedded.start()
    assert not embedded.is_running


def test_a_refused_option_is_told_with_the_servers_words() -> None:
    embedded = EmbeddedServer(extra=("--no-such-option", "1"))
    with pytest.raises(ServerStartError, match="no-such-option"):
        embedded.start()


def test_a_program_that_cannot_run_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "valkey-server"
    broken.write_bytes(b"\x7fELF, but not for this machine")
    broken.chmod(0o755)
    monkeypatch.setattr(server, "find_server", lambda: broken)
    with pytest.raises(ServerStartError):
        EmbeddedServer().start()


def test_a_server_that_never_answers_is_told_and_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    silent = tmp_path / "valkey-server"
    pid_file = tmp_path / "pid"
    silent.write_text(f'#!/bin/sh\necho "thinking"\necho $$ > {pid_file}\nexec sleep 60\n')
    silent.chmod(0o755)
    monkeypatch.setattr(server, "find_server", lambda: silent)
    with pytest.raises(ServerStartError, match=r"does not answer.*\n.*thinking"):
        EmbeddedServer().start(timeout_s=0.5)
    wait_until_gone(int(pid_file.read_text()))


def test_notices_that_the_server_died() -> None:
    with EmbeddedServer() as embedded:
        os.kill(embedded.pid, 9)
        wait_until(lambda: not embedded.is_running)
        embedded.start()
        assert embedded.is_running


def test_a_folder_whose_path_is_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    with pytest.raises(ValueError, match="too long"):
        EmbeddedServer(directory=deep).start()
    assert not list(deep.iterdir())


def test_a_long_temporary_folder_of_the_system_does_not_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with EmbeddedServer(unix_socket=True) as running, redis.Redis.from_url(running.url) as client:
        assert client.ping()
    assert not list(deep.iterdir())


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server on PATH")
@pytest.mark.parametrize("unix_socket", [False, True])
def test_a_redis_server_on_path_serves_as_well(monkeypatch: pytest.MonkeyPatch, unix_socket: bool) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _name: None)
    with EmbeddedServer(unix_socket=unix_socket) as running, redis.Redis.from_url(running.url) as client:
        assert client.config_get("save") == {"save": ""}


def test_fixtures_give_an_empty_server(client: redis.Redis) -> None:
    assert client.dbsize() == 0
    assert client.acl_users() == [b"default"] or client.acl_users() == ["default"]


async def test_the_async_fixture_gives_bytes(aclient: redis.asyncio.Redis) -> None:
    await aclient.set("key", "value")
    assert await aclient.get("key") == b"value"
