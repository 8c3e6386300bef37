"""The server of one `rsmqctl` command, and its output."""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

from rsmq_tui.cli.errors import EXIT_FAILED, refusing
from rsmq_tui.cli.output import is_terminal, print_json, print_words
from rsmq_tui.cli.parsing import Options
from rsmq_tui.cli.servers import profile_of
from rsmq_tui.monitor.text import SENTENCE_MAX, UNKNOWN, date_clock, printable
from rsmq_tui.protocol import SERVER_ERRORS, ExplainedError, Failure, Rsmq, RsmqError, connect, failure_of
from rsmq_tui.protocol.connections.connect import TIMEOUT_S
from rsmq_tui.protocol.keys import DEFAULT_NS

_NAME_MAX = 200
_WAIT_S = 1.0
_REASONS = {
    "messageTooLong": "the message is longer than the queue's maxsize; `rsmqctl queue set -m` changes that",
    "wrongType": "a key of this queue holds another type of value than RSMQ's",
    "invalidValue maxsize": "maxsize must be between 1024 and 65536, or -1 for no limit",
}


class FailedError(Exception):
    """The command failed; the text is the line to print."""


class Server:
    """The server that the options name; ``rsmq`` are its queues, ``ns`` their namespace.

    Close it with ``close``. Raises ``UsageError`` for options that do not name a server.
    """

    def __init__(self, options: Options) -> None:
        self.profile = profile_of(options)
        self.ns = self.profile.ns
        with refusing(ValueError):
            self._client = connect(self.profile.address, self.ns)
        # Only the operations decode replies.
        self._client.response_callbacks.clear()
        self.rsmq = Rsmq(self._client, self.ns)

    @contextmanager
    def calls(self, beginning: str, queue: str = "", *, changing: str = "") -> Iterator[Rsmq]:
        """Yield the queues for calls on one of them, whose errors become a ``FailedError`` with that beginning.

        ``changing`` names the command if it changes something, which a read-only server refuses.
        """
        if changing and self.profile.read_only:
            raise FailedError(
                f"rsmqctl: this is read-only, and `{changing}` would change the queue; `message peek`, "
                "`message list` and `queue describe` only read"
            )
        try:
            with self.awaited():
                yield self.rsmq
        except RsmqError as error:
            if error.code == "queueNotFound":
                raise self.missing(queue) from error
            raise refused(beginning, queue, error) from error
        except SERVER_ERRORS as error:
            raise self.failed(error, changing=bool(changing)) from error

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """If a call takes longer than a second, say that the server is waited for.

        If the output is read by another program, nothing is said, as by `rsmq-tui`.
        """
        if not (is_terminal(sys.stdout) and is_terminal(sys.stderr)):
            yield
            return
        words = f"rsmqctl: waiting for {self.profile.address.label}; gives up after {TIMEOUT_S:g} s without an answer"
        timer = Timer(_WAIT_S, print, (words,), {"file": sys.stderr})
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def missing(self, queue: str) -> FailedError:
        """Return the error for a queue that does not exist."""
        within = "" if self.ns == DEFAULT_NS else f" in namespace {printable(self.ns, _NAME_MAX)}"
        return FailedError(f"No such queue{within}: {shown(queue)}")

    def refuse_missing(self, queue: str) -> None:
        """Raise an error if a queue does not exist; a name that clients cannot write to is looked up.

        To be called after a call that found nothing, so that a successful call needs only one round trip.
        """
        with self.calls(f"Failed to read queue: {shown(queue)}", queue) as rsmq:
            try:
                rsmq.get_queue_attributes(queue)
            except RsmqError as error:
                if error.code != "invalidFormat":
                    raise
                if queue not in rsmq.list_queues():
                    raise self.missing(queue) from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def failed(self, error: BaseException, *, changing: bool = False) -> FailedError:
        """Return the meaning of an error of ``SERVER_ERRORS``, and advice."""
        failure = failure_of(error)
        is_unsure = changing and failure.kind in ("timeout", "closed") and not isinstance(error, ExplainedError)
        # A connection that failed carried no command; an ExplainedError says why it failed.
        return self.error_of(failure, changing=changing, is_unsure=is_unsure and "connecting" not in str(error))

    def error_of(self, failure: Failure, *, changing: bool = False, is_unsure: bool = False) -> FailedError:
        """Return the error that reports a failure; ``is_unsure`` if the change may have been made."""
        sentence, hint = printable(failure.sentence, SENTENCE_MAX), failure.hint
        if failure.kind == "noperm":
            sentence = "this user may not do that"
            hint = f"grant it +@read{' +@write' * changing} +@scripting +time on the keys of the namespace"
        elif failure.kind == "loading":
            hint = "try again when it has finished"
        elif failure.kind == "readonly" and changing:
            hint = "point the URL at the primary"
        deed, unsure = "change" if changing else "read", ". It is not known whether the change was made." * is_unsure
        return FailedError(f"rsmqctl: cannot {deed} {self.profile.address.label}: {sentence}; {hint}{unsure}")


def run_on_server(run: Callable[[Server, Options], None], options: Options) -> int:
    """Run a command, and return its exit status; raises ``UsageError``."""
    server = Server(options)
    try:
        run(server, options)
    except FailedError as error:
        if options.verbose:
            _print_places(error)
        print(error, file=sys.stderr)
        return EXIT_FAILED
    finally:
        server.close()
    return 0


def _print_places(error: BaseException) -> None:
    """Print where the error occurred, without its text, in which a server may repeat a password."""
    cause: BaseException | None = error
    while cause is not None:
        print(f"{type(cause).__name__} at:", file=sys.stderr)
        traceback.print_tb(cause.__traceback__)
        cause = cause.__cause__


def refused(beginning: str, queue: str, error: RsmqError) -> FailedError:
    """Return the error for what the protocol refuses, after the beginning of its sentence."""
    if error.item == "qname":
        named = "" if beginning.endswith(f": {shown(queue)}") else f" {shown(queue)}:"
        unless = ", and is not QUEUES" if queue == "QUEUES" else ""
        return FailedError(f"{beginning}:{named} a queue's name has 1 to 160 letters, digits, _ and -{unless}")
    why = _REASONS.get(error.code) or _REASONS.get(f"{error.code} {error.item}") or str(error)
    return FailedError(f"{beginning}: {why}")


def shown(text: str) -> str:
    """Return a name or an id as one printable line of limited length."""
    return printable(text, _NAME_MAX)


def print_attributes(options: Options, fields: dict[str, Any]) -> None:
    """Print the attributes of a queue; vt and delay are printed as 30.0, as the original does."""
    for name in ("vt", "delay"):
        fields[name] = None if fields[name] is None else float(fields[name])
    if options.output != "text":
        print_json(fields)
        return
    for name, value in fields.items():
        if name in ("created", "modified") and value is not None:
            text = date_clock(value * 1000, zone=True)
        else:
            text = UNKNOWN if value is None else f"{value:.12g} s" if isinstance(value, float) else str(value)
        print_words(f"{name:<11}{text}")


def print_none(options: Options) -> None:
    """Print that there is no message: on stdout as the original does, unless only JSON was requested."""
    sentence = f"No messages on queue: {shown(options.name)}"
    if options.output == "json":
        print(sentence, file=sys.stderr)
    else:
        print_words(sentence)
