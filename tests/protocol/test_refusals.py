"""Refusals: every operation's canonical codes and messages, and which one is raised when there are several reasons."""

from collections.abc import Awaitable, Callable

import pytest
from redis import Redis

from rsmq_tui.protocol import RsmqError, StoredMessage
from tests.protocol.either import Either
from tests.protocol.keyspace import everything

Call = Callable[[Either], Awaitable[object]]

ID = "a" * 32
BAD_NAME = "no such!"

ON_ONE_QUEUE: dict[str, Callable[[Either, object], Awaitable[object]]] = {
    "create_queue": lambda queues, name: queues.create_queue(name),
    "delete_queue": lambda queues, name: queues.delete_queue(name),
    "get_queue_attributes": lambda queues, name: queues.get_queue_attributes(name),
    "set_queue_attributes": lambda queues, name: queues.set_queue_attributes(name, vt=5),
    "send_message": lambda queues, name: queues.send_message(name, "x"),
    "receive_message": lambda queues, name: queues.receive_message(name),
    "pop_message": lambda queues, name: queues.pop_message(name),
    "delete_message": lambda queues, name: queues.delete_message(name, ID),
    "change_message_visibility": lambda queues, name: queues.change_message_visibility(name, ID, 5),
    "send_messages": lambda queues, name: queues.send_messages(name, ["x"]),
    "receive_messages": lambda queues, name: queues.receive_messages(name, 5),
    "delete_messages": lambda queues, name: queues.delete_messages(name, [ID]),
    "change_visibility_of": lambda queues, name: queues.change_visibility_of(name, [ID], 5),
    "restore_messages": lambda queues, name: queues.restore_messages(name, [StoredMessage(ID, b"x", 5)]),
}
NEEDS_QUEUE = ON_ONE_QUEUE.keys() - {"create_queue", "delete_message", "delete_messages"}


async def refusal_of(awaited: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(RsmqError) as refused:
        await awaited
    return refused.value.code, str(refused.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ("missingParameter", "No qname supplied")),
        (None, ("missingParameter", "No qname supplied")),
        ("orders\n", ("invalidFormat", "Invalid qname format")),
        ("a" * 161, ("invalidFormat", "Invalid qname format")),
    ],
    ids=["empty", "none", "trailing newline", "161 characters"],
)
async def test_every_operation_refuses_a_bad_name_and_changes_nothing(
    queues: Either, client: Redis, name: object, expected: tuple[str, str]
) -> None:
    refusals = {operation: await refusal_of(run(queues, name)) for operation, run in ON_ONE_QUEUE.items()}

    assert refusals == dict.fromkeys(ON_ONE_QUEUE, expected)
    assert client.keys() == []


