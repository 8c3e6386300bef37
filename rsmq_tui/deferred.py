"""Modules of other packages that are executed when something of theirs is first used.

To import a module of a package, Python executes the ``__init__`` of that package first. That of redis-py imports all of
it, of which a poll needs a third.
"""

import importlib.util
import sys
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

_lock = RLock()


class _Deferred(ModuleType):
    """A module that was not executed yet; its submodules can be imported."""

    def __getattr__(self, name: str) -> Any:
        """Return a submodule; for any other name, execute the module."""
        qualified = f"{self.__name__}.{name}"
        if "__path__" in vars(self) and not name.startswith("__") and importlib.util.find_spec(qualified) is not None:
            return import_module(qualified)
        with _lock:
            if type(self) is _Deferred:
                self._execute(name)
        return getattr(self, name)

    def _execute(self, name: str) -> None:
        spec = self.__spec__
        if spec is None or spec.loader is None or "_is_begun" in vars(self):
            # It asks for a name that it does not have yet.
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        vars(self)["_is_begun"] = True
        try:
            spec.loader.exec_module(self)
        finally:
            del vars(self)["_is_begun"]
        self.__class__ = ModuleType  # type: ignore[assignment] # an ordinary one from now on


def defer(*names: str) -> None:
    """Let modules be executed on first use, each after the package that it is in; one that is imported stays as it is.

    ``import a.b`` does not execute ``a`` then, and ``from a import c`` only if ``c`` is no module of ``a``.
    """
    for name in names:
        spec = None if name in sys.modules else importlib.util.find_spec(name)
        if spec is None:
            continue
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        module.__class__ = _Deferred
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, module)
