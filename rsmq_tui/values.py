"""Frozen dataclasses that cost little until they are used.

``dataclasses`` compiles six methods of a class when the class is made, which takes half a millisecond: for the types of
the dashboard, a tenth of its start. Here ``__init__``, ``__eq__`` and ``__hash__`` are compiled when they are first
called, and the others need no compiler.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, slots: bool, eq: bool = True, kw_only: bool = False) -> Callable[[type], type]:
        """Make what ``dataclasses.dataclass`` makes of a class; ``frozen`` and ``slots`` must be true.

        Its bases must not be dataclasses. ``InitVar`` and the other options are not supported.
        """
        if not (frozen and slots):
            raise TypeError("only for frozen dataclasses with slots")
        return partial(_made, eq=eq, kw_only=kw_only)


__all__ = ["dataclass"]

# The parameters of a method, its body, and the names that they use.
_Source = tuple[Sequence[str], str, Mapping[str, Any]]


class _Fields:
    """The attribute by which ``dataclasses`` knows the fields of a class; made when it is first asked for."""

    def __init__(self, like: Callable[[], type]) -> None:
        self._like = like
        self._fields: dict[str, Field[Any]] | None = None

    def __get__(self, instance: object, owner: type) -> dict[str, Field[Any]]:
        if self._fields is None:
            made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(self._like())
            self._fields = made.__dataclass_fields__
        return self._fields


def _made(cls: type, *, eq: bool, kw_only: bool) -> type:
    """Return the class again with slots, and with those methods of a frozen dataclass that it does not define."""
    kinds = cls.__annotations__
    names = tuple(name for name, kind in kinds.items() if not _is_of_class(kind))
    members = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    given = {name: members.pop(name) for name in names if name in members}

    def like() -> type:
        # Without a docstring, ``dataclasses`` would make one, from the signature.
        told = {"__doc__": "Its fields.", "__module__": cls.__module__, "__annotations__": kinds}
        return type(cls.__name__, (), told | given)

    def compiled_later(name: str, write: Callable[..., _Source]) -> Callable[..., Any]:
        def first(self: Any, *arguments: Any, **named: Any) -> Any:
            compiled = _compiled(made, name, *write(made, names, given))
            setattr(made, name, compiled)
            return compiled(self, *arguments, **named)

        return first

    own = {
        "__slots__": names,
        "__dataclass_fields__": _Fields(like),
        "__match_args__": () if kw_only else tuple(_those(names, given, "init")),
        "__init__": compiled_later("__init__", partial(_init, kw_only=kw_only)),
        "__repr__": _repr,
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _restore,
    }
    if eq:
        own |= {"__eq__": compiled_later("__eq__", _eq), "__hash__": compiled_later("__hash__", _hash)}
        if "__eq__" in members and members["__hash__"] is None:
            # Python sets this in a class that defines __eq__ alone.
            del members["__hash__"]
    made: type = type(cls)(cls.__name__, cls.__bases__, own | members)
    made.__qualname__ = cls.__qualname__
    return made


def _is_of_class(kind: object) -> bool:
    return kind is ClassVar or get_origin(kind) is ClassVar or (isinstance(kind, str) and kind.startswith("ClassVar"))


def _compiled(
    cls: type, name: str, parameters: Sequence[str], body: str, scope: Mapping[str, Any]
) -> Callable[..., Any]:
    made = dict(scope)
    exec(f"def {name}({', '.join(parameters)}):\n {body}", made)
    compiled: Callable[..., Any] = made[name]
    compiled.__qualname__, compiled.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    return compiled


def _init(cls: type, names: Sequence[str], given: Mapping[str, Any], *, kw_only: bool) -> _Source:
    # A slot is set by its descriptor, because ``__setattr__`` refuses to.
    scope: dict[str, Any] = {f"_set_{name}": vars(cls)[name].__set__ for name in names}
    parameters, lines = ["self", "*"] if kw_only and names else ["self"], []
    for name in names:
        default: Any = given.get(name, MISSING)
        make: Any = MISSING
        is_given = True
        if isinstance(default, Field):
            default, make, is_given = default.default, default.default_factory, default.init
        value, suffix = name, ""
        if make is not MISSING:
            scope[f"_make_{name}"] = make
            # As a default, the factory stands for what it makes.
            suffix, value = f"=_make_{name}", f"_make_{name}() if {name} is _make_{name} else {name}"
        elif default is not MISSING:
            scope[f"_default_{name}"] = default
            suffix = f"=_default_{name}"
        if is_given:
            parameters.append(name + suffix)
        elif suffix:
            value = f"_make_{name}()" if make is not MISSING else f"_default_{name}"
        if is_given or suffix:
            lines.append(f"_set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    return parameters, "; ".join(lines) or "pass", scope


def _eq(cls: type, names: Sequence[str], given: Mapping[str, Any]) -> _Source:
    key = tuple(_those(names, given, "compare"))
    ours, theirs = (f"({''.join(f'{one}.{name}, ' for name in key)})" for one in ("self", "other"))
    return ("self", "other"), f"return {ours} == {theirs} if other.__class__ is self.__class__ else NotImplemented", {}


def _hash(cls: type, names: Sequence[str], given: Mapping[str, Any]) -> _Source:
    key = "".join(f"self.{name}, " for name in _those(names, given, "compare"))
    return ("self",), f"return hash(({key}))", {}


def _those(names: Sequence[str], given: Mapping[str, Any], setting: str) -> Iterator[str]:
    """Yield the fields of which a setting is true, as it is by default."""
    return (name for name in names if not isinstance(given.get(name), Field) or getattr(given[name], setting))


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _restore(self: Any, state: Sequence[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
