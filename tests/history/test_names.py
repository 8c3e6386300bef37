from hypothesis import given
from hypothesis import strategies as some

from rsmq_tui.history.names import read_name, stored_name, stored_text
from rsmq_tui.protocol import name_of
from rsmq_tui.protocol.keys import name_bytes

ANY = some.binary(max_size=12) | some.text(alphabet="\\x0f\xff€", max_size=12).map(str.encode)


@given(ANY)
def test_the_bytes_of_any_name_come_back(raw: bytes) -> None:
    stored = stored_name(name_of(raw))

    assert stored.encode("utf-8").decode() == stored
    assert name_bytes(read_name(stored)) == raw


@given(ANY, ANY)
def test_two_names_never_look_the_same(one: bytes, other: bytes) -> None:
    assert (stored_name(name_of(one)) == stored_name(name_of(other))) == (one == other)


def test_most_names_look_as_they_are() -> None:
    assert [stored_name(name) for name in ("orders", "größe", "\x1b[31m\0", "a\\b", "a\udcffb")] == [
        "orders", "größe", "\x1b[31m\0", "a\\\\b", "a\\xffb",
    ]  # fmt: skip


def test_text_for_people_is_valid_whatever_it_holds() -> None:
    assert stored_text("größe \ud800\udcff") == "größe \\ud800\\udcff"
