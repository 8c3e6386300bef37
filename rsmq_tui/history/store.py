"""Where sealed files are stored, a folder or a URL, and how long they are kept."""

import hashlib
import re
import secrets
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from rsmq_tui.files import JSON_BYTES_MAX, UnfitFileError, expanded, read_bytes, regular_file, sync
from rsmq_tui.history.names import HistoryError, explain
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.monitor.moments import DAY_MS

SEALED = ".parquet"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+(?:::[A-Za-z][A-Za-z0-9+.-]+)*)://(.*)", re.DOTALL)
_USER = re.compile(r"://[^/]*@")
_DAY = re.compile(r"day=([0-9]{4}-[0-9]{2}-[0-9]{2})")
# Longer than the resolution of file times, and than network filesystems cache them.
_CERTAIN_NS = 60 * 1_000_000_000


class SealedFile(NamedTuple):
    """One sealed file: its ``name`` within the history, its ``day`` and its size in bytes."""

    name: str
    day: str
    bytes: int


def recorder_of(name: str) -> str:
    """Return the id of the recorder in the name of a sealed file."""
    return name.rpartition("/")[2].partition("-")[0]


def open_store(out: str, state: Path) -> "tuple[Store, Path]":
    """Return the store that ``out`` names, and the local folder for its segments.

    ``out`` is a path or a URL; ``state`` is the user's folder, for the segments of a store that is not local. Raises
    ``HistoryError``.
    """
    found = _URL.fullmatch(out)
    if found is None or found[1] == "file":
        try:
            folder = expanded(out if found is None else found[2]).absolute()
        except ValueError:
            raise HistoryError(f"{out}: its home directory is not known here") from None
        return FolderStore(folder), folder / "_segments"
    digest = hashlib.sha256(out.rstrip("/").encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return _remote(out, _USER.sub("://", out)), state / "record" / digest


class FolderStore:
    """A local folder with sealed files; all methods may raise ``OSError``.

    Only regular files inside the folder are read, whatever a name says.
    """

    def __init__(self, folder: Path) -> None:
        self.label = str(folder)
        self._folder = folder

    def prepare(self) -> None:
        """Create the folder, if it does not exist."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> str | None:
        """Return the text of a small file, or None if there is none; invalid UTF-8 becomes U+FFFD."""
        try:
            return read_bytes(self._at(name)).decode("utf-8", "replace")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str, scratch: Path) -> None:
        """Write a small file atomically; ``scratch`` is a path for the temporary file."""
        scratch.write_text(text, "utf-8")
        sync(scratch)
        self.publish(scratch, name)

    def has(self, name: str) -> bool:
        """Return whether there is such a file."""
        return (self._folder / name).exists()

    def publish(self, path: Path, name: str) -> None:
        """Move a finished local file to that name; it appears atomically."""
        target = self._folder / name
        for _ in range(3):
            target.parent.mkdir(parents=True, exist_ok=True)
            # Another process may be removing this day.
            with suppress(FileNotFoundError):
                path.replace(target)
                break
        else:
            path.replace(target)
        sync(target.parent)

    def days(self, table: str) -> dict[str, str]:
        """Return the days of a table, each with a stamp: a text that changes when the names of its files change.

        The stamp is empty if the folder changed a moment ago: its time may be the same after another change.
        """
        stamps = {}
        with suppress(FileNotFoundError):
            for folder in (self._folder / table).iterdir():
                if (found := _DAY.fullmatch(folder.name)) is not None:
                    with suppress(FileNotFoundError):
                        changed_ns = folder.stat().st_mtime_ns
                        is_certain = time.time_ns() - changed_ns > _CERTAIN_NS
                        stamps[found[1]] = str(changed_ns) if is_certain else ""
        return stamps

    def files(self, table: str, days: Collection[str] | None = None) -> list[SealedFile]:
        """Return the sealed files of a table, or of some days of it, the oldest day first."""
        return sorted(self._files(table, days), key=lambda file: (file.day, file.name))

    def _files(self, table: str, days: Collection[str] | None) -> Iterator[SealedFile]:
        top = self._folder / table
        with suppress(FileNotFoundError):
            for folder in top.iterdir() if days is None else (top / f"day={day}" for day in days):
                if (found := _DAY.fullmatch(folder.name)) is None:
                    continue
                day = f"{table}/{folder.name}"
                # The day may be removed meanwhile; the others are listed.
                try:
                    paths = list(folder.iterdir())
                except FileNotFoundError:
                    continue
                except OSError:
                    # Opening it reports what it is.
                    yield SealedFile(day, found[1], 0)
                    continue
                for path in paths:
                    if path.suffix == SEALED and not path.name.startswith(("_", ".")):
                        with suppress(FileNotFoundError):
                            yield SealedFile(f"{day}/{path.name}", found[1], _size_of(path))

    def open(self, name: str) -> Any:
        """Return the path, which pyarrow can read."""
        path = self._at(name)
        regular_file(path)
        return str(path)

    def location(self, name: str) -> str:
        """Return the path of a file, for other programs."""
        return str(self._at(name))

    def _at(self, name: str) -> Path:
        return self._folder / _within(name)

    def remove(self, *names: str) -> None:
        """Remove files; missing ones are ignored."""
        for name in names:
            self._at(name).unlink(missing_ok=True)

    def remove_day(self, day: str, scratch: Path) -> None:
        """Remove a day of both tables, first renamed into ``scratch``, so that it disappears atomically."""
        for table in (SAMPLES, MESSAGES):
            gone = scratch / f"{table}.{day}.{secrets.token_hex(4)}.gone"
            with suppress(FileNotFoundError):
                (self._folder / table / f"day={day}").rename(gone)
                shutil.rmtree(gone)


class RemoteStore:
    """A store on an fsspec filesystem, with the methods and guarantees of ``FolderStore``.

    Files are uploaded under a name that readers ignore, and then moved.
    """

    def __init__(self, filesystem: Any, root: str, label: str) -> None:
        self.label = label
        self._fs = filesystem
        self._root = root.rstrip("/")

    def prepare(self) -> None:
        """Create the folder, if the filesystem has folders."""
        self._fs.makedirs(self._root, exist_ok=True)

    def read(self, name: str) -> str | None:
        """Return a small file, or None if there is none."""
        try:
            found: bytes = self._fs.cat_file(self._at(name), 0, JSON_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        if len(found) > JSON_BYTES_MAX:
            raise UnfitFileError(f"{name} is longer than {JSON_BYTES_MAX:,} bytes")
        return found.decode("utf-8", "replace")

    def write(self, name: str, text: str, scratch: Path) -> None:
        """Write a small file under another name, and move it."""
        scratch.write_text(text, "utf-8")
        self.publish(scratch, name)

    def has(self, name: str) -> bool:
        """Return whether there is such a file."""
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._at(name)))

    def publish(self, path: Path, name: str) -> None:
        """Upload a local file, move it to its name, and remove the local one."""
        folder, _, last = self._at(name).rpartition("/")
        self._fs.makedirs(folder, exist_ok=True)
        beside = f"{folder}/_{last}.part"
        self._fs.put_file(str(path), beside)
        self._fs.mv(beside, f"{folder}/{last}")
        path.unlink()

    def days(self, table: str) -> dict[str, str]:
        """Return the days of a table, each with a digest of its names: a bucket has no times of folders."""
        names: dict[str, list[str]] = {}
        for file in self.files(table):
            names.setdefault(file.day, []).append(file.name)
        return {
            day: hashlib.sha256("\0".join(found).encode("utf-8", "surrogateescape")).hexdigest()[:16]
            for day, found in names.items()
        }

    def files(self, table: str, days: Collection[str] | None = None) -> list[SealedFile]:
        """Return the sealed files of a table, or of some days of it."""
        self._fs.invalidate_cache()
        found = []
        tops = [table] if days is None else [f"{table}/day={day}" for day in days]
        for path, about in chain.from_iterable(self._fs.find(self._at(top), detail=True).items() for top in tops):
            day, _, last = str(path).rpartition("/")
            named = _DAY.fullmatch(day.rpartition("/")[2])
            if named is not None and last.endswith(SEALED) and not last.startswith(("_", ".")):
                found.append(SealedFile(f"{table}/day={named[1]}/{last}", named[1], int(about.get("size") or 0)))
        return sorted(found, key=lambda file: (file.day, file.name))

    def open(self, name: str) -> Any:
        """Open the file."""
        return self._fs.open(self._at(_within(name)), "rb")

    def location(self, name: str) -> str:
        """Return the URL of a file, for other programs."""
        return str(self._fs.unstrip_protocol(self._at(_within(name))))

    def remove(self, *names: str) -> None:
        """Remove files; missing ones are ignored."""
        for name in names:
            with suppress(FileNotFoundError):
                self._fs.rm_file(self._at(_within(name)))

    def remove_day(self, day: str, scratch: Path) -> None:
        """Remove the day's files."""
        del scratch
        for table in (SAMPLES, MESSAGES):
            with suppress(FileNotFoundError):
                self._fs.rm(self._at(f"{table}/day={day}"), recursive=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


Store = FolderStore | RemoteStore


def _remote(url: str, label: str) -> RemoteStore:
    from fsspec.core import url_to_fs  # noqa: PLC0415 - not needed to record to a folder

    try:
        filesystem, root = url_to_fs(url)
    except ImportError as error:
        raise HistoryError(f"{label} needs another package: {error}") from error
    except Exception as error:
        # Filesystems raise exceptions of their own.
        raise HistoryError(explain(error, label).replace(url, label)) from error
    return RemoteStore(filesystem, root, label)


def _within(name: str) -> str:
    """Return the name of a file in a folder; raises ``OSError`` if it points outside."""
    if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
        raise UnfitFileError("its name points outside the folder")
    return name


def _size_of(path: Path) -> int:
    """Return the size of a file, 0 if it is unknown; raises ``FileNotFoundError``."""
    try:
        return path.stat().st_size
    except OSError as error:
        # A broken link exists too.
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            raise
        return 0


# The last ms of the year 9999.
LAST_MS = 253_402_300_799_999


def day_of(at_ms: int) -> str:
    """Return the UTC day of a time: 2031-05-17; raises ``HistoryError`` for a time beyond the calendar."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError) as error:
        raise HistoryError(
            f"the server's clock is outside the calendar: {at_ms} ms; synchronize it with NTP"
        ) from error


def is_day(day: str) -> bool:
    """Return whether a text is a day of the calendar, written as ``day_of`` writes it."""
    try:
        return datetime.fromisoformat(day).date().isoformat() == day
    except ValueError:
        return False


def day_span_ms(day: str) -> tuple[int, int] | None:
    """Return the first and the last ms of a UTC day, or None for an invalid day."""
    if not is_day(day):
        return None
    start_ms = round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
    return start_ms, start_ms + DAY_MS - 1


def nearest_day_of(at_ms: int) -> str:
    """Return the UTC day of a time; for one beyond the calendar, a text that sorts before or after all days."""
    try:
        return day_of(at_ms)
    except HistoryError:
        return "0000-00-00" if at_ms < 0 else "9999-99-99"


def delete_old_days(
    store: Store, *, keep_ms: int | None, max_bytes: int | None, now_ms: int, written: Collection[str], scratch: Path
) -> None:
    """Delete days older than ``keep_ms``, and the oldest days beyond ``max_bytes``.

    Today (by ``now_ms``), the newest day and the days in ``written`` are never deleted. Raises ``OSError``.
    """
    sizes: dict[str, int] = {}
    for table in (SAMPLES, MESSAGES):
        for file in store.files(table):
            sizes[file.day] = sizes.get(file.day, 0) + file.bytes
    if not sizes:
        return
    protected = {*written, max(sizes)}
    removable = [day for day in sorted(sizes) if day not in protected and day < day_of(now_ms)]
    gone = [day for day in removable if keep_ms is not None and _end_ms(day) <= now_ms - keep_ms]
    left = sum(size for day, size in sizes.items() if day not in gone)
    for day in removable:
        if max_bytes is None or left <= max_bytes:
            break
        if day not in gone:
            gone.append(day)
            left -= sizes[day]
    for day in gone:
        store.remove_day(day, scratch)


def _end_ms(day: str) -> int:
    span_ms = day_span_ms(day)
    # An invalid day was not written by us, and is not deleted by age.
    return 1 << 62 if span_ms is None else span_ms[1] + 1
