"""Faults that a tester orders: late, broken and missing replies, and the errors of a server in trouble."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rsmq_tui.listserver.resp import CommandError

if TYPE_CHECKING:
    from rsmq_tui.listserver.client import Client

ERRORS = {
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "READONLY": "READONLY You can't write against a read only replica.",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "NOAUTH": "NOAUTH Authentication required.",
}
KINDS = ("latency", "cut", "drop-before", "drop-after", "stall", *ERRORS)


@dataclass(eq=False)
class Fault:
    """One fault, for the requests that it names.

    ``kind`` is one of ``KINDS``: ``latency`` (the reply comes ``seconds`` later), ``cut`` (half of the reply, then the
    end of the connection), ``drop-before`` and ``drop-after`` (the connection ends before or after the command was
    carried out), ``stall`` (no reply while the fault lasts; then the command is carried out), or the code of an error
    that is the reply; ``OOM`` and ``READONLY`` concern commands that write. ``commands`` and ``client`` (a connection's
    name or id) limit it, ``times`` says how often it happens.
    """

    kind: str
    seconds: float = 0.0
    commands: frozenset[str] = frozenset()
    client: str = ""
    times: int | None = None
    happened: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is not a fault: {', '.join(KINDS)}")
        self.commands = frozenset(name.upper() for name in self.commands)

    def concerns(self, client: "Client", command: str, *, writes: bool) -> bool:
        """Return whether this request meets the fault."""
        return (
            (self.times is None or self.happened < self.times)
            and (not self.commands or command.partition("|")[0] in self.commands)
            and (not self.client or self.client in (client.name.decode("utf-8", "replace"), str(client.id)))
            and (writes or self.kind not in ("OOM", "READONLY"))
        )

    @property
    def error(self) -> CommandError | None:
        """The reply that stands in for the command's, if there is one."""
        return CommandError(ERRORS[self.kind]) if self.kind in ERRORS else None
