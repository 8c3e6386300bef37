"""What is used of other packages' private names: a new minor version of one of them may be without."""

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from redis._parsers import hiredis as parsers
from rich.segment import Segment
from rich.style import Style
from textual.drivers.linux_driver import LinuxDriver

import rsmq_tui

ROOT = Path(rsmq_tui.__file__).parent
# The minor versions that these names were looked up in.
VERSIONS = {"textual": "8.2", "rich": "15.0", "click": "8.5", "redis": "8.1", "hiredis": "3.5", "pyspark": "4.3"}


def _app() -> Any:
    from textual.app import App

    return App()


def _spark_context() -> Any:
    from pyspark import SparkContext

    return SparkContext


@cache
def _attributes(base: type) -> frozenset[str]:
    """The attributes that a class gives itself."""
    return frozenset(re.findall(r"self\.(_\w+)\b[^=\n(]*=[^=]", inspect.getsource(base)))


# By package: what makes an object that has the names, and the names.
NAMES: dict[str, list[tuple[Callable[[], Any], set[str]]]] = {
    "textual": [
        (_app, {"_driver", "_fatal_error", "_message_queue", "_pending_message"}),
        (lambda: importlib.import_module("textual"), {"_border", "_segment_tools", "_styles_cache"}),
        (lambda: _attributes(LinuxDriver), {"_file"}),
    ],
    "rich": [(lambda: Segment, {"_split_cells"}), (lambda: Style, {"_add"})],
    "redis": [
        (lambda: importlib.import_module("redis"), {"_parsers"}),
        (lambda: parsers, {"_HiredisParser", "_AsyncHiredisParser"}),
        # They get them when they are connected.
        (lambda: _attributes(parsers._HiredisParser), {"_reader", "_socket_timeout"}),
        (lambda: _attributes(parsers._AsyncHiredisParser), {"_reader"}),
        (redis.asyncio.Connection, {"_connect", "_parser", "_reader", "_writer"}),
    ],
    "pyspark": [(_spark_context, {"_gateway", "_jvm"})],
}
_NAMING = {
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Name, ast.Attribute, ast.Call, ast.ImportFrom,
}  # fmt: skip
# Documented, whatever they look like.
PUBLIC = {"_replace", "_asdict", "_fields", "_field_defaults", "_make", "_exit"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC | {"_"}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    """The name and the code of each of our modules; all of them at once take 100 MB."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(path.read_text("utf-8"))


def _naming(root: ast.AST) -> list[ast.AST]:
    """The nodes below one that may have a name; half of all are contexts and constants."""
    return [node for node in ast.walk(root) if type(node) in _NAMING]


def _defined_here(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


def _used(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that are read of objects, given to ``getattr``, or imported from elsewhere."""
    for node in nodes:
        match node:
            case ast.Attribute():
                yield node.attr
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str() as name), *_]):
                yield name
            case ast.ImportFrom(module=str() as module) if not module.startswith("rsmq_tui"):
                yield from (*module.split("."), *(alias.name for alias in node.names))


def _inherited(name: str, tree: ast.Module) -> Iterator[str]:
    """Private names that a module's classes share with the classes of others that they are made from."""
    if not any(isinstance(node, ast.ClassDef) and node.bases for node in tree.body):
        return
    module = importlib.import_module(name)
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [base for base in getattr(module, node.name).__mro__ if _is_foreign(base)]
        if not bases:
            continue
        nodes = _naming(node)
        written = {*_defined_here(nodes), *_used(nodes)} - {node.name}
        for base in bases:
            yield from (each for each in written if each in vars(base) or each in _attributes(base))


def _is_foreign(base: type) -> bool:
    return base.__module__.split(".")[0] in ("click", "textual", "redis", "hiredis")


def test_no_private_name_of_others_is_used_but_those_listed() -> None:
    defined: set[str] = set()
    used: set[str] = set()
    inherited: set[str] = set()
    for name, tree in _modules():
        nodes = _naming(tree)
        defined.update(_defined_here(nodes))
        used.update(filter(_is_private, _used(nodes)))
        inherited.update(filter(_is_private, _inherited(name, tree)))
    listed = {name for made in NAMES.values() for _, names in made for name in names}

    assert (used - defined) | inherited <= listed
    assert listed <= used | inherited


@pytest.mark.parametrize("package", NAMES)
def test_the_names_are_there(package: str) -> None:
    for made, names in NAMES[package]:
        found = made()
        there = found if isinstance(found, frozenset) else {*dir(found)}
        assert names <= there, names - there


@pytest.mark.parametrize("package", VERSIONS)
def test_the_version_is_the_one_that_was_looked_at(package: str) -> None:
    """After an upgrade: look at what became of the names, and change the version here and in pyproject.toml."""
    minor = VERSIONS[package]
    assert version(package).startswith(f"{minor}.")
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))["project"]
    # The pipeline works with more versions of pyspark than the tests run.
    wanted = project["dependencies"] + project["optional-dependencies"]["test"]
    assert any(re.match(rf"{package}(\[\w+\])?~={re.escape(minor)}\.", each) for each in wanted)
