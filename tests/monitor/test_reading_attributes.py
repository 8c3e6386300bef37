"""What other clients write into a queue's attributes is read for what it most probably means, and it is said."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq_tui.monitor.messages.reading import Attributes, read_attributes, read_total
from tests.monitor.rows import FIELDS

NAMES = ("vt", "delay", "maxsize", "created", "modified")


def read(**changes: bytes | None) -> Attributes:
    return read_attributes([{**FIELDS, **changes}[name] for name in NAMES])


def test_what_the_canonical_client_writes_is_no_problem() -> None:
    assert read() == Attributes(
        vt_s=30,
        delay_s=0,
        maxsize=65536,
        created_ms=1_749_999_000_000,
        modified_ms=1_749_999_000_000,
    )


SECONDS = [
    (b"0", 0, None),
    (b"30", 30, None),
    (b" 30 ", 30, None),
    (b"30.0", 30, None),
    (b"+30", 30, None),
    # Whole hours and days, which are whole thousands too, and the largest vt that the protocol allows.
    (b"36000", 36_000, None),
    (b"43200", 43_200, None),
    (b"72000", 72_000, None),
    (b"86400", 86_400, None),
    (b"604800", 604_800, None),
    (b"9999999", 9_999_999, None),
    # PyRSMQ stores what it was given.
    (b"15.5", 15.5, "{} 15.5 is not whole: the canonical client reads 15"),
    (b"0.5", 0.5, "{} 0.5 is not whole: the canonical client reads 0"),
    # rsmq_async stores milliseconds.
    (b"30000", 30, "{} 30000 is probably in milliseconds: clients that read seconds use 8h 20m"),
    (b"1000", 1, "{} 1000 is probably in milliseconds: clients that read seconds use 16m"),
    (b"3600000", 3600, "{} 3600000 is probably in milliseconds: clients that read seconds use 41d 16h"),
    (b"10000500", 10_000.5, "{} 10000500 is probably in milliseconds: clients that read seconds use 115d"),
    # What parseInt makes of it.
    (b"5abc", 5, "{} 5abc is not a number: read as 5"),
    (b"1e3", 1, "{} 1e3 is not a number: read as 1"),
    (b"-3", -3, "{} is negative: -3"),
]


@pytest.mark.parametrize("name", ["vt", "delay"])
@pytest.mark.parametrize(("raw", "seconds", "problem"), SECONDS)
def test_seconds(name: str, raw: bytes, seconds: float, problem: str | None) -> None:
    attributes = read(**{name: raw})

    assert getattr(attributes, f"{name}_s") == seconds
    assert attributes.broken is None
    if problem is None:
        assert attributes.problems == ()
    else:
        (found,) = attributes.problems
        assert found.startswith(problem.format(name))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (None, "its attributes hold no vt: clients report queueNotFound"),
        (b"", "its vt is not a number: "),
        (b"abc", "its vt is not a number: abc"),
        (b"NaN", "its vt is not a number: NaN"),
        (b"\x1b[31m\x00\xff", "its vt is not a number: ␛[31m␀\\xff"),
    ],
)
def test_without_a_readable_vt_a_queue_is_broken(raw: bytes | None, reason: str) -> None:
    attributes = read(vt=raw)

    assert attributes.broken == reason
    assert attributes.vt_s is None


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("delay", None, "no delay: clients report queueNotFound"),
        ("delay", b"soon", "delay is not a number: soon"),
        ("maxsize", None, "no maxsize: clients report queueNotFound"),
        ("maxsize", b"huge", "maxsize is not a number: huge"),
        ("created", None, "no created date"),
        ("created", b"yesterday", "created is not a date: yesterday"),
        ("modified", None, "no modified date"),
        ("modified", b"\x1b]0;x\x07", "modified is not a date: ␛]0;x␇"),
    ],
)
def test_an_unreadable_attribute_is_unknown_and_nothing_else_is(name: str, raw: bytes | None, problem: str) -> None:
    attributes = read(**{name: raw})
    where = {"delay": "delay_s", "maxsize": "maxsize", "created": "created_ms", "modified": "modified_ms"}

    assert attributes.problems == (problem,)
    assert attributes.broken is None
    assert getattr(attributes, where[name]) is None
    assert [getattr(attributes, other) is None for other in where.values()].count(True) == 1


@pytest.mark.parametrize(
    ("raw", "maxsize"),
    [(b"-1", -1), (b"1024", 1024), (b"65535", 65_535), (b"65565", 65_565), (b"999999999", 999_999_999)],
)
def test_any_maxsize_is_read_as_it_stands(raw: bytes, maxsize: int) -> None:
    assert read(maxsize=raw).maxsize == maxsize
    assert read(maxsize=raw).problems == ()


@pytest.mark.parametrize("name", ["created", "modified"])
@pytest.mark.parametrize(
    ("raw", "at_ms", "problem"),
    [
        (b"1658232000", 1_658_232_000_000, None),
        (b"0", 0, None),
        # semihbkgr/go-rsmq, after its set.
        (b"1658232000123", 1_658_232_000_123, "{} is in milliseconds, not in seconds"),
        (b"1658232000123456", 1_658_232_000_123, "{} is in microseconds, not in seconds"),
        # ebuckley/rsmq writes Go's time.Time.
        (b"2022-07-19T12:00:00.123456789Z", 1_658_232_000_123, "{} is a text date: the canonical client reads 2022"),
        (b"2022-07-19T12:00:00.5Z", 1_658_232_000_500, "{} is a text date: the canonical client reads 2022"),
        (b"2022-07-19T12:00:00Z", 1_658_232_000_000, "{} is a text date: the canonical client reads 2022"),
        (b"2022-07-19T14:00:00+02:00", 1_658_232_000_000, "{} is a text date: the canonical client reads 2022"),
        (b"2022-07-19T12:00:00", 1_658_232_000_000, "{} is a text date: the canonical client reads 2022"),
        (b"0001-01-01T00:00:00Z", -62_135_596_800_000, "{} is a text date: the canonical client reads 0001"),
    ],
)
def test_dates(name: str, raw: bytes, at_ms: int, problem: str | None) -> None:
    attributes = read(**{name: raw})

    assert getattr(attributes, f"{name}_ms") == at_ms
    assert attributes.problems == (() if problem is None else (problem.format(name),))


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as local:
        local.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_date_without_a_zone_is_utc_wherever_it_is_read() -> None:
    assert read(created=b"2022-07-19T12:00:00").created_ms == 1_658_232_000_000


def test_each_oddity_has_its_own_sentence() -> None:
    attributes = read(vt=b"15.5", delay=b"30000", maxsize=None, created=b"2022-07-19T12:00:00Z", modified=None)

    assert [problem.split()[0:2] for problem in attributes.problems] == [
        ["vt", "15.5"],
        ["delay", "30000"],
        ["no", "maxsize:"],
        ["created", "is"],
        ["no", "modified"],
    ]
    assert attributes.vt_s == 15.5


@pytest.mark.parametrize(
    ("raw", "total", "problems"),
    [
        (None, 0, []),
        (b"0", 0, []),
        (b"12345", 12_345, []),
        (b"many", None, ["totalsent is not a number: many"]),
    ],
)
def test_totals(raw: bytes | None, total: int | None, problems: list[str]) -> None:
    said: list[str] = []

    assert read_total("totalsent", raw, said) == total
    assert said == problems


ODD = (
    st.none()
    | st.binary(max_size=40)
    | st.from_regex(r"[-+ ]?[0-9]{1,20}(\.[0-9]{0,9})?[a-zT:Z-]{0,3}").map(str.encode)
)


@settings(max_examples=60)
@given(st.tuples(ODD, ODD, ODD, ODD, ODD))
def test_nothing_raises_and_every_sentence_can_be_shown(fields: tuple[bytes | None, ...]) -> None:
    attributes = read_attributes(list(fields))

    for sentence in (*attributes.problems, attributes.broken or ""):
        assert sentence.isprintable()
    assert (attributes.vt_s is None) == (attributes.broken is not None)


@given(st.datetimes().map(lambda moment: moment.isoformat().encode()))
def test_every_text_date_is_read(raw: bytes) -> None:
    assert read(created=raw).created_ms is not None
