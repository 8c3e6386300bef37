"""The table of commands, and how their arguments are read.

A command is a function ``(client, *arguments) -> Reply``, registered with its syntax::

    @command("LSET key index element", "write denyoom")

The syntax is written as in the documentation of Redis. It says how many words a request has, which of them are keys
(``_KEYS``), and with ``:int`` and ``:float`` that a word is converted before the function is called. ``word...`` is
repeated, ``key,value...`` are repeated pairs, ``[word]`` may be left out. The function raises ``CommandError`` to
refuse. Arity, flags and positions of keys have the values of ``COMMAND INFO``:
https://redis.io/docs/latest/commands/command/
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from rsmq_tui.listserver.resp import CommandError, Reply
from rsmq_tui.listserver.store import V

Function = Callable[..., Reply]

_KEYS = ("key", "newkey", "source", "destination")


@dataclass(frozen=True, slots=True)
class Command:
    """One command, or one subcommand of a command."""

    name: str
    """In upper case; a subcommand's is ``COMMAND|SUBCOMMAND``."""
    call: Function
    arity: int
    """The number of words in a request, with the name; negative for a minimum."""
    flags: frozenset[str]
    keys: tuple[int, int, int]
    """The first key, the last (negative: from the end) and the step; zeros without keys."""
    count_at: int
    """The position of the number of keys, if a request contains it; else 0."""
    skipped: int
    """How many words are the name: 1, or 2 of a subcommand."""
    subcommands: "dict[str, Command]" = field(default_factory=dict)

    def keys_of(self, words: list[bytes]) -> list[bytes]:
        """Return the keys of a request."""
        if self.count_at:
            first = self.count_at + 1
            return words[first : first + integer(words[self.count_at])]
        first, last, step = self.keys
        return words[first : (len(words) + last if last < 0 else last) + 1 : step] if step else []

    def info(self) -> list[Reply]:
        """Return the reply of ``COMMAND INFO``; ACL categories, tips and key specifications are left out."""
        nested: list[Reply] = [part.info() for part in self.subcommands.values()]
        return [self.name.lower().encode(), self.arity, set(self.flags), *self.keys, [], [], [], nested]


COMMANDS: dict[str, Command] = {}


def command(syntax: str, flags: str = "") -> Callable[[Function], Function]:
    """Register a function."""
    name, *words = syntax.split()
    above, _, below = name.partition("|")
    skipped = 2 if below else 1
    is_open = any(word.endswith(("]", "...")) for word in words)
    arity = skipped + sum(1 + word.count(",") for word in words if not word.startswith("["))
    names = [re.split(r"[^a-z]", word.strip("["))[0] for word in words]
    count_at = skipped + names.index("numkeys") if "numkeys" in names else 0
    places = [place for place, each in enumerate(names) if each in _KEYS and not count_at]
    keys = (0, 0, 0)
    if places:
        first, last = places[0], places[-1]
        is_repeated = "..." in words[last]
        keys = (skipped + first, last - len(words) if is_repeated else skipped + last, 1 + words[last].count(","))
    converters = [_CONVERTERS[word.partition(":")[2].strip(".]")] for word in words]

    def enter(function: Function) -> Function:
        call = _converted(function, converters) if any(converters) else function
        new = Command(name, call, -arity if is_open else arity, frozenset(flags.split()), keys, count_at, skipped)
        if below:
            if above not in COMMANDS:
                command(f"{above} subcommand...")(_refuse_alone)
            COMMANDS[above].subcommands[below] = new
        else:
            COMMANDS[name] = new
        return function

    return enter


def _converted(function: Function, converters: "list[Callable[[bytes], object] | None]") -> Function:
    def call(client: object, *words: bytes) -> Reply:
        arguments: list[object] = list(words)
        for place, (convert, word) in enumerate(zip(converters, words, strict=False)):
            if convert is not None:
                arguments[place] = convert(word)
        return function(client, *arguments)

    return call


def reads(kind: type[V], none: V, *table: tuple[str, Function]) -> None:
    """Register commands that read one value: syntax, and a function of the value (``none`` if absent) and arguments."""

    def enter(syntax: str, read: Function) -> None:
        command(syntax, "readonly fast")(lambda client, key, *words: read(client.db.typed(key, kind) or none, *words))

    for row in table:
        enter(*row)


