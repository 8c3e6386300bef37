"""Who the queues are: how much comes, and what goes wrong how often."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from rsmq_tui.history.generating.chance import between, mixed, share

_WORDS = (
    *("orders", "emails", "invoices", "thumbnails", "webhooks", "reminders", "exports", "payments", "imports"),
    *("reports", "refunds", "signups", "audit", "search-index", "push", "billing", "shipping", "returns"),
)


class Role(Enum):
    """What a queue is like."""

    QUIET = auto()
    STEADY = auto()
    BURSTY = auto()
    STALLING = auto()
    GROWING = auto()
    AGED = auto()
    POISONED = auto()
    ANEW = auto()
    """It is created anew every few days."""
    LETTERS = auto()
    """Nobody receives from it: a queue of dead letters."""


# Which share of all queues is like that; the rest is quiet.
_SHARES = {
    Role.STEADY: 0.2,
    Role.BURSTY: 0.05,
    Role.STALLING: 0.04,
    Role.GROWING: 0.005,
    Role.AGED: 0.01,
    Role.POISONED: 0.01,
    Role.ANEW: 0.005,
    Role.LETTERS: 0.005,
}
# Even the smallest history shows something of everything.
_FIRST = (
    *(Role.STEADY, Role.STALLING, Role.GROWING, Role.POISONED, Role.BURSTY, Role.QUIET, Role.AGED, Role.ANEW),
    Role.LETTERS,
)
_OF_LISTS = (Role.STEADY, Role.STALLING, Role.GROWING, Role.QUIET)
_LISTS = 201
# Messages a second.
_RATES = {
    Role.QUIET: (0.0002, 0.01),
    Role.STEADY: (0.05, 6.0),
    Role.BURSTY: (0.02, 0.5),
    Role.STALLING: (0.1, 2.0),
    Role.GROWING: (0.5, 2.0),
    Role.AGED: (0.02, 0.3),
    Role.POISONED: (0.02, 1.0),
    Role.ANEW: (0.05, 1.0),
    Role.LETTERS: (0.000_01, 0.0002),
}
# Nobody lets it go on for longer than this.
_POISON_MOST, _POISON_MOST_S = 200, 36_000
_VTS = (30, 30, 60, 120, 300)
_SIZES = (65536, 65536, 65536, -1, 10240)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: ``rate_s`` messages a second on average, received after ``wait_ms`` and deleted ``hold_ms`` later.

    ``daily`` and ``weekly`` tell how much of the rate comes and goes, ``peak_ms`` when in the day it is highest, and
    ``again`` which share of the receives is a second one.
    """

    number: int
    seed: int
    name: str
    role: Role
    rate_s: float
    wait_ms: float
    hold_ms: float
    daily: float
    weekly: float
    peak_ms: float
    again: float
    vt_s: float
    delay_s: float
    maxsize: int

    @property
    def poison_most(self) -> int:
        """How often a poison message is received until somebody deletes it."""
        return min(_POISON_MOST, int(_POISON_MOST_S / self.vt_s))


def queue_of(number: int, seed: int) -> Queue:
    """Return a queue of a seed; the same, however many there are."""
    role = _FIRST[number] if number < len(_FIRST) else _role(share(seed, number, 1))
    least, most = _RATES[role]
    vt_s = _VTS[int(share(seed, number, 2) * len(_VTS))]
    return Queue(
        number,
        seed,
        f"{_WORDS[number % len(_WORDS)]}-{number:04d}",
        role,
        # As often ten times as much as a tenth.
        rate_s=least * (most / least) ** share(seed, number, 3),
        wait_ms=200 * 20 ** share(seed, number, 4),
        hold_ms=min(100 * 100 ** share(seed, number, 5), vt_s * 300),
        daily=between(0.3, 0.65, seed, number, 6),
        weekly=between(0.05, 0.3, seed, number, 7),
        peak_ms=between(9, 17, seed, number, 8) * 3_600_000,
        again=0.03 * share(seed, number, 9) ** 2,
        vt_s=float(vt_s),
        delay_s=30.0 if share(seed, number, 10) < 0.03 else 0.0,
        maxsize=_SIZES[int(share(seed, number, 11) * len(_SIZES))],
    )


def list_queue_of(number: int, seed: int) -> Queue:
    """Return a list queue of a seed: steady, stalling, growing or quiet in turn, and without attributes that delay."""
    role = _OF_LISTS[number % len(_OF_LISTS)]
    least, most = _RATES[role]
    found = queue_of(number, mixed(seed, _LISTS))
    rate_s = least * (most / least) ** share(found.seed, number, 3)
    return replace(found, name=f"queue:{found.name}", role=role, rate_s=rate_s, delay_s=0.0)


def _role(drawn: float) -> Role:
    for role, part in _SHARES.items():
        drawn -= part
        if drawn < 0:
            return role
    return Role.QUIET
