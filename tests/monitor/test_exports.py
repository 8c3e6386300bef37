"""The public surface: what screens, commands and tests may import from the package."""

import inspect
import re

import pytest

from rsmq_tui import monitor
from rsmq_tui.monitor import RsmqPoller, Source
from rsmq_tui.monitor.list_poller import ListPoller


def test_all_is_complete() -> None:
    own = {name for name, value in vars(monitor).items() if getattr(value, "__module__", "").startswith("rsmq_tui.")}

    assert {name for name in own if not name.startswith("_")} <= set(monitor.__all__)
    assert all(hasattr(monitor, name) for name in monitor.__all__)


def test_all_is_sorted_classes_then_functions() -> None:
    assert monitor.__all__ == sorted(monitor.__all__, key=lambda name: (name[0].islower(), name))


def test_every_name_is_explained() -> None:
    assert [name for name in monitor.__all__ if not inspect.getdoc(getattr(monitor, name))] == []


SOURCE = sorted(name for name in vars(Source) if not name.startswith("_") and callable(getattr(Source, name)))


def test_the_source_is_what_screens_need() -> None:
    assert {"snapshots", "wake", "set_paused", "switch", "peek", "read", "due", "aclose"} <= set(SOURCE)


@pytest.mark.parametrize("poller", [RsmqPoller, ListPoller])
@pytest.mark.parametrize("name", SOURCE)
def test_the_live_pollers_are_sources(name: str, poller: type) -> None:
    wanted, offered = getattr(Source, name), getattr(poller, name)

    parameters, needed = (list(inspect.signature(method).parameters.values()) for method in (offered, wanted))
    assert list(map(_in_words, parameters[: len(needed)])) == list(map(_in_words, needed))
    # Commands may also limit a search or an audit.
    assert all(parameter.default is None for parameter in parameters[len(needed) :])
    returned = [_annotation(inspect.signature(method).return_annotation) for method in (offered, wanted)]
    assert returned[0] == returned[1]
    assert inspect.iscoroutinefunction(offered) == inspect.iscoroutinefunction(wanted)
    assert inspect.isasyncgenfunction(offered) == (name == "snapshots")


def _in_words(parameter: inspect.Parameter) -> tuple[object, ...]:
    return parameter.name, parameter.kind, parameter.default, _annotation(parameter.annotation)


def _annotation(annotation: object) -> str:
    """An annotation without the names of modules: one may be a string, because its type is imported on first use."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"[\w.]+\.(\w+)", r"\1", text)
