"""How bad a finding of an audit is, and what is said about a kind of them."""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """An error keeps messages from being consumed as they should; a warning costs memory, or somebody's nerves."""

    ERROR = "error"
    WARNING = "warning"


class Words(NamedTuple):
    """``one`` and ``many`` say what was found; ``fix`` is None where there is none that is safe.

    Where there is none, ``hint`` says what helps.
    """

    severity: Severity
    one: str
    many: str
    maker: str
    effect: str
    fix: str | None
    hint: str | None = None
