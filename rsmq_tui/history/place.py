"""A place: what one poll reads."""

from typing import NamedTuple


class Place(NamedTuple):
    """One namespace of one server; ``profile`` is empty where the server came from a URL."""

    profile: str
    server: str
    ns: str
