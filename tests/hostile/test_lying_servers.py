"""One server that lies beside a good one: the good one's numbers go on, the other is marked with a sentence."""

import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import RsmqReader
from rsmq_tui.protocol.lists.naming import LISTS_NS, ListNames
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.triage.rsmq.backend import RsmqBackend
from rsmq_tui.triage.service import ChangeService
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.hostile.liar import FLOODS, LIES, Liar
from tests.hostile.proxy import Change, Proxy
from tests.hostile.watching import Dashboard, assert_up, dashboard, dashboard_app, is_fresh, open_queue, press, until
from tests.web.exporter.scraping import exporting

pytestmark = pytest.mark.slow

_TIMEOUT_S = 0.4
_MEMORY_MAX = 400_000_000
_PUSH = b">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n"


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# The others share a dashboard, as many as there is room for in its line of servers.
_OTHERS = sorted(set(LIES) - set(FLOODS))
_FEW = [_OTHERS[place : place + 5] for place in range(0, len(_OTHERS), 5)]


def _first(lies: Sequence[str]) -> str:
    return lies[0]


def _stale(pilot: Dashboard) -> set[str]:
    """The places that have failed with a sentence."""
    parts = dashboard_app(pilot).dashboard.snapshot.parts
    return {part.place for part in parts if part.connection.failure is not None and part.connection.failure.sentence}


@asynccontextmanager
async def _beside(good: str, bad: Mapping[str, str]) -> AsyncIterator[Dashboard]:
    """The dashboard on a good server, and on bad ones with their lists, by name."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "journal"
        servers = [
            WatchedServer(
                RsmqPoller(RsmqReader(url, timeout_s=_TIMEOUT_S), interval_s=0.1, place=place),
                place=place,
                name=place,
                ns="rsmq",
                make_triage=partial(ChangeService, RsmqBackend(url, "rsmq"), folder),
            )
            for place, url in {"good": good, **bad}.items()
        ]
        for name, url in bad.items():
            lists, place = ListReader(url, ListNames(), ["jobs", "list*"], timeout_s=_TIMEOUT_S), f"{name} lists"
            servers.append(
                WatchedServer(ListPoller(lists, interval_s=0.1, place=place), place=place, name=name, ns=LISTS_NS)
            )
        async with RsmqApp(servers).run_test(size=(160, 48), notifications=True) as pilot:
            yield pilot
            assert_up(pilot)


@pytest.mark.parametrize("lies", [*([lie] for lie in FLOODS), *_FEW], ids=_first)
async def test_the_dashboard_shows_the_good_one(orders: Redis, redis_url: str, lies: list[str]) -> None:
    before = _peak_bytes()
    with ExitStack() as stack:
        bad = {f"bad{place}": stack.enter_context(Liar(lie)).url for place, lie in enumerate(lies)}
        async with _beside(redis_url, bad) as pilot:
            await until(pilot, "orders", *(f"✗ {place}" for place in bad), lambda: bad.keys() <= _stale(pilot))
            await press(pilot, "n")
            await press(pilot, "escape", "r")
            orders.hset("rsmq:orders:Q", "totalsent", "77")
            await until(pilot, "orders", *(f"✗ {place}" for place in bad), lambda: bad.keys() <= _stale(pilot))
    assert _peak_bytes() - before < _MEMORY_MAX


@pytest.mark.parametrize("lie", LIES)
async def test_the_exporter_tells_of_the_good_one(orders: Redis, redis_url: str, lie: str) -> None:
    before = _peak_bytes()
    with Liar(lie) as liar:
        async with exporting(redis_url, liar.url, lists=("jobs",), timeout_s=_TIMEOUT_S) as exporter:
            # A flood is read by the same processor: the good server's poll may come late, and is made again.
            answer = await exporter.until(lambda answer: answer.values("rsmq_up", profile="s0", ns="rsmq") == [1])
            assert answer.value("rsmq_up", profile="s1", ns="rsmq") == 0
            assert answer.value("rsmq_queue_ready_messages", profile="s0", queue="orders") == 2
            assert not [1 for sample in answer.samples if sample.labels.get("kind") == "defect" and sample.value]
    assert _peak_bytes() - before < _MEMORY_MAX


def _twice(data: bytes) -> tuple[bytes, bool]:
    return data * 2, False


def _behind_pushes(data: bytes) -> tuple[bytes, bool]:
    return _PUSH * 5_000 + data + _PUSH * 5_000, False


def _halved(data: bytes) -> tuple[bytes, bool]:
    return data[: len(data) // 2], True


def _of_other_numbers(data: bytes) -> tuple[bytes, bool]:
    return data.replace(b":1\r\n", b":-1\r\n").replace(b":2\r\n", b":9223372036854775807\r\n"), False


def _with_nils(data: bytes) -> tuple[bytes, bool]:
    return data.replace(b":0\r\n", b"$-1\r\n"), False


def _of_other_types(data: bytes) -> tuple[bytes, bool]:
    return data.replace(b":", b"+"), False


def _in_resp3(data: bytes) -> tuple[bytes, bool]:
    return data.replace(b":1\r\n", b"#t\r\n").replace(b":2\r\n", b",nan\r\n").replace(b"$-1\r\n", b"_\r\n"), False


def _in_other_order() -> Change:
    kept = b""

    def change(data: bytes) -> tuple[bytes, bool]:
        nonlocal kept
        kept, data = data, kept
        return data or b"+OK\r\n", False

    return change


CHANGES: dict[str, Callable[[], Change]] = {
    "twice": lambda: _twice,
    "behind pushes": lambda: _behind_pushes,
    "halved": lambda: _halved,
    "of other numbers": lambda: _of_other_numbers,
    "with nils": lambda: _with_nils,
    "of other types": lambda: _of_other_types,
    "in RESP3": lambda: _in_resp3,
    "in other order": _in_other_order,
}


async def test_a_server_that_begins_to_lie_while_it_is_looked_at(orders: Redis, proxy: Proxy) -> None:
    async with dashboard(proxy.url, timeout_s=_TIMEOUT_S, interval_s=0.05) as pilot:
        await until(pilot, "● live", "orders")
        await press(pilot, "F")
        await until(pilot, lambda: pilot.app.screen.query("#findings"))
        await press(pilot, "escape")
        await open_queue(pilot, "orders")
        for change in CHANGES.values():
            proxy.change(change())
            proxy.drop()
            for key in ("r", "enter", "l", "h", "y", "escape", "F", "r", "escape", "n", "escape", "x", "escape", "r"):
                await press(pilot, key)
                assert_up(pilot)
            proxy.forward()
            while len(pilot.app.screen_stack) > 2:
                await press(pilot, "escape")
            await until(pilot, "● live", lambda: is_fresh(pilot))