def _refuse_alone(client: object, *words: bytes) -> Reply:
    raise AssertionError("a request without a subcommand has too few words")


def find(words: list[bytes]) -> Command:
    """Return the command of a request; raises ``CommandError`` if there is none or its arity is wrong."""
    found = COMMANDS.get(keyword(words[0]))
    if found is None:
        raise CommandError(f"ERR unknown command '{_shown(words[0])}', with args beginning with: {_beginning(words)}")
    if found.subcommands and len(words) > 1:
        name = found.name
        found = found.subcommands.get(keyword(words[1]))
        if found is None:
            raise CommandError(f"ERR unknown subcommand '{_shown(words[1])}'. Try {name} HELP.")
    size, arity = len(words), found.arity
    if size != arity if arity > 0 else size < -arity:
        raise wrong_number(found.name)
    return found


def wrong_number(name: str) -> CommandError:
    """Return the error for too few or too many arguments of a command."""
    return CommandError(f"ERR wrong number of arguments for '{name.lower()}' command")


def syntax_error() -> CommandError:
    """Return the error for arguments that do not fit together."""
    # A new one each time: an exception that is raised again keeps the frames of all its earlier raises.
    return CommandError("ERR syntax error")


def no_such_key() -> CommandError:
    """Return the error of commands that need a key."""
    return CommandError("ERR no such key")


def _shown(word: bytes) -> str:
    return word[:128].decode("utf-8", "surrogateescape")


def _beginning(words: list[bytes]) -> str:
    shown = ""
    for word in words[1:]:
        if len(shown) >= 128:
            break
        shown += f"'{_shown(word[: 128 - len(shown)])}' "
    return shown


# Arguments.

NOT_AN_INTEGER = "value is not an integer or out of range"

_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch


def integer(word: bytes, error: str = NOT_AN_INTEGER, *, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    """Return a word as a signed integer of 64 bits; raises ``CommandError``."""
    if _INTEGER(word) is None or not least <= (value := int(word)) <= most:
        raise CommandError(f"ERR {error}")
    return value


def count(word: bytes) -> int:
    """Return how many elements a pop is to take; raises ``CommandError`` for less than 0."""
    return integer(word, "value is out of range, must be positive", least=0)


def real(word: bytes, error: str = "value is not a valid float") -> float:
    """Return a word as a floating-point number, also in hexadecimal; raises ``CommandError``."""
    try:
        value = float.fromhex(word.decode()) if word[:3].lower().lstrip(b"+-").startswith(b"0x") else float(word)
    except (ValueError, OverflowError):
        raise CommandError(f"ERR {error}") from None
    if isnan(value) or word != word.strip() or b"_" in word:
        raise CommandError(f"ERR {error}")
    return value


_CONVERTERS: dict[str, Callable[[bytes], object] | None] = {"": None, "int": integer, "float": real}


def keyword(word: bytes) -> str:
    """Return a word in upper case."""
    return word.upper().decode("latin-1")


def one_of(word: bytes, *allowed: str) -> str:
    """Return a word as one of the allowed keywords, case-insensitive; raises ``CommandError``."""
    found = keyword(word)
    if found not in allowed:
        raise syntax_error()
    return found


def options(
    words: tuple[bytes, ...],
    flags: str = "",
    *,
    once: bool = False,
    unknown: str = "syntax error",
    **values: Callable[[bytes], Any] | tuple[Callable[[bytes], Any], ...],
) -> dict[str, Any]:
    """Read the options at the end of a request, in upper case, with their values; raises ``CommandError``.

    ``flags`` are options without a value, which is True. ``values`` has what converts the word or words of others;
    ``once`` refuses an option that is repeated, ``unknown`` is the error for another option.
    """
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        option = keyword(word)
        if once and option in given:
            raise syntax_error()
        if option in flags.split():
            given[option] = True
            continue
        convert = values.get(option)
        if convert is None:
            raise CommandError(f"ERR {unknown.format(option)}")
        parts = convert if isinstance(convert, tuple) else (convert,)
        taken = [next(rest, None) for _ in parts]
        if None in taken:
            raise syntax_error()
        converted = [part(each) for part, each in zip(parts, taken, strict=True) if each is not None]
        given[option] = tuple(converted) if isinstance(convert, tuple) else converted[0]
    return given
