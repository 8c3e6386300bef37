"""Sends a message by one channel: the terminal's bell or notification, a command, or a service that apprise knows.

Names in messages come from Redis. They are printable here, and cannot end the escape sequence that they are in.
"""

import json
import logging
import os
import re
import secrets
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any
from urllib.parse import urlsplit

from rsmq_tui.events.alerts.message import AlertMessage, AlertState
from rsmq_tui.monitor.text import SENTENCE_MAX, printable
from rsmq_tui.profiles.alerts import BELL, Channel
from rsmq_tui.profiles.passwords import without_secrets
from rsmq_tui.protocol import ExplainedError
from rsmq_tui.protocol.errors import redact

# Writes to the terminal, None if there is none.
Write = Callable[[str], None] | None
Send = Callable[[AlertMessage], None]

_BELL, _ESCAPE, _END = "\a", "\x1b", "\x1b\\"
_NOTIFICATION_MAX = 200
_STDERR_BYTES = 4_096
_TOKEN_MIN = 8
# Characters by which services mention groups of people or mark up text, and their replacements.
_SERVICE_SIGNS = str.maketrans("@<>[]`", "＠‹›［］ˋ")
# The first entry that matches the environment: variable, beginning of its value, sequence. OSC 777 has a title, OSC 9
# has none.
_TERMINALS = (
    ("KITTY_WINDOW_ID", "", "osc99"),
    ("TERM", "xterm-kitty", "osc99"),
    ("TERM", "foot", "osc777"),
    ("TERM", "rxvt-unicode", "osc777"),
    ("TERM", "xterm-ghostty", "osc777"),
    ("TERM_PROGRAM", "ghostty", "osc777"),
    ("TERM_PROGRAM", "WezTerm", "osc777"),
    ("TERM_PROGRAM", "iTerm.app", "osc9"),
    ("TERM_PROGRAM", "WarpTerminal", "osc9"),
)


class ChannelError(Exception):
    """A message could not be sent; its text is for people, and contains no secret."""


def sender(channel: Channel, write: Write) -> Send:
    """Return a function that sends a message by a channel within its time limit; it raises ``ChannelError``."""
    if channel.kind == "command":
        return lambda message: _run(channel, message)
    if channel.kind == "apprise":
        return _Apprise(channel)

    def show(message: AlertMessage) -> None:
        if write is None:
            raise ChannelError("there is no terminal")
        write(_BELL if channel.kind == BELL else notification(channel, message, os.environ))

    return show


def notification(channel: Channel, message: AlertMessage, environment: Mapping[str, str]) -> str:
    """Return the escape sequence of a notification, or a bell if the terminal is not known to support any."""
    in_tmux = bool(environment.get("TMUX"))
    sequence = channel.sequence or _sequence_of(environment)
    # GNU Screen cannot pass it on, and tmux does so only if its user allows it.
    if not sequence or (in_tmux and not channel.tmux) or (environment.get("STY") and not in_tmux):
        return _BELL
    title = printable(message.title, _NOTIFICATION_MAX)
    text = printable(message.text, _NOTIFICATION_MAX)
    if sequence == "osc9":
        written = f"{_ESCAPE}]9;{title}: {text}{_END}"
    elif sequence == "osc777":
        # The title ends at a semicolon.
        written = f"{_ESCAPE}]777;notify;{title.replace(';', ',')};{text}{_END}"
    else:
        # The id joins the title and the text; a notification with an earlier id would be replaced.
        id = f"rsmq-tui-{secrets.token_hex(8)}"
        written = f"{_ESCAPE}]99;i={id}:d=0;{title}{_END}{_ESCAPE}]99;i={id}:p=body;{text}{_END}"
    if in_tmux:
        return f"{_ESCAPE}Ptmux;{written.replace(_ESCAPE, _ESCAPE * 2)}{_END}"
    return written


def _sequence_of(environment: Mapping[str, str]) -> str:
    for variable, beginning, sequence in _TERMINALS:
        if environment.get(variable) and environment[variable].startswith(beginning):
            return sequence
    return ""


