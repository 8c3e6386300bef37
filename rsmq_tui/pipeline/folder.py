"""One folder, accessed as files, by the store of the history, and by Spark's URL."""

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rsmq_tui.files import sync
from rsmq_tui.history.analysis.schema import SCHEMAS
from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.store import FolderStore, Store, open_store

# Hadoop's schemes for the same stores.
_HADOOPS = {"s3": "s3a", "gcs": "gs"}
# Java writes all other ASCII characters of a URI as %NN.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*,;:$&+=@/")


class Folder:
    """A local folder, which has a ``path``, or a URL that fsspec and Hadoop support."""

    def __init__(self, text: str, state: Path) -> None:
        self.store: Store
        self.store, _ = open_store(text, state)
        self.label = self.store.label
        self.path: Path | None = None
        if isinstance(self.store, FolderStore):
            self.path = Path(self.label)
            # Hadoop does not decode the rest: no %20.
            self.url = f"file://{self.path.as_posix()}" if os.name == "posix" else f"file:///{self.path.as_posix()}"
            self._fs: Any = _local()
            self._root = str(self.path)
        else:
            from fsspec.core import url_to_fs  # noqa: PLC0415

            scheme, _, rest = text.partition("://")
            self.url = f"{_HADOOPS.get(scheme, scheme)}://{rest}".rstrip("/")
            self._fs, root = url_to_fs(text)
            self._root = str(root).rstrip("/")

    def at(self, name: str) -> str:
        """Return the URL of a file or folder in it, for Spark."""
        return f"{self.url}/{name}"

    def files(self, name: str) -> list[str]:
        """Return the names of all files below a folder in it, also hidden ones; empty if there is no such folder."""
        self._fs.invalidate_cache()
        return [str(path)[len(self._root) + 1 :] for path in self._fs.find(f"{self._root}/{name}")]

    def folders(self, name: str) -> list[str]:
        """Return the names of the folders in a folder in it; empty if there is no such folder."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(f"{self._root}/{name}", detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [str(one["name"]).rstrip("/")[len(self._root) + 1 :] for one in found if one["type"] == "directory"]

    def holds_anything(self, *, but: Collection[str]) -> bool:
        """Return whether there is anything in it besides the names ``but``."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._root, detail=False)
        except FileNotFoundError:
            return False
        return any(str(path).rstrip("/").rpartition("/")[2] not in but for path in found)

    def stamp(self, name: str) -> str | None:
        """Return a text that changes when a file is rewritten, or None if there is no such file."""
        try:
            about = self._fs.info(f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        written = about.get("mtime") or about.get("LastModified") or about.get("etag") or ""
        return f"{about.get('size')} {written}"

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return int(self._fs.size(f"{self._root}/{name}"))

    def open(self, name: str) -> Any:
        """Open a file in it to read bytes."""
        return self._fs.open(f"{self._root}/{name}", "rb")

    def create(self, name: str) -> Any:
        """Open a new file in it to write bytes."""
        path = f"{self._root}/{name}"
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        return self._fs.open(path, "wb")

    def remove(self, *names: str) -> None:
        """Remove files, and folders recursively; missing ones are ignored."""
        for name in names:
            with suppress(FileNotFoundError):
                self._fs.rm(f"{self._root}/{name}", recursive=True)

    def remove_empty(self, *names: str) -> None:
        """Remove the folders of files that were removed, if they are empty and the filesystem has folders."""
        if self.path is not None:
            found = {folder for name in names for folder in (self.path / name).parents if self.path in folder.parents}
            for folder in sorted(found, key=lambda folder: -len(folder.parts)):
                with suppress(OSError):
                    folder.rmdir()

    def sync(self, *names: str) -> None:
        """Flush files and their directory entries to the disk, if it is local."""
        if self.path is None:
            return
        folders = {(self.path / name).parent for name in names}
        for path in [*(self.path / name for name in names), *folders, *{folder.parent for folder in folders}]:
            sync(path)

    def is_within(self, other: "Folder") -> bool:
        """Return whether this is ``other``, or inside it."""
        if self.path is not None and other.path is not None:
            ours, theirs = self.path.resolve(), other.path.resolve()
            return ours == theirs or theirs in ours.parents
        return (self.url + "/").startswith(other.url + "/")


def rows_in(out: Folder, table: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows in some files of a small table of an analysis; a column that a file does not have is null."""
    rows: list[dict[str, Any]] = []
    for name in names:
        with out.open(name) as opened:
            rows += pq.read_table(opened, schema=SCHEMAS[table]).to_pylist()
    return rows


def as_uri(name: str) -> str:
    """Return a name as Spark's ``_metadata.file_path`` spells it."""
    return "".join(c if c in _PLAIN or not c.isascii() else f"%{ord(c):02X}" for c in name)


def _local() -> Any:
    try:
        from fsspec.implementations.local import LocalFileSystem  # noqa: PLC0415
    except ImportError as error:
        raise HistoryError("the pipeline needs its packages: pip install 'rsmq-tui[pipeline]'") from error
    return LocalFileSystem()
