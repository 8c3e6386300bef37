"""What the state of a queue holds at the first poll if nothing is wrong with it, and what that of a list does not."""

from typing import Any

# What only queues of RSMQ have.
NOT_OF_LISTS: dict[str, Any] = dict.fromkeys(
    ("vt_s", "delay_s", "maxsize", "created_ms", "modified_ms", "totalsent", "totalrecv")
)
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
