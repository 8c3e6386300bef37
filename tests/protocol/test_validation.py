"""What may be written, and that everything else is refused by the canonical code and message."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq_tui.protocol import RsmqError, validation
from rsmq_tui.protocol.keys import ATTRIBUTE_FIELDS, FOREIGN_FIELDS

ID = "a" * 31


def refusal_of(check: Callable[..., object], *arguments: object) -> tuple[str, str]:
    with pytest.raises(RsmqError) as refused:
        check(*arguments)
    return refused.value.code, str(refused.value)


@pytest.mark.parametrize("name", ["a", "A-z_09", "-", "_", "0", "rt", "queues", "QUEUES2", "a" * 160])
def test_a_queue_name_of_letters_digits_hyphens_and_underscores_is_taken(name: str) -> None:
    assert validation.queue_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a" * 161, id="161 characters"),
        pytest.param("abc\n", id="trailing newline"),
        pytest.param("a" * 160 + "\n", id="160 characters and a newline"),
        pytest.param("\nabc", id="leading newline"),
        "a b",
        "a:b",
        "a.b",
        "{a}",
        "a\x00",
        "\x1b[31m",
        "é",
        pytest.param("٣", id="digit of another script"),
        pytest.param("Ａ", id="letter of full width"),
        b"abc",
        123,
        True,
        ["a"],
    ],
)
def test_any_other_queue_name_has_an_invalid_format(name: object) -> None:
    assert refusal_of(validation.queue_name, name) == ("invalidFormat", "Invalid qname format")


@pytest.mark.parametrize("name", [None, ""])
def test_no_queue_name_is_a_missing_parameter(name: object) -> None:
    assert refusal_of(validation.queue_name, name) == ("missingParameter", "No qname supplied")


def test_the_name_of_the_index_is_refused_and_told_why() -> None:
    code, message = refusal_of(validation.queue_name, "QUEUES")

    assert code == "invalidFormat"
    assert message.startswith("Invalid qname format")
    assert "index" in message


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (ID + "b", b"a" * 31 + b"b"),
        ("Z9:" + "0" * 29, b"Z9:" + b"0" * 29),
        ("x", b"x"),
        ("ABCDEFGHIJKLMNOPQRSTUV", b"ABCDEFGHIJKLMNOPQRSTUV"),
        ("x:rc", b"x:rc"),
        ("\n", b"\n"),
        ("é\udcff", b"\xc3\xa9\xff"),
        pytest.param("é" * 32_768, "é".encode() * 32_768, id="65,536 bytes"),
    ],
)
def test_an_id_is_what_any_client_may_have_made(value: str, raw: bytes) -> None:
    assert validation.message_id(value) == raw


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"a" * 32, ""),
        (10**31, ""),
        ("\ud800", ": it contains a lone surrogate"),
        pytest.param("é" * 32_769, ": it is longer than 65,536 bytes", id="65,538 bytes"),
        *((name, f": {name} is the name of a field of the queue") for name in (*ATTRIBUTE_FIELDS, *FOREIGN_FIELDS)),
    ],
)
def test_what_is_no_id_has_an_invalid_format(value: object, why: str) -> None:
    assert refusal_of(validation.message_id, value) == ("invalidFormat", f"Invalid id format{why}")


@pytest.mark.parametrize("value", [None, ""])
def test_no_id_is_a_missing_parameter(value: object) -> None:
    assert refusal_of(validation.message_id, value) == ("missingParameter", "No id supplied")


@pytest.mark.parametrize("value", [0, 1, 9_999_999])
@pytest.mark.parametrize("item", ["vt", "delay"])
def test_whole_seconds_up_to_9999999_are_taken(item: str, value: int) -> None:
    assert validation.seconds(item, value) == value


@pytest.mark.parametrize("value", [-1, 10_000_000, True, False, 1.0, 0.5, math.nan, math.inf, "5", "5abc", b"5", None])
@pytest.mark.parametrize("item", ["vt", "delay"])
def test_any_other_seconds_are_an_invalid_value(item: str, value: object) -> None:
    expected = ("invalidValue", f"{item} must be between 0 and 9999999")

    assert refusal_of(validation.seconds, item, value) == expected


@pytest.mark.parametrize("value", [-1, 1024, 65_536])
def test_a_maxsize_of_1024_to_65536_or_unlimited_is_taken(value: int) -> None:
    assert validation.maxsize(value) == value


@pytest.mark.parametrize("value", [1023, 65_537, -2, 0, 1, True, 1024.0, "1024", "-1", math.nan, None])
def test_any_other_maxsize_is_an_invalid_value(value: object) -> None:
    assert refusal_of(validation.maxsize, value) == ("invalidValue", "maxsize must be between 1024 and 65536")


@pytest.mark.parametrize(
    ("body", "stored", "size"),
    [
        pytest.param("", b"", 0, id="empty"),
        pytest.param("abc", b"abc", 3, id="ASCII"),
        pytest.param("ñ", b"\xc3\xb1", 1, id="one unit, two bytes"),
        pytest.param("€", b"\xe2\x82\xac", 1, id="one unit, three bytes"),
        pytest.param("😀", b"\xf0\x9f\x98\x80", 2, id="astral: two units, four bytes"),
        pytest.param("a\x00b", b"a\x00b", 3, id="NUL"),
        pytest.param(b"\xff\xfe\x00", b"\xff\xfe\x00", 3, id="bytes that are no UTF-8"),
        pytest.param("ñ".encode(), b"\xc3\xb1", 2, id="bytes are measured in bytes"),
    ],
)
def test_a_text_is_stored_as_utf8_and_measured_in_utf16_units(body: str | bytes, stored: bytes, size: int) -> None:
    assert validation.body_bytes(body) == (stored, size)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_is_measured_as_javascript_does(text: str) -> None:
    units = sum(2 if ord(character) > 0xFFFF else 1 for character in text)

    assert validation.body_bytes(text) == (text.encode(), units)


@pytest.mark.parametrize(
    "body", [None, 5, 1.5, True, {}, [], ["a"], bytearray(b"a"), memoryview(b"a"), "\ud800", "a\udfff"]
)
def test_a_body_that_is_no_text_or_bytes_is_not_a_string(body: object) -> None:
    assert refusal_of(validation.body_bytes, body) == ("messageNotString", "Message must be a string")
