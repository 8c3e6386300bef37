"""What a connection does before it connects: finds its server, looks for its certificates, fetches its password."""

from dataclasses import dataclass, replace
from typing import Any

from redis import Connection, SSLConnection, exceptions
from redis.asyncio import Connection as AsyncConnection
from redis.asyncio import SSLConnection as AsyncSSLConnection
from redis.connection import parse_url
from redis.credentials import UsernamePasswordCredentialProvider

from rsmq_tui.protocol.address import Address, Node, Password, Tls
from rsmq_tui.protocol.cancelling import cancellable
from rsmq_tui.protocol.failures import SERVER_ERRORS, ExplainedError, Failure, failure_of
from rsmq_tui.protocol.fetching import fetched
from rsmq_tui.protocol.metering import Traffic, metered
from rsmq_tui.protocol.reply_limits import GuardedAsyncParser, GuardedParser
from rsmq_tui.protocol.routes import Question, Route, Search, T, answered, answered_async

# A node that is gone without a word must not cost the time that a server is given to answer.
_QUESTION_TIMEOUT_S = 2.0
# The reply says that another server is the right one by now: the next connection looks for it.
_ELSEWHERE = (exceptions.MovedError, exceptions.ReadOnlyError, exceptions.ClusterDownError)
_OF_THE_URL_ALONE = ("host", "port", "db", "connection_class")
_LOST = (exceptions.ConnectionError, exceptions.TimeoutError)