def _run(channel: Channel, message: AlertMessage) -> None:
    """Run the command with the message as JSON on its standard input, without a terminal."""
    # Files and no pipes: a process that a command leaves behind may keep a pipe open.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(json.dumps(message.as_json()).encode() + b"\n")
        given.seek(0)
        try:
            process = subprocess.Popen(
                channel.command, stdin=given, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise ChannelError(f"{channel.command[0]} cannot be run: {error.strerror}") from error
        try:
            status = process.wait(channel.timeout_s)
        except subprocess.TimeoutExpired:
            raise ChannelError(
                f"{channel.command[0]} took longer than {channel.timeout_s:g} s{_error_words(errors)}"
            ) from None
        finally:
            if process.poll() is None:
                _kill(process)
        if status:
            raise ChannelError(f"{channel.command[0]} ended with status {status}{_error_words(errors)}")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a command and the processes that it has started."""
    with suppress(OSError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _error_words(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    words = without_secrets(" ".join(stderr.read(_STDERR_BYTES).decode("utf-8", "replace").split()))
    return f": {printable(words, SENTENCE_MAX)}" if words else ""


class _Apprise:
    """Sends by the library apprise, in a thread of its own: a service that hangs is given up after the time limit.

    apprise and the plugins of all services are loaded with the first message, which takes about a second.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._thread: threading.Thread | None = None

    def __call__(self, message: AlertMessage) -> None:
        if self._thread is not None and self._thread.is_alive():
            raise ChannelError("the service still does not answer")
        outcome: list[str | None] = []
        self._thread = threading.Thread(target=self._send, args=(message, outcome), name="apprise", daemon=True)
        self._thread.start()
        self._thread.join(self._channel.timeout_s)
        if not outcome:
            raise ChannelError(f"the service did not answer within {self._channel.timeout_s:g} s")
        if outcome[0] is not None:
            raise ChannelError(outcome[0])

    def _send(self, message: AlertMessage, outcome: list[str | None]) -> None:
        try:
            outcome.append(self._notify(message))
        except ImportError:
            outcome.append("apprise is not installed: pip install 'rsmq-tui[notify]'")
        except ExplainedError as error:
            outcome.append(f"its URL cannot be read: {error}")
        except Exception as error:
            # Plugins of services may raise anything, with the URL in its text.
            outcome.append(f"the service cannot be used: {type(error).__name__}")

    def _notify(self, message: AlertMessage) -> str | None:
        import apprise  # noqa: PLC0415 - only who sends by it needs it, and it takes half a second

        service: Any = apprise.Apprise()
        capture: Any = apprise.LogCapture
        # Without a handler, its warnings would be printed on the screen.
        logging.getLogger("apprise").addHandler(logging.NullHandler())
        urls = [url() for url in self._channel.urls]
        for number, url in enumerate(urls, 1):
            if not service.add(url):
                return f"URL {number} is not one that apprise knows"
        with capture(level=logging.WARNING, fmt="%(message)s") as log:
            is_sent = service.notify(
                title=message.title.translate(_SERVICE_SIGNS),
                body=message.text.translate(_SERVICE_SIGNS),
                notify_type=_TYPES[message.state],
                body_format="text",
            )
            if is_sent:
                return None
            words = _without_urls("; ".join(log.getvalue().splitlines()), urls)
            return printable(words, SENTENCE_MAX) or "the service refused the message"


def _without_urls(words: str, urls: Sequence[str]) -> str:
    """Mask the parts of URLs in a library's message: all but the host may be tokens."""
    for url in urls:
        host = urlsplit(url).hostname
        for part in re.split(r"[/:@?&=]+", url):
            if len(part) >= _TOKEN_MIN and part.lower() != host:
                words = redact(words, part)
    return without_secrets(words)


# The notification types of apprise, from which services choose colours and icons.
_TYPES = {
    AlertState.FIRING: "failure",
    AlertState.REPEATED: "failure",
    AlertState.RESOLVED: "success",
    AlertState.SUMMARY: "warning",
    AlertState.TEST: "info",
}
