"""The table of commands: name, function, number of arguments, flags and the positions of keys.

A command is a function ``(client, *arguments) -> Reply``. It raises ``CommandError`` to refuse. Arity, flags and keys
have the meaning and the values of ``COMMAND INFO``: https://redis.io/docs/latest/commands/command/
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isnan

from rsmq_tui.listserver.resp import CommandError, Reply

Function = Callable[..., Reply]


@dataclass(frozen=True, slots=True)
class Command:
    """One command, or one subcommand of a command."""

    name: str
    call: Function
    arity: int
    """The number of words in a request, with the name; negative for a minimum."""
    flags: frozenset[str]
    keys: tuple[int, int, int]
    """The first key, the last (negative: from the end) and the step; zeros without keys."""
    count_at: int = 0
    """The position of the number of keys, if a request contains it; else 0."""

    def check(self, size: int) -> None:
        """Raise ``CommandError`` if a request of ``size`` words has too few or too many."""
        if size != self.arity if self.arity > 0 else size < -self.arity:
            raise CommandError(f"ERR wrong number of arguments for '{self.name.lower()}' command")

    def keys_of(self, words: list[bytes]) -> list[bytes]:
        """Return the keys of a request."""
        if self.count_at:
            first = self.count_at + 1
            return words[first : first + integer(words[self.count_at])]
        first, last, step = self.keys
        return words[first : (len(words) + last if last < 0 else last) + 1 : step] if step else []

    def info(self) -> list[Reply]:
        """Return the reply of ``COMMAND INFO``; ACL categories, tips and key specifications are left out."""
        nested: list[Reply] = [part.info() for name, part in COMMANDS.items() if name.startswith(f"{self.name}|")]
        name = self.name.lower().encode()
        return [name, self.arity, set(self.flags), *self.keys, [], [], [], nested]


COMMANDS: dict[str, Command] = {}


def command(
    name: str, arity: int, flags: str = "", *, keys: tuple[int, int, int] = (0, 0, 0), count_at: int = 0
) -> Callable[[Function], Function]:
    """Register a function; a subcommand's name is ``COMMAND|SUBCOMMAND``."""

    def enter(function: Function) -> Function:
        COMMANDS[name] = Command(name, function, arity, frozenset(flags.split()), keys, count_at)
        return function

    return enter


def find(words: list[bytes]) -> Command:
    """Return the command of a request; raises ``CommandError`` if there is none or its arity is wrong."""
    name = words[0].upper().decode("latin-1")
    found = COMMANDS.get(name)
    if found is None:
        raise CommandError(f"ERR unknown command '{_shown(words[0])}', with args beginning with: {_beginning(words)}")
    if found.call is has_subcommands and len(words) > 1:
        found = COMMANDS.get(f"{name}|{words[1].upper().decode('latin-1')}")
        if found is None:
            raise CommandError(f"ERR unknown subcommand '{_shown(words[1])}'. Try {name} HELP.")
    found.check(len(words))
    return found


def has_subcommands(client: object, *words: bytes) -> Reply:
    """Take the place of a command that needs a subcommand, in the table."""
    raise AssertionError("the arity of such a command is -2")


def _shown(word: bytes) -> str:
    return word[:128].decode("utf-8", "surrogateescape")


def _beginning(words: list[bytes]) -> str:
    shown = ""
    for word in words[1:]:
        if len(shown) >= 128:
            break
        shown += f"'{_shown(word[: 128 - len(shown)])}' "
    return shown


_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch
NOT_AN_INTEGER = "value is not an integer or out of range"


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


def one_of(word: bytes, *allowed: str) -> str:
    """Return a word as one of the allowed keywords, case-insensitive; raises ``CommandError``."""
    keyword = word.upper().decode("latin-1")
    if keyword not in allowed:
        raise SYNTAX_ERROR
    return keyword


class Words:
    """The options at the end of a request, read one after the other."""

    def __init__(self, words: tuple[bytes, ...]) -> None:
        self._words = words
        self._at = 0

    def __iter__(self) -> Iterator[str]:
        while self._at < len(self._words):
            yield self.next().upper().decode("latin-1")

    def next(self) -> bytes:
        """Return the next word; raises ``CommandError`` at the end."""
        if self._at == len(self._words):
            raise SYNTAX_ERROR
        self._at += 1
        return self._words[self._at - 1]


SYNTAX_ERROR = CommandError("ERR syntax error")
NO_SUCH_KEY = CommandError("ERR no such key")
