"""What goes wrong between Spark and a server of queues, in one sentence that says what to do next.

    Exception
    └── SourceError        what stops a read, a stream or a write

Spark puts lines of its own around it; the sentence is the last of Python's.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from rsmq_tui.monitor.wording import SENTENCE_MAX, printable
from rsmq_tui.protocol import SERVER_ERRORS, RsmqError, failure_of

P = ParamSpec("P")
T = TypeVar("T")

ERRORS: tuple[type[Exception], ...] = (RsmqError, *SERVER_ERRORS)


class SourceError(Exception):
    """What stops a read, a stream or a write; its text is one sentence."""


def told(error: Exception, label: str, what: str = "") -> SourceError:
    """Put what a server or the protocol refused into a sentence; ``what`` was being done."""
    doing = f"{what}: " if what else ""
    if isinstance(error, RsmqError):
        return SourceError(printable(f"{label}: {doing}{error}", SENTENCE_MAX))
    failure = failure_of(error)
    return SourceError(printable(f"{label}: {doing}{failure.sentence}; {failure.hint}", SENTENCE_MAX))


def briefly(call: Callable[P, T]) -> Callable[P, T]:
    """Make what Spark calls raise a ``SourceError`` without the lines of where in this program it came from."""

    @wraps(call)
    def brief(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except SourceError as error:
            sentence = str(error)
        raise SourceError(sentence)

    return brief
