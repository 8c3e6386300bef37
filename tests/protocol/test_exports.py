"""The public surface: what the package exports, and that both clients offer the same."""

import inspect
import pickle
from types import ModuleType

import pytest

from rsmq_tui import protocol
from rsmq_tui.protocol import AsyncRsmq, Rsmq, RsmqError
from rsmq_tui.protocol.errors import rsmq_error

OPERATIONS = {
    "list_queues",
    "create_queue",
    "delete_queue",
    "get_queue_attributes",
    "set_queue_attributes",
    "send_message",
    "receive_message",
    "pop_message",
    "delete_message",
    "change_message_visibility",
}
BATCHES = {"send_messages", "receive_messages", "delete_messages", "change_visibility_of", "restore_messages"}


def public_methods(cls: type) -> dict[str, inspect.Signature]:
    methods = inspect.getmembers(cls, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in methods if not name.startswith("_")}


# What the package itself is made with.
TOOLS = {"TYPE_CHECKING", "Any", "import_module"}


def test_all_is_complete() -> None:
    # Some are imported only when they are asked for.
    assert all(hasattr(protocol, name) for name in protocol.__all__)
    public = {name for name, value in vars(protocol).items() if not name.startswith("_")}
    modules = {name for name, value in vars(protocol).items() if isinstance(value, ModuleType)}

    assert set(protocol.__all__) == public - modules - TOOLS


def test_what_is_not_there_is_not_made_up() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        protocol.Nothing  # noqa: B018


def test_all_is_sorted_constants_then_classes_then_functions() -> None:
    def place(name: str) -> tuple[bool, bool, str]:
        return (not name.isupper(), name[0].islower(), name)

    assert protocol.__all__ == sorted(protocol.__all__, key=place)


def test_the_clients_have_every_operation_and_batch() -> None:
    assert public_methods(Rsmq).keys() == OPERATIONS | BATCHES


def test_both_clients_have_the_same_methods_with_the_same_signatures() -> None:
    assert public_methods(Rsmq) == public_methods(AsyncRsmq)


def test_both_clients_are_made_with_the_same_arguments() -> None:
    ours, theirs = (inspect.signature(cls).parameters for cls in (Rsmq, AsyncRsmq))

    assert list(ours) == list(theirs)
    assert [parameter.default for parameter in ours.values()] == [parameter.default for parameter in theirs.values()]


@pytest.mark.parametrize("name", sorted(OPERATIONS | BATCHES))
def test_only_the_asyncio_client_has_coroutines(name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(AsyncRsmq, name))
    assert not inspect.iscoroutinefunction(getattr(Rsmq, name))


def test_an_error_survives_pickling() -> None:
    name = pickle.loads(pickle.dumps(rsmq_error("invalidFormat", item="qname", reason="it is odd")))
    assert (name.code, str(name)) == ("invalidFormat", "Invalid qname format: it is odd")
    assert (name.item, name.reason) == ("qname", "it is odd")
    error = pickle.loads(pickle.dumps(RsmqError("queueNotFound", "Queue not found")))

    assert (error.code, str(error)) == ("queueNotFound", "Queue not found")
