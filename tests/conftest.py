"""Fixtures shared by all tests: one embedded server for a session, emptied for each test."""

import ctypes
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import hiredis
import pytest
import redis
import redis.asyncio
from hypothesis import HealthCheck, settings
from redis.utils import get_lib_version

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import RsmqReader

pytest_plugins = ["rsmq_tui.listserver.pytest_plugin"]

# The time of an example depends on the load of the machine, and must not fail a test.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# The objects of the collection live until the end, so the garbage collector would search them in vain.
gc.disable()
_freeze = gc.freeze

# Background processes of a shell ignore SIGINT, and under nohup SIGHUP; the processes of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Let each Python find what another has compiled: all workers do, and hundreds of tests start one of their own."""
    if sys.dont_write_bytecode and sys.pycache_prefix is None:
        # If the user wants no compiled files in the tree, they go beside pytest's own.
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(config.rootpath / ".pytest_cache" / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests are dealt out to several processes, the slow ones come first: none is alone at the end."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return what deals out tests by module, so that one process makes what a module's tests share."""
    from xdist.scheduler import LoadGroupScheduling

    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    scheduler = LoadGroupScheduling(config, log)
    # The group of a test, or its whole name.
    group_of = scheduler._split_scope
    scheduler._split_scope = lambda nodeid: group_of(nodeid).partition("::")[0]
    return scheduler


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are processors: tests of processes and of screens wait for a third of their time."""
    return (3 * (os.cpu_count() or 1) + 1) // 2


def pytest_collection_finish() -> None:
    gc.freeze()
    # A collection of all live objects after every 700 new ones takes a quarter of a run: an app has tens of thousands.
    gc.set_threshold(400_000)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _no_configuration() -> Iterator[None]:
    """The user's own configuration file must not affect tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RSMQ_TUI_CONFIG", os.devnull)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_frozen() -> Iterator[None]:
    """A command freezes what it has loaded, as it has a process of its own; here all garbage of before would stay."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gc.freeze", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _version_read_once() -> Iterator[None]:
    """redis-py reads and parses its package's metadata for each client and each connection that it makes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("redis.utils.get_lib_version", cache(get_lib_version))
        yield


@pytest.fixture(scope="session", autouse=True)
def _known_not_to_be_there() -> Iterator[None]:
    """Arrow imports dateutil for each value whose type it infers: where there is none, Python searches all paths."""
    with pytest.MonkeyPatch.context() as patched:
        if find_spec("dateutil") is None:
            patched.setitem(cast("dict[str, None]", sys.modules), "dateutil", None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _memory_given_back() -> Iterator[None]:
    """Free the memory of a module of tests after it, for other processes too: glibc and Arrow would keep it."""
    yield
    if styles := sys.modules.get("textual._styles_cache"):
        # It keeps what the last 1,024 widgets painted, of apps that have ended.
        styles.StylesCache.get_inner_outer.cache_clear()
    gc.collect()
    # What is left stays for good, most of it modules: the next collections have only to look at what is new.
    _freeze()
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


@pytest.fixture(scope="session")
def analysis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the scripted analysis, for tests that only read it."""
    from tests.history.analysis.made import scripted

    out = tmp_path_factory.mktemp("analysis")
    scripted(out)
    return out


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """The session's server; a test that stops or reconfigures a server starts its own."""
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def unix_server() -> Iterator[EmbeddedServer]:
    """A server of the test's own, on a Unix socket."""
    with EmbeddedServer(unix_socket=True) as running:
        yield running


@pytest.fixture
def redis_url(server: EmbeddedServer) -> str:
    """The URL of a server without keys, scripts, counted commands or users of other tests."""
    # Each test with a server asks this: a client would introduce itself first, which takes longer.
    asked = b"FLUSHALL", b"SCRIPT FLUSH", b"CONFIG RESETSTAT", b"ACL USERS"
    replies: list[Any] = []
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"".join(command + b"\r\n" for command in asked))
        reader = hiredis.Reader()
        while len(replies) < len(asked):
            received = connection.recv(1 << 16)
            assert received, "the server has ended"
            reader.feed(received)
            while (reply := reader.gets()) is not False:
                replies.append(reply)
    assert replies[:3] == [b"OK"] * 3, replies
    if added := set(replies[3]) - {b"default"}:
        with redis.Redis.from_url(server.url) as admin:
            admin.acl_deluser(*added)
    return server.url


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as connected:
        yield connected


@pytest.fixture
async def aclient(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis.from_url(redis_url) as connected:
        yield connected


@pytest.fixture
async def reader(redis_url: str) -> AsyncIterator[RsmqReader]:
    async with aclosing(RsmqReader(redis_url)) as opened:
        yield opened
