"""What glibc's allocator tells of the memory of this process. Little is imported: a soak asks programs at work."""

import ctypes
from functools import cache
from typing import Any, NamedTuple

_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class Heap(NamedTuple):
    """Bytes that the program has, and bytes that are free but not returned to the system."""

    used_bytes: int
    free_bytes: int


def heap() -> Heap:
    """Return what is used and free of all heaps of this process; raises AttributeError without glibc."""
    found = _mallinfo2()()
    return Heap(found.uordblks + found.hblkhd, found.fordblks)


@cache
def _mallinfo2() -> Any:
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    fields = [(name, ctypes.c_size_t) for name in _FIELDS]
    mallinfo2.restype = type("_MallInfo2", (ctypes.Structure,), {"_fields_": fields})
    return mallinfo2
