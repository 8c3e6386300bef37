"""The errors of changes, as sentences for people."""

from collections.abc import Iterator
from contextlib import contextmanager

from rsmq_tui.monitor.messages.peek import PeekError
from rsmq_tui.monitor.text import SENTENCE_MAX, printable
from rsmq_tui.protocol import SERVER_ERRORS, RsmqError, failure_of
from rsmq_tui.triage.journal.database import JournalError

# A refusal here concerns a change: the same user may have permission to read queues.
_NO_PERMISSION = (
    "this user may not change the queues; grant it +@read +@write +@scripting +@connection +time on the keys of the "
    "namespace, or start with --read-only"
)
# What the canonical client's messages do not say of arguments that it refuses.
_ALLOWED = {
    "qname": ": a name has 1 to 160 characters of A-Z, a-z, 0-9, - and _",
    "maxsize": ", or -1 for no limit",
}


class TriageError(Exception):
    """A change that cannot be made; its text is for people, and nothing was changed."""


class NoTargetError(TriageError):
    """The target queue does not exist; the same action with ``create`` creates it."""


NO_LIST = "there is no list with that key: Redis deletes a list with its last item"


class NoListError(TriageError):
    """A list does not exist, and is not watched by its key."""


def no_queue(*queues: str) -> str:
    """Say that queues do not exist."""
    names = ", ".join(printable(queue) for queue in queues)
    return f"queue {names} does not exist" if len(queues) == 1 else f"queues {names} do not exist"


# The errors that preparing or running a change can raise; any other error is a defect.
EXPECTED: tuple[type[Exception], ...] = (TriageError, RsmqError, JournalError, PeekError, *SERVER_ERRORS)


@contextmanager
def explained() -> Iterator[None]:
    """Raise expected errors as ``TriageError``, with their text."""
    try:
        yield
    except EXPECTED as error:
        raise TriageError(explain(error)) from error


def explain(error: Exception) -> str:
    """Return the text of an expected error, in one line."""
    if isinstance(error, RsmqError) and error.item in _ALLOWED and not error.reason:
        return f"{error}{_ALLOWED[error.item]}"
    if isinstance(error, RsmqError | JournalError | PeekError | TriageError):
        return printable(str(error), SENTENCE_MAX)
    if isinstance(error, OSError) and error.filename is not None:
        return printable(f"{error.filename}: {error.strerror}", SENTENCE_MAX)
    failure = failure_of(error)
    if failure.kind == "noperm":
        return _NO_PERMISSION
    return printable(failure.words, SENTENCE_MAX)
