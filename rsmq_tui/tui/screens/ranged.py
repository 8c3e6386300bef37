"""A screen of a range of the past: moved, zoomed, and chosen."""

from rsmq_tui.history.analysis.values import TimeRange
from rsmq_tui.monitor import Snapshot
from rsmq_tui.tui.past import shifted, zoomed
from rsmq_tui.tui.screens.base import DashboardScreen


class RangedScreen(DashboardScreen):
    """Shows the past, and has the keys that change which range of it."""

    is_of_past = True

    @property
    def whole(self) -> TimeRange | None:
        """All the time that is known, None where that is nothing."""
        raise NotImplementedError

    @property
    def span(self) -> TimeRange | None:
        """The range that is shown, or asked for."""
        raise NotImplementedError

    def show_span(self, span: TimeRange) -> None:
        """Show another range."""
        raise NotImplementedError

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Polls tell nothing of the past."""

    @property
    def can_change(self) -> bool:
        """Nothing of the past can be changed."""
        return False

    def action_shift(self, step: int) -> None:
        """Show an earlier or later time."""
        if self.whole is not None and self.span is not None:
            self.show_span(shifted(self.span, step, self.whole))

    def action_zoom(self, step: int) -> None:
        """Show less time, or more."""
        if self.whole is not None and self.span is not None:
            self.show_span(zoomed(self.span, step, self.whole))

    def action_range(self) -> None:
        """Ask for a range."""
        from rsmq_tui.tui.screens.history_range import RangeScreen  # noqa: PLC0415 - only where it is asked for

        if self.whole is not None:
            self.app.push_screen(RangeScreen(self.whole), self._take_range)

    def _take_range(self, span: TimeRange | None) -> None:
        if span is not None:
            self.show_span(span)
