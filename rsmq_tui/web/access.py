"""Access control: a secret in the address, or a user and a password, and only requests of this page."""

import base64
import binascii
import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from urllib.parse import SplitResult, urlsplit

_COOKIE = "rsmq-tui"


class Answer(Enum):
    """The answer to a request: the page, a redirection to the address without the secret, or a refusal."""

    ALLOWED = "allowed"
    SECRET = "secret"
    ASK = "ask"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Access:
    """Decides who may open the page. Without a ``secret`` or a ``password``, only requests to this machine are allowed.

    Values are compared in constant time.
    """

    secret: str | None = None
    user: str = ""
    password: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether neither a secret nor a password is required."""
        return self.secret is None and self.password is None

    @property
    def cookie(self) -> tuple[str, str]:
        """The name and value of the cookie that replaces the secret; they are the same after a restart.

        The value is not the secret itself. Browsers send cookies to all ports of a host, so servers with different
        secrets use different names.
        """
        return f"{_COOKIE}-{self._digest(b'name')[:8]}", self._digest(b"value")

    def _digest(self, purpose: bytes) -> str:
        return hmac.new((self.secret or "").encode(), purpose, hashlib.sha256).hexdigest()

    def judge(self, secret: str | None, cookies: Mapping[str, str], authorization: str | None) -> Answer:
        """Return the answer to a request with this secret in its address, these cookies and this header."""
        if self.is_open:
            return Answer.ALLOWED
        if self.secret is not None:
            if secret is not None:
                return Answer.SECRET if _are_equal(secret, self.secret) else Answer.REFUSED
            name, value = self.cookie
            if _are_equal(cookies.get(name, ""), value):
                return Answer.ALLOWED
        if self.password is None:
            return Answer.REFUSED
        return Answer.ALLOWED if self._knows(authorization) else Answer.ASK

    def _knows(self, authorization: str | None) -> bool:
        scheme, _, encoded = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            given = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return False
        expected = f"{self.user}:{self.password}".encode()
        return hmac.compare_digest(hashlib.sha256(given).digest(), hashlib.sha256(expected).digest())

    def is_host(self, host: str) -> bool:
        """Return whether a request may name that host.

        Without a secret or a password, a name other than this machine's own is from a foreign page, whose name was
        redirected to this machine (DNS rebinding).
        """
        return not self.is_open or is_this_machine(_split(f"//{host}").hostname or "")


def is_same_origin(origin: str | None, host: str) -> bool:
    """Return whether the request comes from a page of this host, according to the browser."""
    return origin is not None and _split(origin).netloc.lower() == host.lower() != ""


def is_this_machine(host: str) -> bool:
    """Return whether an address or name is that of the loopback interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _split(url: str) -> SplitResult:
    """Return the parts of a URL from a header; all of them are empty if it is not one, such as ``http://[``."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _are_equal(given: str, expected: str) -> bool:
    # Digests are compared, because they have equal lengths.
    return hmac.compare_digest(
        *(hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (given, expected))
    )
