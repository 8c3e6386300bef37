"""The strip of a tour: its steps, its progress, and what to do next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from textual.strip import Strip

from rsmq_tui.tui.widgets.painted import Painted, Piece


@dataclass(frozen=True, slots=True)
class TourStep:
    """One step: a sentence, what to do, and the check that it was done."""

    name: str
    sentence: str
    do: str
    is_done: Callable[[Any], bool]


@dataclass(slots=True)
class Tour:
    """The progress of a tour: ``done`` has an entry for each step so far, False if it was skipped."""

    steps: Sequence[TourStep]
    done: list[bool] = field(default_factory=list)
    is_closed: bool = False

    @property
    def step(self) -> TourStep | None:
        """The step to do; None at the end."""
        return self.steps[len(self.done)] if len(self.done) < len(self.steps) else None

    @property
    def summary(self) -> str:
        """How many steps were done, and which were skipped."""
        skipped = [step.name for step, done in zip(self.steps, self.done, strict=True) if not done]
        words = f"You did {sum(self.done)} of {len(self.steps)} steps"
        return f"{words}; skipped: {', '.join(skipped)}." if skipped else f"{words}."

    def skip(self) -> None:
        """Go to the next step; after the last one, close the tour."""
        if self.step is None:
            self.is_closed = True
        else:
            self.done.append(False)


_TICK_S = 0.25
_SENTENCE_LINES = 2


class TourStrip(Painted):
    """Shows the step of the tour: its number, its sentence, and what to do; at the end, the summary."""

    DEFAULT_CSS = f"""
    TourStrip {{ height: {_SENTENCE_LINES + 1}; background: $boost; }}
    """

    def __init__(self, tour: Tour) -> None:
        super().__init__()
        self._tour = tour

    def on_mount(self) -> None:
        """Follow the tour."""
        self.set_interval(_TICK_S, self.follow)

    def on_resize(self) -> None:
        """Take as many lines as the step needs in this width."""
        self.follow()

    def follow(self) -> None:
        """Show the state of the tour, until it is closed."""
        self.display = not self._tour.is_closed
        if self.size:
            self.styles.height = len(self._pieces())
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the progress and the sentence, and what to do in the last line."""
        lines = [self.clipped(line) for line in self._pieces()]
        return (lines + [Strip([])] * self.size.height)[: self.size.height]

    def _pieces(self) -> list[list[Piece]]:
        tour, step = self._tour, self._tour.step
        if step is None:
            head, sentence, do = " Tour: the end ", tour.summary, "D breaks clients and the server: see what it does."
            key = "ctrl+n closes this"
        else:
            head, sentence, do = f" Tour {len(tour.done) + 1} of {len(tour.steps)} ", step.sentence, step.do
            key = "ctrl+n skips"
        width = max(20, self.size.width - 1)
        # The heading is part of the first line.
        first, *others = wrap(f"{'x' * len(head)} {sentence}", width)
        lines: list[list[Piece]] = [[(head, "cursor strong"), (first[len(head) :], "")]]
        lines += [[(f" {line}", "")] for line in others[: _SENTENCE_LINES - 1]]
        gap = " " * max(2, width - len(do) - len(key) - 3)
        return [*lines, [(" → ", "muted"), (do, "strong"), (gap, ""), (key, "muted")]]