def approaching_async(
    base: type[Any], address: Address, route: Route | None, timeout_s: float, traffic: Traffic | None
) -> type[Any]:
    """Make a connection class for the asyncio client from redis-py's own for that URL."""
    base = _counted(cancellable(base), traffic)
    if route is None and _is_plain(address):
        return base

    class Approaching(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        credential_provider: Any

        async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            if self.is_connected:
                return
            _check_files(address.tls)
            if route is not None:
                found = await search_async(address, route.find(), timeout_s, traffic)
                self.host, self.port = found.host, found.port
            if address.password is not None:
                self.credential_provider = _credentials(address.user, await fetched(address.password))
            try:
                await super().connect_check_health(check_health, retry_socket_connect)
            except _LOST as error:
                explained = _explained(error, address, None if route is None else found)
                if explained is None:
                    raise
                raise explained from error
            finally:
                self.credential_provider = None

    return Approaching if route is None else _leaving_async(Approaching)


def approaching(base: type[Any], address: Address, route: Route | None, timeout_s: float) -> type[Any]:
    """Make a connection class for the synchronous client, as ``approaching_async`` does."""
    if route is None and _is_plain(address):
        return base

    class Approaching(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        credential_provider: Any

        def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            if self.is_connected:
                return
            _check_files(address.tls)
            if route is not None:
                found = answered(route.find(), lambda question: _ask(address, question, timeout_s))
                self.host, self.port = found.host, found.port
            if address.password is not None:
                self.credential_provider = _credentials(address.user, address.password())
            try:
                super().connect_check_health(check_health, retry_socket_connect)
            except _LOST as error:
                explained = _explained(error, address, None if route is None else found)
                if explained is None:
                    raise
                raise explained from error
            finally:
                self.credential_provider = None

        def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return super().read_response(*args, **options)
            except _ELSEWHERE:
                if route is not None:
                    self.mark_for_reconnect()
                raise

    return Approaching


def _is_plain(address: Address) -> bool:
    """Tell whether redis-py's own connection class does for that address."""
    return address.password is None and not address.is_secure and address.ended is None


def _leaving_async(base: type[Any]) -> type[Any]:
    """Make a connection be given up, once its replies are read, when it is told that another server is the right one.

    Apart from ``approaching_async`` because every reply passes here.
    """

    class Leaving(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        async def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return await super().read_response(*args, **options)
            except _ELSEWHERE:
                self.mark_for_reconnect()
                raise

    return Leaving


def _counted(base: type[Any], traffic: Traffic | None) -> type[Any]:
    return base if traffic is None else metered(base, traffic)


async def search_async(address: Address, search: Search[T], timeout_s: float, traffic: Traffic | None) -> T:
    """Carry out a search for servers of that address; raises ``ExplainedError``."""

    async def ask(question: Question) -> Any:
        way = _way_to(address, question)
        credentials = None if way.password is None else _credentials(way.user, await fetched(way.password))
        base: type[Any] = AsyncSSLConnection if way.is_secure else AsyncConnection
        connection = _counted(cancellable(base), traffic)(parser_class=GuardedAsyncParser, **way.options(timeout_s))
        connection.credential_provider = credentials
        try:
            await connection.connect()
            await connection.send_command(*question.command, check_health=False)
            return await connection.read_response()
        except SERVER_ERRORS as error:
            return error
        finally:
            await connection.disconnect(nowait=True)

    return await answered_async(search, ask)


def _ask(address: Address, question: Question, timeout_s: float) -> Any:
    way = _way_to(address, question)
    base: type[Any] = SSLConnection if way.is_secure else Connection
    connection = base(parser_class=GuardedParser, **way.options(timeout_s))
    connection.credential_provider = None if way.password is None else _credentials(way.user, way.password())
    try:
        connection.connect()
        connection.send_command(*question.command, check_health=False)
        return connection.read_response()
    except SERVER_ERRORS as error:
        return error
    finally:
        connection.disconnect()


@dataclass(frozen=True, slots=True)
class _Way:
    """How to get in where a question is asked."""

    node: Node
    is_secure: bool
    tls: Tls | None
    user: str | None
    password: Password | None
    others: dict[str, Any]

    def options(self, timeout_s: float) -> dict[str, Any]:
        """Return what redis-py's connections take."""
        _check_files(self.tls)
        wait_s = min(timeout_s, _QUESTION_TIMEOUT_S)
        return {
            **self.others,
            **({} if self.user is None else {"username": self.user}),
            **tls_options(self.tls),
            "host": self.node.host,
            "port": self.node.port,
            "socket_timeout": wait_s,
            "socket_connect_timeout": wait_s,
            "decode_responses": False,
            "protocol": 2,
            # A sentinel need not know who asks.
            "driver_info": None,
        }


def _way_to(address: Address, question: Question) -> _Way:
    sentinels = address.sentinels
    if question.to_sentinel and sentinels is not None:
        tls = sentinels.tls
        return _Way(question.node, tls is not None, tls, sentinels.user, sentinels.password, {})
    told: dict[str, Any] = parse_url(address.url)  # type: ignore[no-untyped-call] # redis-py has not typed it
    others = {name: value for name, value in told.items() if name not in _OF_THE_URL_ALONE}
    return _Way(question.node, address.is_secure, address.tls, address.user, address.password, others)


def _credentials(user: str | None, password: str) -> UsernamePasswordCredentialProvider:
    return UsernamePasswordCredentialProvider(user, password)


def tls_options(tls: Tls | None) -> dict[str, Any]:
    """Return what redis-py's connections take for TLS."""
    if tls is None:
        return {}
    return {
        "ssl_ca_certs": None if tls.ca is None else str(tls.ca),
        "ssl_certfile": None if tls.cert is None else str(tls.cert),
        "ssl_keyfile": None if tls.key is None else str(tls.key),
        "ssl_cert_reqs": "none" if tls.verify == "none" else "required",
        "ssl_check_hostname": tls.verify == "full",
        # Without one OpenSSL would ask whoever sits at the terminal for the password of a key.
        "ssl_password": "",
    }


def _check_files(tls: Tls | None) -> None:
    """Raise ``ExplainedError`` for a file that cannot be read; from redis-py's words nobody could tell which."""
    for path in () if tls is None else (tls.ca, tls.cert, tls.key):
        if path is None:
            continue
        try:
            path.open("rb").close()
        except OSError as error:
            failure = Failure("tls", f"{path} cannot be read: {error.strerror}", "the profile's tls_ keys name it")
            raise ExplainedError(failure) from error


def _explained(error: exceptions.RedisError, address: Address, found: Node | None) -> ExplainedError | None:
    """Say what redis-py cannot know: that the server has ended, which one others have named, that TLS was spoken."""
    if isinstance(error, exceptions.AuthenticationError):
        return None
    ended = None if address.ended is None else address.ended()
    if ended is not None:
        return ExplainedError(ended)
    failure = failure_of(error)
    is_silence = failure.kind == "timeout" and address.is_secure
    if found is None and not is_silence:
        return None
    if is_silence:
        failure = Failure("timeout", "the server does not answer in TLS", "check whether the port uses TLS")
    return ExplainedError(failure if found is None else replace(failure, sentence=f"{found}: {failure.sentence}"))
