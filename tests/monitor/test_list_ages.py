"""Times in items, as programs write them, and where to look for them."""

import pytest

from rsmq_tui.monitor.filters.json_paths import age_path, read_age, timestamp_ms

AT_MS = 1_750_000_000_123


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("created", ("created",)),
        ("json.created", ("created",)),
        (".meta.at", ("meta", "at")),
        ('meta."odd key"', ("meta", "odd key")),
        ("[0].at", (0, "at")),
        ("json[-1]", (-1,)),
        (" created ", ("created",)),
        ("jsonish", ("jsonish",)),
    ],
)
def test_where_to_look(text: str, path: tuple[str | int, ...]) -> None:
    assert age_path(text) == path


@pytest.mark.parametrize("text", ["", "a b", "a.", "[x]", "a[", "$.a"])
def test_nowhere_to_look(text: str) -> None:
    with pytest.raises(ValueError, match="must be a JSON path in an item, such as created"):
        age_path(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_750_000_000, 1_750_000_000_000),
        (1_750_000_000.123, AT_MS),
        (AT_MS, AT_MS),
        (AT_MS * 1000, AT_MS),
        (1_750_000_000_123_000_000, AT_MS),
        ("1750000000123", AT_MS),
        ("1750000000.123", AT_MS),
        ("2025-06-15T15:06:40.123Z", AT_MS),
        ("2025-06-15T15:06:40.123456789+00:00", AT_MS),
        ("2025-06-15 17:06:40.123+02:00", AT_MS),
        ("2025-06-15", 1_749_945_600_000),
        ("soon", None),
        ("", None),
        (0, None),
        (-5, None),
        (12, None),
        (True, None),
        (None, None),
        ([1_750_000_000], None),
        (float("inf"), None),
        (float("nan"), None),
        (10**30, None),
        ("9" * 19, 10_000_000_000_000),
        ("0001-01-01", -62_135_596_800_000),
    ],
)
def test_times(value: object, expected: int | None) -> None:
    assert timestamp_ms(value) == expected


@pytest.mark.parametrize(
    "body", [b"\xff", b"[" * 5000, b"", b"null", b'{"at": "\xed\xa0\x80"}', b'{"at": ' + b"9" * 5000 + b"}"]
)
def test_no_body_makes_it_raise(body: bytes) -> None:
    at_ms, problem = read_age(body, len(body), ("at",))

    assert at_ms is None
    assert problem
    assert problem.isprintable()
    assert len(problem) < 200
