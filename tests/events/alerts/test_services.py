"""Services by apprise: real local endpoints for HTTP and SMTP, some of which hang or refuse."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from rsmq_tui.events.alerts.channels import ChannelError, Send, sender
from rsmq_tui.events.alerts.message import Affected, AlertState
from rsmq_tui.profiles.alerts import Channel
from rsmq_tui.profiles.passwords import from_text, from_variable
from tests.events.alerts.made import message


@contextmanager
def http_server(status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that keeps the JSON that it gets; its address without a scheme."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def service(*urls: str, timeout_s: float = 60.0) -> Send:
    channel = Channel("mail", "apprise", urls=tuple(map(from_text, urls)), timeout_s=timeout_s)
    return sender(channel, None)


def test_by_http() -> None:
    with http_server() as (address, got):
        send = service(f"json://{address}/hook")
        send(message())
        send(message(state=AlertState.RESOLVED))

    assert [(one["title"], one["message"], one["type"]) for one in got] == [
        ("rsmq-tui: stalled", "prod rsmq: q0: stalled: 3 messages ready, for 1m 5s", "failure"),
        ("rsmq-tui: resolved: stalled", "prod rsmq: q0: over, after 1m 5s", "success"),
    ]


def test_by_mail() -> None:
    mails: list[bytes] = []

    class Handler:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
            mails.append(envelope.content)
            return "250 OK"

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(Handler(), hostname="127.0.0.1", port=port)
    controller.start()
    try:
        service(f"mailto://127.0.0.1:{port}?from=us@shop.example&to=oncall@shop.example&mode=insecure")(message())
    finally:
        controller.stop()

    (mail,) = [message_from_bytes(raw, policy=policy.default) for raw in mails]
    assert mail["To"] == "oncall@shop.example"
    assert "rsmq-tui: stalled" in mail["Subject"]
    body = mail.get_body(("plain",))
    assert body is not None
    assert "q0: stalled: 3 messages ready, for 1m 5s" in body.get_content().replace("\n", " ")


def test_a_name_cannot_address_people_or_be_a_link() -> None:
    name = "@everyone <!channel> [x](http://evil.example) `y`"
    with http_server() as (address, got):
        service(f"json://{address}")(message(rule=name, queues=(Affected(name, "ok", 1, name),)))

    assert not set("@<>[]`") & set(got[0]["title"] + got[0]["message"])
    assert "everyone" in got[0]["message"]


def test_several_services_get_each_message() -> None:
    with http_server() as (one, of_one), http_server() as (two, of_two):
        service(f"json://{one}", f"json://{two}")(message())

    assert (len(of_one), len(of_two)) == (1, 1)


def test_a_refusal_is_told_without_the_secrets_of_the_url(capfd: pytest.CaptureFixture[str]) -> None:
    with http_server(status=500) as (address, got), pytest.raises(ChannelError) as refused:
        service(f"json://bob:hunter2hunter2@{address}/s3cret-t0ken-of-ours")(message())

    assert len(got) == 1
    assert "500" in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("hunter2", "s3cret"))
    for url in ("json://", "nothing://x:hunter2@h", ""):
        with pytest.raises(ChannelError) as refused:
            service(url)(message())
        assert str(refused.value) == "URL 1 is not one that apprise knows"
    # Its warnings would be written over the dashboard.
    assert capfd.readouterr() == ("", "")


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ChannelError, match="onnection error"):
        service(f"json://127.0.0.1:{port}")(message())


def test_a_service_that_hangs_is_given_up_and_not_asked_again_meanwhile() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # It takes the connection, and never answers. apprise itself would wait as long as this says.
        send = service(f"json://127.0.0.1:{listening.getsockname()[1]}?rto=3&cto=3", timeout_s=0.5)
        # The plugins are loaded before, which takes longer.
        with pytest.raises(ChannelError, match=r"did not answer within 0\.5 s"):
            send(message())
        with pytest.raises(ChannelError, match="still does not answer"):
            send(message())
    for thread in threading.enumerate():
        if thread.name == "apprise":
            thread.join()


def test_without_apprise(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ChannelError, match=r"apprise is not installed: pip install 'rsmq-tui\[notify\]'"):
        service("json://h")(message())


def test_a_url_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    send = sender(Channel("mail", "apprise", urls=(from_variable("HOOK"),)), None)
    with pytest.raises(ChannelError, match="its URL cannot be read: the environment variable HOOK is not set"):
        send(message())
