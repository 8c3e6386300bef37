"""The errors of the protocol, and what a server or network error means: a kind, one sentence, and what to try next.

    Exception
    └── RsmqError          an error of the canonical client; ``code`` says which

Errors of the server and the network stay redis-py's own exceptions; ``failure_of`` explains them. No text here contains
a password: ``redact`` removes it from the server's messages, and ``server_label`` from URLs.
"""

import os
import re
import traceback
from base64 import b64encode
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from redis import exceptions

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

    ``code`` is the canonical client's ``err.name`` (rsmq 0.12.4) and ``str(error)`` its ``err.message``, followed by a
    ``reason`` of ours if there is one. ``item`` is the canonical name of the argument that is refused, such as
    ``qname``; empty for none. One code is ours, ``wrongType``: a key of the queue holds a type that RSMQ never writes
    (the server's WRONGTYPE).
    """

    def __init__(self, code: str, message: str, item: str = "", reason: str = "") -> None:
        super().__init__(f"{message}: {reason}" if reason else message)
        self.code = code
        self.item = item
        self.reason = reason
        self._message = message

    def __reduce__(self) -> tuple[type["RsmqError"], tuple[str, str, str, str]]:
        """Support pickling, by which Spark and multiprocessing pass exceptions on."""
        return type(self), (self.code, self._message, self.item, self.reason)


def rsmq_error(code: str, *, item: str = "", low: int = 0, high: int = 0, reason: str = "") -> RsmqError:
    """Build the error of that canonical code, with the canonical message filled in."""
    return RsmqError(code, _MESSAGES[code].format(item=item, low=low, high=high), item, reason)


_STRUCK = "***"
# Shorter passwords are replaced only as whole words, so that other words stay readable.
_WITHIN_WORDS_MIN = 4
# A text may be cut off within a password: a prefix of at least this length is replaced at the end.
_PREFIX_MIN = 4
_ARGUMENTS = re.compile(r",? with args beginning with:.*", re.DOTALL)


def redact(text: str, password: str | None) -> str:
    """Return a server's message without the password that it was sent, in whatever form it appears there.

    The arguments that a server repeats of an unknown command are removed.
    """
    text = _ARGUMENTS.sub("", text)
    if not password:
        return text
    for form in sorted(set(_forms(password)), key=len, reverse=True):
        if len(form) < _WITHIN_WORDS_MIN:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", _STRUCK, text)
            continue
        text = text.replace(form, _STRUCK)
        kept = text.rstrip("'`\"., \r\n…")
        cut = next((size for size in range(len(form) - 1, _PREFIX_MIN - 1, -1) if kept.endswith(form[:size])), 0)
        text = kept[:-cut] + _STRUCK if cut else text
    return text


def _forms(password: str) -> Iterator[str]:
    """Yield how a password may be written: as it is, for URLs, as servers print bytes, and in base 64."""
    raw = password.encode("utf-8", "surrogateescape")
    yield from (password, quote(raw), quote(raw, safe=""), quote_plus(raw), raw.decode("utf-8", "replace"))
    yield "".join(_printed(byte) for byte in raw)
    yield raw.decode("latin-1")
    yield b64encode(raw).decode().rstrip("=")


def _printed(byte: int) -> str:
    """Write a byte as Redis does in its errors and logs."""
    if byte in b'\\"':
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte <= 0x7E else f"\\x{byte:02x}"


# What a call to the server can raise. Any other exception is a bug in this program, and is not caught.
SERVER_ERRORS: tuple[type[Exception], ...] = (
    exceptions.RedisError,
    exceptions.RedisClusterException,
    OSError,
    TimeoutError,
)


# The ``kind`` of a failure after which no retry helps: the server process has ended.
ENDED = "ended"


class Failure(NamedTuple):
    """Why the server could not be read: ``kind`` is one word, ``sentence`` says it, ``hint`` says what to try."""

    kind: str
    sentence: str
    hint: str

    @property
    def words(self) -> str:
        """The sentence, then what to try."""
        return f"{self.sentence}; {self.hint}"


class ExplainedError(exceptions.ConnectionError):
    """Why there is no connection, as a ``Failure``; no command was sent to the server."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


# After these errors it is certain that the server did not execute the command.
REPLY_ERRORS: tuple[type[Exception], ...] = (
    exceptions.ResponseError,
    exceptions.AuthenticationError,
    ExplainedError,
)


# The first word of a server's error reply -> (kind, sentence, hint)
_REPLIES = {
    "LOADING": ("loading", "the server is loading its data into memory", "wait: the dashboard retries automatically"),
    "NOAUTH": (
        "noauth",
        "the server requires a password",
        "put it in the URL (redis://user:password@host:6379/0), or use password_env, password_file or "
        "password_command in a profile",
    ),
    "WRONGPASS": ("noauth", "the server refused the user name or password", "check the user and the password"),
    "NOPERM": (
        "noperm",
        "this user may not read the queues",
        "grant it +@read +@connection +time on the keys of the namespace",
    ),
    "READONLY": ("readonly", "the server is a read-only replica", "reading works; send changes to the primary"),
    "OOM": ("oom", "the server is out of memory", "free memory or raise maxmemory"),
    "MASTERDOWN": ("masterdown", "the replica has lost its primary", "point the URL at the primary"),
    "BUSY": ("busy", "the server is busy running a script", "wait, or stop it with SCRIPT KILL"),
    "CLUSTERDOWN": ("clusterdown", "the cluster is down", "check CLUSTER INFO"),
    "CROSSSLOT": (
        "crossslot",
        "the namespace spans cluster slots",
        "on a cluster, RSMQ needs a hash tag: {rsmq}",
    ),
    "MOVED": (
        "moved",
        "the server is part of a cluster and another node holds these keys",
        "connect to that node, or configure the cluster in a profile",
    ),
    "ASK": ("migrating", "the cluster is moving these keys to another node", "wait until the move is complete"),
    "TRYAGAIN": ("migrating", "the cluster is moving these keys to another node", "wait until the move is complete"),
    "MISCONF": ("misconf", "the server refuses writes because it cannot save to disk", "see the server's log"),
}


_PACKAGE = f"{os.sep}rsmq_tui{os.sep}"

_NO_PERMISSION = (
    "has no permissions to",
    "No permissions to access",
    "The user executing the script can't ",
    "ACL failure in script",
)

# Messages of the resolvers of Linux, macOS, musl and Windows.
# What Redis answers to a long command before the password was given.
_UNREAD = re.compile("unauthenticated (multi)?bulk length")
_UNKNOWN_HOST = (
    "name or service not known",
    "nodename nor servname",
    "name does not resolve",
    "no address associated with hostname",
    "temporary failure in name resolution",
    "getaddrinfo",
)


def failure_of(error: BaseException) -> Failure:
    """Explain an error of ``SERVER_ERRORS``."""
    if isinstance(error, ExplainedError):
        return error.failure
    text = redact(" ".join(str(error).split()), None)
    code = _reply_code(error, text)
    if code in _REPLIES:
        return Failure(*_REPLIES[code])
    if "DB index is out of range" in text:
        hint = "choose a smaller one: by default there are 0 to 15, and in a cluster only 0"
        return Failure("database", "the server has no database of that number", hint)
    if isinstance(error, exceptions.AuthenticationError):
        return Failure("noauth", "the server refused to authenticate", "check the user and the password")
    if isinstance(error, exceptions.MaxConnectionsError) or "max number of clients" in text:
        return Failure("busy", "the server has reached maxclients", "raise maxclients or close idle clients")
    if isinstance(error, (exceptions.TimeoutError, TimeoutError)):
        return Failure(
            "timeout", "the server does not answer", "check whether it is overloaded, or whether a firewall blocks it"
        )
    if isinstance(error, (exceptions.ConnectionError, OSError)):
        return _connection_failure(text)
    if isinstance(error, exceptions.InvalidResponse):
        return Failure(
            "error", text or "the reply cannot be read", "check whether a Redis server is listening on that port"
        )
    return Failure("error", text or type(error).__name__, "see the server's log")


def defect_of(error: BaseException) -> Failure:
    """Describe a bug in this program: the type of the exception and where it was raised.

    Its message is left out: it may quote a password, or anything that a server sent.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    places = [
        f"{frame.filename.rpartition(_PACKAGE)[2]} line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if _PACKAGE in frame.filename
    ]
    where = f" in {places[-1]}" if places else ""
    return Failure("defect", f"a defect in rsmq-tui: {type(error).__name__}{where}", "please report it")


def _reply_code(error: BaseException, text: str) -> str:
    """Find the code word of an error reply; redis-py strips it from the errors that it has a class for."""
    classes = {
        exceptions.BusyLoadingError: "LOADING",
        exceptions.ReadOnlyError: "READONLY",
        exceptions.NoPermissionError: "NOPERM",
        exceptions.OutOfMemoryError: "OOM",
        exceptions.MasterDownError: "MASTERDOWN",
        exceptions.ClusterCrossSlotError: "CROSSSLOT",
        exceptions.MovedError: "MOVED",
        exceptions.AskError: "ASK",
        exceptions.TryAgainError: "TRYAGAIN",
        exceptions.ClusterDownError: "CLUSTERDOWN",
    }
    for known, code in classes.items():
        if isinstance(error, known):
            return code
    if isinstance(error, exceptions.RedisClusterException) and "same" in text and "slot" in text:
        return "CROSSSLOT"
    # An error within a script does not begin with the code, and Redis 6 and 7.0 have words of their own for it.
    if any(words in text for words in _NO_PERMISSION):
        return "NOPERM"
    if "Authentication required" in text or _UNREAD.search(text):
        return "NOAUTH"
    if "invalid username-password pair" in text.lower():
        return "WRONGPASS"
    return text.split(" ", 1)[0].rstrip(":")


def _connection_failure(text: str) -> Failure:
    lower = text.lower()
    if "refused" in lower or "connect call failed" in lower:
        return Failure("refused", "connection refused", "check that the server is running, and the host and port")
    if any(words in lower for words in _UNKNOWN_HOST):
        return Failure("unknown-host", "the host name is unknown", "check the spelling of the URL's host")
    if "certificate" in lower or "ssl" in lower:
        return Failure("tls", f"TLS failed: {text}", "check the certificate, and whether the port uses TLS")
    if "no such file" in lower:
        return Failure(
            "no-socket",
            "the unix socket does not exist",
            "check that the server is running, and its unixsocket setting",
        )
    if any(word in lower for word in ("closed", "reset", "eof", "connection lost", "broken pipe")):
        return Failure("closed", "the server closed the connection", "check whether it was restarted")
    return Failure("connection", text or "the connection failed", "check the URL and the network")
