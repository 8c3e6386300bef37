"""The errors of the embedded server.

RuntimeError
└── EmbeddedError
    ├── ServerNotFound      no server program on this machine; the message says what to install
    └── ServerStartError    the program was found and did not come up; the message ends with its last log lines
"""


class EmbeddedError(RuntimeError):
    """What went wrong with the embedded server, in one sentence for people."""


class ServerNotFound(EmbeddedError):  # noqa: N818 - it reads as a sentence where it is caught
    """No Valkey or Redis server program is on this machine."""


class ServerStartError(EmbeddedError):
    """The server program did not come up."""
