"""Profiles: the servers in the configuration file, and the settings of each.

alerts        reads the rules and channels of alerts
config        reads and checks the configuration file, and the service level objectives in it
example.toml  an example of that file, printed by `rsmq-tui profiles example`
passwords     passwords from a variable, a file or a command, read when a connection is made
values        reads single values and tables of the file; reports the line of each mistake
"""

from dataclasses import field

from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.slo import Objective
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.protocol import Address
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.values import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """A server and its settings; ``name`` is empty for one from ``-r`` or the environment.

    ``namespaces`` has at least one; ``colour`` is the accent of its screens and dialogs, if any. ``lists`` are names
    and patterns of list queues, ``list_names`` the names of their keys, and ``list_age`` the JSON path of the creation
    time in an item. With ``memory``, the dashboard keeps the last hour across restarts. ``zone`` is the time zone in
    which an analysis of its history says what is usual at an hour of the week; None for UTC.
    Troubles that are ``expected`` are no incidents. ``slo`` are its service level objectives.
    """

    name: str
    address: Address
    namespaces: tuple[str, ...] = ("rsmq",)
    read_only: bool = False
    colour: str | None = None
    interval_s: float = 1.0
    thresholds: Thresholds = field(default_factory=Thresholds)
    lists: tuple[str, ...] = ()
    list_names: ListNames = field(default_factory=ListNames)
    list_age: str | None = None
    memory: bool = True
    slo: tuple[Objective, ...] = ()
    zone: str | None = None
    expected: Expected = field(default_factory=Expected)

    @property
    def ns(self) -> str:
        """The first namespace to show."""
        return self.namespaces[0]
