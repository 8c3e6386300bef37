"""What Linux, the processes themselves and the server say of processes, files and keys, as numbers by name."""

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redis import Redis

_INSIDE = Path(__file__).with_name("inside")
_ROOT = Path(__file__).parents[2]
_ANSWER_S = 5.0
_TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")
# By the words of smaps_rollup. Private is what ends with the process, without what is read from files: that becomes
# private, or shared, with each other process that begins or ends.
_MEMORY = {"Rss": "rss_kb", "Pss": "pss_kb", "Private_Dirty": "private_kb"}


def of_process(pid: int) -> dict[str, float]:
    """Return the memory, descriptors, threads and processor time of a process; raises ``OSError`` if it has ended."""
    folder = Path("/proc", str(pid))
    found: dict[str, float] = {}
    for line in (folder / "smaps_rollup").read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        if name in _MEMORY:
            found[_MEMORY[name]] = int(value.split()[0])
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    found["fds"] = len(os.listdir(folder / "fd"))  # noqa: PTH208 - only their number
    found["threads"] = int(fields[17])
    found["cpu_ms"] = (int(fields[11]) + int(fields[12])) * _TICK_MS
    return found


def prepared(folder: Path) -> dict[str, str]:
    """Return the environment of a process that can be asked for what it counts inside; answers are in ``folder``."""
    return {"PYTHONPATH": os.pathsep.join((str(_INSIDE), str(_ROOT))), "RSMQ_TUI_SOAK": str(folder)}


def of_inside(pids: Mapping[str, int], folder: Path, *, whole: bool) -> dict[str, dict[str, Any]]:
    """Ask processes for what they count inside, and return it by their name; those that do not answer are left out."""
    number = signal.SIGUSR2 if whole else signal.SIGUSR1
    asked: dict[str, Path] = {}
    for name, pid in pids.items():
        if _listens(pid, number):
            path = folder / f"{pid}.json"
            path.unlink(missing_ok=True)
            os.kill(pid, number)
            asked[name] = path
    found: dict[str, dict[str, Any]] = {}
    deadline_s = time.monotonic() + _ANSWER_S
    while asked and time.monotonic() < deadline_s:
        for name, path in list(asked.items()):
            if path.exists():
                found[name] = json.loads(path.read_text())
                del asked[name]
        time.sleep(0.01)
    return found


def _listens(pid: int, number: int) -> bool:
    """Return whether a process handles a signal, which would end it otherwise."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def of_server(client: Redis) -> dict[str, float]:
    """Return the memory, clients, keys and commands of a server."""
    info = client.info("everything")
    return {
        "used_memory_kb": info["used_memory"] // 1024,
        "clients": info["connected_clients"],
        "keys": client.dbsize(),
        "scripts": info.get("number_of_cached_scripts", 0),
        "clients_kb": info.get("mem_clients_normal", 0) / 1024,
        "commands": info["total_commands_processed"],
    }


def of_folder(folder: Path) -> dict[str, float]:
    """Return the KB of each file in a folder, those of a folder in it as one, and how many files there are."""
    found: dict[str, float] = {"files": 0}
    for path in folder.rglob("*"):
        try:
            size_kb = path.stat().st_size / 1024 if path.is_file() else None
        except FileNotFoundError:
            continue
        if size_kb is not None:
            name = f"{path.relative_to(folder).parts[0]}_kb"
            found[name] = found.get(name, 0.0) + size_kb
            found["files"] += 1
    return found
