"""What the state of a queue holds at the first poll, if nothing is wrong with it."""

from typing import Any

NOTHING_KNOWN: dict[str, Any] = {
    "arrivals_s": None,
    "deletes_s": None,
    "receives_s": None,
    "poison": 0,
    "highest_rc": 0,
    "drain_s": None,
    "broken": None,
    "problems": (),
}
