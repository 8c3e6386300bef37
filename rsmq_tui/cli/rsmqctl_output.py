"""What `rsmqctl` prints: the original's JSON, JSON alone, or words."""

import argparse
import base64
import codecs
import sys
from typing import Any

from rsmq_tui.cli.output import print_json, print_words, text_of
from rsmq_tui.cli.rsmqctl_server import shown
from rsmq_tui.monitor.wording import UNKNOWN, clock
from rsmq_tui.protocol import Message


def print_attributes(options: argparse.Namespace, fields: dict[str, Any]) -> None:
    """Print the attributes of a queue; vt and delay are printed as 30.0, as the original does."""
    for name in ("vt", "delay"):
        fields[name] = None if fields[name] is None else float(fields[name])
    if options.output != "text":
        print_json(fields)
        return
    for name, value in fields.items():
        if name in ("created", "modified") and value is not None:
            text = clock(value * 1000, date=True).removesuffix(".000")
        else:
            text = UNKNOWN if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        print_words(f"{name:<11}{text}")


def print_message(options: argparse.Namespace, message: Message) -> None:
    """Print a received message."""
    if options.output != "text":
        fields = {"id": message.id, **body_fields("message", message.body), "rc": message.rc, "ts": message.fr_ms}
        print_json(with_exact_last(fields))
        return
    print_words(f"id    {message.id}")
    print_words(f"rc    {message.rc}, first received {clock(message.fr_ms, date=True)}")
    print_words(f"sent  {clock(message.sent_ms, date=True)}")
    print_body(message.body)


def print_body(body: bytes) -> None:
    """Print a body for people, with an empty line before and behind."""
    print()
    for line in text_of(body).split("\n"):
        print_words(line)
    print()


def print_none(options: argparse.Namespace) -> None:
    """Say that there is no message: on stdout as the original does, unless JSON alone was asked for."""
    sentence = f"No messages on queue: {shown(options.name)}"
    if options.output == "json":
        print(sentence, file=sys.stderr)
    else:
        print_words(sentence)


def body_fields(name: str, body: bytes | None, *, whole: bool = True) -> dict[str, Any]:
    """Return a body as text, and in base64 too where it is no UTF-8; one not ``whole`` may end within a character."""
    if body is None:
        return {name: None}
    try:
        return {name: codecs.utf_8_decode(body, "strict", whole)[0]}
    except UnicodeDecodeError:
        return {name: body.decode("utf-8", "replace"), f"{name}_base64": base64.b64encode(body).decode()}


def with_exact_last(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with those that the original does not have behind its own."""
    return dict(sorted(fields.items(), key=lambda field: field[0].endswith("_base64")))
