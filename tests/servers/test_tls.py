"""TLS with certificates made for the test: both sides are checked, and what is wrong is told."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from rsmq_tui.protocol import (
    Address,
    AsyncRsmq,
    Failure,
    Node,
    Rsmq,
    RsmqReader,
    Sentinels,
    Tls,
    connect,
    connect_async,
    failure_of,
    url_of,
)
from rsmq_tui.protocol.errors import SERVER_ERRORS
from tests.protocol.keeping import keeps_nothing
from tests.servers.real import HOST, RealServer, free_ports, real_server
from tests.servers.whole import whole_walk

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Certificates:
    """Certificates in files: of who vouches, of the server, of ourselves, and of strangers."""

    folder: Path

    @property
    def tls(self) -> Tls:
        return Tls(self.folder / "ca.pem", self.folder / "us.pem", self.folder / "us.key")

    @property
    def server_options(self) -> tuple[str, ...]:
        names = {"--tls-ca-cert-file": "ca.pem", "--tls-cert-file": "server.pem", "--tls-key-file": "server.key"}
        return tuple(part for option, name in names.items() for part in (option, str(self.folder / name)))

    @property
    def client_options(self) -> dict[str, object]:
        files = {"ssl_ca_certs": "ca.pem", "ssl_certfile": "us.pem", "ssl_keyfile": "us.key"}
        return {"ssl": True} | {option: str(self.folder / name) for option, name in files.items()}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    ca, strangers = trustme.CA(), trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    strangers.cert_pem.write_to_path(folder / "strangers.pem")
    issued = {
        "server": ca.issue_cert(HOST),
        "us": ca.issue_cert("us@example.test"),
        "other": strangers.issue_cert("us@example.test"),
    }
    for name, paper in issued.items():
        paper.private_key_pem.write_to_path(folder / f"{name}.key")
        for number, part in enumerate(paper.cert_chain_pems):
            part.write_to_path(folder / f"{name}.pem", append=number > 0)
    return Certificates(folder)


@pytest.fixture(scope="module")
def secure(certificates: Certificates) -> Iterator[RealServer]:
    (port,) = free_ports(1)
    options = ("--tls-port", str(port), *certificates.server_options)
    with real_server(*options, port=port, options=certificates.client_options) as running:
        yield running


def address_of(server: RealServer, tls: Tls | None, host: str = HOST) -> Address:
    return Address(url_of(host, server.port, tls=True), tls=tls)


# With TLS 1.3 a server hangs up after our side is done: what is seen of it depends on the moment.
_HUNG_UP = {"closed": "tls", "tls": "tls"}


async def failure_at(address: Address, timeout_s: float = 5.0) -> Failure:
    """What both clients say of an address, which is the same kind."""
    async with connect_async(address, timeout_s=timeout_s) as aclient:
        with pytest.raises(SERVER_ERRORS) as refused:
            await aclient.ping()
    with connect(address, timeout_s=timeout_s) as client, pytest.raises(SERVER_ERRORS) as again:
        client.ping()
    failure = failure_of(refused.value)
    again_kind = failure_of(again.value).kind
    assert _HUNG_UP.get(again_kind, again_kind) == _HUNG_UP.get(failure.kind, failure.kind)
    return failure


async def test_everything_works_with_certificates_on_both_sides(
    secure: RealServer, certificates: Certificates, tmp_path: Path
) -> None:
    address = address_of(secure, certificates.tls)
    assert address.label == f"rediss://{HOST}:{secure.port}/0"

    await whole_walk(address, "rsmq", tmp_path)


async def test_both_clients_speak_it(secure: RealServer, certificates: Certificates) -> None:
    with connect(address_of(secure, certificates.tls)) as client:
        Rsmq(client, "jobs").create_queue("a")
    async with connect_async(address_of(secure, certificates.tls)) as aclient:
        assert await AsyncRsmq(aclient, "jobs").list_queues() == ["a"]


async def test_the_bytes_are_counted(secure: RealServer, certificates: Certificates) -> None:
    reader = RsmqReader(address_of(secure, certificates.tls))
    await reader.rows.index()
    await reader.aclose()

    assert reader.traffic.bytes_sent > 50
    assert reader.traffic.bytes_received > 50


@pytest.mark.parametrize("change", [{"ca": None}, {"ca": "strangers.pem"}], ids=["the system's", "strangers"])
async def test_a_server_that_nobody_vouches_for_is_refused(
    secure: RealServer, certificates: Certificates, change: dict[str, str | None]
) -> None:
    ca = change["ca"]
    tls = replace(certificates.tls, ca=None if ca is None else certificates.folder / ca)
    failure = await failure_at(address_of(secure, tls))

    assert failure.kind == "tls"
    assert "certificate" in failure.sentence.lower()


async def test_a_server_of_another_name_is_refused_unless_any_will_do(
    secure: RealServer, certificates: Certificates
) -> None:
    assert (await failure_at(address_of(secure, certificates.tls, host="localhost"))).kind == "tls"

    for verify in ("chain", "none"):
        tls = replace(certificates.tls, verify=verify)
        async with connect_async(address_of(secure, tls, host="localhost")) as client:
            assert await client.ping()


async def test_without_any_check_nobody_need_vouch_for_it(secure: RealServer, certificates: Certificates) -> None:
    tls = replace(certificates.tls, ca=None, verify="none")
    with connect(address_of(secure, tls)) as client:
        assert client.ping()


@pytest.mark.parametrize("name", [None, "other"])
async def test_a_server_refuses_those_whom_nobody_vouches_for(
    secure: RealServer, certificates: Certificates, name: str | None
) -> None:
    ends = () if name is None else (("cert", "pem"), ("key", "key"))
    paths: dict[str, Any] = {key: certificates.folder / f"{name}.{end}" for key, end in ends}
    failure = await failure_at(address_of(secure, Tls(certificates.folder / "ca.pem", **paths)))

    assert failure.kind in ("tls", "closed")


@pytest.mark.parametrize("key", ["ca", "cert", "key"])
async def test_a_file_that_is_not_there_is_named(secure: RealServer, certificates: Certificates, key: str) -> None:
    missing = certificates.folder / "missing.pem"
    failure = await failure_at(address_of(secure, replace(certificates.tls, **dict[str, Any]({key: missing}))))

    assert failure == Failure(
        "tls", f"{missing} cannot be read: No such file or directory", "the profile's tls_ keys name it"
    )


@pytest.mark.parametrize("key", ["ca", "cert", "key"])
async def test_a_file_that_is_no_certificate_is_told(
    secure: RealServer, certificates: Certificates, tmp_path: Path, key: str
) -> None:
    (tmp_path / "x.pem").write_text("not a certificate\n")
    failure = await failure_at(
        address_of(secure, replace(certificates.tls, **dict[str, Any]({key: tmp_path / "x.pem"})))
    )

    assert failure.kind == "tls"


async def test_a_key_that_wants_a_password_asks_nobody(
    secure: RealServer, certificates: Certificates, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key((certificates.folder / "us.key").read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    (tmp_path / "locked.key").write_bytes(locked)
    failure = await failure_at(address_of(secure, replace(certificates.tls, key=tmp_path / "locked.key")))

    assert failure.kind == "tls"


async def test_a_server_that_does_not_speak_it_is_told(redis_url: str, certificates: Certificates) -> None:
    failure = await failure_at(Address(redis_url.replace("redis://", "rediss://"), tls=certificates.tls), timeout_s=0.3)

    # It waits for the rest of a command.
    assert failure == Failure("timeout", "the server does not answer in TLS", "check whether the port uses TLS")


async def test_sentinels_and_what_they_watch_may_all_speak_it(secure: RealServer, certificates: Certificates) -> None:
    (port,) = free_ports(1)
    files = [
        f"{option.removeprefix('--')} {value}"
        for option, value in zip(certificates.server_options[::2], certificates.server_options[1::2], strict=True)
    ]
    conf = [
        f"tls-port {port}", "tls-replication yes", *files,
        f"sentinel monitor main {HOST} {secure.port} 1",
    ]  # fmt: skip
    with real_server("--sentinel", "--port", "0", port=port, conf=conf, options=certificates.client_options):
        sentinels = Sentinels("main", (Node(HOST, port),), tls=certificates.tls)
        address = Address("rediss://localhost/0", tls=certificates.tls, sentinels=sentinels)
        async with connect_async(address) as aclient:
            assert await aclient.ping()
        with connect(address) as client:
            assert client.ping()
        plain = replace(address, sentinels=replace(sentinels, tls=None))
        assert "no sentinel answers" in (await failure_at(plain)).sentence


async def test_an_open_connection_keeps_nothing_of_whoever_used_it(
    secure: RealServer, certificates: Certificates
) -> None:
    await keeps_nothing(address_of(secure, certificates.tls))
