"""The errors of the protocol core.

    Exception
    └── RsmqError          a canonical error, told apart by its ``code``

What the server or the network refuses stays redis-py's own exception: see ``failures`` for how it is told to people.
"""

_MESSAGES = {
    "noAttributeSupplied": "No attribute was supplied",
    "missingParameter": "No {item} supplied",
    "invalidFormat": "Invalid {item} format",
    "invalidValue": "{item} must be between {low} and {high}",
    "messageNotString": "Message must be a string",
    "messageTooLong": "Message too long",
    "queueNotFound": "Queue not found",
    "queueExists": "Queue exists",
    "wrongType": "A key of this queue holds another type of value",
}


class RsmqError(Exception):
    """An operation that the protocol refuses.

    ``code`` is the canonical client's ``err.name`` (rsmq 0.12.4) and ``str(error)`` its ``err.message``. One code is
    ours, ``wrongType``: a key of the queue holds a type that RSMQ never writes (the server's WRONGTYPE).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type["RsmqError"], tuple[str, str]]:
        """Survive pickling, which Spark and multiprocessing do to exceptions."""
        return type(self), (self.code, str(self))


def rsmq_error(code: str, *, item: str = "", low: int = 0, high: int = 0) -> RsmqError:
    """Build the error of that canonical code, with the canonical message filled in."""
    return RsmqError(code, _MESSAGES[code].format(item=item, low=low, high=high))
