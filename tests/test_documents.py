"""ARCHITECTURE.md and the docstrings of packages name what is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rsmq_tui"
PACKAGES = sorted(path.parent for path in PACKAGE.rglob("*.py") if path.name == "__init__.py")
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+(?:/|\.(?:py|md|toml|tcss|yml|json)))`")
# A text that starts with one of these is of the whole project; any other path starts in the package.
OF_THE_PROJECT = ("rsmq_tui/", "tests/", "themes/", "pyproject.toml")


def paths_in(text: str) -> list[str]:
    return [match[1] for match in NAMED.finditer(text)]


def entries_of(folder: Path) -> set[str]:
    """What a reader may look for in a folder: modules without their suffix, folders and other files."""
    return {
        path.stem if path.suffix == ".py" else path.name
        for path in folder.iterdir()
        if path.name not in ("__init__.py", "__pycache__", "py.typed")
        and not path.name.startswith(".")
        and (path.is_file() or any(file.suffix != ".pyc" for file in path.rglob("*") if file.is_file()))
    }


def test_each_path_that_the_architecture_names_exists() -> None:
    named = paths_in((PACKAGE / "ARCHITECTURE.md").read_text(encoding="utf-8"))

    assert len(named) > 100
    for path in named:
        start = ROOT if path.startswith(OF_THE_PROJECT) else PACKAGE
        assert (start / path).exists(), path


def test_the_architecture_names_each_package_of_the_first_level() -> None:
    named = paths_in((PACKAGE / "ARCHITECTURE.md").read_text(encoding="utf-8"))

    assert {f"{folder.name}/" for folder in PACKAGES if folder.parent == PACKAGE} <= set(named)


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_the_docstring_of_a_package_names_each_entry_of_its_folder(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    # A line of an entry is its name, two spaces or more, and what it holds.
    lines = re.findall(r"^(\S+) {2,}\S", docstring, re.MULTILINE)

    assert sorted(lines) == sorted(entries_of(folder))
