"""Small files read with a limit, files written as a whole, file locks, and the user's folders of this program."""

import errno
import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JSON_BYTES_MAX = 64_000_000


class UnfitFileError(OSError):
    """A path that must not be opened: not a regular file, which may block forever, or a file that is too long."""


class JsonError(ValueError):
    """A text that is not JSON, or JSON that is nested too deeply to be read; its text is one sentence."""


def reason_of(error: Exception) -> str:
    """Return why a file cannot be used, in one line; the number and the path in the system's errors are left out."""
    reason = error.strerror if isinstance(error, OSError) else None
    return reason or next(iter(str(error).splitlines()), "") or type(error).__name__


def _status(path: str | Path) -> os.stat_result:
    """Return the status of a file; raises ``OSError``.

    Python interns the parts of each new ``Path``. Polls look at files all the time, and strings that come and go make
    the table of interned strings double within an hour, by 1 MB.
    """
    return os.stat(path)  # noqa: PTH116


def regular_file(path: str | Path) -> os.stat_result:
    """Return the status of a regular file, or of the one that a link points to; raises ``OSError`` for all others."""
    known = _status(path)
    if not stat.S_ISREG(known.st_mode):
        raise UnfitFileError("it is not a regular file")
    return known


def read_bytes(path: str | Path, limit: int = JSON_BYTES_MAX) -> bytes:
    """Return the content of a regular file; raises ``OSError``, also for more than ``limit`` bytes."""
    regular_file(path)
    # Since the check, a pipe may have replaced the file: opening it must not block.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        found = file.read(limit + 1)
    if found is None or len(found) > limit:
        raise UnfitFileError(f"it is longer than {limit:,} bytes")
    return found


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; raises ``JsonError`` and nothing else."""
    try:
        return json.loads(text)
    except RecursionError:
        raise JsonError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise JsonError(f"not JSON: {error}") from error


def read_json(path: str | Path) -> Any:
    """Return the value of a JSON file; raises ``OSError`` and ``JsonError``."""
    return parse_json(read_bytes(path))


def sqlite_version(path: Path) -> tuple[int, ...] | None:
    """Return numbers that change whenever somebody writes to a SQLite file in WAL mode; None if there is no file."""
    try:
        found = _status(path)
    except OSError:
        return None
    numbers = (found.st_mtime_ns, found.st_size)
    try:
        found = _status(f"{path}-wal")
    except OSError:
        return numbers
    return (*numbers, found.st_mtime_ns, found.st_size)


def expanded(path: str) -> Path:
    """Return a path with ``~`` and ``~user`` replaced; raises ``ValueError`` for a user without a home directory."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"names a home directory that is not known here: {path.partition('/')[0]}") from None


_PROGRAM = "rsmq-tui"


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk; systems other than POSIX cannot flush a folder."""
    is_posix = os.name == "posix"
    if not is_posix and path.is_dir():
        return
    fd = os.open(path, os.O_RDONLY if is_posix else os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def whole_file(path: Path, *, force: bool = False, is_private: bool = True) -> Iterator[Callable[[str], object]]:
    """Write a file that gets its name only when it is complete. Raises OSError.

    It is UTF-8; a lone surrogate becomes a question mark. Only the user can read it, unless ``is_private`` is False:
    then its mode is that of any other new file. Raises ``FileExistsError`` if the file exists, at the start or at the
    end, unless ``force`` is set. Until then the text is in a hidden file in the same folder, which is removed after a
    failure or a cancellation.
    """
    if path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced.
        with path.open("w", encoding="utf-8", errors="replace") as out:
            yield out.write
        return
    path = path.resolve()
    if not force and path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as out:
            yield out.write
            out.flush()
            os.fsync(out.fileno())
        if not is_private:
            mask = os.umask(0)
            os.umask(mask)
            part.chmod(0o666 & ~mask)
        if not force:
            # Fails if another program has created the file meanwhile.
            path.touch(mode=0o600, exist_ok=False)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def config_folder() -> Path:
    """Return the folder of the configuration file and of the user's themes, which need not exist."""
    from platformdirs import user_config_path  # noqa: PLC0415 - a few ms that only those who look for a folder spend

    return user_config_path(_PROGRAM, appauthor=False, roaming=True)


AUDIT_LOG = "audit.jsonl"
"""The name of the audit log of changes, beside their journal."""


def state_folder() -> Path:
    """Return the folder of the journal and the audit log, which need not exist."""
    from platformdirs import user_state_path  # noqa: PLC0415

    return user_state_path(_PROGRAM, appauthor=False)


def cache_folder() -> Path:
    """Return the folder of files that can be made again, which need not exist."""
    from platformdirs import user_cache_path  # noqa: PLC0415

    return user_cache_path(_PROGRAM, appauthor=False)


class FileLock:
    """Holds a file locked until ``release``, or until the process ends; use ``acquire``."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def acquire(cls, path: Path, *, wait: bool = False, shared: bool = False) -> "FileLock | None":
        """Lock a file, which is created if needed; None if another process holds it. Raises ``OSError``.

        Several may hold it ``shared`` at once, though not on Windows.
        """
        fd = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666)
        try:
            if _lock(fd, wait=wait, shared=shared):
                return cls(fd)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return None

    def write(self, text: str) -> None:
        """Write into the file, for people."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0) if hasattr(os, "pwrite") else os.write(self._fd, text.encode())

    def release(self) -> None:
        """Unlock it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


# How long another program may hold a file locked.
LOCK_WAIT_S = 5.0
_LOCK_STEP_S = 0.02


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file locked, which is created if needed; raises ``OSError``, also if it stays locked elsewhere."""
    give_up_s = time.monotonic() + LOCK_WAIT_S
    while (lock := FileLock.acquire(path)) is None:
        if time.monotonic() > give_up_s:
            raise OSError(errno.EAGAIN, "another program has locked it")
        time.sleep(_LOCK_STEP_S)
    try:
        yield
    finally:
        lock.release()


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, *, wait: bool, shared: bool) -> bool:
        try:
            # It locks bytes, here far beyond the end, so that others can still read the file.
            os.lseek(fd, 1 << 30, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(fd, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _lock(fd: int, *, wait: bool, shared: bool) -> bool:
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True
