"""Where a server is and how to get in: what a profile or a URL comes down to."""

from dataclasses import dataclass, field

from rsmq_tui.protocol.connection import check_url, server_label


@dataclass(frozen=True, slots=True)
class Address:
    """One server as its clients reach it; raises ValueError for a URL that cannot be one.

    ``url`` may hold a password, which is why it is not shown; ``label`` may be.
    """

    url: str = field(repr=False)

    def __post_init__(self) -> None:
        check_url(self.url)

    @property
    def label(self) -> str:
        """The address as it may be shown: without user, password and options."""
        return server_label(self.url)

    @classmethod
    def of(cls, server: "Address | str") -> "Address":
        """Return the address itself, or that of a URL."""
        return server if isinstance(server, Address) else cls(server)