async def test_every_operation_refuses_the_name_of_the_index(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")
    before = everything(client)

    codes = {operation: (await refusal_of(run(queues, "QUEUES")))[0] for operation, run in ON_ONE_QUEUE.items()}

    assert codes == dict.fromkeys(ON_ONE_QUEUE, "invalidFormat")
    assert everything(client) == before


async def test_every_operation_takes_a_name_of_160_characters(queues: Either) -> None:
    name = "q" * 160
    for operation, run in ON_ONE_QUEUE.items():
        await run(queues, name)
        if operation == "delete_queue":
            await queues.create_queue(name)


async def test_a_queue_that_is_not_there_is_not_found_and_not_made(queues: Either, client: Redis) -> None:
    refusals = {operation: await refusal_of(ON_ONE_QUEUE[operation](queues, "nowhere")) for operation in NEEDS_QUEUE}

    assert refusals == dict.fromkeys(NEEDS_QUEUE, ("queueNotFound", "Queue not found"))
    assert client.keys() == []


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (lambda q: q.create_queue("orders"), "queueExists", "Queue exists"),
        (lambda q: q.create_queue("new", vt=-1), "invalidValue", "vt must be between 0 and 9999999"),
        (lambda q: q.create_queue("new", delay=10_000_000), "invalidValue", "delay must be between 0 and 9999999"),
        (lambda q: q.create_queue("new", maxsize=-2), "invalidValue", "maxsize must be between 1024 and 65536"),
        (lambda q: q.set_queue_attributes("orders"), "noAttributeSupplied", "No attribute was supplied"),
        (lambda q: q.set_queue_attributes("orders", vt=True), "invalidValue", "vt must be between 0 and 9999999"),
        (lambda q: q.set_queue_attributes("orders", delay=0.5), "invalidValue", "delay must be between 0 and 9999999"),
        (
            lambda q: q.set_queue_attributes("orders", maxsize=1023),
            "invalidValue",
            "maxsize must be between 1024 and 65536",
        ),
        (lambda q: q.send_message("orders", 5), "messageNotString", "Message must be a string"),
        (lambda q: q.send_message("orders", "x" * 65_537), "messageTooLong", "Message too long"),
        (lambda q: q.send_message("orders", "x", delay="5"), "invalidValue", "delay must be between 0 and 9999999"),
        (lambda q: q.receive_message("orders", vt=1.0), "invalidValue", "vt must be between 0 and 9999999"),
        (lambda q: q.receive_messages("orders", 5, vt=-1), "invalidValue", "vt must be between 0 and 9999999"),
        (lambda q: q.delete_message("orders", ""), "missingParameter", "No id supplied"),
        (lambda q: q.delete_message("orders", 5), "invalidFormat", "Invalid id format"),
        (
            lambda q: q.delete_messages("orders", [ID, "vt"]),
            "invalidFormat",
            "Invalid id format: vt is the name of a field of the queue",
        ),
        (lambda q: q.change_message_visibility("orders", None, 5), "missingParameter", "No id supplied"),
        (
            lambda q: q.change_message_visibility("orders", "totalsent", 5),
            "invalidFormat",
            "Invalid id format: totalsent is the name of a field of the queue",
        ),
        (
            lambda q: q.change_visibility_of("orders", ["a" * 65_537], 5),
            "invalidFormat",
            "Invalid id format: it is longer than 65,536 bytes",
        ),
        (
            lambda q: q.change_message_visibility("orders", ID, None),
            "invalidValue",
            "vt must be between 0 and 9999999",
        ),
    ],
)
async def test_a_refusal_has_the_canonical_code_and_message_and_changes_nothing(
    queues: Either, client: Redis, call: Call, code: str, message: str
) -> None:
    await queues.create_queue("orders")
    before = everything(client)

    assert await refusal_of(call(queues)) == (code, message)
    assert everything(client) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        # No attributes is said before anything else.
        (lambda q: q.set_queue_attributes(BAD_NAME), "No attribute was supplied"),
        (lambda q: q.set_queue_attributes("nowhere"), "No attribute was supplied"),
        # The name comes first, then the arguments in the canonical order.
        (lambda q: q.create_queue(BAD_NAME, vt=-1, delay=-1, maxsize=0), "Invalid qname format"),
        (lambda q: q.create_queue("orders", vt=-1, delay=-1, maxsize=0), "vt must be between"),
        (lambda q: q.create_queue("orders", delay=-1, maxsize=0), "delay must be between"),
        (lambda q: q.create_queue("orders", maxsize=0), "maxsize must be between"),
        (lambda q: q.set_queue_attributes(BAD_NAME, vt=-1), "Invalid qname format"),
        (lambda q: q.set_queue_attributes("nowhere", vt=-1, delay=-1, maxsize=0), "vt must be between"),
        (lambda q: q.set_queue_attributes("nowhere", delay=-1, maxsize=0), "maxsize must be between"),
        (lambda q: q.set_queue_attributes("nowhere", delay=-1), "delay must be between"),
        (lambda q: q.change_message_visibility(BAD_NAME, "bad", -1), "Invalid qname format"),
        (lambda q: q.change_message_visibility("nowhere", "vt", -1), "Invalid id format"),
        (lambda q: q.change_message_visibility("nowhere", ID, -1), "vt must be between"),
        (lambda q: q.change_message_visibility("nowhere", ID, 5), "Queue not found"),
        (lambda q: q.delete_message(BAD_NAME, "bad"), "Invalid qname format"),
        (lambda q: q.send_message(BAD_NAME, 5, delay=-1), "Invalid qname format"),
        (lambda q: q.send_message("orders", 5, delay=-1), "delay must be between"),
        (lambda q: q.receive_message(BAD_NAME, vt=-1), "Invalid qname format"),
        # What one argument alone tells is refused here, what depends on the queue by the server.
        (lambda q: q.send_message("nowhere", 5), "Message must be a string"),
        (lambda q: q.send_message("nowhere", "x" * 70_000), "Queue not found"),
        (lambda q: q.send_message("badDelay", "x" * 70_000), "delay must be between 0 and 9999999"),
    ],
)
async def test_of_several_reasons_the_first_is_told(queues: Either, client: Redis, call: Call, message: str) -> None:
    await queues.create_queue("orders")
    await queues.create_queue("badDelay")
    client.hset("rsmq:badDelay:Q", "delay", 30_000_000)

    _, answer = await refusal_of(call(queues))

    assert answer.startswith(message)
