"""A lock on a file, which the system takes away from a process that dies."""

import os
import sys
from pathlib import Path


class FileLock:
    """Holds a file locked until ``release``, or until the process ends; use ``acquire``."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def acquire(cls, path: Path, *, wait: bool = False, shared: bool = False) -> "FileLock | None":
        """Lock a file, which is made if need be; None where somebody else holds it. Raises ``OSError``.

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
        """Let go of it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, *, wait: bool, shared: bool) -> bool:
        try:
            # It locks bytes; far behind the end, so that others can still read the file.
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
