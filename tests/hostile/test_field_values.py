"""Attributes, counters, receive counts and scores that are no numbers, or numbers that nobody can use."""

import pytest
from redis import Redis

from rsmq_tui.protocol.kinds import RSMQ
from tests.hostile.keyspace import untouched
from tests.hostile.payloads import ESCAPES, MARKUP, SNIPPETS, UNREADABLE, plant_message, plant_queue
from tests.hostile.using import choose_tab
from tests.hostile.watching import dashboard, open_message, open_queue, polls, press, until

pytestmark = pytest.mark.slow

NUMBERS = [
    b"0", b"-0", b"-1", b"1e400", b"-1e400", b"nan", b"inf", b"-inf", b"0x10", b"1_000", b" 7 ", b"+7", b"7.5", b"",
    b"9" * 18, b"9" * 19, b"9" * 5_000, b"-" + b"9" * 5_000, b"1" + b"0" * 400 + b".5", "٣".encode(), b"7\n", b"\x00",
    b"2026-01-01", b"9999-12-31T23:59:59.999999999+14:00", b"0001-01-01T00:00:00-14:00", b"2026-99-99T00:00:00Z",
]  # fmt: skip
VALUES = [*NUMBERS, *SNIPPETS.values(), ESCAPES, MARKUP, UNREADABLE]
ATTRIBUTES = ("vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv")
SCORES = ("-inf", "inf", "0", "-1", "-1e308", "1.79e308", "5e-324", "0.5", "1e11", "1e14", "1e17", "-1e14")


@pytest.fixture
def hostile_fields(client: Redis) -> Redis:
    for number, value in enumerate(VALUES):
        queue = b"q%02d" % number
        # Half of the queues are broken by their vt; the rest of the fields of the others can still be read.
        fields = dict.fromkeys(ATTRIBUTES[number % 2 :], value)
        plant_queue(client, queue, **fields)
        plant_message(client, queue, b"m", b"body", rc=value, fr=value)
    return client


@pytest.fixture
def without_scripts(client: Redis) -> str:
    """The user of a connection that may read and run no script."""
    client.acl_setuser("reader", enabled=True, nopass=True, keys="*", commands=["+@read", "+@connection", "+time"])
    return "reader:any@"


@pytest.mark.parametrize("scripts", [True, False])
async def test_no_value_of_a_field_disturbs_the_overview(
    redis_url: str, hostile_fields: Redis, without_scripts: str, scripts: bool
) -> None:
    url = redis_url if scripts else redis_url.replace("://", f"://{without_scripts}")

    with untouched(hostile_fields):
        async with dashboard(url, size=(160, 90)) as pilot:
            text = await until(pilot, "● live", f"{len(VALUES)} queues")
            assert text.count("✗ broken") >= len(VALUES) // 4
            assert "its vt is not a number: " in text
            await polls(pilot, 3)
            await press(pilot, "t", *["s"] * 11)


@pytest.mark.parametrize("scripts", [True, False])
async def test_no_value_of_a_field_disturbs_the_screens_of_a_queue(
    client: Redis, redis_url: str, without_scripts: str, scripts: bool
) -> None:
    plant_queue(client, b"orders", **dict.fromkeys(ATTRIBUTES[1:], ESCAPES))
    for number, value in enumerate(VALUES):
        plant_message(client, b"orders", b"m%02d" % number, b"body", rc=value, fr=value)
    url = redis_url if scripts else redis_url.replace("://", f"://{without_scripts}")

    with untouched(client):
        async with dashboard(url, size=(160, 90)) as pilot:
            await until(pilot, "● live")
            text = await open_queue(pilot, "orders")
            assert "delay is not a number: ␛]0;PWNED-title␇" in text
            await press(pilot, "t")
            for row in (3, 14, len(VALUES) - 1):
                await open_message(pilot, row)
                await press(pilot, "escape")


async def test_no_score_disturbs_anything(client: Redis, redis_url: str) -> None:
    plant_queue(client, b"orders")
    for number, score in enumerate(SCORES):
        plant_queue(client, b"q%02d" % number)
        plant_message(client, b"orders", b"m%02d" % number, b"body", fr=b"1")
        client.execute_command("ZADD", "rsmq:orders", score, b"m%02d" % number)
        client.execute_command("ZADD", b"rsmq:q%02d" % number, score, "m")

    with untouched(client):
        async with dashboard(redis_url) as pilot:
            await until(pilot, "● live", f"{len(SCORES) + 1} queues")
            await press(pilot, "t")
            await open_queue(pilot, "orders")
            for _ in RSMQ.tabs:
                await press(pilot, "l", "t")
                await polls(pilot, 1)
            await choose_tab(pilot)
            for row in range(0, len(SCORES), 4):
                await open_message(pilot, row)
                await press(pilot, "escape")
