"""Modules that are executed on first use."""

import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import ModuleType
from typing import Any

import pytest

from rsmq_tui.cli.program import defer
from tests.cli.running import printed

INIT = """
import sys, time
sys.executed_parcels.append(__name__)
time.sleep(0.05)
from parcels import stamps
from parcels.stamps import price

def __getattr__(name):
    if name == "later":
        return 3
    raise AttributeError(name)
"""


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A deferred package ``parcels`` with a module ``stamps``, and the names of those that were executed."""
    (tmp_path / "parcels").mkdir()
    (tmp_path / "parcels" / "__init__.py").write_text(INIT)
    (tmp_path / "parcels" / "stamps.py").write_text("import sys\nsys.executed_parcels.append(__name__)\nprice = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    found: list[str] = []
    monkeypatch.setattr(sys, "executed_parcels", found, raising=False)
    importlib.invalidate_caches()
    defer("parcels")
    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] == "parcels"]:
        del sys.modules[name]


def parcels() -> Any:
    return importlib.import_module("parcels")


def test_a_submodule_is_imported_without_its_package(executed: list[str]) -> None:
    assert importlib.import_module("parcels.stamps").price == 7
    assert parcels().stamps.price == 7
    assert executed == ["parcels.stamps"]


def test_a_submodule_is_imported_as_a_name_of_its_package(executed: list[str]) -> None:
    assert parcels().stamps.price == 7
    assert executed == ["parcels.stamps"]


def test_a_package_is_executed_once_for_a_name_of_its_own(executed: list[str]) -> None:
    assert parcels().price == 7
    assert parcels().price == 7
    assert type(parcels()) is ModuleType
    assert executed == ["parcels", "parcels.stamps"]


def test_what_a_package_makes_of_missing_names_holds(executed: list[str]) -> None:
    assert parcels().later == 3
    with pytest.raises(AttributeError, match="never"):
        _ = parcels().never
    assert executed == ["parcels", "parcels.stamps"]


def test_a_package_is_executed_once_by_several_threads(executed: list[str]) -> None:
    together = Barrier(8)

    def price(_: int) -> int:
        together.wait()
        return int(parcels().price)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(price, range(8))) == [7] * 8
    assert executed == ["parcels", "parcels.stamps"]


def test_a_module_that_is_imported_stays_as_it_is() -> None:
    before = sys.modules["json"]
    defer("json", "there_is_no_such_module")
    assert sys.modules["json"] is before
    assert "there_is_no_such_module" not in sys.modules


def test_redis_is_whole_when_it_is_asked_for() -> None:
    code = """
import sys
from rsmq_tui.cli.program import defer
defer("redis", "redis.asyncio", "importlib.metadata")
from redis.exceptions import ResponseError
from redis.asyncio.connection import Connection
assert not {"redis.client", "redis.asyncio.client", "redis.cluster", "email.message"} & sys.modules.keys()
import redis, importlib.metadata
assert redis.ResponseError is ResponseError and redis.asyncio.Connection is Connection
assert redis.__version__ == importlib.metadata.version("redis")
assert {*redis.__all__} <= {*vars(redis)} and {*redis.asyncio.__all__} <= {*vars(redis.asyncio)}
"""
    assert printed(code) == ""
