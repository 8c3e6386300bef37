"""Frozen dataclasses that cost little until they are used, against those of the standard library."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from rsmq_tui import values

T = TypeVar("T")


def one(dataclass: Any) -> Any:
    @dataclass(frozen=True, slots=True)
    class One:
        """One field."""

        number: float

    return One


def several(dataclass: Any) -> Any:
    @dataclass(frozen=True, slots=True)
    class Several(Generic[T]):
        """Fields of all sorts, a method and a constant."""

        LIMIT: ClassVar[int] = 5
        first: T
        second: "int | None" = None
        names: list[str] = field(default_factory=list)
        hidden: str = field(default="x", repr=False)
        aside: int = field(default=0, compare=False)
        total: int = field(init=False, repr=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", len(self.names))

        @property
        def is_long(self) -> bool:
            """Whether there are many names."""
            return self.total > self.LIMIT

    return Several


def named(dataclass: Any) -> Any:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        """Given by name."""

        kind: str
        made: tuple[int, ...] = field(default_factory=tuple, init=False)

    return Named


def unequal(dataclass: Any) -> Any:
    @dataclass(frozen=True, slots=True, eq=False)
    class Unequal:
        """Equal to itself alone."""

        number: int = 1

    return Unequal


def own(dataclass: Any) -> Any:
    @dataclass(frozen=True, slots=True)
    class Own:  # noqa: PLW1641 - it gets one
        """Says itself what is equal."""

        number: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "mine"

    return Own


def none(dataclass: Any) -> Any:
    @dataclass(frozen=True, slots=True)
    class Empty:
        """No field."""

    return Empty


CALLS: list[tuple[Callable[[Any], Any], tuple[Any, ...], dict[str, Any]]] = [
    (one, (1.5,), {}),
    (one, (), {"number": float("nan")}),
    (several, (1,), {}),
    (several, (b"x", 3, ["a", "b"]), {"aside": 3}),
    (several, (), {"first": None, "hidden": "y", "names": [str(number) for number in range(9)]}),
    (named, (), {"kind": "list"}),
    (unequal, (), {}),
    (own, (3,), {}),
    (none, (), {}),
]


def both(make: Callable[[Any], Any]) -> tuple[Any, Any]:
    return make(values.dataclass), make(dataclasses.dataclass)


@pytest.mark.parametrize(("make", "arguments", "named"), CALLS)
def test_a_value_is_that_of_a_dataclass(make: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = (cls(*arguments, **named) for cls in both(make))

    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs) or arguments == ()
    assert type(ours).__match_args__ == type(theirs).__match_args__
    assert type(ours).__slots__ == type(theirs).__slots__
    assert type(ours).__doc__ == type(theirs).__doc__
    described = [
        [(each.name, each.type, each.default, each.init, each.repr, each.compare) for each in dataclasses.fields(value)]
        for value in (ours, theirs)
    ]
    assert described[0] == described[1]
    assert not hasattr(ours, "__dict__")


@pytest.mark.parametrize(("make", "arguments", "named"), CALLS)
def test_values_are_equal_as_those_of_a_dataclass(make: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    told = []
    for cls in both(make):
        value, same = cls(*arguments, **named), copy.copy(cls(*arguments, **named))
        others = (value, same, cls, 3, None, one(values.dataclass)(1.5))
        told.append(([value == other for other in others], [value != other for other in others], _hashed(value, same)))
    assert told[0] == told[1]


def _hashed(value: Any, same: Any) -> object:
    try:
        return len({value, same}), hash(value) == hash(same)
    except TypeError as error:
        return str(error)


def test_a_field_that_is_not_compared_makes_no_difference() -> None:
    cls = several(values.dataclass)
    assert cls(1, aside=1) == cls(1, aside=2)
    assert cls(1, hidden="a") != cls(1, hidden="b")


@pytest.mark.parametrize(("make", "arguments", "named"), CALLS)
def test_a_value_does_not_change(make: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    value = make(values.dataclass)(*arguments, **named)
    for name in (*type(value).__slots__, "other"):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 1)
        with pytest.raises(FrozenInstanceError):
            delattr(value, name)


def test_a_value_is_replaced_and_copied() -> None:
    cls = several(values.dataclass)
    value = cls(1, names=["a"])

    assert dataclasses.replace(value, second=2) == cls(1, 2, ["a"])
    assert copy.deepcopy(value) == value
    assert copy.deepcopy(value).names is not value.names
    with pytest.raises(ValueError, match="init=False"):
        dataclasses.replace(value, total=2)


def test_each_value_has_a_default_of_its_own() -> None:
    cls = several(values.dataclass)
    assert cls(1).names is not cls(1).names


@values.dataclass(frozen=True, slots=True)
class Sent:
    """A value of a module, as pickle needs it."""

    number: int
    names: tuple[str, ...] = ()


def test_a_value_is_pickled() -> None:
    value = Sent(1, ("a",))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value


def test_a_value_is_matched_by_place() -> None:
    match Sent(1, ("a",)):
        case Sent(number, (name,)):
            assert (number, name) == (1, "a")


@pytest.mark.parametrize("arguments", [(), (1, 2, 3, 4, 5, 6, 7)])
def test_missing_and_superfluous_arguments_are_refused(arguments: tuple[int, ...]) -> None:
    cls = several(values.dataclass)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Several\.__init__"):
            cls(*arguments)


def test_nothing_is_compiled_before_the_first_value(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    honest = values._compiled

    def noted(cls: type, name: str, *rest: Any) -> Any:
        compiled.append(f"{cls.__name__}.{name}")
        return honest(cls, name, *rest)

    monkeypatch.setattr(values, "_compiled", noted)
    cls = one(values.dataclass)
    assert compiled == []
    assert cls(1) == cls(1)
    assert cls(2) != cls(1)
    assert compiled == ["One.__init__", "One.__eq__"]


def test_other_dataclasses_are_refused() -> None:
    make: Any = values.dataclass
    with pytest.raises(TypeError, match="frozen"):
        make(frozen=False, slots=True)
