"""What a terminal makes of the bytes that a program writes: the sequences one by one, and the words on the screen."""

import re
from dataclasses import dataclass, field

from rich.cells import get_character_cell_size

_SEQUENCE = re.compile(
    r"\x1b\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b(?P<string>[PX^_])[^\x1b]*\x1b\\"
    r"|\x1b[ -/]*(?P<other>[0-OQ-WYZ\\`-~])"
    r"|(?P<text>[^\x1b]+)"
    r"|(?P<cut>\x1b)"
)
# Characters that take one cell each, as most do, and all others one by one.
_NARROW = {chr(code) for codes in ((0x20, 0x7F), (0x2500, 0x25A0)) for code in range(*codes)}
_PARTS = re.compile(r"[ -~\u2500-\u259f]+|[^ -~\u2500-\u259f]", re.DOTALL)
# A cursor that is shown, and lines that wrap; anything else is off until somebody asks for it.
_ON_BY_DEFAULT = {"?25", "?7"}


@dataclass
class Screen:
    """A terminal's screen after some output; ``commands`` are the sequences that it was sent, without their numbers."""

    columns: int
    lines: int
    commands: set[str] = field(default_factory=set)
    modes: dict[str, bool] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    # What is in each cell, up to the last that was written to in its line.
    _rows: dict[int, list[str]] = field(default_factory=dict)
    _x: int = 0
    _y: int = 0
    _rest: str = ""
    # The size and the words, until something is written.
    _text: tuple[tuple[int, int], str] | None = None

    @property
    def text(self) -> str:
        """The words on it."""
        size = self.columns, self.lines
        if self._text is None or self._text[0] != size:
            rows = [self._rows.get(y, [])[: self.columns] for y in range(self.lines)]
            self._text = size, "\n".join(["".join(row) + " " * (self.columns - len(row)) for row in rows])
        return self._text[1]

    @property
    def is_restored(self) -> bool:
        """Whether the shell gets back what it had: its own screen, a cursor, and none of the modes asked for."""
        return all(is_on == (mode in _ON_BY_DEFAULT) for mode, is_on in self.modes.items())

    def write(self, output: str) -> None:
        """Do as a terminal does; output may come in any pieces."""
        self._text = None
        output = self._rest + output
        last = output.rfind("\x1b")
        begun = _SEQUENCE.match(output, last) if last >= 0 else None
        is_cut = begun is not None and begun["cut"] is not None
        output, self._rest = (output[:last], output[last:]) if is_cut else (output, "")
        for match in _SEQUENCE.finditer(output):
            if (text := match["text"]) is not None:
                self._put(text)
            elif match["final"]:
                self._control(match["parameters"], match["final"])
            elif match["osc"] is not None:
                self.commands.add(f"OSC {match['osc'].split(';')[0]}")
            else:
                self.commands.add(f"ESC {match['string'] or match['other'] or 'cut'}")

    def _put(self, text: str) -> None:
        self.written.append(text)
        for part in _PARTS.findall(text):
            if part == "\r":
                self._x = 0
            elif part == "\n":
                self._y += 1
            elif part[0] in _NARROW:
                self._set(list(part))
            else:
                width = get_character_cell_size(part)
                self._set([part, ""] if width == 2 else [part], width)

    def _set(self, cells: list[str], width: int | None = None) -> None:
        """Put characters into cells, and go on behind them."""
        row = self._rows.setdefault(self._y, [])
        if len(row) < self._x:
            row += " " * (self._x - len(row))
        row[self._x : self._x + len(cells)] = cells
        self._x += len(cells) if width is None else width

    def _control(self, parameters: str, final: str) -> None:
        self.commands.add(f"CSI {final}")
        if final == "H":
            line, _, column = parameters.partition(";")
            self._x, self._y = int(column or 1) - 1, int(line or 1) - 1
        elif final == "J":
            self._rows.clear()
        elif final in "hl":
            prefix = "?" if parameters.startswith("?") else ""
            for number in parameters.removeprefix("?").split(";"):
                self.modes[prefix + number] = final == "h"
