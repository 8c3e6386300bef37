"""Files of a history that cannot be read: found before Spark reads them, or named by what Spark says of them."""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from rsmq_tui.history.schema import SCHEMAS
from rsmq_tui.history.store import Store

_AT_ONCE = 8
_SAID_MAX = 200
_Look = Callable[[Store, str], str | None]
_NAMED = re.compile(r"reading file (\S+\.parquet)")


def check_footers(store: Store, names: Iterable[str]) -> dict[str, str]:
    """Return why files of a history cannot be used, by their names: what their last few kB tell."""
    return _checked(store, names, _footer)


def check_bodies(store: Store, names: Iterable[str]) -> dict[str, str]:
    """Return why files of a history cannot be read to their ends."""
    return _checked(store, names, _body)


def named_in(error: BaseException, names: Iterable[str]) -> str | None:
    """Return which of some files Spark could not read, by what it says; None where it tells of none of them."""
    # Spark quotes the URL of the file; its last parts are enough to know it by.
    found = _NAMED.search(str(error))
    if found is None:
        return None
    ends = "/".join(unquote(found[1]).rsplit("/", 3)[1:])
    return ends if ends in set(names) else None


def _checked(store: Store, names: Iterable[str], look: _Look) -> dict[str, str]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        names = list(names)
        told = pool.map(lambda name: _told(store, name, look), names)
        return {name: why for name, why in zip(names, told, strict=True) if why is not None}


def _told(store: Store, name: str, look: _Look) -> str | None:
    try:
        return look(store, name)
    except FileNotFoundError:
        # Its day was deleted meanwhile.
        return None
    except Exception as error:
        # Whatever is wrong with a file, the others are read.
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return (said.splitlines() or [type(error).__name__])[0][:_SAID_MAX]


def _footer(store: Store, name: str) -> str | None:
    with pq.ParquetFile(store.open(name)) as file:
        return _odd_column(name, {field.name: field.type for field in file.schema_arrow})


def _body(store: Store, name: str) -> str | None:
    with pq.ParquetFile(store.open(name)) as file:
        for number in range(file.metadata.num_row_groups):
            file.read_row_group(number)
    return None


def _odd_column(name: str, types: Mapping[str, pa.DataType]) -> str | None:
    """Say which column is of another type than the schema's; one that is missing is unknown, one more no matter."""
    for field in SCHEMAS[name.partition("/")[0]]:
        found = types.get(field.name, field.type)
        if _plain(found) != _plain(field.type):
            return f"its column {field.name} is {found}, not {field.type}"
    return None


def _plain(kind: pa.DataType) -> str:
    """Return what a type is, whatever the names within it and the width of what it counts with."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_plain(kind.value_type)}"
    return "string" if pa.types.is_large_string(kind) else "int64" if pa.types.is_int32(kind) else str(kind)
